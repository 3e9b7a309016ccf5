"""Games on envs: any env with groups of agents, batched or one per row, seeded for each game.

``S`` are the rows of the env, of which ``B`` hold games that go on; ``A`` the agents of a group or of a seat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import SpecError, Unsupported, nearest
from marlenv.keys import DONE_NAMES, Path, nested
from marlenv.specs import Bounded, Categorical, OneHot, Stacked, StackedComposite, TensorSpec
from marlenv.tournament.env_rows import rows_of
from marlenv.tournament.games import NONE, Game, Games
from marlenv.tournament.streams import CHANCE, streams
from marlenv.tournament.turns import Positions

Seats = Literal["groups", "agents"] | Mapping[str, Sequence[str]]
NOT_SHOWN = {*DONE_NAMES, "reward", "action"}


class Kind(NamedTuple):
    """Seats that may do the same, and whose data have the same shapes."""

    number: int
    group: Path
    action: Path
    spec: TensorSpec
    """Of one seat's action; ``[1, *lead, ...]``."""
    numbers: Tensor | None
    """Which numbers of actions each agent of a seat has; bool ``[*lead, n]``, None where actions are not counted."""
    seats: list[int]
    agents: Tensor
    """Which agents of the group each of these seats has; int64 ``[seats, A]``."""
    lead: tuple[int, ...]


class EnvPositions(Positions):
    """What an env shows to the seats of one kind that are to move."""

    def __init__(self, kind: Kind, group: TensorDictBase, row: Tensor, at: Tensor, which: Tensor) -> None:
        super().__init__(row, torch.tensor(kind.seats)[which], kind.number, kind.lead)
        self.about, self._group, self._at = kind, group, at
        self._agents = kind.agents[which] if kind.lead else kind.agents[which, 0]
        self._data: TensorDictBase | None = None
        self.spec = None if kind.numbers is not None else kind.spec

    @property
    def index(self) -> tuple[Tensor, Tensor]:
        """Where the seats' agents are in the tensors of the group."""
        return (self._at.unsqueeze(-1), self._agents) if self.lead else (self._at, self._agents)

    @property
    def data(self) -> TensorDictBase:
        """What the env shows; ``[K, *lead]``."""
        if self._data is None:
            data = taken(self._group, self._at, self._agents).exclude(*NOT_SHOWN)
            seat = self.seat.reshape(-1, *[1] * len(self.lead)).expand(-1, *self.lead).clone()
            self._data = data.set("seat", seat)
        return self._data

    def state(self, mine: Tensor | None) -> Any:
        """Envs do not give positions to players."""
        raise Unsupported("Turn.state: an env gives its players no positions; read turn.data")

    def observation(self, mine: Tensor | None) -> Tensor:
        """The entry of that name, or the one tensor in it."""
        found = self.data.get("observation", None)
        leaves = [found] if isinstance(found, Tensor) else [] if found is None else list(found.values(True, True))
        if len(leaves) != 1:
            shown = [nested(key) for key in self.data.keys(True, True)]
            raise Unsupported(f"Turn.observation: the env shows no single one, but {shown}; read turn.data")
        return leaves[0].clone() if mine is None else leaves[0][mine]

    @property
    def legal(self) -> Tensor | None:
        """The legal actions; all that its agents have where the env has no masks."""
        numbers = self.about.numbers
        if numbers is None:
            return None
        mask = masks_of(self.data, numbers.shape[-1])
        return numbers.expand(len(self.row), *numbers.shape).clone() if mask is None else mask & numbers

    @property
    def acting(self) -> Tensor:
        """Whose action is read; bool ``[K, *lead]``."""
        mask = self.data.get("mask", None)
        return torch.ones((len(self.row), *self.lead), dtype=torch.bool) if mask is None else torch.as_tensor(mask)


