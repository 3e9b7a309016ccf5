"""Entries that are no tensors: passed on, kept for the next episode, or refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, TensorDictBase

from marlenv import (
    ActionDelay,
    AutoResetTransform,
    Bounded,
    Categorical,
    CatFrames,
    ClipTransform,
    Composite,
    DeviceCastTransform,
    DropMessages,
    Hash,
    NonTensor,
    ObservationDelay,
    ObservationNorm,
    SerialEnv,
    SignTransform,
    TimeMaxPool,
    Transform,
    TransformedEnv,
    UnaryTransform,
    UnsqueezeTransform,
    VecGymEnvTransform,
    VecNormV2,
)
from marlenv.errors import SpecTypeError
from marlenv.testing.mocks import CountingEnv, UnevenEnv

TEXT = ["text"]


class Says(CountingEnv):
    """A counting env that also says its count in words, and takes a word; with ``anew`` it resets itself.

    With ``final`` it gives the last observations of an episode under that name, as vectorised gym envs do.
    """

    def __init__(self, steps: int = 3, rows: tuple[int, ...] = (), anew: bool = False, final: str = "") -> None:
        super().__init__(steps, rows)
        self.anew, self.final = anew, final
        shape = self.batch_size
        seen = Composite(
            observation=self.full_observation_spec["observation"],
            number=Categorical(99, shape),
            text=NonTensor(shape, example_data="said 0"),
            shape=shape,
        )
        self.observation_spec = seen if not final else Composite({**seen, final: seen.clone()}, shape=shape)
        word = NonTensor(shape, example_data="go")
        self.action_spec = Composite(action=Bounded(-1, 1, (*shape, 1)), word=word, shape=shape)

    def _seen(self) -> TensorDict:
        told = [f"said {int(n)}" for n in self.count.flatten()]
        text = NonTensorStack(*told) if self.batch_size else NonTensorData(told[0])
        number = self.count.squeeze(-1).long()
        seen = {"observation": self.count.clone(), "number": number, "text": text}
        return TensorDict(seen, self.batch_size)

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        super()._reset(tensordict)
        seen = self._seen()
        return seen.set(self.final, self._seen()) if self.final else seen

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out = super()._step(tensordict)
        last = self._seen()
        if self.anew:
            self.count = torch.where(out["done"], 0.0, self.count)
        out = out.update(self._seen())
        return out.set(self.final, last) if self.final else out

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        return self._seen() if self.final else super()._reset_rows(request, tensordict)


def counts(text: Any) -> Any:
    """The numbers in texts."""
    return int(text.split()[1]) if isinstance(text, str) else [counts(one) for one in text]


def said(env: Any, steps: int = 7) -> tuple[Any, Any]:
    """What a rollout over the ends of episodes says before and after every step, as numbers."""
    out = env.rollout(steps, break_when_any_done=False)
    return counts(out["text"]), counts(out["next", "text"])


# --- what numbers are needed for --------------------------------------------------------------------


@pytest.mark.parametrize("rows", [(), (2,)])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ActionDelay(1, ["word"]),
        lambda: CatFrames(2, -1, in_keys=TEXT),
        lambda: ClipTransform(TEXT, low=-1),
        lambda: ClipTransform([], in_keys_inv=["word"], low=-1),
        lambda: DropMessages(1.0, in_keys=TEXT),
        lambda: ObservationDelay(1, TEXT),
        lambda: ObservationNorm(0.0, 2.0, in_keys=TEXT),
        lambda: SignTransform(in_keys=TEXT),
        lambda: TimeMaxPool(TEXT, T=2),
        lambda: VecNormV2(TEXT, stateful=False),
    ],
)
def test_what_takes_tensors_refuses_texts_by_name(make: Callable[[], Transform], rows: tuple[int, ...]) -> None:
    made = make()
    key = (made.in_keys_inv or made.in_keys)[0]
    message = f"{type(made).__name__}: takes tensors, and {key!r} is none (NonTensor); name other entries, or"
    with pytest.raises(SpecTypeError, match=re.escape(message)):
        TransformedEnv(Says(rows=rows), made)


def test_what_takes_texts_still_does() -> None:
    shout = UnaryTransform(TEXT, ["loud"], fn=lambda x: x.upper() if isinstance(x, str) else [t.upper() for t in x])
    for rows in ((), (2,)):
        for one in (shout.clone(), Hash(TEXT, ["hash"]), UnsqueezeTransform(-1, in_keys=TEXT, out_keys=["wide"])):
            TransformedEnv(Says(rows=rows), one).check_env_specs()


class Echo(Transform):
    """A user's transform of texts, which knows what it does."""

    def _apply_transform(self, obs: Any) -> Any:
        return obs

    def derive(self, spec: Any) -> Any:
        return spec


