"""``marlenv play NAME``: a person plays a game in the terminal, against random moves or a policy, and keeps the
game.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from marlenv.cli.files import writable
from marlenv.cli.rollout import load_policy
from marlenv.cli.text import parse_options
from marlenv.errors import BadNotation, MarlenvError, SpecError, nearest
from marlenv.files import whole_file
from marlenv.games import TurnBasedEnv
from marlenv.registration import available, make

EVERYBODY = "all"
OWN = {  # options of envs that are the command's own, or would make no game of one at this terminal
    "opponent": "--opponent",
    "single_player": "--opponent",
    "seat": "--seat",
    "seed": "--seed",
    "max_steps": "--max-steps",
    "max_plies": "--max-steps",
    "num_envs": "nothing: one game is played",
    "batch_size": "nothing: one game is played",
}
HELP = "type a move, or: hint (legal moves), undo, show, save FILE (.json, .svg, or .pgn for chess), quit"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("name", help="a game of `marlenv list --kind game`")
    parser.add_argument("--seat", default="1", help="yours: 1 for the first player, or a player's name, or all")
    parser.add_argument("--opponent", default="random", help="who plays the other seats: random, or module:callable")
    parser.add_argument("--seed", type=int, help="of chance and of random moves; another one each time when left out")
    parser.add_argument("--max-steps", type=int, help="cut the game off after so many moves")
    parser.add_argument("--save", type=Path, metavar="FILE", help="where the game goes: .json, .svg, or .pgn for chess")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="of the drawing")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the game; as often as needed"
    )


def run(options: argparse.Namespace) -> int:
    """Plays until the game is over, or the person stops."""
    seed = int.from_bytes(os.urandom(4), "big") if options.seed is None else options.seed
    settings = parse_options(options.set)
    for name in OWN.keys() & settings.keys():
        raise SpecError(f"marlenv play: --set {name}= would change who plays, and not the game; use {OWN[name]}")
    env = make(options.name, seed=seed, max_steps=options.max_steps, **settings)
    if not isinstance(env, TurnBasedEnv):
        raise SpecError(f"marlenv play: {options.name!r} is no game; {nearest(options.name, available('game'))}")
    color = colorful() if options.color == "auto" else options.color == "always"
    policy = load_policy(options.opponent, env, "--opponent")
    seats = seats_of(options.seat, env.rules.players)
    who = [("you" if i in seats else options.opponent) for i in range(len(env.rules.players))]
    match = Match(env, policy, seats, who, color, {"game": options.name, "seed": seed, "options": options.set})
    if options.save is not None:
        match.check_file(options.save)
    saved = ""
    try:
        match.play()
    finally:  # also where nobody reads what is printed any more
        if options.save is not None:
            saved = match.save(options.save)
    if saved:
        print(saved)
    env.close()
    return 0


def colorful() -> bool:
    """Whether standard output is a terminal with colours, and nobody asked for none (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def seats_of(seat: str, players: tuple[str, ...]) -> list[int]:
    """The seats that ``--seat`` names.

    >>> seats_of("2", ("white", "black")), seats_of("white", ("white", "black")), seats_of("all", ("white", "black"))
    ([1], [0], [0, 1])
    """
    if seat == EVERYBODY:
        return list(range(len(players)))
    if seat in players:
        return [players.index(seat)]
    if seat.isdecimal() and 1 <= int(seat) <= len(players):
        return [int(seat) - 1]
    raise SpecError(f"--seat must be 1 to {len(players)}, one of {list(players)}, or all, got {seat!r}")


class Stopped(Exception):
    """The person has had enough."""


@dataclass
class Match:
    """A game between people at this terminal and a policy.

    Args:
        env: of the game; one game is played.
        policy: plays the seats that no person has.
        seats: the people's.
        who: who sits where, in words.
        color: whether drawings have colours.
        facts: what is known about the game beforehand, for the file.
    """

    env: TurnBasedEnv[Any]
    policy: Callable[[TensorDictBase], TensorDictBase]
    seats: list[int]
    who: list[str]
    color: bool
    facts: dict[str, Any]
    past: list[tuple[TensorDictBase, list[int], bool]] = field(default_factory=list)
    """Per move: the data before it, the actions (one, or one per player where all act at once), whether a person
    chose."""

    def __post_init__(self) -> None:
        self.rules = self.env.rules
        self.data = self.env.reset(TensorDict(batch_size=[]))
        self.totals = torch.zeros(len(self.rules.players))

    @property
    def state(self) -> Any:
        """The position, without batch dimensions."""
        return self.env.read(self.data)

    # --- playing ---------------------------------------------------------------------------------

    def play(self) -> None:
        """Plays the game to its end, or until the person stops."""
        seats = ", ".join(f"{name}: {who}" for name, who in zip(self.rules.players, self.who, strict=True))
        print(f"{self.facts['game']}; {seats}\n{HELP}")
        try:
            while not bool(self.data["done"]):
                self.turn()
        except (Stopped, KeyboardInterrupt):  # Ctrl-C, too, keeps the game
            print("\nstopped")
            return
        print(f"\n{self.drawn(self.rules.show)}\n\n{self.result()}")

    def turn(self) -> None:
        """One move, or one of every player where all act at once."""
        state, rules = self.state, self.rules
        acting = range(len(rules.players)) if rules.simultaneous else [int(rules.player(state))]
        chosen: dict[int, int] = {}
        theirs = self.env.act(self.policy(self.data.clone()), state) if set(acting) - set(self.seats) else None
        for seat in acting:
            if seat in self.seats:
                move = self.ask(seat)
                if move is None:
                    return
                chosen[seat] = move
        for seat in acting:
            if theirs is not None and seat not in chosen:
                chosen[seat] = int(theirs[seat] if rules.simultaneous else theirs)
        person = bool(chosen.keys() & set(self.seats))
        for seat in acting:
            if not (person and seat in self.seats) or len(self.seats) > 1:
                print(f"{rules.players[seat]} plays {rules.action_name(state, chosen[seat])}")
        self.step([chosen[seat] for seat in acting], person)

    def step(self, actions: list[int], person: bool) -> None:
        """Plays legal actions."""
        action = torch.tensor(actions if self.rules.simultaneous else actions[0])
        before = self.data
        stepped = self.env.step(self.env.choose(before.clone(), self.state, action))
        after = self.env.step_mdp(stepped)
        self.past.append((before, actions, person))
        self.data = after

    def ask(self, seat: int) -> int | None:
        """The person's move; None where the position has changed instead."""
        self.draw(seat)
        while True:
            line = prompt(f"{self.rules.players[seat]}> ").strip()
            words = line.split()
            if not words:
                continue
            command, rest = words[0].lower(), words[1:]
            try:
                if command == "undo" and not rest:
                    if self.undo():
                        return None
                    print("  there is nothing to undo")
                elif command == "hint" and not rest:
                    print("  " + "  ".join(self.rules.legal_names(self.state, seat)))
                elif command == "show" and not rest:
                    self.draw(seat)
                elif command == "save" and rest:
                    file = file_of(line)
                    self.check_file(file)
                    print("  " + self.save(file))
                elif command in ("quit", "exit"):
                    raise Stopped
                elif command == "help":
                    print("  " + HELP)
                else:
                    return self.read(" ".join(words), seat)
            except (MarlenvError, OSError) as error:
                print("  " + " ".join(str(error).split()))

    def read(self, text: str, seat: int) -> int:
        """The move that is meant by ``text``, for a player."""
        action = self.rules.read_action(self.state, text)
        mine = self.rules.legal_names(self.state, seat)
        if self.rules.simultaneous and action not in mine.values():
            raise BadNotation(f"no legal move of {self.rules.players[seat]} is called {text!r}; {nearest(text, mine)}")
        return action

    def undo(self) -> bool:
        """Goes back to where a person chose last; False when there is no such place."""
        if not any(person for *_, person in self.past):
            return False
        person = False
        while not person:
            self.data, _, person = self.past.pop()
        return True

    def draw(self, seat: int) -> None:
        """Shows what the player in ``seat`` may see; everything where people play all seats."""
        print(f"\n{self.drawn(self.rules.view, seat)}\n")

    def drawn(self, drawing: Callable[..., str], *seat: int) -> str:
        """The position; without colours, and so in letters, where this terminal has no figures."""
        text = drawing(self.state, *seat, color=self.color)
        try:
            text.encode(sys.stdout.encoding or "utf-8")
        except UnicodeEncodeError:
            return drawing(self.state, *seat, color=False)
        return text

    # --- results and files -----------------------------------------------------------------------

    def returns(self) -> list[float]:
        """What everybody has earned so far."""
        return [round(float(r), 6) + 0.0 for r in self.rules.returns(self.state)]  # 0.0 where it was -0.0

    def result(self) -> str:
        """How the game ended, in words."""
        why = self.env.outcomes[self._outcome()]
        totals = self.returns()
        names = [name for name, r in zip(self.rules.players, totals, strict=True) if r > 0]
        if self.rules.zero_sum and len(totals) == 2:
            return f"{names[0]} wins: {why}" if names else f"draw: {why}"
        return f"{why}: " + ", ".join(f"{name} {r:+g}" for name, r in zip(self.rules.players, totals, strict=True))

    def _outcome(self) -> int:
        """Why the game ended, among the env's outcomes, whose last two are an illegal move and the move limit."""
        if "outcome" in self.data:
            return int(self.data["outcome"])
        cut = "truncated" in self.data and bool(self.data["truncated"])
        return int(self.rules.outcome(self.state)) or len(self.env.outcomes) - (1 if cut else 2)

    def check_file(self, file: Path) -> None:
        """Raises where the game cannot be kept in ``file``."""
        if file.suffix not in (".json", ".svg", ".pgn"):
            raise SpecError(f"--save {file}: the name must end in .json, .svg or .pgn")
        if file.suffix == ".pgn" and self.sheet([], []) is None:
            raise SpecError(
                f"--save {file}: {self.facts['game']} is not written in PGN; choose a name that ends in .json"
            )
        told = len(self.seats) == len(self.who) or bool(self.data["done"])
        if file.suffix == ".svg" and self.rules.hidden and not told:
            raise SpecError(f"--save {file}: a picture would show what you may not know; wait for the end")
        if file.exists():
            raise SpecError(f"--save {file}: the file exists; choose another name or remove it")
        if not file.absolute().parent.is_dir():
            raise SpecError(f"--save {file}: there is no folder {str(file.absolute().parent)!r}")
        writable("--save", file)

    def sheet(self, states: list[Any], actions: list[int]) -> str | None:
        """The game as its people exchange games; None where they do not."""
        header = dict(zip(self.rules.players, self.who, strict=True))
        today = datetime.datetime.now(tz=datetime.UTC).date()
        return self.rules.score_sheet(
            states, actions, {**header, "event": "marlenv play", "date": today.strftime("%Y.%m.%d")}
        )

    def save(self, file: Path) -> str:
        """Keeps the game; says where."""
        states = [self.env.read(data) for data, _, _ in self.past]
        if file.suffix == ".svg":
            text = self.rules.svg(self.state)
        elif file.suffix == ".pgn":
            text = self.sheet(states or [self.state], [actions[0] for _, actions, _ in self.past]) or ""
        else:
            text = json.dumps(self.record(states), indent=2)
        with whole_file("play", file) as draft:
            draft.write_text(text + "\n", encoding="utf-8")
        return f"saved: {file}"

    def record(self, states: list[Any]) -> dict[str, Any]:
        """The game as plain data."""
        names = [
            [self.rules.action_name(state, a) for a in actions]
            for state, (_, actions, _) in zip(states, self.past, strict=True)
        ]
        single = not self.rules.simultaneous
        return {
            **self.facts,
            "players": dict(zip(self.rules.players, self.who, strict=True)),
            "moves": [row[0] if single else row for row in names],
            "actions": [actions[0] if single else actions for _, actions, _ in self.past],
            "result": self.result() if bool(self.data["done"]) else None,
            "returns": dict(zip(self.rules.players, self.returns(), strict=True)),
        }


def file_of(line: str) -> Path:
    """The file that ``save FILE`` names, which may have spaces in its name, and quotes around it as for a shell.

    >>> [str(file_of(line)) for line in ("save my game.json", "save 'my game.json'")]
    ['my game.json', 'my game.json']
    """
    name = line.split(maxsplit=1)[1]
    quoted = len(name) > 2 and name[0] == name[-1] and name[0] in "'\""
    return Path(name[1:-1] if quoted else name)


def prompt(words: str) -> str:
    """A line from the person; what comes from a pipe is printed, so that the output reads like the game."""
    if sys.stdin is None:  # closed by the shell, <&-
        raise Stopped
    try:
        line = input(words)
    except EOFError:
        raise Stopped from None
    if not sys.stdin.isatty():
        print(line)
    return line
