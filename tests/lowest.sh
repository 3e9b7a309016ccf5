#!/usr/bin/env bash
# Runs the tests of the core on the lowest versions that pyproject.toml promises, in an environment of its own: no
# simulator, no torchrl, no numba. Takes Python 3.12 where there is one, because the other tests run on 3.11.
#
# .venv-lowest is kept and made anew when what is promised changes: it takes 5 GB, because old versions of torch bring CUDA
# with them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD home=$PWD/.venv-lowest build=$PWD/build/lowest
for python in "${LOWEST_PYTHON:-}" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python python3.12 "$PYTHON"; do
  if [ -n "$python" ] && "$python" -c "import sys" 2>/dev/null; then break; fi
done
mapfile -t lowest < <("$PYTHON" tests/promised.py)
wanted="$("$python" --version), ${lowest[*]}"
echo "$wanted"
if [ "$(cat "$home/made" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$home"
  "$python" -m venv "$home"
  PIP_CONSTRAINT='' "$home/bin/python" -m pip install -q --no-cache-dir --no-compile "${lowest[@]}" pytest pytest-xdist hypothesis setuptools
  echo "$wanted" >"$home/made"
fi
rm -rf "$build"
mkdir -p "$build/run"
"$PYTHON" -m pip wheel -q --no-deps -w "$build" .
"$home/bin/python" -m pip install -q --no-deps --force-reinstall "$build"/marlenv_torch-*.whl
cp -r tests pyproject.toml "$build/run"
cd "$build/run"
"$home/bin/python" - <<'PY'
import marlenv

assert "site-packages" in marlenv.__file__, marlenv.__file__
from marlenv.registration import find
for name in marlenv.available():
    if not find(name).needs:
        env = marlenv.make(name, num_envs=4, seed=0, **({"compile": "none"} if find(name).kind == "scenario" else {}))
        env.rollout(9, break_when_any_done=False)
        marlenv.check_env_specs(env)
marlenv.make("simple_spread", num_envs=4, compile="aot").rollout(9)
PY
# What needs a peer or a simulator stays out; so do three things that torch learned later: graphs of rules, a `torch.device`
# block counts as the default device, and an error of torch.compile gives the reason of a function that is kept out of graphs.
mapfile -t files < <(grep -rLE --include='test_*.py' \
  '(import|from) (torchrl|vmas|pettingzoo|gymnasium|pyspiel|scipy|chess|torchrl_oracle|surface|twin_envs|harness|spiel|spiel_mirror|chess_reference|described)\b' \
  tests/groups tests/specs tests/envs tests/vector tests/games/*.py tests/physics/test_env.py tests/test_keys.py \
  tests/test_rng.py tests/test_owned_data.py | grep -v test_compiled_steps)
# The last three names left out are of tasks of PettingZoo and Gymnasium in pools of envs. networkx 3.0 warns wherever it reads a list of edges and there is no pandas or scipy; newer ones do not.
"$home/bin/pytest" -q -n 2 -p no:cacheprovider -m "not slow and not sim and not reference" "${files[@]}" \
  -W "ignore:pandas not found:ImportWarning" -W "ignore:scipy not found:ImportWarning" \
  --deselect tests/specs/test_devices.py::test_the_default_device_counts \
  -k "not one_graph and not compile and not pettingzoo and not gymnasium and not (parallel_is_serial and turns)"
cd "$root"
rm -rf "$build"