def test_what_users_write_is_theirs() -> None:
    env = TransformedEnv(Says(), Echo(in_keys=TEXT, out_keys=["again"]))
    assert env.rollout(2)["again"] == ["said 0", "said 1"]


# --- envs that reset themselves ----------------------------------------------------------------------


@pytest.mark.parametrize("pool", [False, True])
def test_first_texts_of_an_env_that_resets_itself_are_kept(pool: bool) -> None:

    def make():
        return TransformedEnv(Says(anew=True), AutoResetTransform())

    before, after = said(SerialEnv(2, make) if pool else make())
    assert before == ([[0, 1, 2, 0, 1, 2, 0]] * 2 if pool else [0, 1, 2, 0, 1, 2, 0])
    assert after == ([[1, 2, 0, 1, 2, 0, 1]] * 2 if pool else [1, 2, 0, 1, 2, 0, 1])  # nothing stands in for a text
    rows = TransformedEnv(Says(rows=(2,), anew=True), AutoResetTransform())
    assert said(rows)[0] == [[0, 1, 2, 0, 1, 2, 0], [0, 1, 2, 3, 0, 1, 2]]
    numbers = TransformedEnv(Says(anew=True), AutoResetTransform()).rollout(4, break_when_any_done=False)
    assert numbers["next", "number"].tolist() == [1, 2, -1, 1]  # single numbers have no dimension


class UnevenAnew(UnevenEnv):
    """Agents of other sizes in an env that resets itself."""

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out = super()._step(tensordict)
        if out["terminated"].any():
            self.count = 0
            first = self._observe()["agents"]
            group: Any = out["agents"]
            if isinstance(group, LazyStackedTensorDict):
                for one, other in zip(group.tensordicts, first.tensordicts, strict=True):
                    one.update(other)
            else:
                group.update(first)
        return out


def test_agents_of_other_sizes_begin_anew_with_their_env() -> None:
    """What they see is what they see with padding, without it."""
    lists, dense = (
        TransformedEnv(UnevenAnew(how, 3), AutoResetTransform()).rollout(7, break_when_any_done=False)
        for how in ("stack", "pad")
    )
    for td, want in ((lists, dense), (lists["next"], dense["next"])):
        for agent, size in enumerate((2, 3)):
            seen = td["agents"][:, agent]["observation"]
            assert seen.shape == (7, size)
            torch.testing.assert_close(seen, want["agents", "observation"][:, agent, :size], equal_nan=True)
    assert lists["agents"][:, 0]["observation"][:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert lists["next", "agents"][:, 1]["observation"][:, 2].isnan().tolist() == [False, False, True] * 2 + [False]


@pytest.mark.parametrize("rows", [(), (2,)])
def test_final_texts_stand_where_they_belong(rows: tuple[int, ...]) -> None:
    known = TransformedEnv(Says(rows=rows, anew=True, final="final"), VecGymEnvTransform())
    known.check_env_specs()
    before, after = said(known)
    assert (before[0] if rows else before) == [0, 1, 2, 0, 1, 2, 0]
    assert (after[0] if rows else after) == [1, 2, 3, 1, 2, 3, 1]
    if rows:
        assert (before[1], after[1]) == ([0, 1, 2, 3, 0, 1, 2], [1, 2, 3, 4, 1, 2, 3])
    unknown = TransformedEnv(Says(rows=rows, anew=True, final="final"), VecGymEnvTransform(native_autoreset=True))
    after = said(unknown)[1]
    assert (after[0] if rows else after) == [1, 2, 0, 1, 2, 0, 1]


def test_texts_without_final_ones_are_left() -> None:
    class Forgets(Says):
        def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
            return super()._step(tensordict).exclude("final")

    env = TransformedEnv(Forgets(anew=True, final="final"), VecGymEnvTransform())
    assert said(env) == ([0, 1, 2, 0, 1, 2, 0], [1, 2, 0, 1, 2, 0, 1])
    assert env.rollout(4, break_when_any_done=False)["next", "observation"].isnan().flatten().tolist()[2]


# --- devices ---------------------------------------------------------------------------------------


def test_texts_of_a_pool_are_where_the_rest_is() -> None:
    """The rows that begin anew too, whose texts say no device."""
    bare, cast = SerialEnv(2, Says), TransformedEnv(SerialEnv(2, Says), DeviceCastTransform("cpu"))
    assert said(cast, 9) == said(bare, 9) == ([[0, 1, 2] * 3] * 2, [[1, 2, 3] * 3] * 2)
    td = cast.reset()
    for _ in range(4):
        step, td = cast.step_and_maybe_reset(cast.rand_action(td))
        for data in (step, step["next"], td):
            assert data.device == data.get("text").device == torch.device("cpu")
    cast.check_env_specs()
