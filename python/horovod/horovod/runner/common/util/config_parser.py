"""The parameters of the engine: as arguments, in a configuration file, and as variables of the ranks.

horovodrun does the same by itself; this is for who has arguments in Python.
"""

HOROVOD_FUSION_THRESHOLD = "HOROVOD_FUSION_THRESHOLD"
HOROVOD_CYCLE_TIME = "HOROVOD_CYCLE_TIME"
HOROVOD_CACHE_CAPACITY = "HOROVOD_CACHE_CAPACITY"
HOROVOD_HIERARCHICAL_ALLREDUCE = "HOROVOD_HIERARCHICAL_ALLREDUCE"
HOROVOD_HIERARCHICAL_ALLGATHER = "HOROVOD_HIERARCHICAL_ALLGATHER"
HOROVOD_TORUS_ALLREDUCE = "HOROVOD_TORUS_ALLREDUCE"
HOROVOD_AUTOTUNE = "HOROVOD_AUTOTUNE"
HOROVOD_AUTOTUNE_LOG = "HOROVOD_AUTOTUNE_LOG"
HOROVOD_AUTOTUNE_WARMUP_SAMPLES = "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"
HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE = "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"
HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES = "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"
HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE = "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"
HOROVOD_TIMELINE = "HOROVOD_TIMELINE"
HOROVOD_TIMELINE_MARK_CYCLES = "HOROVOD_TIMELINE_MARK_CYCLES"
HOROVOD_STALL_CHECK_DISABLE = "HOROVOD_STALL_CHECK_DISABLE"
HOROVOD_STALL_CHECK_TIME_SECONDS = "HOROVOD_STALL_CHECK_TIME_SECONDS"
HOROVOD_STALL_SHUTDOWN_TIME_SECONDS = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
HOROVOD_MPI_THREADS_DISABLE = "HOROVOD_MPI_THREADS_DISABLE"
HOROVOD_NUM_NCCL_STREAMS = "HOROVOD_NUM_NCCL_STREAMS"
NCCL_IB_DISABLE = "NCCL_IB_DISABLE"
HOROVOD_THREAD_AFFINITY = "HOROVOD_THREAD_AFFINITY"
HOROVOD_GLOO_TIMEOUT_SECONDS = "HOROVOD_GLOO_TIMEOUT_SECONDS"
HOROVOD_LOG_LEVEL = "HOROVOD_LOG_LEVEL"
HOROVOD_LOG_HIDE_TIME = "HOROVOD_LOG_HIDE_TIME"
LOG_LEVELS = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"]

VARIABLES = {
    "fusion_threshold_mb": HOROVOD_FUSION_THRESHOLD,
    "cycle_time_ms": HOROVOD_CYCLE_TIME,
    "cache_capacity": HOROVOD_CACHE_CAPACITY,
    "hierarchical_allreduce": HOROVOD_HIERARCHICAL_ALLREDUCE,
    "hierarchical_allgather": HOROVOD_HIERARCHICAL_ALLGATHER,
    "torus_allreduce": HOROVOD_TORUS_ALLREDUCE,
    "autotune": HOROVOD_AUTOTUNE,
    "autotune_log_file": HOROVOD_AUTOTUNE_LOG,
    "autotune_warmup_samples": HOROVOD_AUTOTUNE_WARMUP_SAMPLES,
    "autotune_steps_per_sample": HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE,
    "autotune_bayes_opt_max_samples": HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES,
    "autotune_gaussian_process_noise": HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE,
    "timeline_filename": HOROVOD_TIMELINE,
    "timeline_mark_cycles": HOROVOD_TIMELINE_MARK_CYCLES,
    "no_stall_check": HOROVOD_STALL_CHECK_DISABLE,
    "stall_check_warning_time_seconds": HOROVOD_STALL_CHECK_TIME_SECONDS,
    "stall_check_shutdown_time_seconds": HOROVOD_STALL_SHUTDOWN_TIME_SECONDS,
    "mpi_threads_disable": HOROVOD_MPI_THREADS_DISABLE,
    "num_nccl_streams": HOROVOD_NUM_NCCL_STREAMS,
    "tcp_flag": NCCL_IB_DISABLE,
    "thread_affinity": HOROVOD_THREAD_AFFINITY,
    "gloo_timeout_seconds": HOROVOD_GLOO_TIMEOUT_SECONDS,
    "log_level": HOROVOD_LOG_LEVEL,
    "log_with_timestamp": HOROVOD_LOG_HIDE_TIME,
}
# Sections of a configuration file, and how the arguments of each begin.
SECTIONS = {
    "params": "",
    "autotune": "autotune_",
    "timeline": "timeline_",
    "stall_check": "stall_check_",
    "library_options": "",
    "logging": "log_",
}


def set_args_from_config(args, config, override_args):
    """Takes what a configuration file says, except for arguments that were given."""
    controller = (config.get("controller") or "").lower()
    if controller not in ("", "gloo", "mpi"):
        raise ValueError(f"there is no controller {controller}")
    if not args.use_gloo and not args.use_mpi:
        args.use_gloo, args.use_mpi = controller == "gloo", controller == "mpi"
    for section, prefix in SECTIONS.items():
        for key, value in (config.get(section) or {}).items():
            name, value = _argument(prefix, key, value)
            if name in VARIABLES and name not in override_args and value is not None:
                setattr(args, name, value)


def _argument(prefix, key, value):
    if prefix + key == "autotune_enabled":
        return "autotune", value
    if prefix + key == "stall_check_enabled":
        return "no_stall_check", not value
    return prefix + key, value


def validate_config_args(args):
    """Raises ValueError for numbers that make no sense."""
    for name in VARIABLES:
        value = getattr(args, name)
        if isinstance(value, (int, float)) and value < 0:
            raise ValueError(f"{name}={value} must be >= 0")
    noise = args.autotune_gaussian_process_noise
    if noise is not None and noise > 1:
        raise ValueError(f"autotune_gaussian_process_noise={noise} must be in [0, 1]")


def set_env_from_args(env, args):
    """Writes variables for arguments that were given, and leaves the others alone."""
    for name, variable in VARIABLES.items():
        value = getattr(args, name)
        if value is None or _is_idle(name, args):
            continue
        if name == "fusion_threshold_mb":
            value = value * 1024 * 1024
        elif name == "log_with_timestamp":
            value = not value
        env[variable] = str(int(value) if isinstance(value, bool) else value)
    return env


def _is_idle(name, args):
    """Whether an argument says nothing without another one."""
    if name == "tcp_flag":
        return not args.tcp_flag
    if name.startswith("autotune"):
        return not args.autotune
    return name.startswith("timeline") and not args.timeline_filename
