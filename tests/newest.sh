#!/usr/bin/env bash
# Runs tests on the newest versions that pip finds, as people get who install today, with the newest Python that is there:
# for people who look after a release. CI has the versions of constraints.txt. Takes 8 GB and half an hour.
#
# First the core, without torchrl, which holds tensordict back; then what compares with torchrl, with what that takes.
set -euo pipefail
cd "$(dirname "$0")/.."
home=$PWD/.venv-newest
for python in "${NEWEST_PYTHON:-}" $(ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python 2>/dev/null | sort -rV) "$PYTHON"; do
  if [ -n "$python" ] && "$python" -c "import sys" 2>/dev/null; then break; fi
done
export PIP_CONSTRAINT='' PIP_CONFIG_FILE=/dev/null
[ -x "$home/bin/python" ] || "$python" -m venv "$home"
"$home/bin/python" -m pip install -q --upgrade --no-cache-dir --no-compile torch tensordict numpy networkx scipy hypothesis pytest \
  pytest-xdist pytest-instafail setuptools
"$home/bin/python" -m pip install -q --no-compile -e ".[numba,video,vmas,open_spiel,gymnasium,pettingzoo]" "chess>=1.11,<1.12"
"$home/bin/python" -m pip list 2>/dev/null | grep -E "^(torch|tensordict|numpy|networkx|numba) "
tested() {
  # PyTorch's own: it scripts functions for forward derivatives, and says of early releases of a Python what is slow there.
  "$home/bin/python" -m pytest -q -n 2 -p no:cacheprovider --instafail -m "not slow and not gpu" \
    -W 'ignore:`torch.jit.script` is deprecated' -W "ignore:Guards may run slower" "$@"
}
mapfile -t plain < <(grep -rLE --include='test_*.py' '(import|from) (torchrl|torchrl_oracle|surface|twin_envs)\b' \
  tests/{envs,games,groups,physics,specs,tournament,transforms,vector})
mapfile -t beside < <(grep -rlE --include='test_*.py' '(import|from) (torchrl|torchrl_oracle|surface|twin_envs)\b' \
  tests/{envs,games,groups,interop,specs,transforms})
failed=0
tested "${plain[@]}" || failed=1
"$home/bin/python" -m pip install -q --no-compile -e ".[torchrl]"
tested "${beside[@]}" tests/scenarios || failed=1
exit $failed
