"""A player that looks ahead by playing games out: Monte Carlo tree search, for all its positions at once.

Source: Kocsis and Szepesvari 2006, https://doi.org/10.1007/11871842_29
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import SpecError, Unsupported, whole
from marlenv.games.rules import Rules, hashed, picked, where
from marlenv.rng import RowRNG
from marlenv.tournament.turns import Turn

OUT = 1 << 19  # steps of the play-out are numbered from here


class MCTSPlayer:
    """Plays the move that most of its games of thought began with (UCT), where all see everything and move in turn; of
    several such moves the one that earned most in them, of those that earned the same any.

    Each simulation goes down the tree of its position by upper confidence bounds, adds a position, and plays on at
    random to the end; all rows do so at once. Each simulation throws dice of its own: it does not know those to come.

    Args:
        simulations: how many games it plays in thought for each move.
        explore: how much it tries what it knows little of, in units of a win.

    >>> from marlenv.games import TicTacToe
    >>> from marlenv.tournament import Arena, Game, random_player
    >>> players = {"mcts": MCTSPlayer(60), "random": random_player}
    >>> played = Arena(TicTacToe(), players).play([Game(k, ("mcts", "random")) for k in range(20)])
    >>> bool(played.returns[:, 0].mean() > 0.7)
    True
    """

    def __init__(self, simulations: int = 100, explore: float = 1.4) -> None:
        whole("MCTSPlayer", "simulations", simulations, 1)
        number = isinstance(explore, Real) and not isinstance(explore, bool)
        if not number or not math.isfinite(explore) or explore < 0:
            raise SpecError(f"MCTSPlayer: explore must be a number from 0 on, got {explore!r}")
        self.simulations, self.explore = simulations, explore

    def check(self, rules: Rules[Any] | None) -> None:
        """Raises Unsupported where it cannot think ahead: envs cannot be put into positions that it thinks of."""
        if rules is None or rules.hidden or rules.simultaneous:
            raise Unsupported(
                "MCTSPlayer: it can only think about games of rules in which all see everything and move in turn; "
                f"got {'an env' if rules is None else type(rules).__name__}"
            )

    def __call__(self, turn: Turn) -> Tensor:
        self.check(turn.rules)
        rules: Any = turn.rules
        root = turn.state
        kind: type[_Tree] = _Tree
        if "rng" in root._fields:  # dice of its own
            root = root._replace(rng=RowRNG.of(turn.rng.bits(), torch.zeros_like(turn.seat)).state)
            kind = _ChanceTree
        tree = kind(rules, root, self.simulations, self.explore, turn.rng.bits())
        for number in range(1, self.simulations + 1):
            tree.simulate(number)
        visits = tree.visits[:, 0].masked_fill(~turn.legal, -1)
        value = tree.value[:, 0].masked_fill(visits < visits.amax(-1, keepdim=True), -torch.inf)
        return picked(value == value.amax(-1, keepdim=True), turn.rng.uniform())


class _Tree:
    """The positions thought of in each row: ``N`` nodes ``[R, N]``, the root is 0.

    Chance follows from a key per row, the simulation and the step in it, since other rows may take more steps.
    """

    def __init__(self, rules: Rules[Any], root: Any, simulations: int, explore: float, key: Tensor) -> None:
        rows, nodes, n = len(root[0]), simulations + 1, rules.n_actions
        self.rules, self.explore, self.rows, self.key = rules, explore, torch.arange(rows), key
        self.visits = torch.zeros(rows, nodes, n)
        self.value = torch.zeros(rows, nodes, n)  # what who moves at the node earned by each action, in sum
        self._begin(root, nodes)

    def _begin(self, root: Any, nodes: int) -> None:
        self.child = torch.full((len(self.rows), nodes, self.rules.n_actions), -1)
        self.states = type(root)(*(leaf.new_zeros((len(leaf), nodes, *leaf.shape[1:])) for leaf in root))
        for held, leaf in zip(self.states, root, strict=True):
            held[:, 0] = leaf

    def _root(self, number: int) -> Any:
        """The position that a simulation begins in."""
        return self._at(torch.zeros_like(self.rows))

    def _at(self, node: Tensor) -> Any:
        return type(self.states)(*(leaf[self.rows, node] for leaf in self.states))

    def _follow(
        self, number: int, node: Tensor, state: Any, action: Tensor, going: Tensor
    ) -> tuple[Tensor, Any, Tensor]:
        """The nodes after the actions and their positions, and where the node is new: it is ``number``."""
        below = self.child[self.rows, node, action]
        new = going & (below < 0)
        if bool(new.any()):
            played = self.rules.play(state, action)
            rows = new.nonzero().squeeze(-1)
            for held, leaf in zip(self.states, played, strict=True):
                held[rows, number] = leaf[rows]
            self.child[rows, node[rows], action[rows]] = number
        node = torch.where(new, number, torch.where(going, below, node))
        return node, self._at(node), new

    def _unit(self, number: int, step: int) -> Tensor:
        """A number in [0, 1) for a step of a simulation; ``[R]``."""
        return RowRNG.of(self.key, torch.full_like(self.key, (number << 20) + step)).uniform()

    def simulate(self, number: int) -> None:
        """One game of thought in each row."""
        rules, node, state = self.rules, torch.zeros_like(self.rows), self._root(number)
        going = torch.ones_like(self.rows, dtype=torch.bool)
        path: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        while bool(going.any()):
            going = going & ~rules.over(state)
            action = self._best(node, rules.legal(state), self._unit(number, len(path)))
            path.append((node, action, rules.player(state), going))
            node, state, new = self._follow(number, node, state, action, going)
            going = going & ~new
        earned = self._play_out(state, number)
        for node, action, mover, went in path:
            self.visits[self.rows, node, action] += went
            self.value[self.rows, node, action] += earned.gather(1, mover.unsqueeze(1)).squeeze(1) * went

    def _best(self, node: Tensor, legal: Tensor, unit: Tensor) -> Tensor:
        """An action that was not tried; where all were, one with the highest bound."""
        visits, value = self.visits[self.rows, node], self.value[self.rows, node]
        bound = value / visits + self.explore * (visits.sum(-1, keepdim=True).log() / visits).sqrt()
        untried = legal & (visits == 0)
        bound = bound.masked_fill(~legal | (visits == 0), -torch.inf)
        best = legal & (bound == bound.amax(-1, keepdim=True))
        return picked(torch.where(untried.any(-1, keepdim=True), untried, best), unit)

    def _play_out(self, state: Any, number: int) -> Tensor:
        """What each seat earns if all play at random to the end; ``[R, P]``."""
        for step in range(self.rules.longest or 1000):
            if bool(self.rules.over(state).all()):
                break
            state = self.rules.play(state, self.rules.pick(state, self._unit(number, OUT + step)))
        return self.rules.returns(state).float()


class _ChanceTree(_Tree):
    """The tree of a game with dice: each simulation throws its own, and a node is what an action led to by them."""

    def _begin(self, root: Any, nodes: int) -> None:
        self.start = root
        self.led = torch.zeros(len(self.rows), nodes, dtype=torch.int64)  # what led to each node: the node before, ...

    def _root(self, number: int) -> Any:
        key = self.start.rng[:, 0]
        return self.start._replace(rng=RowRNG.of(key, torch.full_like(key, number << 32)).state)

    def _follow(
        self, number: int, node: Tensor, state: Any, action: Tensor, going: Tensor
    ) -> tuple[Tensor, Any, Tensor]:
        played = where(going, self.rules.play(state, action), state)
        led = hashed(torch.stack((node, action, self.rules.position_key(played)), -1))
        found = self.led == led.unsqueeze(1)
        new = going & ~found.any(1)
        self.led[:, number] = torch.where(new, led, self.led[:, number])
        below = found.int().argmax(1)
        return torch.where(new, number, torch.where(going, below, node)), played, new
