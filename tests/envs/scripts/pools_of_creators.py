"""Pools: creators with arguments, tasks of different kinds, children indexed and asked, data of several tasks."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase, EnvCreator, ParallelEnv, SerialEnv, StepCounter, TransformedEnv


class Drift(EnvBase):
    """A point that drifts by its wind and the action."""

    def __init__(self, wind=0.0):
        super().__init__()
        self.wind = wind
        self.observation_spec = Composite(at=Unbounded((2,)))
        self.action_spec = Bounded(-1, 1, (2,))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"at": torch.zeros(2)}, [])

    def _step(self, tensordict):
        at = tensordict["at"] + tensordict["action"] + self.wind
        done = (at.abs() > 3).any(-1, keepdim=True)
        return TensorDict({"at": at, "reward": -at.norm(dim=-1, keepdim=True), "done": done, "terminated": done}, [])

    def _set_seed(self, seed):
        pass

    def where(self, scale=1):
        return self.wind * scale


def halves(td):
    return td.set("action", torch.full((*td.batch_size, 2), 0.5))


def run():
    makers = [EnvCreator(lambda wind: TransformedEnv(Drift(wind), StepCounter(4)), {"wind": 0.5 * i}) for i in range(3)]
    pool = SerialEnv(3, makers)
    td = pool.rollout(4, halves, break_when_any_done=False)
    first = pool.reset()
    mask = torch.tensor([[True], [False], [True]])
    stepped, after = pool.step_and_maybe_reset(halves(first))
    partial = pool.reset(after.exclude("action").set("_reset", mask))
    asked = (pool.wind, pool.where(2))
    view = pool[1:]
    seen = view.rollout(3, halves, break_when_any_done=False)
    tasks = SerialEnv(2, [lambda: Drift(0.0), lambda: Drift(2.0)])
    both = tasks.rollout(5, halves, break_when_any_done=False)
    single = ParallelEnv(1, Drift, serial_for_single=True)
    found = {
        "data": td,
        "stepped": stepped,
        "partial": partial,
        "asked": asked,
        "view": seen,
        "both": both,
        "kinds": (isinstance(single, SerialEnv), pool.num_workers, tuple(pool.batch_size)),
    }
    pool.close()
    tasks.close()
    return found
