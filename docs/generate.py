"""Writes the pages that are made from code: envs, reference and tutorials.

``python docs/generate.py`` writes them; with ``--check`` it writes nothing and exits with 1 when a page differs. Text
comes from docstrings (``docs/docstrings.py``); of native envs, shapes come from specs and examples from runs. Nothing
here knows a single env, and no simulator is imported: the pages of wrappers are the same whether theirs is installed or
not. What changed in an env's results is in ``docs/versions.toml``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

import docstrings
import game_slices
import slices
import torch
from reference_pages import (
    NOTE,
    ROOMS,
    WIDE,
    paths_page,
    reference_index,
    reference_page,
    value_text,
)

import marlenv
from marlenv.envs.registry import Registration
from marlenv.optional import EXTRAS
from marlenv.registration import available, find
from marlenv.specs.show import domain

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
KINDS = {"scenario": "Scenario", "game": "Game", "wrapper": "Wrapper"}
SHARED = {  # where the options that all envs of a kind take are described
    "scenario": "Every scenario also takes the options of [`ScenarioEnv`](../reference/physics.md#scenarioenv).",
    "game": "Every game also takes the options of [`TurnBasedEnv`](../reference/games.md#turnbasedenv).",
    "wrapper": "",
}
MEANING = {
    "observation": "what the agents see",
    "action": "what they do",
    "action_mask": "legal actions; all True for those who do not act",
    "mask": "whose action is read at the next step",
    "alive": "exists and is not done",
    "reward": "what the step was worth to each agent",
    "turn": "the seat to move",
    "outcome": "why the game ended: an index into `env.outcomes`, 0 while it goes on",
    "done": "`done` is `terminated` (the task ended) or `truncated` (cut off)",
}
USES = {
    "isaac_lab": """import gymnasium
import isaaclab_tasks  # after Isaac Lab's AppLauncher has started its app
import marlenv
from isaaclab_tasks.utils import parse_env_cfg

