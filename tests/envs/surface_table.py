"""What TorchRL's documents name, and what of it we have not, or otherwise, for a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DOCUMENTED = """
    EnvBase EnvMetaData GymLikeEnv ModelBasedEnvBase DreamerEnv DreamerDecoder
    ChessEnv FinancialRegimeEnv LLMHashingEnv PendulumEnv TicTacToeEnv
    SerialEnv ParallelEnv EnvCreator AsyncEnvPool ProcessorAsyncEnvPool ThreadingAsyncEnvPool
    MarlGroupMapType check_marl_grouping
    RandomPolicy check_env_specs exploration_mode exploration_type get_available_libraries make_composite_from_td
    set_exploration_mode set_exploration_type set_interaction_type step_mdp terminated_or_truncated split_trajectories
    implement_for
    Transform TransformedEnv ActionDiscretizer ActionMask AutoResetEnv AutoResetTransform BatchSizeTransform
    BinarizeReward BurnInTransform CatFrames CatTensors CenterCrop ClipTransform Compose ConditionalPolicySwitch
    ConditionalSkip Crop DTypeCastTransform DeviceCastTransform DiscreteActionProjection DoubleToFloat
    EndOfLifeTransform ExcludeTransform FiniteTensorDictCheck FlattenObservation FrameSkipTransform GrayScale Hash
    InitTracker KLRewardTransform LineariseRewards MultiAction NoopResetEnv ObservationNorm ObservationTransform
    PermuteTransform PinMemoryTransform R3MTransform RandomCropTensorDict RemoveEmptySpecs RenameTransform Resize
    Reward2GoTransform RewardClipping RewardScaling RewardSum SelectTransform SignTransform SqueezeTransform Stack
    StepCounter TargetReturn TensorDictPrimer TimeMaxPool Timer ToTensorImage Tokenizer TrajCounter UnaryTransform
    UnsqueezeTransform VC1Transform VIPRewardTransform VIPTransform VecGymEnvTransform VecNorm VecNormV2 gSDENoise
    TensorDictRecorder VideoRecorder PixelRenderTransform CSVLogger WandbLogger TensorboardLogger
    BraxEnv BraxWrapper DMControlEnv DMControlWrapper GymEnv GymWrapper HabitatEnv IsaacGymEnv IsaacGymWrapper
    IsaacLabWrapper JumanjiEnv JumanjiWrapper MOGymEnv MOGymWrapper MeltingpotEnv MeltingpotWrapper MultiThreadedEnv
    MultiThreadedEnvWrapper OpenMLEnv OpenSpielEnv OpenSpielWrapper PettingZooEnv PettingZooWrapper ProcgenEnv
    RoboHiveEnv SMACv2Env SMACv2Wrapper UnityMLAgentsEnv UnityMLAgentsWrapper VmasEnv VmasWrapper gym_backend
    set_gym_backend register_gym_spec_conversion
