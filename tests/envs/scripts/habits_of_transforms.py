"""What scripts do with transformed envs: look inside, insert, append, clone, call on data, normalise, stack frames."""

import torch
from torchrl.envs import (
    CatFrames,
    ClipTransform,
    Compose,
    DoubleToFloat,
    InitTracker,
    ObservationNorm,
    PendulumEnv,
    RewardClipping,
    RewardSum,
    StepCounter,
    TransformedEnv,
    UnsqueezeTransform,
)


def run():
    env = TransformedEnv(
        PendulumEnv(), Compose(UnsqueezeTransform(-1, in_keys=["th", "thdot"], in_keys_inv=["th", "thdot"]))
    )
    env.append_transform(StepCounter(max_steps=4))
    env.insert_transform(0, RewardClipping(-5.0, 0.0))
    env.append_transform(RewardSum())
    env.append_transform(InitTracker())
    names = [type(t).__name__ for t in env.transform]
    start = env.reset()
    start = start.set("th", torch.full((1,), 0.5)).set("thdot", torch.zeros(1))
    data = env.rollout(6, lambda td: td.set("action", torch.zeros(1)), tensordict=start, auto_reset=False)
    norm = ObservationNorm(loc=1.0, scale=2.0, in_keys=["th"], standard_normal=True)
    frames = CatFrames(N=3, dim=-1, in_keys=["th"])
    td = data.select("th", "thdot").clone()
    normed = norm(td.clone())["th"]
    clipped = ClipTransform(in_keys=["th"], low=-0.1, high=0.1)(td.clone())["th"]
    return {
        "names": names,
        "data": data.exclude("params", "rng", ("next", "params"), ("next", "rng")),
        "normed": normed,
        "clipped": clipped,
        "frames": frames(data.clone())["th"],
        "base": [type(env.base_env).__name__, type(env.transform[0].parent.base_env).__name__],
        "sub": [type(t).__name__ for t in env.transform[1:3]],
        "count": len(env.transform),
        "float": DoubleToFloat(in_keys=["x"])(td.clone().set("x", td["th"].double()))["x"].dtype == torch.float32,
    }
