"""Hooks of the docs build: pages that are made or added one per file list themselves. Imports nothing of marlenv."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed", "behaviour": "Results differ"}
SECTIONS = {"Scenario": "Scenarios", "Game": "Games", "Wrapper": "Wrappers"}  # how pages of envs begin
UNRELEASED = "<!-- unreleased -->"
PAGES = "<!-- pages -->"


def on_config(config: Any) -> Any:
    """Lists the pages of a folder where ``nav`` names it by ``folder/``: ``index.md`` first, then by kind."""
    config["nav"] = [listed(item) for item in config["nav"]]
    return config


def listed(item: Any) -> Any:
    """An item of ``nav`` with the folders in it listed."""
    if isinstance(item, str):
        return item
    ((title, where),) = item.items()
    if isinstance(where, list):
        return {title: [listed(one) for one in where]}
    if not where.endswith("/"):
        return item
    plain: list[Any] = [f"{where}index.md"] if (DOCS / where / "index.md").exists() else []
    sections: dict[str, list[Any]] = {kind: [] for kind in SECTIONS}
    for page in sorted((DOCS / where).glob("*.md")):
        if page.stem != "index":
            kind = re.search(rf"^({'|'.join(SECTIONS)})\. ", page.read_text(), re.M)
            (sections[kind[1]] if kind else plain).append({heading(page): f"{where}{page.name}"})
    return {title: [*plain, *({SECTIONS[kind]: pages} for kind, pages in sections.items() if pages)]}


def heading(page: Path) -> str:
    """The first heading of a page."""
    first = next(line for line in page.read_text().splitlines() if line.startswith("# "))
    return first.removeprefix("# ").replace("`", "")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Writes what ``docs/changes`` says into the changelog, and a folder's other pages into the list of benchmarks."""
    if page.file.src_uri == "benchmarks/index.md":
        return markdown.replace(PAGES, benchmarks(markdown))
    if page.file.src_uri != "changelog.md":
        return markdown
    parts = []
    for kind, title in KINDS.items():
        texts = [path.read_text().strip() for path in sorted((DOCS / "changes").glob(f"*.{kind}.md"))]
        if texts:
            parts += [f"### {title}", *texts]
    return markdown.replace(UNRELEASED, "\n\n".join(parts) or "Nothing.")


def benchmarks(markdown: str) -> str:
    """A row for each page of benchmarks that the list does not name."""
    pages = [page for page in sorted((DOCS / "benchmarks").glob("*.md")) if f"({page.name})" not in markdown]
    others = [page for page in pages if page.stem != "index"]
    return "\n".join(f"| [{heading(p)}]({p.name}) | {opening(p)} | `{command(p)}` |" for p in others)


def command(page: Path) -> str:
    """The first `marlenv bench` that a page of benchmarks names."""
    return re.search(r"marlenv bench [a-z]+", page.read_text())[0]


def opening(page: Path) -> str:
    """The first sentence of a page, in one line."""
    text = " ".join(page.read_text().partition("\n\n")[2].partition("\n\n")[0].split())
    first = re.split(r"(?<=[^.])\.(?: |$)|: ", text)[0].rstrip(".")
    return first.replace("|", "\\|")