"""


def _state() -> Any:
    import pyspiel

    return pyspiel.load_game("matrix_pd").new_initial_state()


def _parallel_game() -> Any:
    from mpe2 import simple_tag_v3

    return simple_tag_v3.parallel_env()


def _gym() -> Any:
    import gymnasium

    return gymnasium.make("Pendulum-v1")


def _vmas() -> Any:
    import vmas

    return vmas.make_env("simple_tag", num_envs=2)


# Envs of which an instance is compared too -> how it is made with the names of a library.
INSTANCES: dict[str, Callable[[Any], Any]] = {
    "VmasEnv": lambda lib: lib.VmasEnv("balance", num_envs=2),
    "VmasWrapper": lambda lib: lib.VmasWrapper(_vmas()),
    "PettingZooEnv": lambda lib: lib.PettingZooEnv("classic/tictactoe_v3", parallel=False, use_mask=True),
    "PettingZooWrapper": lambda lib: lib.PettingZooWrapper(_parallel_game()),
    "GymEnv": lambda lib: lib.GymEnv("CartPole-v1"),
    "GymWrapper": lambda lib: lib.GymWrapper(_gym()),
    "OpenSpielEnv": lambda lib: lib.OpenSpielEnv("kuhn_poker"),
    "OpenSpielWrapper": lambda lib: lib.OpenSpielWrapper(_state()),
    "ChessEnv": lambda lib: lib.ChessEnv(),
    "ChessEnv bare": lambda lib: lib.ChessEnv(stateful=True, include_fen=True, mask_actions=False),
    "TicTacToeEnv": lambda lib: lib.TicTacToeEnv(),
    "PendulumEnv": lambda lib: lib.PendulumEnv(),
    "FinancialRegimeEnv": lambda lib: lib.FinancialRegimeEnv(),
    "SerialEnv": lambda lib: lib.SerialEnv(2, lib.PendulumEnv),
    "TransformedEnv": lambda lib: lib.TransformedEnv(
        lib.PendulumEnv(), lib.Compose(lib.StepCounter(), lib.RewardSum())
    ),
}

# Why something is absent, or differs -> what: patterns of "Name", "Name.member", "Name(argument)" and
# "Name.member(argument)", or "in:" and a module of torchrl. A row that begins with LATER shrinks as rooms are built.
LATER = "not built yet: "
BECAUSE: dict[str, str] = {
    "nothing is read, and nothing is written, in both": "Transform(in_keys) Transform(in_keys_inv)",
    "TorchRL never calls it": "Transform.init",
    "a chain has no keys of its own": "Compose(out_keys) Compose(out_keys_inv) Compose.inv(*)",
    "the last one when left out, as of lists": "Compose.pop(*) *3MTransform.pop(*) VIP*Transform.pop(*)",
    "TorchRL fails without them": "Bounded(low) Bounded(high)",
    "pools are made by name: ParallelEnv(n, partial(DMControlEnv, ...))": """
        DMControlEnv(num_workers) HabitatEnv(num_workers) BraxEnv(num_workers)
    """,
    "infos of gym's envs are read on request": "RoboHiveEnv.read_info",
    "whether there are pixels is said when an env is made": "RoboHiveEnv.set_from_pixels",
    "cameras are given to the task, and no task of another name is made": """
        RoboHiveEnv.CURR_DIR RoboHiveEnv.env_list RoboHiveEnv.register_envs RoboHiveEnv.register_visual_env
    """,
    "one name in all envs of gym's kind (`observations`)": "RoboHiveEnv.read_obs(observation)",
    "as those of the pool": "EnvBase.make_parallel(*) EnvBase.configure_parallel(*)",
    "TorchRL's pools say now 1 and now None, which is the pool's own min_get": "*AsyncEnvPool.*(min_get)",
    "pictures are in the data with `from_pixels=True`, and with `PixelRenderTransform(pass_tensordict=True)`": """
        Jumanji*.make_render
    """,
    "no wrappers of gym's kind here: a step is read by the base of simulators in JAX, or of many rows": """
        Isaac*.read_* Isaac*.*info_dict* Jumanji*.read_* Jumanji*.*info_dict* IsaacGym*(categorical_action_encoding)
        IsaacLabWrapper(convert_actions_to_numpy)
    """,
    "Isaac Lab resets what is done by itself, always": "IsaacLabWrapper(native_autoreset)",
    "a reset env is not done": "IsaacLabWrapper(allow_done_after_reset)",
    "what was asked for is in the env that was made": "UnityMLAgentsEnv.file_name UnityMLAgentsEnv.registered_name",
    "a function of the package: `marlenv.register_gym(id, entry_point)`": "EnvBase.register_gym",
    "a constant that the class's own messages are made of": "*.ACCEPTED_SPECS *.SPEC_TYPE_ERROR *.CONFLICTING_KWARGS",
    "inside TorchRL's own machinery": """
        TensorSpec(*) TensorSpec.SPEC_HANDLED_FUNCTIONS TensorSpec.implements_for_spec SerialEnv.select_and_clone
        ParallelEnv.select_and_clone
        VmasEnv.read_* VmasWrapper.read_* TicTacToeEnv.full TicTacToeEnv.win TicTacToeEnv.get_action_mask
        *Gym*.fast_encoding *Gym*.validated *Gym*.rebuild_with_kwargs DMControl*.fast_encoding DMControl*.validated
        DMControl*.rebuild_with_kwargs *Gym*.get_library_name implement_for.*
        Habitat*.fast_encoding Habitat*.validated Habitat*.rebuild_with_kwargs Habitat*.get_library_name
        RoboHive*.fast_encoding RoboHive*.validated RoboHive*.rebuild_with_kwargs RoboHive*.get_library_name
        Isaac*.fast_encoding Isaac*.validated Isaac*.rebuild_with_kwargs Isaac*.get_library_name IsaacLabWrapper.seed
        Jumanji*.fast_encoding Jumanji*.validated Jumanji*.key Brax*.jax
        set_gym_backend.clone EnvBase.eager PettingZoo*.cached_* OpenSpiel*.requires_grad
        Vmas*.from_pixels Vmas*.pixels_only
    """,
    "our chess masks its actions itself; TorchRL's is a base env and a transform": """
        ChessEnv.base_env ChessEnv.transform ChessEnv.insert_transform ChessEnv.set_missing_tolerance
    """,
    "collectors stay in TorchRL": "EnvBase.collector EnvBase.register_collector Transform.collector",
    "the core never imports python-chess: positions are FEN, games are PGN": "ChessEnv*.lib ChessEnv*.board",
    "the bounds of a spec are read through `space.low` and `space.high`, and moved with their spec": """
        ContinuousBox* BoxList.* CategoricalBox.clone CategoricalBox.__iter__
    """,
    "what a missing entry gives is the same; the mark for it is ours": """
        Composite.get(default) Composite.pop(default) StackedComposite.get(default) StackedComposite.pop(default)
    """,
    "one name for the value in all specs (`val`)": "Stacked.is_in(value) StackedComposite.is_in(value)",
    "one name in all composites (`specs`)": "StackedComposite.update(dict)",
    "numbers of the parts are `nvec`": "MultiCategorical.n MultiOneHot.n",
    "`alive` and `mask` say who acts in every wrapper; `use_mask=False` leaves them out": "PettingZoo*(use_mask)",
    "the same group without saying so": "Meltingpot*(group_map)",
    "how children hand over their data": "SerialEnv.has_lazy_inputs SerialEnv.shared_tensordict*",
    "a state is put into rows by `env.set_state(state, mask)`": "SerialEnv.__setitem__ ParallelEnv.__setitem__",
    "the simulator's own, reached through the env": "SMACv2*.get_obs",
    "`make_composite_from_td` is a function of the package; a row has its own generator": """
        PendulumEnv.make_composite_from_td PendulumEnv.rng FinancialRegimeEnv.rng
    """,
    "what a transform is made of inside": """
        ActionDiscretizer.custom_arange CatTensors.keys_to_exclude CatFrames.inplace VC1Transform.inplace VecNorm.SEP
        VecNormV2.SEP VecNormV2.prefix VecGymEnvTransform.obs_keys
        DeviceCastTransform.transform_*_spec(full_*) Hash.transform_*_spec(test_*)
        UnaryTransform.transform_*_spec(test_*)
        Tokenizer.transform_*_spec(test_*) VecNormV2.transform_reward_spec(observation_spec)
        SqueezeTransform.unsqueeze_dim
        StepCounter.all_done_keys StepCounter.all_truncated_keys StepCounter.full_done_spec
    """,
    "the env knows which flags govern an entry": """
        CatFrames.reset_key TargetReturn.reset_key TensorDictPrimer.reset_key TimeMaxPool.reset_key gSDENoise.reset_key
        RewardSum.reset_keys
    """,
    "messages are texts of errors": """
        CatFrames.ACCEPTED_PADDING EndOfLifeTransform.NO_PARENT_ERR Reward2GoTransform.ENV_ERR TargetReturn.MODES
        TargetReturn.MODE_ERR VC1Transform.IMPORT_ERROR
    """,
    "samplers of replay buffers are for stored data and stay in TorchRL": """
        CatFrames.make_rb_transform_and_sampler
        MultiAction.from_vla
    """,
    "a module says where its parameters live": """
        R3MTransform.device R3MTransform.dtype VC1Transform.device VC1Transform.dtype VIP*Transform.device
        VIP*Transform.dtype TensorDictPrimer.device gSDENoise.device Tokenizer.device Tokenizer.out_device
    """,
    "the network is made here, without the package of its authors": """
        VC1Transform.install_vc_models VC1Transform.make_noload_model
    """,
    "as of every chain": "R3MTransform.inv(*) VIP*Transform.inv(*) VC1Transform.inv(*)",
    "loggers are objects in this process; newer than the documents": """
        *Logger(use_ray_service) *Logger(service_*) *Logger.client *Logger.service_backend *Logger.start
        *Logger.shutdown
        *Logger.is_alive *Logger.close(timeout) *Logger.flush(timeout)
        WandbLogger.*(override_global_step) WandbLogger.log_scalar(commit) CSVLogger.print_log_dir
    """,
    "films are files; notebooks show them": "VideoRecorder.to_animation",
    "None is what fits: contiguous unless a spec is dynamic": "EnvBase.rollout(return_contiguous)",
}
EXPLAINED = {pattern: why for why, patterns in BECAUSE.items() for pattern in patterns.split()}
