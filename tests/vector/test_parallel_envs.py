"""A parallel pool gives what a serial one gives, entry by entry, whatever the number of processes."""

from __future__ import annotations

import os
import pickle
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from pools import KINDS, Stateless, assert_equal, pool, refusals
from scripted_actions import Script
from sizes import first
from tensordict import TensorDict

import marlenv
from marlenv import Binary, Categorical, Composite, EnvBase, ParallelEnv, SerialEnv, TransformedEnv, Unbounded
from marlenv.errors import NeedsReset, SpecError, Unsupported
from marlenv.testing import CountingEnv, GroupedEnv
from marlenv.vector.buffers import Bell


@pytest.mark.parametrize(
    ("kind", "processes"),
    [*first(((kind, 2) for kind in KINDS), 2), ("counting", 3), ("groups", 1), ("transformed", 4)],
)
def test_parallel_is_serial_entry_by_entry(kind, processes):
    serial, parallel = pool(SerialEnv, kind), pool(ParallelEnv, kind, num_processes=processes)
    assert parallel.batch_size == serial.batch_size
    assert parallel.group_map == serial.group_map if hasattr(serial, "group_map") else True
    for family in ("observation", "reward", "done", "action", "state"):
        assert getattr(parallel, f"full_{family}_spec") == getattr(serial, f"full_{family}_spec")
    for how in ({}, {"break_when_any_done": False}, {"break_when_all_done": True}):
        seeds = [env.set_seed(5) for env in (serial, parallel)]
        assert seeds[0] == seeds[1]
        one, two = (env.rollout(8, **how) for env in (serial, parallel))
        assert_equal(one, two, how)
    parallel.close()


@pytest.fixture(scope="module", params=["counting", "rows", "groups without a root", "transformed"])
def twins(request):
    """A serial pool and a parallel one, where two processes share four envs."""
    envs = pool(SerialEnv, request.param), pool(ParallelEnv, request.param, num_processes=2)
    yield envs
    envs[1].close()


@pytest.mark.parametrize("rows", [[0], [1, 3], [2, 3], [0, 1, 2, 3], []])
def test_partial_steps_and_resets_are_those_of_a_series(twins, rows):
    data = []
    for env in twins:
        env.set_seed(2)
        td = env.reset()
        for _ in range(2):
            td = env.step_mdp(env.rand_step(td))
        mask = torch.zeros(env.batch_size, dtype=torch.bool)
        mask[rows] = True
        stepped = env.step(env.rand_action(td).set("_step", mask))
        data.append(stepped.clone())
        td = env.step_mdp(stepped)
        for path in [level.path for level in env.plan.done.top]:
            flag = td[(*path, "done")]
            where = mask.reshape(*mask.shape, *[1] * (flag.ndim - mask.ndim)).expand(flag.shape)
            td.set((*path, "_reset"), where.clone())
        data.append(env.reset(td).clone())
        data.append(env.rand_step(td))
    for one, two in zip(data[:3], data[3:], strict=True):
        assert_equal(one, two)


@pytest.mark.slow
def test_seeds_do_not_depend_on_the_number_of_processes():
    data = []
    for processes in (1, 2, 4):
        env = pool(ParallelEnv, "groups", num_processes=processes)
        last = env.set_seed(11)
        data.append((last, env.rollout(5)))
        env.close()
    for last, rollout in data[1:]:
        assert last == data[0][0]
        assert_equal(rollout, data[0][1])


def test_what_is_handed_out_is_never_written_again():
    env = pool(ParallelEnv, "counting", num_processes=2)
    td = env.reset()
    steps = []
    for _ in range(4):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        steps.append((data, data.clone()))
    for data, copy in steps:
        assert_equal(data, copy)
        leaves = [x.untyped_storage().data_ptr() for x in data["next"].values(True, True)]
        assert len(set(leaves)) == len(leaves)
    env.close()


