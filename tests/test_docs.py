"""What the docs show is true: code blocks run, page by page, and print what stands below them; commands likewise.

- ```` ```python ```` runs; a ```` ```text ```` block right below it is what it prints (``...`` stands for anything).
- ```` ```console ```` holds commands after ``$ ``, each with what it prints.
- ```` ``` { .python title="not run: why" } ```` is Python that cannot run here, and says why.
- ```` ```py ```` and ```` ```pycon ```` are made by ``docs/generate.py`` from code that is run elsewhere.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import re
import shlex
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from marlenv.cli.__main__ import main
from marlenv.cli.bench import SUITES
from marlenv.physics import offset
from marlenv.registration import available, find, make

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)(`{3,})(.*)\n((?:.*\n)*?)\1\2$", re.M)
WIDTH = 100  # columns that fit on a page without scrolling


class Block(NamedTuple):
    """A fenced block."""

    kind: str
    text: str
    line: int
    end: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for m in FENCE.finditer(text):
        body = re.sub(f"^{m[1]}", "", m[4], flags=re.M)
        found.append(Block(m[3].strip(), body, text.count("\n", 0, m.start()) + 2, m.end()))
    return found


def follows(page: Path, first: Block, second: Block) -> bool:
    """Whether there is nothing between two blocks."""
    between = page.read_text()[first.end :]
    return between.lstrip("\n").startswith("```" + second.kind) and second.end > first.end


def matches(want: str, got: str) -> bool:
    if not want.strip():
        return not got.strip()
    return doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages_with(*kinds: str) -> list[Path]:
    return [page for page in PAGES if any(block.kind in kinds for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Creating .*WeightUpdater:DeprecationWarning")  # TorchRL imports what it deprecates
@pytest.mark.parametrize("page", pages_with("python", "console"), ids=named)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.__name__ = "__main__" if 'if __name__ == "__main__":' in page.read_text() else module.__name__
    found = blocks(page)
    for block, after in zip(found, [*found[1:], None], strict=True):
        where = f"{named(page)}:{block.line}"
        if block.kind == "python":
            got = executed(block, where, module)
            shown = after.text if after is not None and after.kind == "text" and follows(page, block, after) else ""
            assert matches(shown, got), f"{where} printed\n{got}"
        elif block.kind == "console":
            for command, shown in commands(block):
                got, _ = run(shlex.split(command))
                assert matches(shown, got), f"{where}: marlenv {command} printed\n{got}"


def executed(block: Block, where: str, module: types.ModuleType) -> str:
    """What a block of Python prints."""
    source = "\n" * (block.line - 1) + block.text
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, where, "exec"), module.__dict__)
    return out.getvalue()


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a block without the program's name, each with what it prints."""
    parts = [part.partition("\n") for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]]
    assert all(line.startswith("marlenv ") for line, _, _ in parts), "only marlenv's commands are run; use a bash block"
    return [(line.removeprefix("marlenv "), shown) for line, _, shown in parts]


