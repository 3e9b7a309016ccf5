"""``BatchedAgentsEnv``: infos are the numbers that a simulator gave, in the rows and places it gave them for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from marlenv import Bounded, Categorical, Composite, OneHot, Unbounded, check_env_specs
from marlenv.errors import DtypeError, MarlenvError, ShapeError
from marlenv.wrappers import AgentSpecs, BatchedAgentsEnv

AGENTS = ("a", "b")


class Told(BatchedAgentsEnv):
    """Gives what it is told to."""

    rows_are_chosen = True
    info: Any = None

    def _build_env(self) -> Any:
        return object()

    def agent_specs(self) -> dict[str, AgentSpecs]:
        info = Composite(
            n=Unbounded((), dtype=torch.int64),
            small=Unbounded((2,), dtype=torch.uint8),
            x=Unbounded((1,)),
            deep=Composite(m=Unbounded((2, 3))),
        )
        return {a: AgentSpecs(Composite(observation=Unbounded((1,))), Categorical(3), info=info) for a in AGENTS}

    def told(self) -> dict[str, Any]:
        return {a: {"observation": torch.zeros(2, 1), "info": self.info} for a in AGENTS}

    def sim_reset(self, where: Any) -> Any:
        return self.gather(self.told(), {})

    def sim_step(self, tensordict: Any) -> Any:
        data = {a: {**one, "reward": torch.ones(2)} for a, one in self.told().items()}
        return self.gather(data, {"done": torch.zeros(2, dtype=torch.bool)})

    def _set_seed(self, seed: int | None) -> None:
        pass


WRONG: dict[str, tuple[dict[str, Any], type[MarlenvError], str]] = {
    "fractions": ({"n": torch.tensor([0.75, -1.5])}, DtypeError, r"'n'\) of .* must be torch.int64, got torch.float32"),
    "no number": ({"n": torch.tensor([float("nan"), 1e30])}, DtypeError, r"'n'\) of .* must be torch.int64"),
    "wider": ({"small": torch.full((2, 2), 300)}, DtypeError, r"'small'\) of .* must be torch.uint8, got torch.int64"),
    "complex": ({"x": torch.full((2, 1), 1j)}, DtypeError, r"'x'\) of .* must be torch.float32"),
    "swapped": ({"deep": {"m": torch.zeros(2, 3, 2)}}, ShapeError, r"'m'\) of .* \[2, 2, 3\], .* got \[2, 3, 2\]"),
    "flat": ({"deep": {"m": torch.zeros(2, 6)}}, ShapeError, r"'m'\) of .* \[2, 2, 3\], .* got \[2, 6\]"),
    "other rows": ({"n": torch.zeros(3, dtype=torch.int64)}, ShapeError, r"'n'\) of .* \[2\], .* got \[3\]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_info_that_its_spec_does_not_hold_is_an_error_as_an_observation_is(case: str) -> None:
    env = Told(batch_size=[2])
    env.info, error, words = WRONG[case]
    with pytest.raises(error, match=rf"^Told\.reset: \('info', .*{words}"):
        env.reset()


def test_infos_are_the_numbers_that_were_given() -> None:
    env = Told(batch_size=[2], group_map={"team": ["a", "b"]})
    matrix = torch.arange(12.0).reshape(2, 2, 3)
    env.info = {"n": torch.tensor([[3], [4]], dtype=torch.int32), "x": torch.tensor([5, 6]), "deep": {"m": matrix}}
    info = env.rollout(1)["next", "team", "info"]
    assert info["n"][:, 0].tolist() == [[3, 3], [4, 4]]
    assert info["x"][:, 0].flatten(1).tolist() == [[5.0, 5.0], [6.0, 6.0]]
    assert info["deep", "m"][:, 0, 1].tolist() == matrix.tolist()
    assert not info["small"].any()


class Geared(Told):
    """``b`` lacks what ``a`` is told, and zeros are none of its values."""

    def agent_specs(self) -> dict[str, AgentSpecs]:
        odd = torch.tensor([False, True, True])
        deep = Composite(choice=Categorical(3, mask=odd), hot=OneHot(3, mask=odd, dtype=torch.int64))
        info = Composite(gear=Bounded(1, 5, (1,)), low=Bounded(-5, -2, (2,)), deep=deep, x=Unbounded((1,)))
        bare = AgentSpecs(Composite(observation=Unbounded((1,))), Categorical(3))
        return {"a": bare._replace(info=info), "b": bare}

    def told(self) -> dict[str, Any]:
        return {**super().told(), "b": {"observation": torch.zeros(2, 1)}}


def test_an_info_that_an_agent_lacks_is_the_value_of_its_spec_nearest_to_zero() -> None:
    env = Geared(batch_size=[2], group_map={"team": ["a", "b"]})
    hot = torch.tensor([[0, 0, 1]] * 2)
    deep = {"choice": torch.tensor([2, 2]), "hot": hot}
    env.info = {"gear": torch.full((2, 1), 4.0), "low": torch.full((2, 2), -3.0), "deep": deep, "x": torch.ones(2, 1)}
    info = env.reset()["team", "info"]
    assert info["gear"].squeeze(-1).tolist() == [[4.0, 1.0]] * 2
    assert info["low"].tolist() == [[[-3.0, -3.0], [-2.0, -2.0]]] * 2
    assert info["deep", "choice"].tolist() == [[2, 1]] * 2
    assert info["deep", "hot"].tolist() == [[[0, 0, 1], [0, 1, 0]]] * 2
    assert info["x"].squeeze(-1).tolist() == [[1.0, 0.0]] * 2
    check_env_specs(env)
