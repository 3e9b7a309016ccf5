"""Envs of a pool of threads whose makers are the first to import a simulator, all at the same moment."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from marlenv import AsyncEnvPool
from marlenv.errors import WorkerFailed
from marlenv.testing import CountingEnv

TASKS = """
from functools import partial
from marlenv.envs import AsyncEnvPool, GymEnv
tasks = ["Pendulum-v1", "CartPole-v1", "Acrobot-v1"]
pool = AsyncEnvPool([partial(GymEnv, name) for name in tasks], stack="lazy", backend="threading")
print([tuple(pool.reset()[i]["observation"].shape) for i in range(3)])
pool.close()
"""


@pytest.mark.slow
def test_different_tasks_are_imported_by_threads() -> None:
    pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
    said = subprocess.run(  # not marlenv of this folder, but the one that is installed
        [sys.executable, "-P", "-c", TASKS], capture_output=True, text=True, timeout=300, check=False
    )
    assert said.stdout.strip() == "[(3,), (4,), (6,)]", said.stderr


def made(asked: list[str], both: threading.Barrier, name: str, errors: list[Exception], **options: Any) -> CountingEnv:
    """Fails while the other env is being made, with the next of some errors."""
    asked.append(name)
    if asked.count(name) == 1:
        both.wait(20)
    if errors:
        raise errors.pop(0)
    return CountingEnv(**options)


TWO = "import {0}_b\nword = 1\n"
MODULES = {
    "a name of a module": [TWO, "from {0}_a import word\n"],
    "an attribute of a module": [TWO, "import {0}_a\n{0}_a.word\n"],
    "the module itself": ["import sys\ndel sys.modules[__name__]\n"],
    "what a wrapper says of it": [
        TWO,
        "try:\n    from {0}_a import word\nexcept Exception:\n    raise OSError from None",
    ],
}
"""Modules that fail as those do that threads import at the same time, by what is missing."""


@pytest.mark.parametrize("what", MODULES)
def test_what_an_import_meets_half_made_is_imported_again(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"half_made_{len(what)}"
    for letter, source in zip("ab", MODULES[what], strict=False):
        (tmp_path / f"{name}_{letter}.py").write_text(source.format(name))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises((ImportError, AttributeError, KeyError, OSError)) as found:
        __import__(f"{name}_a")
    asked: list[str] = []
    maker = partial(made, asked, threading.Barrier(2))
    pool = AsyncEnvPool([partial(maker, "a", [found.value]), partial(maker, "b", [])], backend="threading")
    assert pool.rollout(2)["next", "observation"].flatten().tolist() == [1.0, 2.0, 1.0, 2.0]
    assert sorted(asked) == ["a", "a", "b"]
    pool.close()


LOOP = OSError("its own cause")
LOOP.__cause__ = LOOP


@pytest.mark.parametrize(
    "errors",
    [[ImportError("no b"), ImportError("no b")], [OSError("no licence")], [OSError("no importlib")], [LOOP]],
    ids=str,
)
def test_other_failures_are_told(errors: list[Exception]) -> None:
    asked: list[str] = []
    told, count = str(errors[0]), len(errors)
    maker = partial(made, asked, threading.Barrier(2))
    with pytest.raises(WorkerFailed, match=rf"env 0 .*{told}"):
        AsyncEnvPool([partial(maker, "a", errors), partial(maker, "b", [])], backend="threading").reset()
    assert asked.count("a") == count
