"""The house rules that a machine can check. Reads the sources, imports nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = [  # a room may import from rooms above it, and from itself
    {"errors", "torchrl_paths", "_version"},
    {
        "buffer_pool",
        "constants",
        "copied_functions",
        "files",
        "keys",
        "module_paths",
        "optional",
        "options",
        "rng",
        "tensordicts",
        "text_table",
        "threads",
    },
    {"specs"},
    {"groups"},
    {"envs"},
    {"transforms", "vector", "physics", "games", "samples", "wrappers"},
    {"scenarios"},
    {"registration"},
    {"interop", "record", "tournament", "testing"},
    {"cli"},
]
SUB_ROOMS: dict[str, list[set[str]]] = {  # inside a folder: files and folders, which may import from those above them
    "marlenv/games": [
        {"rules"},
        {"parts"},
        {"fast"},
        {"env"},
        {
            "tictactoe",
            "connect_four",
            "othello",
            "hex",
            "go",
            "breakthrough",
            "backgammon",
            "kuhn",
            "leduc",
            "hanabi",
            "matrix",
            "chess",
        },
        {"index"},
    ],
    "marlenv/games/tictactoe": [{"positions"}, {"fast"}, {"rules"}, {"env"}],
    "marlenv/games/chess": [
        {"board"},
        {"tables"},
        {"bits"},
        {"moves", "observation"},
        {"ending"},
        {"fast"},
        {"text"},
        {"numberings", "pictures", "perft"},
        {"rules"},
        {"env"},
    ],
    "marlenv/wrappers": [
        {"_backend"},
        {"_conversions", "_numbers"},
        {
            "_agent",
            "_agent_columns",
            "_attributes",
            "_choices",
            "_info_dicts",
            "_info_places",
            "_rows",
            "_spaces",
            "_used_options",
        },
        {"_base"},
        {"_agent_data", "_jax_arrays", "_jax_compiled", "_episode_flags", "_roster", "_space_values"},
        {"_answers", "_jax_rows"},
        {"_batched_forms", "_batched_groups", "_reset_seeds", "_root_data"},
        {"_batched_data"},
        {"_agents", "_batched", "_jax_state", "_reading", "_step_flags"},
        {"_gymlike", "_jax_agents", "_parallel", "_turns"},
        {
            "brax",
            "dm_control",
            "envpool",
            "gym",
            "isaac_lab",
            "isaacgym",
            "jaxmarl",
            "jumanji",
            "meltingpot",
            "open_spiel",
            "openml",
            "pettingzoo",
            "pgx",
            "procgen",
            "smacv2",
            "unity_mlagents",
            "vmas",
        },
        {"index"},
    ],
    "marlenv/interop": [
        {"entries", "jax", "spaces", "torchrl"},
        {"agents"},
        {"face"},
        {"teams"},
        {"alf", "benchmarl", "gymnasium", "pettingzoo", "pufferlib", "pymarl", "rllib", "sb3"},
    ],
    "marlenv/interop/alf": [{"time_step"}, {"nests"}, {"env", "from_env"}, {"suites"}],
    "marlenv/interop/torchrl": [
        {"end_flags", "keys", "specs", "stacks"},
        {"drawn"},
        {"from_env", "to_env", "transform"},
    ],
    "marlenv/tournament": [
        {
            "adjudicate",
            "brownian",
            "exploitability",
            "files",
            "games",
            "likelihood",
            "moves",
            "openings",
            "results",
            "streams",
            "env_rows",
        },
        {"arrays", "luck", "maxima", "schedule", "spans", "turns"},
        {"ratings", "players", "rules_board", "env_board"},
        {"bootstrap", "game_theory", "sequential", "asking", "processes"},
        {"aggregate", "cycles", "mcts", "engines", "gtp"},
        {"play"},
        {"blocks", "by_game"},
        {"rounds", "store", "defects", "cross_play"},
        {"config"},
        {"plan", "export", "ray", "verify"},
        {"drive", "response"},
        {"report"},
    ],
    "marlenv/physics": [{"maths"}, {"laws"}, {"task"}, {"simulation"}, {"jit"}, {"env"}, {"vmas_compat"}],
}
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
ALLOWED = {("marlenv/envs/env.py", "marlenv.transforms")}  # the named exception: EnvBase.append_transform
FILE, FUNCTION = 600, 60  # lines
CODE = {"scenarios": 120, "wrappers": 150}  # lines of a file without its docstrings, in rooms of many small files


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


def sub_imports(tree: ast.AST) -> list[tuple[int, str]]:
    """The modules and names that a file takes, wherever it does so, and those that it names in strings for somebody to
    load."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, a.name) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, f"{node.module}.{a.name}") for a in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [(node.lineno, m[1]) for m in [re.fullmatch(r"(marlenv(?:\.\w+)+)(?::\w+)?", node.value)] if m]
    return found