def test_data_that_the_user_has_changed_reach_the_children():
    serial, parallel = pool(SerialEnv, "transformed"), pool(ParallelEnv, "transformed", num_processes=2)
    data = []
    for env in (serial, parallel):
        td = env.reset()
        td = env.step_mdp(env.step(td.set("action", torch.zeros(4, 1))))
        td["step_count"] += 2  # in place: the tensor is the one that came
        td["episode_reward"] = td["episode_reward"] * 10
        data.append(env.step(td.set("action", torch.zeros(4, 1))))
    assert data[0]["next", "step_count"].flatten().tolist() == [4] * 4
    assert data[0]["next", "episode_reward"].flatten().tolist() == [11] * 4
    assert_equal(*data)
    parallel.close()


def test_states_go_to_the_children_and_back():
    serial, parallel = pool(SerialEnv, "counting"), pool(ParallelEnv, "counting", num_processes=2)
    for env in (serial, parallel):
        env.rollout(2)
    states = [env.get_state() for env in (serial, parallel)]
    assert_equal(*states)
    states[0]["count"][2] = 5
    assert_equal(serial.set_state(states[0]), parallel.set_state(states[0]))
    assert parallel.get_state()["count"].flatten().tolist() == serial.get_state()["count"].flatten().tolist()
    parallel.close()


@pytest.mark.parametrize("kind", ["counting", "transformed"])
def test_some_rows_are_put_into_a_state(kind):
    data = []
    for env in (pool(SerialEnv, kind), pool(ParallelEnv, kind, num_processes=2)):
        td = env.reset()
        first = env.get_state(td)
        for _ in range(2):
            td = env.step_mdp(env.step(td.set("action", torch.zeros(4, 1))))
        data.append(env.set_state(first, torch.tensor([True, False, False, True]), td))
        data.append(env.step(data[-1].clone().set("action", torch.zeros(4, 1))))
        env.close()
    assert data[0]["observation"].flatten().tolist() == [0, 2, 2, 0]
    assert_equal(data[0], data[2])
    assert_equal(data[1], data[3])


def test_attributes_and_methods_are_asked_of_the_children():
    env = ParallelEnv(3, CountingEnv, create_env_kwargs=[{"max_steps": n} for n in (2, 3, 4)], num_processes=2)
    a, b, c = env.max_steps
    assert (a, b, c) == (2, 3, 4)
    assert env.numel() == 3
    assert env.extra_repr() == ""
    with pytest.raises(AttributeError, match="no_such_thing"):
        env.no_such_thing  # noqa: B018
    env.update_kwargs({"max_steps": 6})
    assert env.max_steps == [2, 3, 4]
    env.close()
    assert env.max_steps == [6, 6, 6]
    assert list(env.state_dict()) == ["worker0", "worker1", "worker2"]
    env.load_state_dict(env.state_dict())
    env.close()


@pytest.mark.parametrize("options", [{}, {"use_buffers": False, "num_processes": 1}])
def test_a_question_that_is_refused_leaves_the_children_alone(options):
    said, counts = refusals(ParallelEnv(2, Stateless, **options))
    assert said[0][1] == "Stateless: no states"
    assert counts == [2, 2]
    assert (said, counts) == refusals(SerialEnv(2, Stateless))


@pytest.mark.parametrize("pool_of", [SerialEnv, ParallelEnv])
def test_a_pool_that_has_ended_is_not_stepped_before_a_reset(pool_of):
    env = pool_of(2, CountingEnv)
    td = env.rand_action(env.reset())
    first = env[:1]
    env.close()
    for step in (env.step, env.step_and_maybe_reset):
        with pytest.raises(NeedsReset, match=r"Env.step: .* envs \[0, 1\] were started .* call reset\(\)"):
            step(td.clone())
    env.reset(td.clone().set("_reset", torch.tensor([[True], [False]])))
    assert first.step(td[:1].clone())["next", "observation"].flatten().tolist() == [1]
    with pytest.raises(NeedsReset, match=r"envs \[1\]"):
        env.step(td.clone())
    env.set_state(env.get_state())
    assert env.step(td)["next", "observation"].flatten().tolist() == [2, 1]
    env.close()
    with pytest.raises(NeedsReset, match=r"View.step: .* envs \[0\]"):
        first.step(td[:1].clone())
    env.close()


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_start_methods(method):
    env = ParallelEnv(2, lambda: CountingEnv(max_steps=2), mp_start_method=method)
    assert env.is_closed
    assert env.rollout(3)["next", "observation"].flatten().tolist() == [1, 2, 1, 2]
    env.close()


