"""The pages of the reference, made from docstrings and signatures, for ``docs/generate.py``."""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import docstrings

import marlenv
from marlenv.module_paths import offered, reason_of
from marlenv.specs.legacy import TABLE as OLD_NAMES
from marlenv.testing import CHECKS
from marlenv.torchrl_paths import PATHS

ROOMS = {
    "marlenv": "Envs by name, randomness",
    "specs": "Specs",
    "groups": "Groups",
    "envs": "Envs",
    "transforms": "Transforms",
    "vector": "Many envs at once",
    "physics": "A world in the plane",
    "games": "Games",
    "games.chess": "Chess",
    "samples": "Sample envs",
    "wrappers": "Other simulators",
    "interop": "Other libraries",
    "record": "Recording",
    "tournament": "Tournaments",
    "testing": "Testing",
    "errors": "Errors",
}
WIDE = "---\nhide: [toc]\n---\n\n"  # a page without a table of contents has room for code of 120 columns
NOTE = "<!-- Made by docs/generate.py; edit the docstrings, not this page. -->"
MANY_NAMES = 20  # of a module that stays in TorchRL are not written out
LONG_NAME = 44  # of a member with its arguments or its value, which are not written out
UNLISTED = {  # names that users need and that no room lists yet
    "physics": {"ScenarioEnv": "marlenv.physics.env", "make_scenario": "marlenv.physics.env"},
}


def public_names(room: str) -> dict[str, str]:
    """Public name of a room -> the module that users import it from."""
    homes = {name: home for name, home in marlenv._HOMES.items() if name != "__version__"}  # type: ignore[attr-defined]
    if room == "marlenv":
        return {name: "marlenv" for name, home in homes.items() if home.split(".")[1] not in ROOMS}
    module = importlib.import_module(f"marlenv.{room}")
    own = {n for n, x in vars(module).items() if inspect.isclass(x) and x.__module__ == module.__name__ and n[0] != "_"}
    of_room = f"marlenv.{room.split('.', maxsplit=1)[0]}"  # a path of TorchRL's lists what other rooms have, too
    listed = [n for n in getattr(module, "__all__", own) if homes.get(n, of_room).startswith(of_room)]
    names = {*listed, *(n for n, home in homes.items() if home == module.__name__)}
    found = {name: "marlenv" if name in homes else module.__name__ for name in names}
    return dict(sorted({**UNLISTED.get(room, {}), **found}.items()))


