"""What is public is listed once, importable, documented, and loaded only when it is used."""

from __future__ import annotations

import inspect
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import marlenv


@pytest.mark.parametrize("name", marlenv.__all__)
def test_importable_and_documented(name: str) -> None:
    thing = getattr(marlenv, name)
    if name == "__version__":
        return
    doc = inspect.getdoc(thing)
    assert doc, f"{name} has no docstring"
    assert doc.splitlines()[0].rstrip().endswith((".", ":", "?")), (
        f"{name}: the first line of the docstring is a sentence"
    )


OWN = [n for n in marlenv.__all__ if getattr(getattr(marlenv, n), "__module__", "").startswith("marlenv")]


@pytest.mark.parametrize("name", [n for n in OWN if inspect.isclass(getattr(marlenv, n))])
def test_public_methods_are_documented(name: str) -> None:
    cls = getattr(marlenv, name)
    for method, thing in vars(cls).items():
        if method.startswith("_") or not (
            inspect.isfunction(thing) or isinstance(thing, property | classmethod | staticmethod)
        ):
            continue
        assert inspect.getdoc(getattr(cls, method)), f"{name}.{method} has no docstring, its own or inherited"


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(' '.join(m.split('.')[0] for m in sys.modules))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_importing_the_package_loads_neither_torch_nor_a_simulator() -> None:
    heavy = {"torch", "tensordict", "numpy", "networkx", "pettingzoo", "pyspiel", "vmas", "gymnasium", "torchrl"}
    assert not loaded_by("import marlenv") & heavy


def test_the_package_can_be_imported_from_a_zip(tmp_path: Path) -> None:
    """And no file of it is read in an encoding of the machine's."""
    folder = Path(marlenv.__file__).parent
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        for one in folder.rglob("*.py*"):
            if "__pycache__" not in one.parts:
                file.write(one, Path("marlenv") / one.relative_to(folder))
    code = "import marlenv; print(marlenv.__file__, marlenv.Unbounded((2,)).zero().tolist())"
    ran = subprocess.run(
        [sys.executable, "-P", "-X", "warn_default_encoding", "-W", "error::EncodingWarning:marlenv", "-c", code],
        env={"PYTHONPATH": str(tmp_path / "all.zip")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.split() == [str(tmp_path / "all.zip" / "marlenv" / "__init__.py"), "[0.0,", "0.0]"], ran.stderr


@pytest.mark.slow
def test_making_a_native_env_loads_no_simulator() -> None:
    code = "import marlenv; marlenv.make('tic_tac_toe', num_envs=2).rollout(3)"
    assert not loaded_by(code) & {"pettingzoo", "pyspiel", "vmas", "gymnasium", "torchrl", "pygame", "jax"}


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(AttributeError, match="marlenv has no 'Compsite'; did you mean 'Composite'"):
        marlenv.Compsite  # noqa: B018


def test_old_names_warn_and_lead_to_their_successors() -> None:
    with pytest.warns(DeprecationWarning, match=r"marlenv\.CompositeSpec is the old name of marlenv\.Composite"):
        old = marlenv.CompositeSpec
    assert issubclass(old, marlenv.Composite) or old is marlenv.Composite
