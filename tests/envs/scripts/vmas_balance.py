"""A batch of robots of VMAS."""

import torch
from torchrl.envs.libs.vmas import VmasEnv, VmasWrapper


def rolled(name, **options):
    env = VmasEnv(name, num_envs=3, max_steps=20, seed=2, continuous_actions=True, **options)
    assert isinstance(env, VmasWrapper)
    env.set_seed(1)

    def policy(td):
        for key in env.full_action_spec.keys(True, True):
            shape = env.full_action_spec[key].shape
            td[key] = torch.linspace(-1, 1, shape.numel()).reshape(shape)
        return td

    rollout = env.rollout(8, policy, break_when_any_done=False)
    flags = [(group, name) for group in env.group_map for name in ("done", "terminated", "truncated")]  # ours alone
    more = ["truncated", *flags]
    return {
        "rollout": rollout.exclude(*more, *(("next", *((key,) if isinstance(key, str) else key)) for key in more)),
        "agents": env.agent_names,
        "groups": env.group_map,
        "unequal": env.het_specs,
        "rows": tuple(env.batch_size),
    }


def run():
    return {"balance": rolled("balance", n_agents=4), "simple_tag": rolled("simple_tag")}
