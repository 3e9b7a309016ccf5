"""``BatchedData``: what a simulator gave of a batch of worlds, checked and fitted to the specs, for
``BatchedAgentsEnv``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import KeyMissing, SpecError
from marlenv.keys import DONE_NAMES
from marlenv.specs import Composite, TensorSpec
from marlenv.wrappers._answers import unlike
from marlenv.wrappers._batched_forms import REST, ROOT, Place, entry, filled, fitted, form, forms


class Moment(NamedTuple):
    """A reset or a step."""

    who: str
    """The wrapper, for messages."""
    playing: bool
    """Whether it is a step, of which there are rewards and flags."""
    late: Tensor | None
    """The rows ``[B, 1]`` whose time is over; None without a time limit."""
    looks: bool
    """Whether the values of flags are looked at, which costs on a GPU."""
    device: torch.device | None
    """Where the env's data live."""

    def place(self, whose: str) -> Place:
        """For messages."""
        return Place(f"{self.who}.{'step' if self.playing else 'reset'}", whose)


class BatchedData:
    """Fits entries ``[B, ...]`` to their specs: whoever forgets one gets an error, and no older data.

    Args:
        batch: the batch size.
        observed: agent -> entry -> its spec, without batch dimensions.
        infos: agent -> the specs of its infos.
        rewards: agent -> the spec of its reward.
        root: the specs of the root's entries.
        ends: whether agents have flags of their own.
    """

    def __init__(
        self,
        batch: Size,
        observed: Mapping[str, Mapping[str, TensorSpec]],
        infos: Mapping[str, Mapping[str, TensorSpec]],
        rewards: Mapping[str, TensorSpec],
        root: Composite,
        *,
        ends: bool,
    ) -> None:
        self.ends, self.flag = ends, (Size((*batch, 1)), torch.bool)
        self._infos = {a: forms(specs, batch) for a, specs in infos.items()}
        self._blanks = {a: blanks(specs) for a, specs in infos.items()}
        self._resets = {a: forms(specs, batch) for a, specs in observed.items()}
        for agent in infos:
            del self._resets[agent]["info"]
        self._steps = {a: {**entries, "reward": form(rewards[a], batch)} for a, entries in self._resets.items()}
        self._root = forms(root, batch)

    def of_all(
        self, now: Moment, names: Sequence[str], agents: Mapping[str, Any], root: Mapping[str, Any]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """The entries of the agents and of the root; agents without flags of their own have those of their row."""
        entries, whole = {agent: self.of_agent(now, agent, agents) for agent in names}, self.of_root(now, root)
        if not self.ends:
            for own in entries.values():
                own |= {name: whole[name] for name in DONE_NAMES}
        return entries, whole

    def of_agent(self, now: Moment, agent: str, agents: Mapping[str, Any]) -> dict[str, Any]:
        """An agent's entries, its flags among them if it has any.

        Raises:
            KeyMissing: the agent, an entry of its specs, or its flags in a step, are not there.
            SpecTypeError: a value that is no tensor, or no mapping where entries are nested.
            SpecError: an entry that has no spec; ``done`` is not ``terminated | truncated``.
            ShapeError, DtypeError: a value that does not fit its spec.
        """
        place, wanted = now.place(f"agent {agent!r}"), (self._steps if now.playing else self._resets)[agent]
        if agent not in agents:
            raise KeyMissing(f"{place.where}: there are no data of {place.whose}; {REST}")
        if not isinstance(agents[agent], Mapping):
            raise unlike(f"{place.where}: what {place.whose} gets", "a dict of entries", agents[agent], "be")
        rest = dict(agents[agent])
        infos = None if "info" in wanted else rest.pop("info", None)
        given = {name: rest.pop(name) for name in DONE_NAMES if self.ends and name in rest}
        out = fitted(place, wanted, rest)
        if agent in self._infos:
            out["info"] = filled(place.inside("info"), self._infos[agent], self._blanks[agent], infos, now.device)
        if self.ends:
            out |= self._flags(now, place, given)
            if now.late is not None:
                living = ~out["done"].squeeze(-1)
                out |= {name: out[name] & living for name in ("alive", "mask")}
        return out

    def of_root(self, now: Moment, given: Mapping[str, Any]) -> dict[str, Any]:
        """The root's entries and flags, in memory of their own; raises as :meth:`of_agent` does."""
        place, rest = now.place(ROOT), dict(given)
        flags = {name: rest.pop(name) for name in DONE_NAMES if name in rest}
        return _copied({**fitted(place, self._root, rest), **self._flags(now, place, flags)})

    def _flags(self, now: Moment, place: Place, got: Mapping[str, Any]) -> dict[str, Tensor]:
        """All three flags, those that were left out among them, with the time limit."""
        if now.playing and not got:
            raise KeyMissing(f"{place} has no flags; 'terminated' and 'truncated' [B] say how the rows' episodes end")
        given = {name: entry(place, name, self.flag, value) for name, value in got.items()}
        done, terminated, truncated = (given.get(name) for name in ("done", "terminated", "truncated"))
        device = next(iter(given.values())).device if given else now.device
        no = torch.zeros(self.flag[0], dtype=torch.bool, device=device)
        if terminated is None:
            terminated = no if done is None else done if truncated is None else done & ~truncated
        if truncated is None:
            truncated = no if done is None else done & ~terminated
        over = terminated | truncated
        if done is not None and now.looks and not torch.equal(done, over):
            row = int((done != over).nonzero()[0, 0])
            raise SpecError(
                f"{place.inside('done')} in row {row} is {bool(done[row])}, with terminated={bool(terminated[row])} "
                f"and truncated={bool(truncated[row])}; it must be terminated | truncated, as it will be when left out"
            )
        if now.late is not None:
            late = now.late.to(over.device)
            truncated, over = truncated | (late & ~terminated), over | late
        return {"terminated": terminated, "truncated": truncated, "done": over}


def blanks(specs: Mapping[str, TensorSpec] | Composite) -> dict[str, Any]:
    """What stands for entries that are missing: zeros, or the value of their spec that is nearest to them.

    >>> from marlenv import Bounded, Unbounded
    >>> blanks(Composite(gear=Bounded(1, 5, (1,)), x=Unbounded((1,))))
    {'gear': tensor([1.]), 'x': tensor([0.])}
    """
    found = {}
    for name, spec in specs.items():
        if isinstance(spec, Composite):
            found[name] = blanks(spec)
        elif form(spec, Size()) is not None:
            found[name] = spec.project(spec.zero())
    return found


def answered(who: str, hook: str, out: Any) -> TensorDict:
    """What a hook returned; raises SpecTypeError if it is no tensordict."""
    if not isinstance(out, TensorDictBase):
        raise unlike(f"{who}.{hook}", "a tensordict, as self.gather(...) makes it", out)
    return out


def _copied(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: _copied(v) if isinstance(v, dict) else v.clone() if hasattr(v, "clone") else v for k, v in entries.items()
    }
