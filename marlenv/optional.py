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
    "pyspiel": "open_spiel",
    "vmas": "vmas",
    "meltingpot": "meltingpot",
    "jax": "jaxmarl",
    "jaxmarl": "jaxmarl",
    "gymnasium": "gymnasium",
    "mo_gymnasium": "mo_gymnasium",
    "dm_control": "dm_control",
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
    "hypothesis": "test",
    "pytest": "test",
}
# module -> how to install what no extra can
ELSEWHERE = {
    "smacv2": "pip install git+https://github.com/oxwhirl/smacv2.git and the game itself: its README says how",
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