def sub_faults(path: Path, tree: ast.AST) -> list[str]:
    """What is wrong with the direction of imports inside the folders that have one."""
    wrong = []
    for folder, levels in SUB_ROOMS.items():
        if not path.is_relative_to(ROOT / folder):
            continue
        level = {room: n for n, rooms in enumerate(levels) for room in rooms}
        here, front = Path(path.relative_to(ROOT / folder).parts[0]).stem, folder.replace("/", ".") + "."
        if here == "__init__":
            continue
        if here not in level:
            wrong.append(f"{here} is in no room of {folder}; add it to SUB_ROOMS")
            continue
        for line, name in sub_imports(tree):
            if not name.startswith(front):
                continue
            there = name.removeprefix(front).split(".")[0]
            if there not in level:
                wrong.append(f"line {line}: {name}: import from a room of {folder}, not from its front door")
            elif there != here and level[there] >= level[here]:
                wrong.append(f"line {line}: in {folder}, {here} may not import {name}")
    return wrong


def code_lines(tree: ast.AST, text: str) -> int:
    """The lines of a file without its docstrings, those of attributes among them."""
    told = [
        node.end_lineno - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return text.count("\n") - sum(told)


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
    if here in CODE and (n := code_lines(tree, text)) > CODE[here]:
        wrong.append(f"{n} lines without docstrings; the limit in {here} is {CODE[here]}")
    if here not in LEVEL and here != "__init__":
        wrong.append(f"{here} is in no room; add it to ROOMS")
    for line, name in imports(tree):
        there = (name.split(".") + [""])[1]
        named = (str(path.relative_to(ROOT)), ".".join(name.split(".")[:2])) in ALLOWED
        if here in LEVEL and there in LEVEL and there != here and LEVEL[there] >= LEVEL[here] and not named:
            wrong.append(f"line {line}: {here} may not import {name}")
        if here in LEVEL and there == "":
            wrong.append(f"line {line}: import from a room, not from the package's front door")
    return wrong + sub_faults(path, tree)


@pytest.mark.parametrize("folder", SUB_ROOMS)
def test_every_room_of_a_folder_is_there(folder: str) -> None:
    rooms = {room for level in SUB_ROOMS[folder] for room in level}
    there = {p.stem for p in (ROOT / folder).iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert rooms == there - {"__init__"}


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
        (
            "marlenv/envs/pooling.py",
            '"""Doc."""\ndef f():\n    from marlenv.vector import ParallelEnv\n',
            "envs may not import marlenv.vector",
        ),
        ("groups/planted.py", '"""Doc."""\nfrom marlenv import EnvBase\n', "front door"),
        ("marlenv/envs/planted.py", "x = 1\n", "no module docstring"),
        ("marlenv/envs/planted.py", '"""Doc."""\n' + "x = 1\n" * 600, "the limit is 600"),
        ("marlenv/envs/planted.py", '"""Doc."""\ndef f():\n' + "    x = 1\n" * 61, "the limit is 60"),
        ("scenarios/planted.py", '"""Doc."""\n' + "x = 1\n" * 121, "the limit in scenarios is 120"),
        ("marlenv/wrappers/sim/planted.py", '"""Doc."""\n' + "x = 1\n" * 151, "the limit in wrappers is 150"),
        ("marlenv/nowhere/planted.py", '"""Doc."""\n', "in no room"),
        ("marlenv/games/planted.py", '"""Doc."""\n', "in no room of marlenv/games"),
        (
            "marlenv/games/parts/planted.py",
            '"""Doc."""\ndef f():\n    from marlenv.games.fast import kernels\n',
            "parts may not import marlenv.games.fast.kernels",
        ),
        (
            "marlenv/games/go.py",
            '"""Doc."""\nfrom marlenv.games.hex import Hex\n',
            "go may not import marlenv.games.hex.Hex",
        ),
        (
            "marlenv/games/fast/planted.py",
            '"""Doc."""\nMAKE = "marlenv.games.env.make:make_game"\n',
            "fast may not import marlenv.games.env.make",
        ),
        (
            "marlenv/physics/laws/planted.py",
            '"""Doc."""\nfrom marlenv.physics.task.world import World\n',
            "laws may not import marlenv.physics.task.world",
        ),
        (
            "marlenv/wrappers/_turns.py",
            '"""Doc."""\nfrom marlenv.wrappers.vmas.env import VmasEnv\n',
            "_turns may not import marlenv.wrappers.vmas",
        ),
        ("marlenv/games/env/planted.py", '"""Doc."""\nfrom marlenv.games import Rules\n', "not from its front door"),
        (
            "marlenv/games/chess/text/planted.py",
            '"""Doc."""\nfrom marlenv.games.chess.rules import Chess\n',
            "text may not import marlenv.games.chess.rules.Chess",
        ),
    ],
)
def test_a_planted_fault_is_found(where: str, text: str, says: str) -> None:
    assert any(says in fault for fault in faults(ROOT / where, text))


def test_docstrings_do_not_count_in_files_with_a_limit() -> None:
    text = '"""Doc,\nlong."""\n' + 'x = 1\n"""What x is:\none."""\n' * 60 + "x = 1\n" * 60
    assert code_lines(ast.parse(text), text) == 120
    assert faults(ROOT / "scenarios/planted.py", text) == []
