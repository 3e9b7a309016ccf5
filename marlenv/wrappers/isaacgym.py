"""Tasks of IsaacGymEnvs. Not run against the real simulator: tested on a stand-in with its interface.

https://github.com/isaac-sim/IsaacGymEnvs, written for 1.5.1 and Isaac Gym preview 4.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.envs.seeding import as_seed
from marlenv.errors import SpecTypeError, UnknownName, Unsupported, nearest, whole
from marlenv.optional import need
from marlenv.specs import Binary, Composite, Unbounded
from marlenv.tensordicts import rows
from marlenv.wrappers._base import EnvWrapper, own_options
from marlenv.wrappers._spaces import spec_of

SURFACE = ("num_envs", "observation_space", "action_space", "step", "reset_idx", "compute_observations", "obs_buf")


class IsaacGymWrapper(EnvWrapper):
    """A task of IsaacGymEnvs, all of whose envs step at once on the GPU.

    | key | shape | meaning |
    |---|---|---|
    | `obs` | float32 `[B, n]` | |
    | `states` | float32 `[B, n]` | what a critic may observe, where the task has it |
    | `action` | float32 `[B, n]` | |
    | `reward` | float32 `[B, 1]` | |
    | `done`, `terminated`, `truncated` | bool `[B, 1]` | truncated where the task says ``time_outs`` |

    Not run against the real simulator: the tests play a stand-in with the interface of its tasks.

    Isaac Gym starts a row anew in the step after its last one; here it is reset as in any env, so that its last
    observation is kept and no step is spent. Its seed is given when a task is made.

    Args:
        env: what ``isaacgymenvs.make`` made.
        **options: ``device`` (the task's when left out), ``allow_done_after_reset``, ``run_type_checks``.

    Raises:
        SpecTypeError: ``env`` lacks something of a ``VecTask``.

    >>> IsaacGymWrapper.libname
    'isaacgym'

    Source: IsaacGymEnvs 1.5.1, https://arxiv.org/abs/2108.10470.
    """

    libname: ClassVar[str] = "isaacgym"
    git_url: ClassVar[str] = "https://github.com/isaac-sim/IsaacGymEnvs"
    can_be_seeded: ClassVar[bool] = False
    skips_frames = False

    def __init__(self, env: Any = None, *, device: torch.device | str | int | None = None, **options: Any) -> None:
        device = getattr(env, "device", None) if device is None else device
        super().__init__(device=device, **options, **({} if env is None else {"env": env}))

    @classmethod
    def _task_names(cls) -> list[str]:
        need("isaacgym", cls.__name__)  # must be imported before torch's extensions are
        return sorted(need("isaacgymenvs.tasks", cls.__name__).isaacgym_task_map)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env: Any = kwargs.get("env")
        if lacks := [name for name in SURFACE if not hasattr(env, name)]:
            raise SpecTypeError(
                f"{type(self).__name__}: env must be a task that isaacgymenvs.make gives, got {type(env).__name__}, "
                f"which has no {lacks[0]!r}; IsaacGymEnv takes names"
            )

    def _build_env(self, env: Any = None) -> Any:
        return env

    def _make_specs(self, env: Any) -> None:
        self.task, batch = getattr(env, "__name__", type(env).__name__), (int(env.num_envs),)
        self.batch_size = batch
        seen = Composite(obs=spec_of(env.observation_space))
        if getattr(env, "num_states", 0):
            seen["states"] = spec_of(env.state_space)
        flag = Binary(shape=(1,), dtype=torch.bool)
        done = Composite(done=flag, terminated=flag.clone(), truncated=flag.clone())
        for family, spec in (
            ("observation", seen),
            ("action", Composite(action=spec_of(env.action_space))),
            ("reward", Composite(reward=Unbounded((1,)))),
            ("done", done),
        ):
            setattr(self, f"full_{family}_spec", spec.expand(*batch).to(self.device))

    def _reset(self, tensordict: TensorDictBase | None = None) -> TensorDict:
        env = self._env
        mask = None if tensordict is None or not self._began else tensordict.get("_reset", None)
        where = torch.ones(env.num_envs, dtype=torch.bool) if mask is None else rows(mask, 1)
        ids = where.nonzero().flatten().to(env.device)
        if len(ids):
            env.reset_idx(ids)
            env.compute_observations()
        self._began = True
        return self._data({"obs": env.obs_buf, "states": getattr(env, "states_buf", None)})

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        self._check_began("step")
        seen, reward, ends, infos = self._env.step(tensordict.get("action").to(self._env.device))
        over = ends.bool()
        cut = over & infos["time_outs"].bool() if "time_outs" in infos else torch.zeros_like(over)
        data = {"reward": reward.float(), "done": over, "truncated": cut, "terminated": over & ~cut}
        return self._data(seen).update(
            {name: value.clone().unsqueeze(-1).to(self.device) for name, value in data.items()}
        )

    def _data(self, seen: dict[str, Any]) -> TensorDict:
        """Copies of what is observed, because the task writes into the same memory again."""
        limit = float(getattr(self._env, "clip_obs", float("inf")))
        copies: dict[str, Tensor] = {
            name: seen[name].clamp(-limit, limit).clone() for name in self.full_observation_spec.keys()
        }
        return TensorDict(copies, self.batch_size).to(self.device)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            raise Unsupported(
                f"{type(self).__name__}.set_seed: a task takes its seed when it is made; pass seed= there"
            )


class IsaacGymEnv(IsaacGymWrapper):
    """A task of IsaacGymEnvs by its name, such as ``"Ant"`` or ``"ShadowHand"``.

    Args:
        task: its name.
        env: the same as ``task``, as TorchRL has it.
        num_envs: how many rows.
        device: where the task is simulated; the first GPU when left out, or the CPU if there is none.
        seed: of the task; from the operating system when left out.
        **options: those of :class:`IsaacGymWrapper`; all others go to ``isaacgymenvs.make``, such as ``headless``.

    Raises:
        UnknownName: there is no such task; names the nearest.

    >>> IsaacGymEnv.libname  # IsaacGymEnv("Ant", num_envs=2000, device="cuda:0")
    'isaacgym'

    Source: IsaacGymEnvs 1.5.1, https://arxiv.org/abs/2108.10470.
    """

    def __init__(
        self,
        task: str | None = None,
        *,
        env: str | None = None,
        num_envs: int,
        device: torch.device | str | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        who, name = type(self).__name__, task if env is None else env
        seed = None if seed is None else as_seed(who, seed)
        if task is not None and env is not None:
            raise SpecTypeError(f"{who}: task and env are two names of one thing, got both; leave one out")
        whole(who, "num_envs", num_envs, 1)
        known = self._task_names()
        if name not in known:
            raise UnknownName(f"{who}: IsaacGymEnvs has no task {name!r}; {nearest(str(name), known)}")
        device = ("cuda:0" if torch.cuda.is_available() else "cpu") if device is None else device
        ours, where = own_options(IsaacGymWrapper, options), str(device)
        made = need("isaacgymenvs", who).make(
            **{"headless": True, **options}, seed=seed, task=name, num_envs=num_envs, sim_device=where, rl_device=where
        )
        super().__init__(made, device=device, **ours)
        self.task = name