def test_one_child_may_be_a_series():
    env = ParallelEnv(1, CountingEnv, serial_for_single=True, mp_start_method="spawn")
    assert type(env) is SerialEnv
    assert env.is_spec_locked
    env = ParallelEnv(2, CountingEnv, serial_for_single=True)
    assert type(env) is ParallelEnv
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["counting", "groups", "uneven agents"])
def test_data_may_be_sent_piece_by_piece(kind):
    serial, parallel = pool(SerialEnv, kind), pool(ParallelEnv, kind, num_processes=2, use_buffers=False)
    data = []
    for env in (serial, parallel):
        env.set_seed(1)
        data.append(env.rollout(6, break_when_any_done=False))
    assert_equal(*data)
    parallel.close()


def test_children_may_be_pools():
    env = ParallelEnv(2, lambda: SerialEnv(3, lambda: GroupedEnv(batch_size=[4])))
    same = SerialEnv(2, lambda: SerialEnv(3, lambda: GroupedEnv(batch_size=[4])))
    data = []
    for one in (env, same):
        one.set_seed(5)
        data.append(one.rollout(3))
    assert_equal(*data)
    env.close()


def test_transforms_outside_see_what_they_see_of_a_series():
    data = []
    for cls, options in ((SerialEnv, {}), (ParallelEnv, {"num_processes": 2})):
        env = TransformedEnv(pool(cls, "counting", **options), marlenv.StepCounter(4))
        env.set_seed(3)
        data.append(env.rollout(7, Script(env), break_when_any_done=False))
        env.close()
    assert_equal(*data)


class CountingFrom(CountingEnv):
    """Begins at the sum of the options of its reset."""

    def _reset(self, tensordict, *, first=0, more=0):
        out = super()._reset(tensordict)
        return out.set("observation", out["observation"] + first + more)


def test_resets_take_keyword_arguments():
    env = ParallelEnv(2, CountingFrom, num_processes=1)
    assert env.reset(list_of_kwargs=[{"first": 1}, {"first": 2}], more=3)["observation"].flatten().tolist() == [4, 5]
    assert env.reset()["observation"].flatten().tolist() == [0, 0]
    env.close()


def test_pools_keep_the_contract():
    env = pool(ParallelEnv, "groups", num_processes=2)
    env.check_env_specs()
    env.close()


def test_a_step_is_one_wake_up_per_process_and_nothing_in_pipes(monkeypatch):
    env = pool(ParallelEnv, "groups", num_processes=2)
    td = env.rand_action(env.reset())  # the first asks for a seed
    rung = []
    monkeypatch.setattr(Bell, "ring", lambda self, ring=Bell.ring: (rung.append(self), ring(self)))
    for worker in env._workers:  # the side of the pool of everything that could be sent or received
        worker.pipe.close()
    for _ in range(5):
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    assert len(rung) == 10
    env.close()


def test_processes_are_forked_from_one_that_has_imported_torch():
    env = ParallelEnv(2, CountingEnv)
    env.reset()
    parents = {int(Path(f"/proc/{one.process.pid}/stat").read_text().split(")")[1].split()[1]) for one in env._workers}
    assert len(parents) == 1
    assert os.getpid() not in parents
    assert "libtorch" in Path(f"/proc/{parents.pop()}/maps").read_text()
    env.close()


