#!/usr/bin/env bash
# Installs what only the slow tests use and `.[dev]` leaves out: Ray, RLlib, Melting Pot, JaxMARL, Stable-Baselines3,
# SuperSuit, BenchMARL, MO-Gymnasium, DeepMind Control, engines of chess and Go, and Chromium.
#
#   VENV=.venv tests/simulators.sh               all
#   PYTHON=python3 tests/simulators.sh jaxmarl   one of them
#
# Needs the package index (and apt for engines and Chromium) and nothing else. What is installed stays as it is.
set -euo pipefail
PYTHON=${PYTHON:-${VENV:-.venv}/bin/python}
CONSTRAINTS=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt

there() {
  "$PYTHON" -c "import sys; from importlib.metadata import distributions as all
sys.exit(not any((d.name.lower(), d.version) == ('$1', '$2') for d in all()))"
}

get() {
  "$PYTHON" -m pip install --quiet --disable-pip-version-check -c "$CONSTRAINTS" "$@"
}

ray() {
  there ray 2.60.0 || get ray==2.60.0
}

rllib() {
  ray
  there pyarrow 26.0.1 && there ormsgpack 1.13.1 ||
    get --no-deps pyarrow==26.0.1 lz4==4.4.5 ormsgpack==1.13.1 tensorboardX==2.6.5
}

jaxmarl() {
  there jaxmarl 0.2.0 || get jaxmarl==0.2.0 jax==0.10.2 flax==0.12.8 chex==0.1.92
}

# What it needs is there already, but for what writes its films; moviepy asks for an older Pillow than ours and works with it.
sb3() {
  there stable_baselines3 2.9.2 || get --no-deps stable_baselines3==2.9.2
  there sb3_contrib 2.9.2 || get --no-deps sb3_contrib==2.9.2
  there moviepy 2.2.1 || get --no-deps moviepy==2.2.1 proglog==0.1.12 decorator==5.2.1
}

supersuit() {
  there supersuit 3.11.0 || get --no-deps supersuit==3.11.0 tinyscaler==1.2.8
}

# BenchMARL needs an older TorchRL than ours, and so an environment of its own, in which all else is that of ours.
benchmarl() {
  local home site
  home=$("$PYTHON" -c 'import sys; print(sys.prefix)')/benchmarl
  "$home/bin/python" -c 'import benchmarl' 2>/dev/null && return
  "$PYTHON" -m venv "$home"
  site=$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "import site; site.addsitedir('$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" >"$site/ours.pth"
  "$home/bin/pip" install --quiet --disable-pip-version-check --no-deps benchmarl==1.5.2 torchrl==0.11.1 \
    tensordict==0.11.0 hydra-core==1.3.8 omegaconf==2.4.0 antlr4-python3-runtime==4.9.3
}

# Melting Pot's setup downloads pictures and bots from a server that is no package index. The substrates need none of
# them, and setup takes an archive that it finds in the folder for temporary files. Its other requirement, tensorflow,
# is used for two names of its type annotations; the tests put them there.
meltingpot() {
  there dm-meltingpot 2.4.1 && return
  get dmlab2d==1.0.2 dm-tree==0.1.10 chex==0.1.92 immutabledict==4.3.1 reactivex==6.1.0 pandas==2.3.3 \
    opencv-python-headless==5.0.0.93 ml_collections networkx pygame-ce absl-py
  local folder
  folder=$(mktemp -d)
  mkdir "$folder/assets"
  tar -czf "$folder/meltingpot-assets-2.3.0.tar.gz" -C "$folder" assets
  TMPDIR=$folder get --no-deps dm-meltingpot==2.4.1
  rm -rf "$folder"
}

# What it requires is there; its optional parts are left out.
mo_gymnasium() {
  there mo-gymnasium 1.3.2 || get --no-deps mo-gymnasium==1.3.2
}

dm_control() {
  there dm-control 1.0.50 && there mujoco 3.17.0 || get dm-control==1.0.50 mujoco==3.17.0
}

# Engines and a browser from the system's packages. Where we may not install those, their tests are skipped and say so.
packaged() {
  command -v "$1" >/dev/null || [ -x "/usr/games/$1" ] && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq update && apt-get -qq install -y --no-install-recommends "$1" >/dev/null || echo "$1 could not be installed" >&2
  fi
}

SIMULATORS='ray rllib jaxmarl sb3 supersuit benchmarl meltingpot mo_gymnasium dm_control'
PACKAGED='stockfish ethereal-chess toga2 gnuchess gnugo chromium'
for one in ${@:-$SIMULATORS $PACKAGED}; do
  case $one in
    ray | rllib | jaxmarl | sb3 | supersuit | benchmarl | meltingpot | mo_gymnasium | dm_control) "$one" ;;
    stockfish | ethereal-chess | toga2 | gnuchess | gnugo | chromium) packaged "$one" ;;
    *) echo "$0: no simulator is called $one; there are $SIMULATORS $PACKAGED" >&2; exit 2 ;;
  esac
done
