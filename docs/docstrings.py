"""Docstrings as Markdown: roles, double backticks, ``Args:`` lists, examples and reStructuredText's simple tables."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

ROLE = re.compile(r":(?:class|meth|func|attr|mod|data):`(?:[^`<]*<)?~?([^`>]+)>?`", re.S)
SECTION = re.compile(r"^(Args|Returns|Raises):\s*$", re.M)
RULE = re.compile(r"^=[= ]+$")
_INNER = r"\([^\s()<>]*\)"  # of addresses such as .../Hex_(board_game)
ADDRESS = rf"https?://(?:[^\s()<>]|{_INNER})*(?:[^\s()<>.,;:]|{_INNER})"


@dataclass
class Doc:
    """A docstring, taken apart."""

    summary: str = ""
    body: str = ""
    """What follows the summary, without lists of arguments and examples."""
    args: list[tuple[str, str]] = field(default_factory=list)
    returns: str = ""
    raises: list[tuple[str, str]] = field(default_factory=list)
    example: str = ""
    source: str = ""

    @property
    def bullets(self) -> dict[str, str]:
        """The bullets that begin with a word: ``- reward, shared: minus ...`` is under ``reward``, without the dash."""
        found = re.findall(r"^- (\w+)(.*(?:\n  .*)*)", self.body, re.M)
        return {word: one_line(word + rest) for word, rest in found}

    @property
    def prose(self) -> str:
        """The body without the bullets that have a section of their own."""
        own = r"^- (?:observation|action|reward|ends|VMAS)\b.*(?:\n  .*)*\n?"
        return re.sub(own, "", self.body, flags=re.M).strip()


def parse(thing: Any) -> Doc:
    """The docstring of an object, or a docstring."""
    text = thing if isinstance(thing, str) else inspect.getdoc(thing) or ""
    text = inline(simple_tables(inspect.cleandoc(text)))
    doc = Doc()
    parts = SECTION.split(text)
    head, doc.example = _examples(parts[0])
    doc.summary, _, doc.body = (part.strip() for part in head.partition("\n\n"))
    doc.summary = one_line(doc.summary)
    doc.body, doc.source = _source(doc.body)
    for title, rest in zip(parts[1::2], parts[2::2], strict=True):
        block, after = _indented(rest)
        after, example = _examples(after)
        doc.example = doc.example or example
        after, source = _source(after.strip())
        doc.source = doc.source or source
        doc.body = f"{doc.body}\n\n{after}".strip()
        if title == "Returns":
            doc.returns = one_line(block)
        else:
            setattr(doc, title.lower(), _named(block))
    return doc


def _source(text: str) -> tuple[str, str]:
    """A text without its paragraph ``Source: ...``, and what that says; literal blocks lose their second colon."""
    said = re.search(r"^Source: (.*(?:\n.+)*)", text, re.M)
    rest = text.replace(said[0], "").strip() if said else text
    return re.sub(r"::$", ":", rest, flags=re.M), linked(one_line(said[1])) if said else ""


def linked(text: str) -> str:
    """A text whose bare addresses are links."""
    return re.sub(rf"(?<![<(])({ADDRESS})", r"<\1>", text)


def inline(text: str) -> str:
    """Roles and double backticks as Markdown."""
    text = ROLE.sub(lambda m: f"`{m[1].split('.')[-1] if m[1].startswith(('marlenv', '~')) else m[1]}`", text)
    return re.sub(r"``([^`]+)``", lambda m: f"`{one_line(m[1])}`", text)


def one_line(text: str) -> str:
    """Text without line breaks."""
    return " ".join(text.split())


def _indented(text: str) -> tuple[str, str]:
    """The indented lines that begin a text, and the rest."""
    lines = text.strip("\n").splitlines()
    end = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith(" ")), len(lines))
    return "\n".join(lines[:end]), "\n".join(lines[end:])


def _named(block: str) -> list[tuple[str, str]]:
    """``name: text``, each with the lines that go on with it."""
    found: list[tuple[str, str]] = []
    for line in inspect.cleandoc(block).splitlines():
        name, colon, text = line.partition(": ")
        if line and not line.startswith(" ") and (colon or not found):
            found.append((name, text) if colon else ("", line))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
    return [(name.replace("\\", ""), one_line(text)) for name, text in found]


def _examples(text: str) -> tuple[str, str]:
    """The text without its doctests, and the doctests."""
    kept, shown, inside = [], [], False
    for line in text.splitlines():
        inside = line.startswith(">>> ") or (inside and bool(line.strip()))
        (shown if inside else kept).append(line)
    return "\n".join(kept), "\n".join(shown)


def simple_tables(text: str) -> str:
    """Simple tables of reStructuredText as tables of Markdown; columns begin where the rules do."""
    lines, out, at = text.splitlines(), [], 0
    while at < len(lines):
        if not RULE.match(lines[at]):
            out.append(lines[at])
            at += 1
            continue
        starts = [m.start() for m in re.finditer(r"=+", lines[at])]
        end = [i for i in range(at, len(lines)) if RULE.match(lines[i])][2]
        rows = [lines[at + 1], *lines[at + 3 : end]]
        cells = [[row[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)] for row in rows]
        cells.insert(1, ["---"] * len(starts))
        out += ["| " + " | ".join(row) + " |" for row in cells]
        at = end + 1
    return "\n".join(out)
