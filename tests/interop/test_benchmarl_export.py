"""Our envs as tasks of BenchMARL: short runs. It needs an older TorchRL, and so an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
PYTHON = Path(os.environ.get("BENCHMARL_PYTHON", Path(sys.prefix) / "benchmarl" / "bin" / "python"))
if not PYTHON.exists():
    pytest.skip("needs BenchMARL: VENV=.venv tests/simulators.sh benchmarl", allow_module_level=True)

RUN = """
import json, sys
from benchmarl.algorithms import IqlConfig, MappoConfig
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from marlenv import to_benchmarl

name, algorithm, folder, options = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
config = ExperimentConfig.get_from_yaml()
config.max_n_iters, config.render, config.loggers, config.create_json = 2, False, [], False
config.on_policy_collected_frames_per_batch = config.off_policy_collected_frames_per_batch = 400
config.on_policy_n_envs_per_worker = config.off_policy_n_envs_per_worker = 8
config.on_policy_minibatch_size, config.on_policy_n_minibatch_iters = 100, 2
config.off_policy_train_batch_size, config.off_policy_n_optimizer_steps = 64, 4
config.evaluation, config.evaluation_interval, config.evaluation_episodes = True, 400, 4
config.save_folder = folder
experiment = Experiment(
    task=to_benchmarl(name, **options),
    algorithm_config={"mappo": MappoConfig, "iql": IqlConfig}[algorithm].get_from_yaml(),
    model_config=MlpConfig.get_from_yaml(),
    critic_model_config=MlpConfig.get_from_yaml(),
    seed=0,
    config=config,
)
before = [weight.clone() for weight in experiment.policy.parameters()]
experiment.run()
moved = any(not old.equal(new) for old, new in zip(before, experiment.policy.parameters()))
groups = sorted(experiment.group_map)
print("RESULT", json.dumps([experiment.total_frames, float(experiment.mean_return), moved, groups]))
"""


def run(name: str, algorithm: str, folder: Path, **options: Any) -> Any:
    given = [str(PYTHON), "-W", "ignore", "-c", RUN, name, algorithm, str(folder), json.dumps(options)]
    done = subprocess.run(given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))[7:])


def test_a_short_run_of_mappo(tmp_path: Path) -> None:
    frames, mean, moved, groups = run("simple_spread", "mappo", tmp_path, max_steps=25, compile="none")
    assert (frames, moved, groups) == (800, True, ["agents"])
    assert -1000 < mean < 0


def test_numbered_actions_of_several_groups(tmp_path: Path) -> None:
    frames, _, moved, groups = run("simple_tag", "iql", tmp_path, max_steps=25, compile="none")
    assert (frames, moved, groups) == (800, True, ["adversary", "agent"])


KINDS = """
import json
import marlenv

class Mine(type(marlenv.make("simple_spread").scenario)):
    pass

def told(num_envs=1, continuous_actions=True, max_steps=9):
    return marlenv.make("simple_spread", num_envs=num_envs, continuous_actions=continuous_actions, max_steps=max_steps)

def untold(num_envs=1, max_steps=9):
    return marlenv.make("simple_spread", num_envs=num_envs, max_steps=max_steps)

def numbered(num_envs=1, max_steps=9):
    return marlenv.make("simple_spread", num_envs=num_envs, continuous_actions=False, max_steps=max_steps)

for name, factory in {"mine": Mine, "told": told, "untold": untold, "numbered": numbered}.items():
    marlenv.register(name, factory)
found = {}
for name in ("simple_spread", "mine", "told", "untold", "numbered", "tic_tac_toe"):
    task = marlenv.to_benchmarl(name, max_steps=9)
    kinds = task.supports_continuous_actions(), task.supports_discrete_actions()
    env = task.get_env_fun(2, kinds[0], 0, "cpu")()
    found[name] = (*kinds, all(env.full_action_spec[key].dtype.is_floating_point for key in env.action_keys))
task = marlenv.to_benchmarl("mine", max_steps=9, continuous_actions=False)
found["mine, numbered"] = task.supports_continuous_actions(), task.supports_discrete_actions(), None
print("RESULT", json.dumps(found))
"""


def test_what_is_registered_has_the_actions_that_its_env_has() -> None:
    done = subprocess.run([str(PYTHON), "-W", "ignore", "-c", KINDS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))[7:])
    assert found == {
        "simple_spread": [True, True, True],
        "mine": [True, True, True],
        "told": [True, True, True],
        "untold": [True, False, True],
        "numbered": [False, True, False],
        "tic_tac_toe": [False, True, False],
        "mine, numbered": [False, True, None],
    }


def test_bad_input_is_named(tmp_path: Path) -> None:
    for options, says in (({"max_steps": 0}, "to_benchmarl: max_steps"), ({"max_steps": 3}, "simple_spread")):
        name = "simple_spread" if options["max_steps"] == 0 else "simple_spred"
        code = f"import marlenv; marlenv.to_benchmarl({name!r}, **{options})"
        done = subprocess.run([str(PYTHON), "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert says in done.stderr