def reference_page(room: str) -> str:
    """Every public name of a room."""
    parts = [f"# {ROOMS[room]}\n\n{NOTE}"]
    if room == "errors":
        drawn = inspect.getdoc(importlib.import_module("marlenv.errors")) or ""
        tree = "\n".join(line.removeprefix("    ") for line in drawn.splitlines() if line.startswith("    "))
        return f"{parts[0]}\n\nEach inherits the builtin that a TorchRL user would catch.\n\n```text\n{tree}\n```\n"
    for name, where in public_names(room).items():
        thing = getattr(importlib.import_module(where), name)
        parts.append(f"## {name}\n\n`from {where} import {name}`\n\n{thing_text(name, thing)}")
    if room == "testing":
        lines = ["| clause | what it says |", "|---|---|"]
        lines += [f"| `{name}` | {docstrings.inline(check.says)} |" for name, check in CHECKS.items()]
        parts.append("## The clauses\n\nThe names are what `exempt` takes.\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def thing_text(name: str, thing: Any) -> str:
    """A class, a function or a constant."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return (
            "A constant."
            if not inspect.getdoc(thing) or not hasattr(thing, "__name__")
            else docstrings.parse(thing).summary
        )
    doc = docstrings.parse(thing)
    parts = [f"```py\n{signature(name, thing)}\n```", doc.summary, doc.body]
    if doc.args:
        parts.append("\n".join(f"- `{arg}`: {text}" if arg else f"- {text}" for arg, text in doc.args))
    if doc.returns:
        parts.append(f"Returns: {doc.returns}")
    if doc.raises:
        parts.append(
            "Raises:\n\n" + "\n".join(f"- `{error}`: {text}" if error else f"- {text}" for error, text in doc.raises)
        )
    if doc.example:
        parts.append(f"```pycon\n{doc.example}\n```")
    if inspect.isclass(thing):
        parts += [members(thing), *explained(thing)]
    return "\n\n".join(part for part in parts if part)


def signature(name: str, thing: Any, width: int = 96) -> str:
    """How it is called, without types; broken into lines where it is long."""
    if isinstance(thing, type) and issubclass(thing, enum.Enum):
        return f"{name}: {', '.join(thing.__members__)}"
    own = inspect.isclass(thing) and not dataclasses.is_dataclass(thing)
    if own and getattr(thing, "_is_protocol", False):
        return f"class {name}(Protocol)"
    call = thing.__init__ if own and thing.__init__ is not object.__init__ else thing  # tuples have `__new__`
    try:
        found = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return f"{name}(...)"
    if call is not thing or (found and found[0].name == "self"):
        found = found[1:]
    words = list(parameters(found))
    line = f"{name}({', '.join(words)})"
    return line if len(line) <= width else name + "(\n    " + ",\n    ".join(folded(words, width - 4)) + ",\n)"


def parameters(found: list[inspect.Parameter]) -> Iterator[str]:
    """Parameters as they are written, with the star and the slash between them."""
    keyword = False
    for p in found:
        if p.kind is p.KEYWORD_ONLY and not keyword:
            keyword = True
            yield "*"
        keyword = keyword or p.kind is p.VAR_POSITIONAL
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        yield f"{star}{p.name}" + ("" if p.default is p.empty else f"={value_text(p.default)}")


def value_text(value: Any) -> str:
    """A default value, the same in every run."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    text = repr(value)
    return getattr(value, "__name__", "...") if " at 0x" in text or "<class" in text else text


def folded(words: list[str], width: int) -> list[str]:
    """Words joined by commas to lines."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 2 > width:
            lines.append(word)
        else:
            lines[-1] += f", {word}"
    return lines


def members(cls: type) -> str:
    """The public attributes, methods and properties that a class has of its own, in the order of its source."""
    lines = [
        f"| `{attribute_text(cls, name)}` | {said.replace('|', chr(92) + '|')} |" for name, said in attributes(cls)
    ]
    for name, thing in vars(cls).items():
        call = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
        is_property = isinstance(call, property) or type(call).__name__ == "cached_property"
        if name.startswith("_") or not (inspect.isfunction(call) or is_property):
            continue
        summary = docstrings.parse(getattr(cls, name)).summary
        shown = name if is_property else signature(name, call, 10_000)
        shown = shown if len(shown) <= LONG_NAME else f"{name}(...)"
        lines.append(f"| `{shown}` | {summary.replace('|', chr(92) + '|')} |")
    return "\n".join(["| member | what |", "|---|---|", *lines]) if lines else ""


def attributes(cls: type) -> Iterator[tuple[str, str]]:
    """The public fields and class attributes of a class that have a docstring of their own, and what it says."""
    try:
        [source] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError):  # made by a call, as old names are
        return
    body = source.body if isinstance(source, ast.ClassDef) else []
    for at, text in pairwise(body):
        names = at.targets if isinstance(at, ast.Assign) else [at.target] if isinstance(at, ast.AnnAssign) else []
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
            said = docstrings.one_line(docstrings.parse(text.value.value).summary)
            yield from ((one.id, said) for one in names if isinstance(one, ast.Name) and one.id[0] != "_")


def attribute_text(cls: type, name: str) -> str:
    """The name of an attribute, with its value where a subclass may give another one."""
    known = name in getattr(cls, "_fields", ()) or name in getattr(cls, "__dataclass_fields__", ())
    if known or name not in vars(cls):
        return name
    text = f"{name} = {value_text(vars(cls)[name])}"
    return text if len(text) <= LONG_NAME else name


def explained(cls: type) -> Iterator[str]:
    """The methods of a class whose arguments are explained."""
    for name, thing in vars(cls).items():
        if inspect.isfunction(thing) and name[0] != "_" and (doc := docstrings.parse(thing)).args:
            lines = [f"- `{arg}`: {text}" if arg else f"- {text}" for arg, text in doc.args]
            lines += [f"- returns: {doc.returns}"] if doc.returns else []
            lines += [f"- raises `{error}`: {text}" if error else f"- {text}" for error, text in doc.raises]
            yield f"### {cls.__name__}.{name}\n\n```py\n{signature(name, thing)}\n```\n\n{doc.body}\n\n" + "\n".join(
                lines
            )


def reference_index() -> str:
    """What there is, by room."""
    lines = ["| room | names |", "|---|---|"]
    for room, title in ROOMS.items():
        names = [] if room == "errors" else list(public_names(room))
        links = ", ".join(f"[{name}]({room}.md#{name.lower()})" for name in names) or f"[all of them]({room}.md)"
        lines.append(f"| [{title}]({room}.md) | {links} |")
    return (
        f"{WIDE}# Reference\n\n{NOTE}\n\nEvery public name, with its docstring; [TorchRL's module paths](torchrl.md) "
        "lead to the same names.\n\n" + "\n".join(lines) + "\n"
    )


def paths_page() -> str:
    """TorchRL's modules, and which of their names marlenv has."""
    lines = ["| `torchrl.` | `marlenv` has | it has not |", "|---|---|---|"]
    for path, names in PATHS.items():
        ours = offered(path, marlenv._HOMES, below=False)  # type: ignore[attr-defined]
        old = [name for name in names.split() if name in OLD_NAMES]
        missing = [name for name in names.split() if name not in {*ours, *old}]
        why = reason_of(path)
        cells = [", ".join(f"`{name}`" for name in words) for words in ([*ours, *old], missing)]
        lines.append(f"| `{path}` | {cells[0]} | {cells[1] if len(missing) <= MANY_NAMES or not why else f'{why}'} |")
    head = (
        "A script written for TorchRL keeps its module paths: `from torchrl.envs.libs.vmas import VmasEnv` becomes "
        "`from marlenv.envs.libs.vmas import VmasEnv`, and `from marlenv import VmasEnv` is the short way. A module "
        "also gives what the modules below it hold. Older names of specs give a `DeprecationWarning`. A name that "
        "marlenv has not is an `ImportError` that says where TorchRL has it."
    )
    return f"{WIDE}# TorchRL's module paths\n\n{NOTE}\n\n{head}\n\n" + "\n".join(lines) + "\n"
