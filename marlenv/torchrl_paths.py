"""TorchRL's public modules and what they hold: the one table from its names to ours.

A name of :data:`PATHS` that marlenv has is the public name ``marlenv.<name>``, wherever its room is: nothing here says
which of them we have, so a room that is built later is found without a word in this file.
"""

from __future__ import annotations

# Module of torchrl, without "torchrl." -> the names that are defined there, in 0.14.1 or one of the documented versions
# before it. A module also gives what the modules below it hold, as torchrl's do. Of several modules that hold a name
# the first is where it is at home.
PATHS: dict[str, str] = {
    "_utils": "auto_unwrap_transformed_env implement_for logger seed_generator set_auto_unwrap_transformed_env",
    "collectors.utils": "split_trajectories",
    "data": """
        ActionTokenizerBase AdaptiveKLController BinaryToDecimal clear_video_decoder_cache CompressedListStorage
        CompressedListStorageCheckpointer ConditionalUpdateResult ConstantKLController ConsumingSampler ContentBase
        create_infinite_iterator DEFAULT_DONE_KEYS DensifyReward DEVICE_TYPING filter_trajectories find_start_stop_traj
        Flat2TED FlatStorageCheckpointer get_dataloader H5Combine H5Split H5StorageCheckpointer HashToInt
        HERReplayBuffer HindsightStrategy History ImmutableDatasetWriter iter_trajectories LazyMemmapStorage
        LazyStackStorage LazyTensorStorage ListStorage ListStorageCheckpointer MCTSForest MultiStep Nested2TED
        NestedStorageCheckpointer OfflineToOnlineReplayBuffer PairwiseDataset prefill_replay_buffer
        PrioritizedReplayBuffer PrioritizedSampler PrioritizedSliceSampler PromptData PromptGroupSampler
        PromptTensorDictTokenizer QueryModule RandomProjectionHash RandomSampler RayReplayBuffer
        RemoteTensorDictReplayBuffer ReplayBuffer ReplayBufferEnsemble RewardData RobotDatasetMetadata RolloutFromModel
        RoundRobinWriter SamplerEnsemble SamplerWithoutReplacement SampleUnit Sequence set_video_decoder_cache_size
        SipHash SliceSampler SliceSamplerWithoutReplacement StalenessAwareSampler Storage StorageCheckpointerBase
        StorageEnsemble StorageEnsembleCheckpointer StoreStorage StreamingSliceSampler TED2Flat TED2Nested TensorDictMap
        TensorDictMaxValueWriter TensorDictPrioritizedReplayBuffer TensorDictReplayBuffer TensorDictRoundRobinWriter
        TensorDictTokenizer TensorMap TensorStorage TensorStorageCheckpointer TokenizedDatasetLoader TopKRewardSelector
        Trajectory TrajectoryPredicate Transition Tree UniformActionTokenizer validate_vla_tensordict VideoClipRef
        VocabTailActionTokenizer Writer WriterEnsemble
    """,
    "data.tensor_specs": """
        Binary BinaryBox BinaryDiscreteTensorSpec Bounded BoundedContinuous BoundedDiscrete BoundedTensorSpec Box
        BoxList Categorical CategoricalBox Choice Composite CompositeSpec ContinuousBox DiscreteBox DiscreteTensorSpec
        LazyStackedCompositeSpec LazyStackedTensorSpec MultiCategorical MultiDiscreteTensorSpec MultiOneHot
        MultiOneHotDiscreteTensorSpec NonTensor NonTensorSpec OneHot OneHotDiscreteTensorSpec Stacked StackedComposite
        TensorSpec Unbounded UnboundedContinuous UnboundedContinuousTensorSpec UnboundedDiscrete
        UnboundedDiscreteTensorSpec
    """,
    "data.utils": "check_no_exclusive_keys CloudpickleWrapper consolidate_spec contains_lazy_spec",
    "envs": "",
    "envs.async_envs": "AsyncEnvPool ProcessorAsyncEnvPool ThreadingAsyncEnvPool",
    "envs.batched_envs": "BatchedEnvBase ParallelEnv SerialEnv",
    "envs.common": "EnvBase EnvMetaData make_tensordict",
    "envs.custom": "",
    "envs.custom.chess": "ChessEnv",
    "envs.custom.llm": "LLMHashingEnv",
    "envs.custom.mujoco": """
        AntEnv CubeBowlEnv HopperEnv HumanoidEnv MicroDuckEnv MicroDuckTask MicroDuckTaskSampler MujocoEnv
        SatelliteEnv Walker2dEnv
    """,
    "envs.custom.pendulum": "PendulumEnv",
    "envs.custom.tictactoeenv": "TicTacToeEnv",
    "envs.custom.trading": "FinancialRegimeEnv",
    "envs.custom.vla": "ToyVLAEnv",
    "envs.env_creator": "env_creator EnvCreator get_env_metadata",
    "envs.gym_like": "BaseInfoDictReader default_info_dict_reader GymLikeEnv",
    "envs.libs": "",
    "envs.libs.brax": "BraxEnv BraxWrapper",
    "envs.libs.craftground": "CraftGroundEnv CraftGroundWrapper",
    "envs.libs.dm_control": "DMControlEnv DMControlWrapper",
    "envs.libs.envpool": "MultiThreadedEnv MultiThreadedEnvWrapper",
    "envs.libs.genesis": "GenesisEnv GenesisWrapper",
    "envs.libs.gym": """
        gym_backend GymEnv GymWrapper MOGymEnv MOGymWrapper register_gym_spec_conversion set_gym_backend
        terminal_obs_reader
    """,
    "envs.libs.habitat": "HabitatEnv",
    "envs.libs.isaac_lab": "IsaacLabWrapper",
    "envs.libs.isaacgym": "IsaacGymEnv IsaacGymWrapper",
    "envs.libs.jumanji": "JumanjiEnv JumanjiWrapper",
    "envs.libs.lbforaging": "LBForagingEnv LBForagingWrapper",
    "envs.libs.libero": "LiberoEnv LiberoWrapper",
    "envs.libs.meltingpot": "MeltingpotEnv MeltingpotWrapper",
    "envs.libs.mjlab": "MJLabEnv MJLabWrapper",
    "envs.libs.mujoco_playground": """
        MujocoPlaygroundAgentMapping MujocoPlaygroundAgentSpec MujocoPlaygroundEnv MujocoPlaygroundWrapper
    """,
    "envs.libs.openml": "OpenMLEnv",
    "envs.libs.openspiel": "OpenSpielEnv OpenSpielWrapper",
    "envs.libs.pettingzoo": "PettingZooEnv PettingZooWrapper",
    "envs.libs.procgen": "ProcgenEnv ProcgenWrapper",
    "envs.libs.robohive": "RoboHiveEnv set_directory",
    "envs.libs.safety_gymnasium": "SafetyGymnasiumEnv SafetyGymnasiumWrapper",
    "envs.libs.smacv2": "SMACv2Env SMACv2Wrapper",
    "envs.libs.unity_mlagents": "UnityMLAgentsEnv UnityMLAgentsWrapper",
    "envs.libs.vmas": "VmasEnv VmasWrapper",
    "envs.model_based": "",
    "envs.model_based.common": "ModelBasedEnvBase",
    "envs.model_based.dreamer": "DreamerDecoder DreamerEnv",
    "envs.model_based.imagined": "ImaginedEnv",
    "envs.model_based.world_model_env": "WorldModelEnv",
    "envs.transforms": """
        CartesianSolver HumanoidMacroAction KLRewardTransform MacroAction RobotMacroAction RobotMacroActionMode
        SatelliteAttitudeTransform SatelliteMacroAction TargetMacroAction URScriptPrimitive URScriptPrimitiveTransform
    """,
    "envs.transforms.functional": "cat_frames rgb_to_grayscale",
    "envs.transforms.gym_transforms": "EndOfLifeTransform",
    "envs.transforms.mean_action_selector": "MeanActionSelector",
    "envs.transforms.module": "ModuleTransform RayModuleTransform",
    "envs.transforms.r3m": "R3MTransform",
    "envs.transforms.ray_service": "RayTransform",
    "envs.transforms.rb_transforms": "MultiStepTransform NextStateReconstructor PolicyAgeFilter",
    "envs.transforms.rnd": "RNDTransform RunningMeanStd",
    "envs.transforms.transforms": """
        ActionChunkTransform ActionDiscretizer ActionMask ActionScaling ActionTokenizerTransform AutoResetEnv
        AutoResetTransform BatchSizeTransform BinarizeReward BurnInTransform CatFrames CatTensors CenterCrop
        ClipTransform Compose ConditionalPolicySwitch ConditionalSkip Crop DecodeVideoTransform DeviceCastTransform
        DiscreteActionProjection DoubleToFloat DTypeCastTransform ExcludeTransform ExpandAs FiniteTensorDictCheck
        FlattenAction FlattenObservation FlattenTensorDict FrameSkipTransform GrayScale gSDENoise Hash InitTracker
        LineariseRewards MacroPrimitive MacroPrimitiveTransform MultiAction NextObservationDelta NoopResetEnv
        ObservationNorm ObservationTransform PermuteTransform PinMemoryTransform RandomCropTensorDict
        RandomTruncationTransform RemoveEmptySpecs RenameTransform Resize Reward2GoTransform RewardClipping
        RewardScaling RewardSum SelectTransform SignTransform SqueezeTransform Stack StepCounter SuccessReward
        TargetReturn TensorDictPrimer TerminateTransform TimeMaxPool Timer Tokenizer ToTensorImage TrajCounter Transform
        TransformedEnv UnaryTransform UnsqueezeTransform VecGymEnvTransform VecNorm
    """,
    "envs.transforms.utils": "check_finite",
    "envs.transforms.vc1": "VC1Transform",
    "envs.transforms.vecnorm": "VecNormV2",
    "envs.transforms.vip": "VIPRewardTransform VIPTransform",
    "envs.utils": """
        check_env_specs check_marl_grouping clear_mpi_env_vars exploration_mode exploration_type ExplorationType
        get_available_libraries interaction_type InteractionType make_composite_from_td MarlGroupMapType RandomPolicy
        set_exploration_mode set_exploration_type set_interaction_type step_mdp terminated_or_truncated
    """,
    "record": "",
    "record.loggers": "",
    "record.loggers.common": "Logger",
    "record.loggers.csv": "CSVExperiment CSVLogger",
    "record.loggers.mlflow": "MLFlowLogger",
    "record.loggers.monitoring": "Every LoggerMonitor",
    "record.loggers.process": "ProcessLogger",
    "record.loggers.ray": "RayLogger",
    "record.loggers.tensorboard": "TensorboardLogger",
    "record.loggers.trackio": "TrackioLogger",
    "record.loggers.utils": "generate_exp_name get_logger",
    "record.loggers.wandb": "WandbLogger",
    "record.recorder": "PixelRenderTransform TensorDictRecorder VideoRecorder",
    "envs.llm": """
        AddThinkingPrompt as_nested_tensor as_padded_tensor BrowserTransform ChatEnv CountdownEnv CountdownRewardParser
        DataLoadingPrimer DatasetChatEnv GSM8KEnv GSM8KPrepareQuestion GSM8KRewardParser IFEvalData IFEvalEnv
        IFEvalScoreData IfEvalScorer KLComputation KLRewardTransform LLMEnv LLMHashingEnv make_gsm8k_env make_mlgym
        MATHEnv MATHRewardParser MCPToolTransform MLGymWrapper PythonInterpreter RayDataLoadingPrimer RetrieveKL
        RetrieveLogProb TemplateTransform Tokenizer
    """,
    "collectors": """
        AsyncBatchedCollector AsyncCollector BaseCollector Collector Evaluator MultiAsyncCollector
        MultiaSyncDataCollector MultiCollector MultiProcessedWeightUpdater MultiSyncCollector MultiSyncDataCollector
        ProfileConfig RandomPolicy RayWeightUpdater RemoteModuleWeightUpdater SyncDataCollector VanillaWeightUpdater
        WeightUpdaterBase
    """,
    "collectors.collectors": "RandomPolicy",
    "envs.vec_envs": "BatchedEnvBase ParallelEnv SerialEnv",
}

