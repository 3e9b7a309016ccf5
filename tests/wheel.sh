#!/usr/bin/env bash
# Builds the wheel, installs it with nothing but its core dependencies into an environment of its own, and plays a
# rollout from another directory: what is missing from the wheel, or imported from the checkout by accident, fails here.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
rm -rf build/wheel
mkdir -p build/wheel
"$PYTHON" -m pip wheel -q --no-deps -w build/wheel .
"$PYTHON" -m venv build/wheel/venv
build/wheel/venv/bin/pip install -q "$TORCH"
build/wheel/venv/bin/pip install -q -c constraints.txt build/wheel/marlenv_torch-*.whl
cd "$(mktemp -d)"
"$root/build/wheel/venv/bin/python" - <<'PY'
import pathlib
import marlenv

home = pathlib.Path(marlenv.__file__).parent
assert "site-packages" in str(home), home
for name in marlenv.__all__:
    getattr(marlenv, name)
from marlenv.data import Composite
from marlenv.envs.libs.pettingzoo import PettingZooEnv
from marlenv.envs.model_based.dreamer import DreamerEnv
from marlenv.registration import find
for name in marlenv.available():
    if find(name).needs:
        continue
    options = {"compile": "none"} if find(name).kind == "scenario" and name != "simple_tag" else {}
    env = marlenv.make(name, num_envs=4, seed=0, **options)
    data = env.rollout(9, break_when_any_done=False)
    marlenv.check_env_specs(env)
    print(name, list(data.shape), "from", home)
PY
"$root/build/wheel/venv/bin/python" - <<'PY'
from marlenv.physics.jit.source import runtime

assert "struct Field" in runtime("vectors.h") and "int64_t run" in runtime("driver.cpp") and "Two" in runtime("vectors.h")
PY
"$root/build/wheel/venv/bin/marlenv" rollout simple_spread --envs 8 --steps 10 --seed 0
for name in simple_spread tic_tac_toe; do  # a scenario, a game, and the contract, with the core dependencies alone
  "$root/build/wheel/venv/bin/marlenv" check "$name" --envs 2 | tee checked | tail -1
  grep -q ' 0 broken' checked
done
if "$root/build/wheel/venv/bin/marlenv" rollout pettingzoo/simple_spread_v3 2>err; then
  echo "pettingzoo is not installed here, and yet the rollout worked" && exit 1
fi
grep -q 'pip install "marlenv-torch\[pettingzoo\]"' err && cat err