def run(words: list[str]) -> tuple[str, int]:
    """What a command prints on both streams, and its exit code."""
    out, threads = io.StringIO(), torch.get_num_threads()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = main(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
    torch.set_num_threads(threads)
    return out.getvalue(), code


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks(page):
        where = f"{named(page)}:{block.line}"
        if ".python" in block.kind:
            assert re.search(r'title="not run: \w.+"', block.kind), f"{where} is Python that does not run; say why"
        else:
            assert block.kind in {"python", "text", "console", "bash", "py", "pycon", "toml"}, (
                f"{where}: {block.kind!r}"
            )
        made = page.parent.name in ("reference", "tutorials", "envs")
        assert made or block.kind not in ("py", "pycon"), f"{where}: Python runs; mark it python"
        wide = [line for line in block.text.splitlines() if len(line) > (WIDTH if not made else 120)]
        assert not wide, f"{where} scrolls: {wide[0]!r}"


@pytest.mark.slow
def test_generated_pages_are_what_the_code_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made here without the simulators, whose pages must not depend on what is installed."""
    for name in available("wrapper"):
        monkeypatch.setitem(sys.modules, find(name).needs, None)
    monkeypatch.syspath_prepend(ROOT / "docs")
    import generate

    made = generate.pages()
    stale = [named(page) for page in generate.differing(made)]
    assert not stale, f"{stale}; run: python docs/generate.py"
    made.pop(generate.DOCS / "envs" / "simple_spread.md")  # a page that nobody makes is found
    assert [page.name for page in generate.differing(made)] == ["simple_spread.md"]


def test_what_is_said_of_a_name_goes_on_in_the_next_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    from docstrings import parse

    said = parse(
        "Draws.\n\nRaises:\n    SpecError: a, or\n    b.\n    KeyError: c,\n      d.\n\nReturns:\n    all\n    of it"
    )
    assert (said.raises, said.returns) == ([("SpecError", "a, or b."), ("KeyError", "c, d.")], "all of it")


def test_nothing_is_fetched_from_the_network() -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings
    assert not re.search(r"^extra_(css|javascript):.*https?:", settings, re.M)
    assert "http" not in (ROOT / "docs" / "style.css").read_text()


def linked(page: Path) -> Iterator[Path]:
    """The pages that a page leads to; those of a folder where it leads to one."""
    for link in re.findall(r"\]\(([^)\s#:]+)", page.read_text()):
        to = (page.parent / link).resolve()
        yield from to.glob("*.md") if to.is_dir() else [to]


def test_every_page_is_two_clicks_from_the_readme() -> None:
    one = set(linked(ROOT / "README.md"))
    two = one.union(*(linked(page) for page in one if page.suffix == ".md"))
    made = "benchmarks", "changes"  # listed by docs/hooks.py
    pages = [p for p in PAGES if "docs" in p.parts and p.parent.name not in made and p != ROOT / "docs" / "index.md"]
    assert not [named(page) for page in pages if page not in two]
    assert set((ROOT / "docs" / "rooms").glob("*.md")) <= one


@pytest.mark.parametrize("name", [*available("scenario"), *available("game")])
def test_every_native_env_has_a_picture_on_its_page(name: str) -> None:
    picture = ROOT / "docs" / "pictures" / f"{name}.png"
    assert picture.exists(), f"{name} has no picture; run: python docs/contact_sheet.py {name}"
    assert picture.stat().st_size < 15_000
    assert f"(../pictures/{name}.png)" in (ROOT / "docs" / "envs" / f"{name}.md").read_text()


@pytest.mark.parametrize("name", available("scenario"))
def test_every_scenario_has_a_film_on_its_page_and_in_the_gallery(name: str) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install -e '.[video]'")
    path = ROOT / "docs" / "pictures" / "films" / f"{name}.webp"
    assert path.exists(), f"{name} has no film; run: python docs/films.py {name}"
    assert path.stat().st_size < 80_000
    film = image.open(path)
    assert film.n_frames >= 2
    first = film.convert("RGB").tobytes()
    film.seek(film.n_frames - 1)
    assert film.convert("RGB").tobytes() != first
    for page in (name, "gallery"):
        assert f"(../pictures/films/{name}.webp)" in (ROOT / "docs" / "envs" / f"{page}.md").read_text()


def test_a_film_shows_what_is_drawn_now(monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install -e '.[video]'")
    monkeypatch.syspath_prepend(ROOT / "docs")
    import films

    drawn, kept = films.film_of("wheel"), image.open(ROOT / "docs" / "pictures" / "films" / "wheel.webp")
    assert kept.n_frames <= len(drawn)  # equal frames that follow each other are one
    for at, frame in ((0, drawn[0]), (kept.n_frames - 1, drawn[-1])):
        kept.seek(at)
        pixels = [torch.tensor(bytearray(x.convert("RGB").tobytes())).float() for x in (kept, frame)]
        assert (pixels[0] - pixels[1]).abs().mean() < 2, "run: python docs/films.py wheel"


@pytest.mark.parametrize("name", ["go", "balance", "simple_tag", "leduc_poker"])
def test_pictures_show_what_is_drawn_now(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install -e '.[video]'")
    monkeypatch.syspath_prepend(ROOT / "docs")
    import contact_sheet

    kept = image.open(ROOT / "docs" / "pictures" / f"{name}.png").convert("RGB")
    drawn = contact_sheet.of_env(name).convert("RGB")
    assert kept.size == drawn.size
    away = torch.tensor(bytearray(kept.tobytes())).float() - torch.tensor(bytearray(drawn.tobytes())).float()
    assert away.abs().mean() < 1, f"run: python docs/contact_sheet.py {name}"  # of 255; letters may differ a little


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simple_tag", "simple_push", "wheel", "navigation", "simple_world_comm", "transport"])
def test_slices_of_observations_hold_for_other_data(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables are found by comparing with the world; another seed and later steps give the same, without a gap."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    import slices

    found = slices.slices(name)
    assert found == slices.slices(name, seed=7, steps=9)
    spec = make(name, 2).full_observation_spec
    assert found
    for group, parts in found.items():
        ends = [0, *(part.end for part in parts)]
        assert [part.begin for part in parts] == ends[:-1]
        assert ends[-1] == spec[(*group, "observation")].shape[-1]
        assert (parts[0].unit, parts[1].unit) in {("m", "m/s"), ("m/s", "m"), ("m/s", "")}, parts[:2]


@pytest.mark.slow
def test_slices_are_named_by_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    import slices
    from marlenv.scenarios import balance

    name = "the agent, seen from package"
    assert slices.slices("asym_joint") == {("agents",): [(0, 2, "own position", "m"), (2, 4, "own velocity", "m/s")]}
    assert slices.slices("pollock")["agents",] == [(0, 1, "always 0", "")]
    secret, key = ((at, at + 4, f"the {what}", "0 or 1") for at, what in ((0, "secret"), (4, "key")))
    assert slices.slices("simple_crypto") == {
        ("eve",): [(0, 4, "what alice says", "")],
        ("bob",): [(0, 4, "the key", "0 or 1"), (4, 8, "what alice says", "")],
        ("alice",): [secret, key],
    }
    assert slices.slices("simple_speaker_listener")["speaker",] == [(0, 3, "the colour of the goal", "0 to 1")]
    assert name in [part.what for part in slices.slices("balance")["agents",]]
    monkeypatch.setattr(balance, "offset", lambda a, b: -offset(a, b))  # the other way round
    assert name not in [part.what for part in slices.slices("balance")["agents",]]
    monkeypatch.setattr(balance, "offset", lambda a, b: offset(a, b) * 3)
    with pytest.raises(LookupError, match=r"balance: \[Slice\(.*say what it is in docs/quantities.py"):
        slices.table("balance")


def test_the_landing_page_shows_and_installs() -> None:
    page = (ROOT / "docs" / "index.md").read_text()
    assert 'pip install "marlenv-torch[' in page
    pictures = re.findall(r"!\[.+?\]\((pictures/.+?)\)", page)
    assert pictures
    assert all((ROOT / "docs" / picture).exists() for picture in pictures)


def test_the_list_of_benchmarks_says_what_each_page_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    import hooks

    index = (ROOT / "docs" / "benchmarks" / "index.md").read_text()
    rows = [row.split(" | ")[1] for row in hooks.benchmarks(index).splitlines()]
    assert len(rows) >= 3
    assert not [row for row in rows if "see there" in row or not 10 < len(row) < 120]
    named = set(re.findall(r"marlenv bench (\w+)", index + hooks.benchmarks(index)))
    assert named <= SUITES.keys(), f"no suite of benchmarks is called {named - SUITES.keys()}"
    assert "train" in named


KINDS = {"added", "changed", "fixed", "removed", "behaviour"}


def test_change_fragments_are_named_by_issue_and_kind() -> None:
    for path in (ROOT / "docs" / "changes").iterdir():
        parts = path.name.split(".")
        assert len(parts) == 3, f"{path.name}: expected <issue>.<kind>.md"
        assert parts[1] in KINDS, f"{path.name}: kinds are {sorted(KINDS)}"
        assert path.read_text().startswith("- "), f"{path.name}: a list of sentences"


def test_contributing_keeps_its_lists_short() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for title in ("A scenario", "A transform", "A wrapper", "A game"):
        section = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.M | re.S)
        assert section, f"no section {title!r}"
        steps = re.findall(r"^(\d+)\. ", section[1], re.M)
        assert steps == [str(i + 1) for i in range(len(steps))]
        assert 0 < len(steps) <= 8, f"{title}: {len(steps)} steps"


def test_decisions_have_their_five_headings() -> None:
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        found = re.findall(r"^## (.*)$", path.read_text(), re.M)
        assert found == ["Status", "Goal", "Now", "New", "Cost"], path.name


def test_links_are_whole_addresses() -> None:
    """No sign of the sentence around it belongs to an address, and no bracket of its own is left out."""
    for page in (ROOT / "docs").rglob("*.md"):
        links = re.findall(r"<(https?://[^>]*)>", page.read_text())
        assert not [link for link in links if link[-1] in ".,;:" or link.count("(") != link.count(")")], page