class EnvBoard:
    """Plays games on an env.

    Args:
        env: batched, or the first of those that ``make`` makes.
        make: makes one more; None for a single env, batched or not.
        seed: of the games.
        seats: as for :class:`~marlenv.tournament.Arena`.
    """

    max_plies: int | None = None  # the env keeps its own

    def __init__(self, env: EnvBase, make: Any, seed: int, seats: Seats | None) -> None:
        if not hasattr(env, "tree"):
            raise SpecError(f"Arena: {type(env).__name__} is no game: it has no groups of agents; give it a group_map")
        if len(env.batch_size) > 1:
            raise SpecError(f"Arena: expected an env with one batch dimension or none, got {list(env.batch_size)}")
        self.env, self.seed = env, seed
        self._rows = rows_of(env, make)
        self.seats = seats_of(env, seats)
        self.groups = {seat: "/".join(env.tree.place[agents[0]][0]) for seat, agents in self.seats.items()}
        self.kinds = kinds_of(env, self.seats, single=not isinstance(seats, Mapping) and not whole_groups(env, seats))
        self.at = torch.zeros(0, dtype=torch.int64)  # which row of the env each row of the arena is
        self.data: TensorDictBase = self._rows.data
        self._returns = torch.zeros(0, len(self.seats), dtype=torch.float32)
        self._codes = sum(len(agents) for agents in env.tree.groups.values())

    def rows(self, wanted: int) -> int:
        """How many games are played at once."""
        return self._rows.count(wanted)

    def begin(self, games: Games, rows: Tensor | None) -> bool:
        """Begins games in ``rows``, or in the first rows of the env; whether any of them may be over at once."""
        if rows is None:
            self.at = torch.arange(len(games))
            self._returns = torch.zeros(self._rows.size(len(games)), len(self.seats), dtype=torch.float32)
            rows = self.at
        if (games.openings != NONE).any():
            raise SpecError("Arena: openings are of games with rules, and this is an env")
        at = self.at[rows]
        self._rows.begin(at, streams(self.seed, torch.tensor(games.drawn), CHANCE))
        self.data = self._rows.data
        self._returns[at] = 0
        return True

    def opening(self, game: Game) -> Sequence[int]:
        """Envs begin with none."""
        return ()

    def keep(self, mask: Tensor) -> None:
        """Drops the rows outside ``mask``; the env does not step them again."""
        self.at = self.at[mask]

    def over(self) -> tuple[Tensor, Tensor]:
        """Which games have ended, bool ``[B]``, and 1, the ending, where the env cut them off; int8 ``[B]``."""
        ended, terminated = (self.data[name][self.at].reshape(-1) for name in ("done", "terminated"))
        return ended, (ended & ~terminated).to(torch.int8)

    def returns(self, rows: Tensor) -> Tensor:
        """What each seat earned, the mean over its agents; float ``[R, P]``."""
        return self._returns[self.at[rows]]

    def forfeited(self, returns: Tensor, culprit: Tensor) -> Tensor:
        """The returns of games that somebody forfeits: 1 less for that seat."""
        one = culprit.unsqueeze(1)
        return returns.scatter(1, one, returns.gather(1, one) - 1)

    def positions(self) -> list[EnvPositions]:
        """Who is asked what: the seats any of whose agents act."""
        out = []
        for kind in self.kinds:
            group = self.data.get(nested(kind.group))
            acts = group.get("mask", None)
            if acts is None:
                done = group.get("done", None)
                acts = torch.ones(group.batch_size, dtype=torch.bool) if done is None else ~done.squeeze(-1)
            acting = acts[self.at][:, kind.agents].any(-1)  # [B, seats]
            which, row = acting.T.nonzero().unbind(-1)
            if len(row):
                out.append(EnvPositions(kind, group, row, self.at[row], which))
        return out

    def permits(self, positions: EnvPositions, mine: Tensor | None, action: Tensor) -> Tensor:
        """Whether actions are legal; bool ``[R]``."""
        if positions.about.numbers is None:
            fine = torch.isfinite(action.double())
            low, high = (getattr(positions.spec, name, None) for name in ("low", "high"))
            if low is not None and high is not None:
                fine = fine & (action >= low) & (action <= high)
            return fine.reshape(len(action), -1).all(-1)
        legal, acting = positions.legal, positions.acting
        assert legal is not None
        if mine is not None:
            legal, acting = legal[mine], acting[mine]
        inside = action.clamp(0, legal.shape[-1] - 1)
        fine = legal.gather(-1, inside.unsqueeze(-1)).squeeze(-1) & (inside == action)
        return (fine | ~acting).reshape(len(action), -1).all(-1)

    def legal_names(self, positions: EnvPositions, k: int) -> Any:
        """Some legal actions of a position, for messages."""
        legal = positions.legal
        if legal is None:
            return positions.spec
        rows = legal[k].reshape(-1, legal.shape[-1])
        found = [row.nonzero().flatten().tolist()[:20] for row in rows]
        return found if positions.lead else found[0]

    def shape(self, positions: EnvPositions, rows: int) -> tuple[int, ...]:
        """The shape of an answer about so many positions."""
        about = positions.about
        return (rows, *about.lead) if about.numbers is not None else (rows, *about.spec.shape[1:])

    def step(self, asked: Sequence[EnvPositions], actions: list[Tensor], failed: list[Tensor]) -> Tensor:
        """Plays the actions; what was played as int64 ``[B, k]``. Rows in which somebody failed stay as they are."""
        data, codes = self.data, []
        still = torch.zeros(len(self.at), dtype=torch.bool)
        for kind in {kind.group: kind for kind in self.kinds}.values():  # actions of a group have one shape and dtype
            lead = data.get(nested(kind.group)).batch_size
            event = () if kind.numbers is not None else kind.spec.shape[1 + len(kind.lead) :]
            chosen = torch.zeros((*lead, *event), dtype=torch.int64 if kind.numbers is not None else kind.spec.dtype)
            for positions, action, lost in zip(asked, actions, failed, strict=True):
                if positions.about.group == kind.group:
                    good = (lost == 0).reshape(-1, *[1] * (action.ndim - 1))
                    told = torch.where(good, action, 0).to(chosen.dtype)
                    if (numbers := positions.about.numbers) is not None:  # of agents whose action is not read
                        told = torch.minimum(told.clamp(min=0), numbers.sum(-1) - 1)
                    chosen[positions.index] = told
                    still[positions.row[lost > 0]] = True
            if kind.numbers is not None:
                codes.append(chosen[self.at].reshape(len(self.at), -1))
                if isinstance(kind.spec, OneHot):
                    chosen = torch.nn.functional.one_hot(chosen, kind.numbers.shape[-1]).to(kind.spec.dtype)
            else:
                codes.append(chosen[self.at].float().contiguous().view(torch.int32).reshape(len(self.at), -1).long())
            data = data.set(nested(kind.action), chosen)
        moved = self.at[~still]
        if len(moved):
            reward = self._rows.step(data, moved)
            self.data = self._rows.data
            self._returns[moved] += self._seat_rewards(reward)[moved]
        return torch.cat(codes, -1)

    def _seat_rewards(self, following: TensorDictBase) -> Tensor:
        """The mean reward of each seat's agents, summed in float64: so seats of which all agents earn the same are
        level, however many they have; ``[S, P]``.
        """
        out = torch.zeros(following.batch_size[0], len(self.seats), dtype=torch.float32)
        for kind in self.kinds:
            reward = following.get((*kind.group, "reward"), None)
            if reward is None:  # one for all
                shared = following.get(nested(self.env.reward_keys[0]))
                out[:, kind.seats] = shared.reshape(len(out), -1).double().mean(-1, keepdim=True).float()
            else:
                out[:, kind.seats] = reward.squeeze(-1)[:, kind.agents].double().mean(-1).float()
        return out


