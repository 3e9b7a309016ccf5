#!/usr/bin/env bash
# Runs the tests that use an extra's package on the lowest version that pyproject.toml promises of it, all else being what
# CI has: for people who change a promise. Needs PYTHON, the Python of an environment with everything (make demo).
#
#     PYTHON=.venv/bin/python tests/lowest_extras.sh tensorboard numba
set -euo pipefail
cd "$(dirname "$0")/.."
declare -A tests=(
  [tensorboard]=tests/transforms/test_recording.py
  [wandb]="tests/transforms/test_recording.py -k wandb" # its protobuf is too old for the tensorboard that CI has
  [mlflow-skinny]=tests/transforms/test_recording.py
  [av]="tests/transforms/test_recording.py tests/cli/test_video.py"
  [imageio]="tests/cli/test_video.py tests/cli/test_films_of_games.py"
  [imageio-ffmpeg]=tests/cli/test_video.py
  [pillow]="tests/transforms/test_recording.py tests/transforms/test_images_and_texts.py tests/cli/test_films_of_games.py"
  [transformers]=tests/transforms/test_images_and_texts.py
  [numba]="tests/games/test_board_games.py tests/games/test_tictactoe.py tests/games/chess/test_lanes.py"
  [gymnasium]="tests/samples/test_pendulum.py tests/wrappers/test_spaces.py tests/wrappers/test_info_readers.py"
  [ale-py]=tests/wrappers/test_pettingzoo_all.py
  [shimmy]=tests/wrappers/test_pettingzoo_all.py
  [torchrl]=tests/interop
  [chess]="tests/games/chess tests/cli/test_play.py"
  [vmas]=tests/wrappers/test_vmas.py
  [open_spiel]="tests/wrappers/test_open_spiel.py -k not(input_is_named) -m not(slow)" # games of later versions are named and counted there
)
main=$("$PYTHON" -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")
for package in "$@"; do
  low=$("$PYTHON" - "$package" <<'PY'
import re, sys, tomllib
text = str(tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"])
print(re.search(rf"'{re.escape(sys.argv[1])}(?:\[[^]]*\])?>=([\d.]+)", text)[1])
PY
)
  home=$(mktemp -d)
  "$PYTHON" -m venv "$home"
  echo "import site; site.addsitedir('$main')" >"$home/$("$PYTHON" -c "import sysconfig; print(sysconfig.get_path('purelib', vars={'base': '.'}))")/zz_all.pth"
  PIP_CONSTRAINT='' "$home/bin/python" -m pip install -q --no-compile "$package==$low"
  echo "=== $package $low"
  # shellcheck disable=SC2086  # several files
  "$home/bin/python" -m pytest -q -n 0 -p no:cacheprovider -W default ${tests[$package]}
  rm -rf "$home"
done