task = "Isaac-Ant-v0"
env = marlenv.IsaacLabWrapper(gymnasium.make(task, cfg=parse_env_cfg(task, num_envs=2)))
data = env.rollout(100)""",
}
"""Examples of wrappers that take what was made already."""
CHOICES = (
    "With `continuous_actions=False` actions are choices, for each number 0 (nothing), 1 (its lowest value) or 2 (its "
    "highest): one in all, which counts them through, the last one fastest (of two numbers, choice 2 is 0 and 2); or "
    "with `multidiscrete_actions=True` one each."
)
FLAGS = ("done", "terminated", "truncated")
MANY = 2  # rows of the envs that are looked at


# --- envs ----------------------------------------------------------------------------------------


def subject(env: Any) -> Any:
    """What a native env is about: the class of its scenario or rules."""
    return type(env.rules if hasattr(env, "rules") else env.scenario)


def about(thing: Any) -> docstrings.Doc:
    """The docstring of a class; of a wrapper, with what its bases add."""
    doc = docstrings.parse(thing)
    home = f"{'.'.join(thing.__module__.split('.')[:3])}." if inspect.isclass(thing) else ""
    for base in thing.__mro__[1:] if inspect.isclass(thing) else ():
        if base.__module__.startswith("marlenv.wrappers") and base.__doc__:
            more = docstrings.parse(base)
            if base.__module__ == thing.__module__ or base.__module__.startswith(home):
                doc.body = f"{doc.body}\n\n{more.body}"
            doc.args += [arg for arg in more.args if arg[0] not in {*dict(doc.args), "env"}]
    doc.args = [arg for arg in doc.args if not arg[0].startswith("*")]
    return doc


@contextlib.contextmanager
def looked_at(name: str) -> Iterator[Any]:
    """An env to read a page from; what goes wrong says for which."""
    try:
        env = marlenv.make(name, MANY, seed=0)
        yield env
    except Exception as error:
        error.add_note(f"while making the page of {name!r}")
        raise
    env.close()


def native_page(name: str) -> str:
    """The page of a scenario or a game, which is run."""
    entry = find(name)
    with looked_at(name) as env:
        thing = subject(env)
        doc = about(thing)
        sections = {
            "Use": use(entry),
            "Description": f"{doc.summary}\n\n{doc.prose}",
            "Data": data_table(env, ("observation", "state", "reward", "done"), meanings(env, thing, doc)),
            "Slices": (slices if entry.kind == "scenario" else game_slices).table(name),
            "Action": action_text(entry, env, doc),
            "Reward": sentence(doc.bullets.get("reward")) or reward_text(thing),
            "Ends": ends_text(entry, env, doc),
            "Options": options_text(entry, thing, doc, env),
            "Learning curve": learning_curve(name),
            "Source": source(thing, doc),
            "Differs from VMAS": vmas_text(doc),
            "Versions": versions(name),
        }
    return page(entry, sections)


def learning_curve(name: str) -> str:
    """The curve of the script that learns it, where there is one."""
    curve = f"pictures/training/ppo_{name}.svg"
    if not (ROOT / "docs" / curve).exists():
        return ""
    script = f"tutorials/training/ppo_scenarios.py --scenario {name}"
    more = "[scripts that learn](../train.md#scripts-that-learn)"
    return f"![a learning curve of {name}](../{curve})\n\nBy `{script}`: {more}."


def wrapper_page(name: str) -> str:
    """The page of a wrapper, whose simulator is not touched."""
    entry = find(name)
    thing = entry.load()
    doc = about(thing)
    sections = {
        "Use": wrapper_use(entry, thing),
        "Description": doc.summary,
        "Data": doc.body,
        "Options": options_text(entry, thing, doc),
        "Source": source(thing, doc),
        "Versions": versions(name),
    }
    return page(entry, sections)


def page(entry: Registration, sections: dict[str, str]) -> str:
    """A page of sections."""
    head = f"# {entry.name}\n\n{NOTE}\n\n{KINDS[entry.kind]}. {sentence(entry.summary)}"
    if entry.kind != "wrapper":
        words = "some steps into an episode" if entry.kind == "scenario" else "after some moves"
        head += f"\n\n![{entry.name} {words}](../pictures/{entry.name}.png){{ width=300 }}"
    if entry.kind == "scenario":
        head += f"\n![{entry.name}, a film](../pictures/films/{entry.name}.webp){{ width=300 loading=lazy }}"
    return "\n\n".join([head, *(f"## {title}\n\n{text.strip()}" for title, text in sections.items() if text)]) + "\n"


def wrapper_use(entry: Registration, thing: Any) -> str:
    """How it is installed, and a task that stands for the family: the first that the summary names."""
    extra = EXTRAS.get(entry.needs or "", entry.needs)
    known = extra in extras()
    how = f'pip install "marlenv-torch[{extra}]"   # in a checkout: pip install -e ".[{extra}]"' if known else ""
    install = f"```bash\n{how}\n```" if known else "How to install it: [other simulators](../rooms/wrappers.md)."
    named = re.search(rf"{entry.name}/[^\s,]+", entry.summary)
    task = named[0] if named else entry.name
    listed = ""
    if entry.name not in USES and any("available_envs" in vars(base) for base in thing.__mro__):
        home = "marlenv" if thing.__name__ in marlenv._HOMES else thing.__module__  # type: ignore[attr-defined]
        listed = f"\n\n`{home}.{thing.__name__}.available_envs` lists the tasks."
    seed = ", seed=0" if getattr(thing, "can_be_seeded", True) else ""
    code = (
        USES.get(entry.name)
        or f'import marlenv\n\nenv = marlenv.make("{task}", num_envs={MANY}{seed})\ndata = env.rollout(100)'
    )
    return f"{install}\n\n```py\n{code}\n```{listed}"


def extras() -> set[str]:
    """The extras of the distribution."""
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def groups_of(name: str) -> str:
    """What an example prints of the groups: how many agents they have, or the names in one of several trees."""
    first, inner = next(iter(marlenv.make(name, 1).group_map.items()))
    if isinstance(inner, list):
        return "{group: len(agents) for group, agents in env.group_map.items()}"
    return f'env.group_map["{first}"]'


def use(entry: Registration) -> str:
    """An example that runs, what it prints, and three commands."""
    name = entry.name
    code = f"""import marlenv