def taken(group: TensorDictBase, at: Tensor, agents: Tensor) -> TensorDictBase:
    """What agents of a group are shown, side by side where they are shown different things; ``[K, *lead]``.

    Args:
        group: ``[S, A]``.
        at: the row of each; int64 ``[K]``.
        agents: int64 ``[K, *lead]``.
    """
    if not isinstance(group, LazyStackedTensorDict):
        return group[at.unsqueeze(-1), agents] if agents.ndim > 1 else group[at, agents]
    each, rows = group.unbind(1), at.tolist()
    columns = [
        torch.stack([each[i][row] for row, i in zip(rows, column, strict=True)])
        for column in agents.reshape(len(rows), -1).T.tolist()
    ]
    return TensorDict.maybe_dense_stack(columns, 1) if agents.ndim > 1 else columns[0]


def masks_of(data: TensorDictBase, n: int) -> Tensor | None:
    """The masks of actions in what agents are shown, of so many numbers; bool ``[K, *lead, n]``."""
    if isinstance(data, LazyStackedTensorDict) and data.ndim > 1:
        each = [masks_of(part, n) for part in data.unbind(1)]
        known = [mask for mask in each if mask is not None]
        return torch.stack(known, 1) if len(known) == len(each) else None
    mask = data.get("action_mask", None)
    if mask is None:
        return None
    mask = torch.as_tensor(mask)[..., :n]
    return torch.nn.functional.pad(mask, (0, n - mask.shape[-1]))


def whole_groups(env: EnvBase, seats: Seats | None) -> bool:
    """Whether each group is a seat."""
    return seats == "groups" or (seats is None and len(env.tree.groups) > 1)


