#!/usr/bin/env bash
# Installs what only the slow tests use and `.[dev]` leaves out: Ray, RLlib, Melting Pot, JaxMARL, Stable-Baselines3,
# SuperSuit, PufferLib, BenchMARL, MO-Gymnasium, gym in both of its generations, Procgen, scikit-learn, DeepMind Control,
# MaMuJoCo, Brax, Jumanji, Pgx, ML-Agents, NVIDIA's cuda-core, engines of chess and Go, and Chromium.
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

# Their wheels bring tests of their own, which would stand in for others' `tests`.
without_tests() {
  get --no-deps "$@"
  rm -rf "$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests"
}

pufferlib() {
  there pufferlib 2.0.2 || without_tests pufferlib==2.0.2
}

# Lets an environment, a folder, find what it lacks in ours.
share() {
  local purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
  echo "import site; site.addsitedir('$("$PYTHON" -c "$purelib")')" >"$("$1/bin/python" -c "$purelib")/ours.pth"
}

# BenchMARL needs an older TorchRL than ours, and so an environment of its own, in which all else is that of ours.
benchmarl() {
  local home
  home=$("$PYTHON" -c 'import sys; print(sys.prefix)')/benchmarl
  "$home/bin/python" -c 'import benchmarl' 2>/dev/null && return
  "$PYTHON" -m venv "$home"
  share "$home"
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

# Gym's generations want an older numpy than ours (vectors of 0.25 copy generators as numpy 1.24 does not any more), and
# 0.21 an older setuptools to be built with: each has an environment of its own, in which all else is that of ours.
gym() {
  gym_generation 0.21.0 numpy==1.26.4
  gym_generation 0.25.2 numpy==1.23.5 gym-notices==0.0.8
  gym_generation 0.26.2 numpy==1.26.4 gym-notices==0.0.8
}

gym_generation() {
  local home
  home=$("$PYTHON" -c 'import sys; print(sys.prefix)')/gym-$1
  "$home/bin/python" -c 'import gym' 2>/dev/null && return
  "$PYTHON" -m venv "$home"
  "$home/bin/pip" install --quiet --disable-pip-version-check setuptools==65.5.0 wheel==0.37.1
  "$home/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation "gym==$1" "${@:2}" \
    cloudpickle==3.1.1 pyglet==1.5.27
  share "$home"
}

# Its official name, procgen, has no wheels for Python 3.11; gym3 asks for an older numpy and works with ours.
procgen() {
  there procgen2 0.10.7 || get --no-deps procgen2==0.10.7 gym3==0.3.3
}

# Robots of several agents; what it requires is there.
mamujoco() {
  dm_control # which has the version of MuJoCo that both work with
  there gymnasium-robotics 1.4.2 || get --no-deps gymnasium-robotics==1.4.2
}

# OpenML's data sets come through scikit-learn; what else that needs is there.
openml() {
  there scikit-learn 1.9.1 || get --no-deps scikit-learn==1.9.1 joblib==1.6.0 threadpoolctl==3.8.0 narwhals==2.29.0
}

dm_control() {
  there dm-control 1.0.50 && there mujoco 3.17.0 || get dm-control==1.0.50 mujoco==3.17.0
}

# The rest of what Brax asks for draws its pages and trains its agents.
brax() {
  jaxmarl
  dm_control
  there brax 0.14.2 && there mujoco-mjx 3.17.0 ||
    get --no-deps brax==0.14.2 mujoco-mjx==3.17.0 jaxopt==0.8.5 trimesh==5.2.0 etils==1.15.0 ml_collections tensorboardX==2.6.5
}

jumanji() {
  jaxmarl
  there jumanji 1.1.2 || get --no-deps jumanji==1.1.2 esquilax==2.1.0 jax-tqdm==0.4.0
}

pgx() {
  jaxmarl
  there pgx 2.6.0 || without_tests pgx==2.6.0 svgwrite==1.4.3
}

# Its classes work beside our protobuf; its protocol wants an old one, and so has an environment of its own, in which all
# else is that of ours.
mlagents() {
  there mlagents-envs 1.1.0 || there mlagents_envs 1.1.0 || get --no-deps --ignore-requires-python mlagents-envs==1.1.0
  local home
  home=$("$PYTHON" -c 'import sys; print(sys.prefix)')/mlagents
  "$home/bin/python" -c 'import mlagents_envs.environment' 2>/dev/null && return
  "$PYTHON" -m venv "$home"
  "$home/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-requires-python mlagents-envs==1.1.0 \
    protobuf==3.20.3 grpcio==1.85.3
  share "$home"
}

# NVIDIA's compiler for GPUs and what calls it, which need neither a GPU nor a driver; PyTorch stays the build that it is.
cuda() {
  there cuda-core 1.2.2 && there nvidia-cuda-nvrtc-cu12 12.9.86 ||
    get --no-deps cuda-core==1.2.2 cuda-bindings==12.9.10 cuda-pathfinder==1.9.1 nvidia-cuda-nvrtc-cu12==12.9.86
}

# Engines and a browser from the system's packages. Where we may not install those, their tests are skipped and say so.
packaged() {
  command -v "$1" >/dev/null || [ -x "/usr/games/$1" ] && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq update && apt-get -qq install -y --no-install-recommends "$1" >/dev/null || echo "$1 could not be installed" >&2
  fi
}

SIMULATORS='ray rllib jaxmarl sb3 supersuit pufferlib benchmarl meltingpot mo_gymnasium gym procgen openml dm_control mamujoco brax jumanji pgx mlagents cuda'
PACKAGED='stockfish ethereal-chess toga2 gnuchess gnugo chromium'
for one in ${@:-$SIMULATORS $PACKAGED}; do
  if [[ " $SIMULATORS " == *" $one "* ]]; then
    "$one"
  elif [[ " $PACKAGED " == *" $one "* ]]; then
    packaged "$one"
  else
    echo "$0: no simulator is called $one; there are $SIMULATORS $PACKAGED" >&2
    exit 2
  fi
done