env = marlenv.make("{name}", num_envs={MANY}, seed=0)
print({groups_of(name)})
print(env.rollout(3).batch_size)
"""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code.replace("seed=0)", 'seed=0, compile="none")') if entry.kind == "scenario" else code, {})
    last = f"play {name} --seat 1" if entry.kind == "game" else f"rollout {name} --steps 100 --video {name}.gif"
    commands = f"marlenv show {name}\nmarlenv rollout {name} --envs {MANY} --steps 100\nmarlenv {last}"
    return f"```py\n{code}```\n\n```text\n{out.getvalue()}```\n\n```bash\n{commands}\n```"


def meanings(env: Any, thing: Any, doc: docstrings.Doc) -> dict[str, str]:
    """Name of an entry -> what the docstring says about it; for games, what the rules say about positions."""
    found = {name: after_shape(text) for name, text in doc.bullets.items() if name == "observation"}
    if hasattr(env, "rules"):
        found.setdefault("observation", docstrings.parse(thing.observe).summary)
        table = docstrings.parse(type(env)).body if type(env).__name__ != "GameEnv" else ""
        found |= dict(re.findall(r'^\| `\(group, "(\w+)"\)` \|[^|]*\| (.*) \|$', table, re.M))
        state = type(thing().start(torch.Size([1]), rng=marlenv.RowRNG(0, [1])))
        noted = re.findall(r'^    (\w+): Tensor(?:  # (.*)|\n    """([^"]*)""")', inspect.getsource(state), re.M)
        for name, *texts in noted:
            text = docstrings.inline(docstrings.one_line("".join(texts)))
            found[name] = re.sub(r"^`?\[.*?\]`? (?:\w+)?: ", "", text)
    return found


def data_table(env: Any, kinds: tuple[str, ...], meaning: dict[str, str]) -> str:
    """The entries of some families as a table; groups that are alike are listed once, as are flags of all levels."""
    paths = list(env.tree.groups) if hasattr(env, "tree") else []
    alike = len(paths) > 1 and len({tuple(sorted(map(str, below(env, path, kinds)))) for path in paths}) == 1
    rows: dict[str, str] = {}
    for kind in kinds:
        for key, leaf in getattr(env, f"full_{kind}_spec").items(True, True):
            where = (key,) if isinstance(key, str) else key
            path = next((p for p in paths if where[: len(p)] == p), ())
            if where[-1] in FLAGS:
                continue
            label = key_text(("group", *where[len(path) :]), quoted=False) if path and alike else key_text(where)
            several = len(paths) > 1 and not alike and where[-1] == "observation"
            text = MEANING.get(where[-1], "") if several else meaning.get(where[-1]) or MEANING.get(where[-1], "")
            rows.setdefault(f"`{label}`", f"{shape_text(leaf)} | {text.rstrip('.')}")
    if "done" in kinds:
        rows[", ".join(f"`{flag}`" for flag in FLAGS)] = f"bool `[B, 1]`, in groups `[B, A, 1]` | {MEANING['done']}"
    lines = ["| entry | shape and dtype | meaning |", "|---|---|---|", *(f"| {a} | {b} |" for a, b in rows.items())]
    if alike:
        lines += ["", "`group` is " + ", ".join(f"`{key_text(path)}`" for path in paths) + "."]
    elif len(paths) > 1 and "observation" in meaning and "observation" in kinds:
        lines += ["", f"What they see: {meaning['observation'].rstrip('.')}."]
    return "\n".join(lines)


def below(env: Any, path: tuple[str, ...], kinds: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """What stands below a group."""
    for kind in kinds:
        for key, leaf in getattr(env, f"full_{kind}_spec").items(True, True):
            if isinstance(key, tuple) and key[: len(path)] == path:
                yield key[len(path) :], leaf.shape, leaf.dtype


def key_text(key: tuple[str, ...], *, quoted: bool = True) -> str:
    """A key as it is written in code; unquoted, its first word stands for any group."""
    if len(key) == 1:
        return key[0]
    words = [f'"{word}"' for word in key]
    return f"({', '.join(words if quoted else [key[0], *words[1:]])})"


def shape_text(leaf: Any) -> str:
    """``float32 `[B, 3, 2]`, -1..1``."""
    inner = ", ".join(str(n) for n in leaf.shape[1:])
    kind, _, detail = domain(leaf).partition(" ")
    detail = ranges(leaf) if kind == "Bounded" else detail
    shown = f", {detail}" if detail and leaf.dtype != torch.bool and kind != "Unbounded" else ""
    return f"{str(leaf.dtype).removeprefix('torch.')} `[B{', ' + inner if inner else ''}]`{shown}"


def ranges(leaf: Any) -> str:
    """What numbers are between; where it differs, by slices: ``0:2 -1..1, 2:6 0..1``."""
    bounds = [x.reshape(-1, x.shape[-1]) for x in (leaf.space.low, leaf.space.high)]
    if any((x != x[0]).any() for x in bounds):
        return str(domain(leaf).partition(" ")[2])  # unlike from agent to agent
    found = list(zip(*(x[0].tolist() for x in bounds), strict=True))
    begins = [i for i, ends in enumerate(found) if i == 0 or ends != found[i - 1]]
    texts = ["..".join(f"{x:.3g}" for x in found[i]) for i in begins]
    if len(begins) == 1:
        return texts[0]
    slices = zip(begins, [*begins[1:], len(found)], texts, strict=True)
    return ", ".join(f"`{first}:{end}` {text}" for first, end, text in slices)


def words_text(env: Any) -> str:
    """Which numbers of actions are said, where agents speak."""
    controls = env.simulation.controls.items()
    said = {name: f"{c.size}:{c.size + c.channels}" for name, c in controls if c.channels}
    if not said:
        return ""
    where = " and ".join(f"`{part}` of {', '.join(f'`{n}`' for n in said if said[n] == part)}"
                         for part in sorted(set(said.values())))  # fmt: skip
    return f" What an agent says, a number for each channel, is {where}; as a choice, the channel that is 1."


def after_shape(bullet: str) -> str:
    """What a bullet says after its first colon."""
    return bullet.partition(": ")[2] or bullet


def sentence(text: str | None) -> str:
    """A bullet or summary as a sentence."""
    if not text:
        return ""
    text = re.sub(r"^(?:reward|ends|action)(?:, |: | )", "", text)
    return text[0].upper() + text[1:].rstrip(".") + "."


def action_text(entry: Registration, env: Any, doc: docstrings.Doc) -> str:
    """What agents do."""
    text = sentence(doc.bullets.get("action"))
    if entry.kind == "scenario":
        text += f"{words_text(env)} {CHOICES}"
    if entry.kind == "game":
        text += f" One of {env.rules.n_actions} actions."
        text += ' An illegal one is an error, or loses the game with `illegal="lose"`.'
    return "\n\n".join(filter(None, [data_table(env, ("action",), {}), text.strip()]))


def reward_text(thing: Any) -> str:
    """What a step of a game is worth."""
    zero = " The rewards of all players add up to zero." if thing.zero_sum else ""
    return f"What the last move earned each player, whoever moved.{zero}"


def ends_text(entry: Registration, env: Any, doc: docstrings.Doc) -> str:
    """When an episode ends, and how."""
    parts = [sentence(doc.bullets.get("ends"))]
    if entry.kind == "game":
        words = ", ".join(f"{i} {word}" for i, word in enumerate(env.outcomes) if i)
        parts += ["" if parts[0] else "When the game is over.", f"`outcome` says why: {words}."]
    return " ".join(filter(None, [*parts, "A limit of `max_steps` truncates."]))


def options_text(entry: Registration, thing: Any, doc: docstrings.Doc, env: Any = None) -> str:
    """A table of options: those of the rules, the scenario or the wrapper, and of an env that is special."""
    default = defaults(thing)
    rows = [(n, default.get(n, ""), t) for n, t in doc.args if entry.kind == "wrapper" or n in default]
    if env is not None and type(env).__name__ not in ("ScenarioEnv", "GameEnv"):
        default = defaults(type(env))
        rows += [(n, default[n], t) for n, t in about(type(env)).args if n in default and n not in dict(doc.args)]
    if not rows:
        return SHARED[entry.kind] or "None."
    lines = ["| option | default | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {f'`{value}`' if value else ''} | {text} |" for name, value, text in rows]
    return "\n".join([*lines, "", SHARED[entry.kind]]).rstrip()


def defaults(thing: Any) -> dict[str, str]:
    """Option -> its default."""
    if dataclasses.is_dataclass(thing):
        return {field.name: repr(field.default) for field in dataclasses.fields(thing)}
    found: dict[str, str] = {}
    for cls in reversed(thing.__mro__):
        for name, p in inspect.signature(cls.__init__).parameters.items() if "__init__" in vars(cls) else ():
            if p.default is not p.empty:
                found[name] = value_text(p.default)
    return found


def source(thing: Any, doc: docstrings.Doc) -> str:
    """Where the task comes from, as its module says."""
    if doc.source:
        return doc.source
    module = docstrings.parse(inspect.getdoc(sys.modules[thing.__module__]) or "")
    said = module.source or re.search(docstrings.ADDRESS, f"{module.summary} {module.body}")
    return said if isinstance(said, str) else f"<{said[0]}>" if said else "Our own."


def vmas_text(doc: docstrings.Doc) -> str:
    """What the task itself does otherwise than VMAS's; what holds for all of them is told once."""
    said = doc.bullets.get("VMAS", "").partition(": ")[2]
    shared = "[All scenarios](../migrate.md#from-vmas) differ in some more ways."
    return f"In VMAS {said}\n\n{shared}" if said else ""


def versions(name: str) -> str:
    """What changed in an env's results for the same seed."""
    table = tomllib.loads((DOCS / "versions.toml").read_text()).get(name, {})
    lines = [f"- {number}: {what}" for number, what in table.items()]
    return "\n".join(lines) if lines else "- 1: the first."


def env_index() -> str:
    """The table of all envs."""
    parts = [
        f"# Environments\n\n{NOTE}\n\nEverything that has a name in `marlenv.make` and on the command line; [the "
        f"scenarios at a glance](gallery.md)."
    ]
    for kind, title in KINDS.items():
        lines = ["| name | what |", "|---|---|"]
        for name in available(kind):  # type: ignore[arg-type]
            lines.append(f"| [{name}]({name}.md) | {sentence(find(name).summary)} |")
        parts.append(f"## {title}s\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def gallery() -> str:
    """All scenarios at a glance, in films."""
    parts = [
        f"# Gallery of scenarios\n\n{NOTE}\n\n`env.render(row)` draws any row of a scenario, uint8 `[H, W, 3]`, "
        'without a screen: `pip install "marlenv-torch[video]"`.'
    ]
    lines = ["| | scenario | agents | what it is |", "|---|---|---|---|"]
    for name in available("scenario"):
        with looked_at(name) as env:
            counts = env.tree.groups.items()
            groups = ", ".join(f"{len(agents)} {' '.join(path)}" for path, agents in counts)
        film = f"![{name}, a film](../pictures/films/{name}.webp){{ width=200 loading=lazy }}"
        lines.append(f"| {film} | [{name}]({name}.md) | {groups} | {sentence(find(name).summary)} |")
    return "\n\n".join([*parts, "\n".join(lines)]) + "\n"


# --- tutorials -----------------------------------------------------------------------------------


def scripts() -> list[Path]:
    """The tutorials, in order."""
    return sorted((ROOT / "tutorials").glob("[0-9][0-9]_*.py"))


def tutorial_page(path: Path) -> str:
    """A script in percent format as a page."""
    parts = []
    for cell in re.split(r"^# %%", path.read_text(), flags=re.M)[1:]:
        kind, _, text = cell.partition("\n")
        text = text.strip("\n")
        if "[markdown]" in kind:
            text = text.strip('"') if text.startswith('"""') else re.sub(r"^# ?", "", text, flags=re.M)
            parts.append(text.strip())
        elif text:
            parts.append(f"```py\n{text}\n```")
    title, _, first = parts[0].partition("\n")
    note = f"This page is the script `tutorials/{path.name}`, which CI runs."
    return WIDE + "\n\n".join([title, NOTE, note, first.strip(), *parts[1:]]) + "\n"


def tutorial_index() -> str:
    """The list of tutorials."""
    lines = ["| | what it does |", "|---|---|"]
    for path in scripts():
        title, _, rest = tutorial_page(path).removeprefix(WIDE).partition("\n")
        first = docstrings.one_line(rest.split("\n\n")[2])
        lines.append(f"| [{title.removeprefix('# ')}]({path.stem}.md) | {first} |")
    head = "Steps of one story: three agents cover three landmarks. "
    head += "Each is a script of under 120 lines that runs in under a minute."
    return f"{WIDE}# Tutorials\n\n{NOTE}\n\n{head} `make tutorials` runs them all.\n\n" + "\n".join(lines) + "\n"


# --- writing -------------------------------------------------------------------------------------


def pages() -> dict[Path, str]:
    """Every generated page."""
    made = {
        "envs/index.md": env_index(),
        "envs/gallery.md": gallery(),
        "reference/index.md": reference_index(),
        "tutorials/index.md": tutorial_index(),
    }
    for name in available():
        kind = find(name).kind
        if kind in KINDS:
            made[f"envs/{name}.md"] = wrapper_page(name) if kind == "wrapper" else native_page(name)
    made |= {f"reference/{room}.md": reference_page(room) for room in ROOMS}
    made["reference/torchrl.md"] = paths_page()
    made |= {f"tutorials/{path.stem}.md": tutorial_page(path) for path in scripts()}
    return {DOCS / name: text for name, text in made.items()}


def differing(made: dict[Path, str]) -> list[Path]:
    """The pages that are not what they should be, those that nobody makes any more included."""
    kept = {page for folder in ("envs", "reference", "tutorials") for page in (DOCS / folder).glob("*.md")}
    return sorted(p for p in kept | made.keys() if p not in made or not p.exists() or p.read_text() != made[p])


def main(words: list[str]) -> int:
    """Writes the pages, or compares them with ``--check``."""
    torch.set_num_threads(1)
    made = pages()
    odd = differing(made)
    names = [str(page.relative_to(ROOT)) for page in odd]
    if "--check" in words:
        print(
            "\n".join(f"{name} is not what the code says" for name in names)
            or f"{len(made)} pages are as the code says"
        )
        if odd:
            print("run: python docs/generate.py")
        return 1 if odd else 0
    for page in odd:
        if page in made:
            page.parent.mkdir(exist_ok=True)
            page.write_text(made[page])
        else:
            page.unlink()
    print("\n".join(names) or "nothing to write")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