class Sometimes(CountingEnv):
    """Has an entry in some of its steps."""

    def __init__(self, when):
        super().__init__(max_steps=9)
        self.when = when
        self.full_observation_spec = Composite(self.full_observation_spec.clone(), extra=Unbounded(1))

    def _reset(self, tensordict):
        return super()._reset(tensordict).set("extra", torch.zeros(1))

    def _step(self, tensordict):
        out = super()._step(tensordict)
        return out.set("extra", torch.ones(1)) if int(out["observation"]) in self.when else out


def test_an_entry_that_one_child_leaves_out_is_not_the_one_of_the_step_before():
    env = ParallelEnv(2, Sometimes, create_env_kwargs=[{"when": (1, 2)}, {"when": (1,)}])
    td = env.step_mdp(env.rand_step(env.reset()))
    with pytest.raises(SpecError, match=r"'extra' is among the data of env 0 and not among those of env 1"):
        env.rand_step(td)
    env.close(raise_if_closed=False)


def test_numbers_that_the_spec_does_not_have_are_not_wrapped():
    env = ParallelEnv(2, few, num_processes=1)
    td = env.reset()
    with pytest.raises(SpecError, match=r"'action' must be torch.uint8, got torch.int64 with values that it does not"):
        env.step(td.set("action", torch.tensor([259, 1])))
    assert env.step(td.set("action", torch.tensor([4, 1])))["next", "observation"].flatten().tolist() == [1, 1]
    env.close()


def few():
    """A choice in few bits."""
    env = CountingEnv(max_steps=9)
    env.full_action_spec = Composite(action=Categorical(5, dtype=torch.uint8))
    return env


class Angle(EnvBase):
    """Its state is in the data: an angle that actions add to."""

    def __init__(self):
        super().__init__()
        self.state_spec = self.observation_spec = Composite(angle=Unbounded(1))
        self.action_spec, self.reward_spec = Composite(action=Unbounded(1)), Unbounded(1)
        self.done_spec = Composite(done=Binary(1, dtype=torch.bool))

    def _reset(self, tensordict):
        return TensorDict({"angle": torch.zeros(1)})

    def _step(self, tensordict):
        angle = tensordict["angle"] + tensordict["action"]
        return TensorDict({"angle": angle, "reward": angle.clone(), "done": torch.zeros(1, dtype=torch.bool)})

    def _set_seed(self, seed):
        """Nothing is drawn."""


@pytest.mark.parametrize("write", [lambda x: x.numpy().fill(100), lambda x: x.data.fill_(100)], ids=["numpy", "data"])
def test_states_that_were_changed_without_a_trace_are_sent(write):
    env = ParallelEnv(2, Angle, num_processes=1)
    act = torch.ones(2, 1)
    td = env.step_mdp(env.step(env.reset().set("action", act)))
    write(td["angle"])
    assert env.step(td.set("action", act))["next", "angle"].flatten().tolist() == [101, 101]
    env.close()


def test_a_pool_that_does_not_run_is_copied_and_pickled():
    env = ParallelEnv(2, CountingEnv)
    for copy in (deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert copy.rollout(3)["next", "observation"].flatten().tolist() == [1, 2, 3, 1, 2, 3]
        with pytest.raises(Unsupported, match="its workers run, and cannot be copied or pickled; close it first"):
            pickle.dumps(copy)
        copy.close()


def test_some_children_of_a_pool_that_does_not_run_are_copied():
    env = ParallelEnv(3, CountingEnv)
    part = env[1:]
    with pytest.raises(Unsupported, match="its workers run, and cannot be copied or pickled; close it first"):
        deepcopy(part)
    env.close()
    twin = deepcopy(part)
    assert twin.rollout(3)["next", "observation"].flatten().tolist() == [1, 2, 3, 1, 2, 3]
    assert env.is_closed
    twin._pool.close()