# Modules of torchrl that marlenv has no part of, with those below them -> why; nothing where it has one.
ELSEWHERE = {
    "checkpoint": "checkpoints of a training stay in TorchRL",
    "collectors.utils": "",
    "collectors": "collectors stay in TorchRL",
    "data.tensor_specs": "",
    "data.utils": "",
    "data": "replay buffers and data sets stay in TorchRL: they take the tensordicts of marlenv's envs as they are",
    "envs.custom.mujoco": "robots of MuJoCo are no task for several agents",
    "envs.custom.vla": "robots of MuJoCo are no task for several agents",
    "envs.llm": "conversations with language models stay in TorchRL",
    "modules": "policies and networks stay in TorchRL: they read the tensordicts of marlenv's envs as they are",
    "objectives": "losses stay in TorchRL: they read the tensordicts of marlenv's envs as they are",
    "trainers": "trainers stay in TorchRL",
    "weight_update": "trainers stay in TorchRL",
}

# A name of torchrl -> what to write instead, where marlenv has the thing and not the name.
INSTEAD = {
    "BatchedEnvBase": "`SerialEnv`",
    "Box": "`ContinuousBox`, `CategoricalBox` or `BoxList`",
    "DEVICE_TYPING": "`torch.device | str | int`",
    "LLMEnv": "`LLMHashingEnv`",
    "logger": "`logging.getLogger(__name__)`",
    "make_tensordict": "`tensordict.TensorDict`",
    "seed_generator": "`env.set_seed(seed)`, which returns the next seed",
}

# A private name that torchrl's tutorials use -> where it is there, and our module that has it.
PRIVATE = dict.fromkeys(
    ("_apply_to_composite", "_apply_to_composite_inv"), ("envs.transforms.transforms", "marlenv.transforms")
)
