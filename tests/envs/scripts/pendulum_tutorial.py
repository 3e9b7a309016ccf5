"""TorchRL's pendulum tutorial, shorter: a stateless env, transforms with the private decorator, a policy trained."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import CatTensors, EnvBase, Transform, TransformedEnv, UnsqueezeTransform
from torchrl.envs.transforms.transforms import _apply_to_composite
from torchrl.envs.utils import check_env_specs, make_composite_from_td, step_mdp


class Pendulum(EnvBase):
    batch_locked = False

    def __init__(self):
        super().__init__(device="cpu", batch_size=[])
        params = make_composite_from_td(self.gen_params()["params"], unsqueeze_null_shapes=False)
        self.observation_spec = Composite(th=Bounded(-4, 4, ()), thdot=Bounded(-8, 8, ()), params=params, shape=())
        self.state_spec = self.observation_spec.clone()
        self.action_spec, self.reward_spec = Bounded(-2, 2, (1,)), Unbounded((1,))
        self.set_seed(0)

    @staticmethod
    def gen_params(batch_size=()):
        return TensorDict({"params": TensorDict({"g": 10.0, "m": 1.0, "dt": 0.05}, [])}, []).expand(batch_size).clone()

    def _reset(self, tensordict):
        if tensordict is None or tensordict.is_empty():
            tensordict = self.gen_params(self.batch_size)
        drawn = [torch.rand(tensordict.shape, generator=self.rng) * 2 - 1 for _ in range(2)]
        return TensorDict({"th": drawn[0], "thdot": drawn[1], "params": tensordict["params"]}, tensordict.shape)

    @staticmethod
    def _step(tensordict):
        th, thdot, p = tensordict["th"], tensordict["thdot"], tensordict["params"]
        u = tensordict["action"].squeeze(-1).clamp(-2, 2)
        thdot = (thdot + (1.5 * p["g"] * th.sin() + 3.0 / p["m"] * u) * p["dt"]).clamp(-8, 8)
        th = ((th + thdot * p["dt"] + torch.pi) % (2 * torch.pi)) - torch.pi
        reward = -(th**2 + 0.1 * thdot**2 + 0.001 * u**2).unsqueeze(-1)
        out = {"th": th, "thdot": thdot, "params": p, "reward": reward, "done": torch.zeros_like(reward).bool()}
        return TensorDict(out, tensordict.shape)

    def _set_seed(self, seed):
        self.rng = torch.Generator().manual_seed(seed)


class Sin(Transform):
    def _apply_transform(self, obs):
        return obs.sin()

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec):
        return Bounded(-1, 1, observation_spec.shape, dtype=observation_spec.dtype)


def run():
    env = TransformedEnv(Pendulum(), UnsqueezeTransform(-1, in_keys=["th", "thdot"], in_keys_inv=["th", "thdot"]))
    env.append_transform(Sin(in_keys=["th"], out_keys=["sin"]))
    env.append_transform(CatTensors(in_keys=["sin", "thdot"], dim=-1, out_key="observation", del_keys=False))
    check_env_specs(env)
    env.set_seed(0)
    step = env.step(env.reset(env.gen_params([4])).set("action", torch.ones(4, 1)))
    net, returns = torch.nn.Linear(2, 1), []
    torch.nn.init.constant_(net.weight, 0.1), torch.nn.init.zeros_(net.bias)
    policy, optimiser = TensorDictModule(net, ["observation"], ["action"]), torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(3):
        begun = env.reset(env.gen_params([4]))
        played = env.rollout(10, policy, tensordict=begun, auto_reset=False)
        returns.append(played["next", "reward"].mean())
        (-returns[-1]).backward()
        optimiser.step(), optimiser.zero_grad()
    return {"step": step_mdp(step), "played": played.detach(), "returns": [float(x) for x in returns]}
