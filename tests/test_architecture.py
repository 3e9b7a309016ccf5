"""The house rules that a machine can check. Reads the sources, imports nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = [  # a room may import from rooms above it, and from itself
    {"errors", "_version"},
    {"buffer_pool", "keys", "optional", "rng", "tensordicts"},
    {"specs"},
    {"groups"},
    {"envs"},
    {"transforms", "vector", "physics", "games", "samples", "wrappers"},
    {"scenarios"},
    {"making"},
    {"interop", "record", "tournament", "testing"},
    {"cli"},
]
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
ALLOWED = {("marlenv/envs/env.py", "marlenv.transforms")}  # EnvBase.append_transform, the one named exception
FILE, FUNCTION = 600, 60  # lines


def sources() -> list[Path]:
    return sorted(p for top in ("marlenv", "groups", "scenarios") for p in (ROOT / top).rglob("*.py"))


def room_of(path: Path) -> str:
    first, *rest = path.relative_to(ROOT).parts
    return first if first != "marlenv" else Path(rest[0]).stem


def imports(tree: ast.AST) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, a.name) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.lineno, node.module or ""))
    return [(line, name) for line, name in found if name.split(".")[0] == "marlenv"]


def faults(path: Path, text: str) -> list[str]:
    """What is wrong with a source file."""
    tree = ast.parse(text)
    wrong = []
    if (n := text.count("\n")) > FILE:
        wrong.append(f"{n} lines; the limit is {FILE}")
    if text.strip() and ast.get_docstring(tree) is None:
        wrong.append("no module docstring")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = node.body[0] if ast.get_docstring(node) else None
            n = node.end_lineno - node.lineno + 1 - (doc.end_lineno - doc.lineno + 1 if doc else 0)
            if n > FUNCTION:
                wrong.append(
                    f"{node.name} (line {node.lineno}) has {n} lines without its docstring; the limit is {FUNCTION}"
                )
    here = room_of(path)
    if here not in LEVEL and here != "__init__":
        wrong.append(f"{here} is in no room; add it to ROOMS")
    for line, name in imports(tree):
        there = (name.split(".") + [""])[1]
        named = (str(path.relative_to(ROOT)), ".".join(name.split(".")[:2])) in ALLOWED
        if here in LEVEL and there in LEVEL and there != here and LEVEL[there] >= LEVEL[here] and not named:
            wrong.append(f"line {line}: {here} may not import {name}")
        if here in LEVEL and there == "":
            wrong.append(f"line {line}: import from a room, not from the package's front door")
    return wrong


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_file(path: Path) -> None:
    wrong = faults(path, path.read_text())
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("forbidden", ["torchrl", "chess"])
def test_the_core_never_imports(forbidden: str) -> None:
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            assert forbidden not in {n.split(".")[0] for n in names}, path


@pytest.mark.parametrize(
    ("where", "text", "says"),
    [
        (
            "marlenv/specs/planted.py",
            '"""Doc."""\nfrom marlenv.envs import EnvBase\n',
            "specs may not import marlenv.envs",
        ),
        (
            "marlenv/games/planted.py",
            '"""Doc."""\nfrom marlenv.physics import world\n',
            "games may not import marlenv.physics",
        ),
        ("groups/planted.py", '"""Doc."""\nfrom marlenv import EnvBase\n', "front door"),
        ("marlenv/envs/planted.py", "x = 1\n", "no module docstring"),
        ("marlenv/envs/planted.py", '"""Doc."""\n' + "x = 1\n" * 600, "the limit is 600"),
        ("marlenv/envs/planted.py", '"""Doc."""\ndef f():\n' + "    x = 1\n" * 61, "the limit is 60"),
        ("marlenv/nowhere/planted.py", '"""Doc."""\n', "in no room"),
    ],
)
def test_a_planted_fault_is_found(where: str, text: str, says: str) -> None:
    assert any(says in fault for fault in faults(ROOT / where, text))
