"""Keys moved about: renamed, selected, concatenated, actions in nests, loss keys by name, reset keys."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import (
    CatTensors,
    Compose,
    EnvBase,
    ExcludeTransform,
    RenameTransform,
    RewardScaling,
    SelectTransform,
    StepCounter,
    TransformedEnv,
    UnsqueezeTransform,
)


class Arm(EnvBase):
    """Two joints, whose data are nested under one key."""

    def __init__(self):
        super().__init__()
        joints = Composite(angle=Bounded(-3, 3, (2,)), speed=Unbounded((2,)))
        self.observation_spec = Composite(joints=joints, clock=Unbounded(()))
        self.action_spec = Composite(joints=Composite(torque=Bounded(-1, 1, (2,))))
        self.reward_spec = Composite(task=Composite(reward=Unbounded((1,))))

    def _reset(self, tensordict=None, **kwargs):
        joints = TensorDict({"angle": torch.zeros(2), "speed": torch.ones(2)}, [])
        return TensorDict({"joints": joints, "clock": torch.zeros(())}, [])

    def _step(self, tensordict):
        speed = tensordict["joints", "speed"] + tensordict["joints", "torque"]
        angle = (tensordict["joints", "angle"] + 0.1 * speed).clamp(-3, 3)
        out = TensorDict({"joints": {"angle": angle, "speed": speed}, "clock": tensordict["clock"] + 1}, [])
        return out.update({"task": {"reward": angle.sum(-1, keepdim=True)}, "done": torch.zeros(1, dtype=torch.bool)})

    def _set_seed(self, seed):
        pass


def push(td):
    return td.set(("joints", "torque"), torch.full((*td.batch_size, 2), 0.25))


def run():
    chain = Compose(
        UnsqueezeTransform(-1, in_keys=["clock"], out_keys=["ticks"]),
        CatTensors([("joints", "angle"), ("joints", "speed"), "ticks"], "observation", del_keys=False),
        RewardScaling(1.0, 2.0, in_keys=[("task", "reward")]),
        StepCounter(3),
    )
    env = TransformedEnv(Arm(), chain)
    data = env.rollout(5, push)
    renamed = TransformedEnv(Arm(), RenameTransform(["clock"], ["time"]))
    fewer = TransformedEnv(Arm(), ExcludeTransform(("joints", "speed")))
    chosen = TransformedEnv(Arm(), SelectTransform("clock", ("joints", "angle"), ("joints", "speed")))
    return {
        "data": data,
        "keys": [str(env.action_key), str(env.reward_key), [str(k) for k in env.done_keys]],
        "renamed": renamed.reset(),
        "fewer": sorted(map(str, fewer.observation_spec.keys(True, True))),
        "chosen": sorted(map(str, chosen.reset().keys(True, True))),
        "full": sorted(map(str, env.full_action_spec.keys(True, True))),
        "shape": tuple(env.observation_spec["observation"].shape),
        "reset keys": [str(k) for k in env.reset_keys],
        "fake": sorted(map(str, env.fake_tensordict().keys(True, True))),
    }
