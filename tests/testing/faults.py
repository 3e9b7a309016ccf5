"""Broken envs, each with the clause that must catch it, and nothing else of the contract broken.

Each changes one thing of :class:`sound.Sound`, or of a mock, as authors do by mistake.
"""

from __future__ import annotations

from typing import Any

import torch
from marlenv.groups import GroupTree
from planting import ALIVE, MASK, OBS, REWARD, fault
from sound import Sound, changed
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv import EnvBase
from marlenv.testing import CountingEnv, GroupedEnv, MaskedEnv

# --- envs that fail -------------------------------------------------------------------------------


@fault("an error in step 9", "envs_can_be_played")
class Fails(Sound):
    def move(self, action: Tensor) -> None:
        super().move(action)
        if self.steps == 9:
            raise ValueError("the world fell apart")


@fault("an error in the constructor", "envs_can_be_played")
class FailsWhenMade(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        raise FileNotFoundError("no map called 'arena'")


@fault("an error in _set_seed", "envs_can_be_played")
class FailsWhenSeeded(Sound):
    def _set_seed(self, seed: int | None) -> None:
        raise AttributeError("no attribute 'generator'")


@fault("an error in a partial reset", "envs_can_be_played")
class FailsInPartialResets(Sound):
    def begin(self, where: Tensor) -> None:
        if not where.all():
            raise NotImplementedError("partial resets")
        super().begin(where)


fault(
    "data of another batch size than they say",
    "envs_can_be_played",
    changed("_step", lambda e, td: TensorDict(dict(td), [3]), since=2),
)


@fault("an error with several rows", "envs_can_be_played")
class FailsInBatches(CountingEnv):
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if bool(tensordict["action"] > 1):
            raise ValueError
        return super()._step(tensordict)


# --- data that are not as the specs say -----------------------------------------------------------

MATCH = "data_match_the_specs"
fault(
    "float64 rewards from step 7 on",
    MATCH,
    changed("_step", lambda e, td: td.set(REWARD, td[REWARD].double()), since=7),
)
fault("float64 observations of a reset", MATCH, changed("_reset", lambda e, td: td.set(OBS, td[OBS].double())))
fault("an entry is missing from step 7 on", MATCH, changed("_step", lambda e, td: td.exclude(ALIVE), since=7))
fault("rewards out of bounds from step 7 on", MATCH, changed("_step", lambda e, td: td[REWARD].sub_(11), since=7))
fault(
    "an entry too many from step 7 on", MATCH, changed("_step", lambda e, td: td.set("x", torch.zeros(e.rows)), since=7)
)
fault(
    "observations of another shape from step 7 on",
    MATCH,
    changed("_step", lambda e, td: td.set(OBS, td[OBS].squeeze(-1)), since=7),
)
fault("rewards of another shape", MATCH, changed("_step", lambda e, td: td.set(REWARD, td[REWARD].repeat(1, 1, 2))))
fault("no rewards", MATCH, changed("_step", lambda e, td: td.exclude(REWARD)))
fault("no rewards in step 9", MATCH, changed("_step", lambda e, td: td.exclude(REWARD), since=9, only=True))
fault("flags that are numbers", MATCH, changed("_step", lambda e, td: td.set("done", td["done"].int())))
fault("a dict instead of a tensordict", MATCH, changed("_step", lambda e, td: dict(td)))
fault("a dict from a reset", MATCH, changed("_reset", lambda e, td: dict(td)))
fault(
    "flags of a reset that are numbers", MATCH, changed("_reset", lambda e, td: td.set("done", torch.zeros(e.rows, 1)))
)
fault(
    "flags of a reset of another shape",
    MATCH,
    changed("_reset", lambda e, td: td.set("done", torch.zeros(e.rows, 4) > 0)),
)
fault("a reset of another batch size", MATCH, changed("_reset", lambda e, td: td[:1]))
fault("a number where a group should be", MATCH, changed("_step", lambda e, td: td.set("agents", torch.zeros(e.rows))))
fault("another batch size", MATCH, changed("_step", lambda e, td: td[:1], since=3))


@fault("nothing is returned from a reset", MATCH)
class ReturnsNothing(Sound):
    def _reset(self, tensordict: TensorDictBase | None, **options: Any) -> TensorDictBase:
        super()._reset(tensordict)  # the return is forgotten


@fault("the request of a partial reset is returned", MATCH)
class ReturnsItsRequest(Sound):
    def _reset(self, tensordict: TensorDictBase | None, **options: Any) -> TensorDictBase:
        out = super()._reset(tensordict)
        return out if tensordict is None else tensordict.update(out)


@fault("the input is returned", MATCH)
class ReturnsItsInput(Sound):
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict.update(super()._step(tensordict))


@fault("rewards on another device from step 3 on", "data_live_on_the_device")
class Elsewhere(Sound):
    def __init__(self, batch_size: Any = (2,)) -> None:
        super().__init__(batch_size, device="cpu")

    def reward(self) -> Tensor:
        return super().reward().to("meta" if self.steps >= 3 else "cpu")


NUMBERS = "numbers_are_finite"
fault("NaN in step 30", NUMBERS, changed("_step", lambda e, td: td[REWARD].fill_(torch.nan), since=30, only=True))
fault("infinity after resets", NUMBERS, changed("_reset", lambda e, td: td[OBS].fill_(torch.inf)))


# --- specs ----------------------------------------------------------------------------------------


@fault("a spec without the batch size", "specs_begin_with_the_batch_size")
class NoBatch(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.full_observation_spec["agents"]._specs["alive"].shape = torch.Size([1])


def wild(unit: Tensor, mask: Tensor | None = None) -> Tensor:
    """Draws out of bounds."""
    return unit + 50


@fault("a spec that draws what it refuses", "specs_accept_what_they_draw")
class BadDraws(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.full_reward_spec[REWARD].from_unit = wild


@fault("specs that stay unlocked", "locked_specs_refuse_writing")
class Unlocked(Sound):
    def set_spec_lock_(self, mode: bool = True) -> EnvBase:
        return super().set_spec_lock_(False)


@fault("specs that cannot be pickled", "specs_can_be_sent")
class Unpicklable(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.full_observation_spec["agents"]._specs["alive"].note = lambda: None


@fault("groups that are not in the specs", "groups_match_the_specs")
class OtherGroups(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.tree = GroupTree({"wolves": ["a", "b"]})


@fault("keys that are not in the data", "keys_point_at_entries")
class OtherKeys(Sound):
    reward_keys = property(lambda self: [("agents", "score")])  # type: ignore[assignment]


# --- memory ---------------------------------------------------------------------------------------

OLD = "steps_leave_old_data_alone"
SHARE = "entries_share_no_memory"


def buffer(env: Sound, td: TensorDictBase) -> TensorDictBase:
    """Hands out one tensor, and writes into it the next time."""
    kept = env.__dict__.setdefault("buffer", td[OBS].clone())
    return td.set(OBS, kept.copy_(td[OBS]))


fault("a buffer that is handed out", OLD, changed("_step", buffer))


@fault("the input is edited in step 9", OLD)
class EditsInput(Sound):
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out = super()._step(tensordict)
        if self.steps == 9:
            tensordict["agents", "action"].clamp_(-0.5, 0.5)
        return out


@fault("an entry is added to the input", OLD)
class AddsToInput(Sound):
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out = super()._step(tensordict)
        if self.steps == 4:
            tensordict["seen"] = torch.zeros(self.rows)
        return out


@fault("observations that go on moving", OLD)
class GoesOnMoving(Sound):
    def observe(self, ended: Tensor) -> TensorDict:
        return super().observe(ended).set("observation", self.at)

    def move(self, action: Tensor) -> None:
        self.count = self.count + 1
        self.at += 0.1 * action

    def begin(self, where: Tensor) -> None:
        super().begin(where)
        self.at = self.at.clone()


fault("one tensor under two keys", SHARE, changed("_step", lambda e, td: td.set(MASK, td[ALIVE])))
fault("one tensor under two keys of a reset", SHARE, changed("_reset", lambda e, td: td.set(MASK, td[ALIVE])))
fault(
    "an expanded reward",
    SHARE,
    changed("_step", lambda e, td: td.set(REWARD, td[REWARD].mean(1, keepdim=True).expand(-1, 2, -1))),
)
fault(
    "flags of agents that are the root's",
    SHARE,
    changed("_step", lambda e, td: td.set(("agents", "done"), td["done"].unsqueeze(1).expand(-1, 2, -1))),
)
fault("one tensor under two keys in step 40", SHARE, changed("_step", lambda e, td: td.set(MASK, td[ALIVE]), since=40))


def overlapping(env: Sound, td: TensorDictBase) -> TensorDictBase:
    """Two windows of one storage that have a number in common."""
    memory = torch.zeros(3 * env.rows - 1, dtype=torch.bool)
    td["agents", "truncated"] = memory[: 2 * env.rows].view(-1, 2, 1)
    return td.set("truncated", memory[2 * env.rows - 1 :].view(-1, 1))


fault("two windows of one storage", SHARE, changed("_step", overlapping))


@fault("an entry that is handed on from the input", SHARE)
class HandsOn(Sound):
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out = super()._step(tensordict)
        return out.set(ALIVE, tensordict[ALIVE]).set(MASK, tensordict[ALIVE].clone())


WRITTEN = "data_may_be_written_over"


@fault("observations are the state itself", WRITTEN)
class ShowsItsState(Sound):
    def observe(self, ended: Tensor) -> TensorDict:
        return super().observe(ended).set("observation", self.at)


@fault("the last action is kept, not copied", WRITTEN)
class KeepsActions(Sound):
    push: Tensor | float = 0.0

    def begin(self, where: Tensor) -> None:
        super().begin(where)
        self.push = torch.where(where.reshape(-1, 1, 1), 0.0, torch.as_tensor(self.push))

    def move(self, action: Tensor) -> None:
        super().move(action)
        self.at, self.push = self.at + 0.01 * self.push, action

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return super()._get_state(tensordict).set("push", self.push + torch.zeros_like(self.at))

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        self.push = state["push"].clone()
        return super()._set_state(state)


# --- resets, steps, rollouts, states --------------------------------------------------------------

fault(
    "rewards of a reset",
    "resets_give_no_rewards",
    changed("_reset", lambda e, td: td.set(REWARD, torch.zeros(e.rows, 2, 1))),
)


@fault("an error in a second reset", "resetting_twice_is_resetting")
class FailsInSecondReset(Sound):
    whole = 0

    def _reset(self, tensordict: TensorDictBase | None, **options: Any) -> TensorDictBase:
        self.whole += tensordict is None
        if self.whole > 1:
            raise RuntimeError("call step first")
        return super()._reset(tensordict)


@fault("something is left of the last episode", "resets_start_afresh")
class Leftover(Sound):
    speed: Tensor | float = 0.0

    def move(self, action: Tensor) -> None:
        super().move(action)
        self.speed = 0.9 * self.speed + 0.01 * action
        self.at = self.at + self.speed

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return super()._get_state(tensordict).set("speed", self.speed + torch.zeros_like(self.at))

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        self.speed = state["speed"].clone()
        return super()._set_state(state)


@fault("a masked reset forgets to place the points", "resetting_all_rows_is_a_reset")
class ForgetsToPlace(Sound):
    def _reset(self, tensordict: TensorDictBase | None, **options: Any) -> TensorDictBase:
        at = self.at
        out = super()._reset(tensordict)
        if tensordict is not None and "_reset" in tensordict.keys():
            self.at = at
            out["agents", "observation"] = at.clone()
        return out


@fault("the last observation is the next episode's", "final_observations_are_kept")
class ResetsItself(Sound):
    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        data, following = super().step_and_maybe_reset(tensordict)
        done = data["next", "done"].unsqueeze(-1)
        data["next", "agents", "observation"] = torch.where(
            done, following["agents", "observation"], data["next", "agents", "observation"]
        )
        return data, following


@fault("a rollout that is not its steps", "rollouts_are_their_steps")
class OtherRollout(Sound):
    def rollout(self, *args: Any, **options: Any) -> TensorDictBase:
        out = super().rollout(*args, **options)
        if options.get("return_contiguous") is False:
            out.tensordicts[-1]["next", "agents", "reward"].zero_()
        return out


@fault("a rollout that is too short", "rollouts_are_their_steps")
class ShortRollout(Sound):
    def rollout(self, max_steps: int, *args: Any, **options: Any) -> TensorDictBase:
        return super().rollout(max(1, max_steps - 1), *args, **options)


@fault("a state without its randomness", "states_can_be_put_back")
class StateWithoutRandomness(Sound):
    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        rng = self.rng
        out = super()._set_state(state)
        self.rng = rng
        return out


@fault("a state without the length of the episode", "states_can_be_put_back")
class StateWithoutLength(Sound):
    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        return super()._set_state(state.set("count", torch.zeros_like(state["count"])))


@fault("giving the state away moves the generator", "states_can_be_put_back")
class StateMoves(Sound):
    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        self.rng.uniform()
        return super()._get_state(tensordict)


class Overridden(Sound):
    """Steps by itself, as somebody may who knows gym."""

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        following = self._step(tensordict)
        return tensordict.set("next", following)


fault("step is overridden", "closed_envs_refuse", Overridden)


@fault("a missing action is taken for zero", "missing_actions_are_refused")
class ActionsByDefault(Sound):
    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if ("agents", "action") not in tensordict.keys(True):
            tensordict["agents", "action"] = torch.zeros(self.rows, 2, 1)
        return super().step(tensordict)


# --- flags and masks ------------------------------------------------------------------------------

fault(
    "done after a reset",
    "nothing_is_done_after_a_reset",
    changed("_reset", lambda e, td: td.set("done", torch.ones(e.rows, 1, dtype=torch.bool))),
)
fault(
    "done without a cause",
    "done_has_a_cause",
    changed("_step", lambda e, td: td["done"].logical_or_((e.count == 3).unsqueeze(-1))),
)
fault(
    "the root ends for no agent's sake",
    "the_root_ends_with_its_agents",
    changed(
        "_step",
        lambda e, td: [td[n].logical_or_((e.count == 3).unsqueeze(-1)) for n in ("terminated", "done")] and None,
    ),
)
fault(
    "those who are not alive act",
    "those_who_act_are_alive",
    changed("_step", lambda e, td: td[MASK].fill_(True)),
)


@fault("the dead are truncated later", "the_dead_do_not_change")
class DeadAreTruncated(GroupedEnv):
    def __init__(self, batch_size: Any = (2,)) -> None:
        super().__init__(
            terminate={"agent_0": 2, "agent_1": 6}, truncate={"agent_2": 6}, rule="all", batch_size=batch_size
        )

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out = super()._step(tensordict)
        over = self.count[("agents",)][..., :1] >= 4
        out["agents", "truncated"][..., 0, :] |= over
        return out


class Dying(GroupedEnv):
    """One agent terminates and one is truncated while the third goes on."""

    def __init__(self, batch_size: Any = (2,)) -> None:
        ends = {"terminate": {"agent_0": 2, "agent_1": 6}, "truncate": {"agent_2": 4}}
        super().__init__(**ends, rule="all", batch_size=batch_size)


@fault("the dead are done in the step of their death only", "the_dead_do_not_change")
class DoneOnce(Dying):
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out = super()._step(tensordict)
        later = self.count[("agents",)][..., :1] > 2
        for name in ("done", "terminated"):
            out["agents", name][..., 0, :] &= ~later
        return out


@fault("what was truncated terminates later", "the_dead_do_not_change")
class TerminatesLater(Dying):
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out = super()._step(tensordict)
        out["agents", "terminated"][..., 2, :] |= self.count[("agents",)][..., 2:] >= 5
        return out


@fault("random actions out of bounds", "random_actions_are_legal")
class WildActions(Sound):
    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        out = super().rand_action(tensordict)
        out["agents", "action"] = out["agents", "action"] * 3
        return out


@fault("an illegal random action in step 20", "random_actions_are_legal")
class WildOnce(Sound):
    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        out = super().rand_action(tensordict)
        if self.steps == 20:
            out["agents", "action"] = out["agents", "action"] + 2
        return out


@fault("nothing is legal", "masks_leave_a_choice")
class NothingLegal(MaskedEnv):
    def _observed(self) -> dict[str, Tensor]:
        seen = super()._observed()
        return seen | {"action_mask": seen["action_mask"] & (self.count != 3)}


@fault("nothing is legal after a reset", "masks_leave_a_choice")
class NothingLegalAtFirst(MaskedEnv):
    def _observed(self) -> dict[str, Tensor]:
        seen = super()._observed()
        return seen | {"action_mask": seen["action_mask"] & (self.count != 0)}


@fault("a mask is missing from a reset", MATCH)
class LacksItsMask(MaskedEnv):
    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return super()._reset(tensordict).exclude("action_mask")
