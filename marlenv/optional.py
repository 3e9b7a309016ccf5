"""Optional dependencies: imported on use, and named with their install command when they are missing."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from marlenv.errors import MissingExtra

# module -> the extra of our distribution that installs it
EXTRAS = {
    "pettingzoo": "pettingzoo",
    "mpe2": "pettingzoo",
    "ale_py": "pettingzoo",
    "pyspiel": "open_spiel",
    "vmas": "vmas",
    "meltingpot": "meltingpot",
    "jax": "jaxmarl",
    "jaxmarl": "jaxmarl",
    "brax": "brax",
    "jumanji": "jumanji",
    "pgx": "pgx",
    "gymnasium": "gymnasium",
    "mo_gymnasium": "mo_gymnasium",
    "dm_control": "dm_control",
    "sklearn": "openml",
    "numba": "numba",
    "PIL": "video",
    "imageio": "video",
    "imageio_ffmpeg": "video",
    "av": "video",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "transformers": "text",
    "tokenizers": "text",
    "torchrl": "torchrl",
    "ray": "ray",
    "envpool": "envpool",
    "cuda": "cuda",
    "hypothesis": "test",
    "pytest": "test",
}
# module -> how to install what no extra can
ELSEWHERE = {
    "isaacgym": "get Isaac Gym from https://developer.nvidia.com/isaac-gym, then pip install it and IsaacGymEnvs",
    "isaacgymenvs": "get Isaac Gym from https://developer.nvidia.com/isaac-gym, then pip install it and IsaacGymEnvs",
    "isaaclab": "pip install isaaclab[isaacsim] --extra-index-url https://pypi.nvidia.com",
    "mlagents_envs": "pip install --no-deps --ignore-requires-python mlagents-envs==1.1.0, and "
    "protobuf==3.20.3 grpcio pyyaml cloudpickle filelock pillow",
    "smacv2": "pip install git+https://github.com/oxwhirl/smacv2.git and the game itself: its README says how",
    "habitat": "https://github.com/facebookresearch/habitat-lab says how",
    "robohive": "pip install robohive, and robohive_init, which fetches its robots",
    "procgen": "pip install --no-deps procgen2 gym3 (they ask for an older numpy than they need), and pip install cffi",
}


def has(module: str) -> bool:
    """Whether ``module`` can be imported; it is not.

    >>> has("torch"), has("no_such_module")
    (True, False)
    """
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def need(module: str, what_for: str) -> ModuleType:
    """Imports and returns ``module``, or says how to install it.

    Args:
        module: the dotted name.
        what_for: who needs it, for the message.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top:
            raise  # the module is there; something that *it* needs is not
        extra = EXTRAS.get(top)
        how = (
            f'pip install "marlenv-torch[{extra}]" (in a checkout: pip install -e ".[{extra}]")'
            if extra
            else ELSEWHERE.get(top, f"pip install {top}")
        )
        raise MissingExtra(f"{what_for} needs {top!r}, which is not installed; {how}") from error
