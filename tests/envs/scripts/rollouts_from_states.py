"""Rollouts and resets that start from a state in the data: an own env, alone and in series, a pendulum and chess."""

import torch
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded
from torchrl.envs import ChessEnv, EnvBase, PendulumEnv, SerialEnv, StepCounter, TransformedEnv

FEN = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"


class Climb(EnvBase):
    _supports_set_state = True

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(height=Unbounded((1,)))
        self.state_spec = Composite(height=Unbounded((1,)))
        self.action_spec = Unbounded((1,))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict, set_state=False):
        height = tensordict["height"].clone() if set_state else torch.zeros(1)
        return TensorDict({"height": height}, [])

    def _step(self, tensordict):
        height = tensordict["height"] + tensordict["action"]
        return TensorDict({"height": height, "reward": height.clone(), "done": height > 5}, [])

    def _set_seed(self, seed):
        pass


class Forgetful(Climb):
    _supports_set_state = False


def up(td):
    return td.set("action", torch.ones(*td.batch_size, 1))


def first_legal(td):
    return td.set("action", td["action_mask"].int().argmax(-1))


def heights(env, batch, set_state):
    start = TensorDict({"height": torch.full((*batch, 1), 3.0)}, batch)
    try:
        return env.rollout(9, up, tensordict=start, auto_reset=True, set_state=set_state)["next", "height"]
    except NotImplementedError:
        return "not implemented"


def run():
    transformed = TransformedEnv(Climb(), StepCounter())
    pool = SerialEnv(2, Climb)
    pendulum = PendulumEnv().gen_params(batch_size=[2])
    pendulum["th"], pendulum["thdot"] = torch.tensor([0.5, -1.0]), torch.tensor([0.25, 2.0])
    actions = iter(torch.linspace(-2, 2, 8).reshape(4, 2, 1))
    swing = PendulumEnv().rollout(
        4, lambda td: td.set("action", next(actions)), tensordict=pendulum, set_state=True, auto_reset=True
    )
    chess = ChessEnv(include_fen=True).rollout(3, first_legal, tensordict=TensorDict({"fen": FEN}), set_state=True)
    return {
        "from": heights(Climb(), [], True),
        "not from": heights(Climb(), [], False),
        "transformed": heights(transformed, [], True),
        "pool": heights(pool, [2], True),
        "pool, not from": heights(pool, [2], False),
        "refused": heights(Forgetful(), [], True),
        "refused by a pool": heights(SerialEnv(2, Forgetful), [2], True),
        "not asked": heights(Forgetful(), [], False),
        "swing": swing.select("th", "thdot", ("next", "th"), ("next", "reward")),
        "chess": [(step["fen"], int(step["action"]), step["next", "fen"]) for step in chess.unbind(0)],
        "flags": [env._supports_set_state for env in (Climb(), Forgetful(), transformed, pool)],
    }