def seats_of(env: EnvBase, seats: Seats | None) -> dict[str, list[str]]:
    """The agents of each seat.

    Raises:
        SpecError: an agent is in two seats or in none, there is no such agent, or a seat has agents of several groups.
    """
    groups = env.tree.groups
    if seats is not None and seats not in ("groups", "agents") and not isinstance(seats, Mapping):
        raise SpecError(f"Arena: seats must be 'groups', 'agents' or the agents of each seat, got {seats!r}")
    if not isinstance(seats, Mapping):
        if whole_groups(env, seats):
            return {"/".join(path): list(agents) for path, agents in groups.items()}
        return {agent: [agent] for agent in env.tree.agents}
    found = {name: list(agents) for name, agents in seats.items()}
    taken: dict[str, str] = {}
    for name, agents in found.items():
        for agent in agents:
            if agent not in env.tree.place:
                raise SpecError(
                    f"Arena: seat {name!r}: no agent is called {agent!r}; {nearest(agent, env.tree.agents)}"
                )
            if agent in taken:
                raise SpecError(f"Arena: {agent!r} is in the seats {taken[agent]!r} and {name!r}; give it one")
            taken[agent] = name
        if len({env.tree.place[agent][0] for agent in agents}) != 1:
            raise SpecError(f"Arena: seat {name!r} must have agents of one group, got {agents}")
    if free := [agent for agent in env.tree.agents if agent not in taken]:
        raise SpecError(f"Arena: {free} are in no seat; each agent needs a player")
    return found


def kinds_of(env: EnvBase, seats: Mapping[str, Sequence[str]], *, single: bool) -> list[Kind]:
    """The seats by what they may do and the shapes of their data.

    Args:
        env: of the seats.
        seats: the agents of each.
        single: seats are single agents, without a dimension of agents.

    Raises:
        SpecError: the actions of a group are not of a kind that players can choose.
    """
    found: list[tuple[Path, TensorSpec, list[Any], list[int]]] = []
    members = [[env.tree.place[agent] for agent in agents] for agents in seats.values()]
    actions = {group: action_of(env, group) for group in dict.fromkeys(places[0][0] for places in members)}
    for seat, places in enumerate(members):
        group = places[0][0]
        each: list[Any] = [actions[group][1][i] for _, i in places]
        spec: Any = each[0] if single else torch.stack(each)
        shown = env.full_observation_spec_unbatched.get(nested(group), None)
        unlike = [shown[i] for _, i in places] if isinstance(shown, StackedComposite) else []
        own = next((own for *other, own in found if other == [group, spec, unlike]), None)
        if own is None:
            own = []
            found.append((group, spec, unlike, own))
        own.append(seat)
    out = []
    for number, (group, spec, _, own) in enumerate(found):
        agents = torch.tensor([[i for _, i in members[seat]] for seat in own])
        numbers = numbers_of(spec)
        if numbers is None and not isinstance(spec, Bounded) and not spec.dtype.is_floating_point:
            raise SpecError(f"Arena: actions of {nested(group)!r} must be numbered or numbers, got {actions[group][1]}")
        lead = () if single else (agents.shape[1],)
        out.append(Kind(number, group, actions[group][0], spec.unsqueeze(0), numbers, own, agents, lead))
    return out


def action_of(env: EnvBase, group: Path) -> tuple[Path, TensorSpec]:
    """The key of the action of a group, and what it may be, ``[A, ...]``.

    Raises:
        SpecError: it has none, or several, or their agents' are of different sizes.
    """
    keys = [k for k in map(tuple, env.action_keys) if k[: len(group)] == group]
    if len(keys) != 1:
        raise SpecError(f"Arena: group {nested(group)!r} must have one action, got {keys}")
    leaf: TensorSpec = env.full_action_spec_unbatched[keys[0]]
    if -1 in leaf.shape:
        raise SpecError(
            f"Arena: the agents of {nested(group)!r} must have actions of one size, got {leaf}; group them apart "
            f"(group_map='by_spec'), or number their actions (categorical_actions=True)"
        )
    return keys[0], leaf


def numbers_of(spec: TensorSpec) -> Tensor | None:
    """Which numbers of actions each agent of a seat has, up to the largest; bool ``[*lead, n]``, or None.

    >>> numbers_of(torch.stack([Categorical(1), Categorical(3)])).int().tolist()
    [[1, 0, 0], [1, 1, 1]]
    """
    if isinstance(spec, Stacked):
        parts = [numbers_of(part) for part in spec.parts]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        most = max(part.shape[-1] for part in known)
        return torch.stack([torch.nn.functional.pad(part, (0, most - part.shape[-1])) for part in known])
    if not isinstance(spec, (Categorical, OneHot)):
        return None
    lead = spec.shape[:-1] if isinstance(spec, OneHot) else spec.shape
    return torch.ones((*lead, int(spec.n)), dtype=torch.bool)
