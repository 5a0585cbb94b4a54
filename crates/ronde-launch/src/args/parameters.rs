//! What a job says to the engine of its ranks: from flags and from a configuration file, as variables. Pure.

use std::collections::BTreeMap;

/// What was said; nothing where nothing was.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Parameters {
    /// One of Horovod's controllers, by the configuration file; it makes no difference.
    pub controller: Option<String>,
    pub fusion_threshold_mb: Option<i64>,
    pub cycle_time_ms: Option<f64>,
    pub cache_capacity: Option<i64>,
    pub hierarchical_allreduce: Option<bool>,
    pub hierarchical_allgather: Option<bool>,
    pub torus_allreduce: Option<bool>,
    pub autotune: Option<bool>,
    pub autotune_log_file: Option<String>,
    pub autotune_warmup_samples: Option<i64>,
    pub autotune_steps_per_sample: Option<i64>,
    pub autotune_bayes_opt_max_samples: Option<i64>,
    pub autotune_gaussian_process_noise: Option<f64>,
    pub timeline_filename: Option<String>,
    pub timeline_mark_cycles: Option<bool>,
    pub no_stall_check: Option<bool>,
    pub stall_check_warning_time_seconds: Option<i64>,
    pub stall_check_shutdown_time_seconds: Option<i64>,
    pub mpi_threads_disable: Option<bool>,
    pub num_nccl_streams: Option<i64>,
    pub thread_affinity: Option<i64>,
    pub gloo_timeout_seconds: Option<i64>,
    pub log_level: Option<String>,
    pub log_with_timestamp: Option<bool>,
}

/// The engine counts bytes.
const MB: i64 = 1024 * 1024;

impl Parameters {
    /// Fills what is not said here from there.
    pub fn or(self, other: Self) -> Self {
        Self {
            controller: self.controller.or(other.controller),
            fusion_threshold_mb: self.fusion_threshold_mb.or(other.fusion_threshold_mb),
            cycle_time_ms: self.cycle_time_ms.or(other.cycle_time_ms),
            cache_capacity: self.cache_capacity.or(other.cache_capacity),
            hierarchical_allreduce: self.hierarchical_allreduce.or(other.hierarchical_allreduce),
            hierarchical_allgather: self.hierarchical_allgather.or(other.hierarchical_allgather),
            torus_allreduce: self.torus_allreduce.or(other.torus_allreduce),
            autotune: self.autotune.or(other.autotune),
            autotune_log_file: self.autotune_log_file.or(other.autotune_log_file),
            autotune_warmup_samples: self.autotune_warmup_samples.or(other.autotune_warmup_samples),
            autotune_steps_per_sample: self.autotune_steps_per_sample.or(other.autotune_steps_per_sample),
            autotune_bayes_opt_max_samples: self
                .autotune_bayes_opt_max_samples
                .or(other.autotune_bayes_opt_max_samples),
            autotune_gaussian_process_noise: self
                .autotune_gaussian_process_noise
                .or(other.autotune_gaussian_process_noise),
            timeline_filename: self.timeline_filename.or(other.timeline_filename),
            timeline_mark_cycles: self.timeline_mark_cycles.or(other.timeline_mark_cycles),
            no_stall_check: self.no_stall_check.or(other.no_stall_check),
            stall_check_warning_time_seconds: self
                .stall_check_warning_time_seconds
                .or(other.stall_check_warning_time_seconds),
            stall_check_shutdown_time_seconds: self
                .stall_check_shutdown_time_seconds
                .or(other.stall_check_shutdown_time_seconds),
            mpi_threads_disable: self.mpi_threads_disable.or(other.mpi_threads_disable),
            num_nccl_streams: self.num_nccl_streams.or(other.num_nccl_streams),
            thread_affinity: self.thread_affinity.or(other.thread_affinity),
            gloo_timeout_seconds: self.gloo_timeout_seconds.or(other.gloo_timeout_seconds),
            log_level: self.log_level.or(other.log_level),
            log_with_timestamp: self.log_with_timestamp.or(other.log_with_timestamp),
        }
    }

    /// Returns what is wrong with a value.
    pub fn fault(&self) -> Option<String> {
        let noise = self.autotune_gaussian_process_noise.filter(|noise| !(0.0..=1.0).contains(noise));
        noise.map(|noise| format!("the autotune noise must be between 0 and 1, not {noise}"))
    }

    /// The variables of the ranks; only what was said, so that the user's own survive.
    pub fn variables(&self) -> BTreeMap<&'static str, String> {
        let number = |value: Option<i64>| value.map(|value| value.to_string());
        let flag = |value: Option<bool>| value.map(|value| i32::from(value).to_string());
        // Always with a point, as Python writes it.
        let real = |value: Option<f64>| value.map(|value| format!("{value:?}"));
        let tuned = |value: Option<String>| value.filter(|_| self.autotune == Some(true));
        let all = [
            ("HOROVOD_FUSION_THRESHOLD", number(self.fusion_threshold_mb.map(|mb| mb.saturating_mul(MB)))),
            ("HOROVOD_CYCLE_TIME", real(self.cycle_time_ms)),
            ("HOROVOD_CACHE_CAPACITY", number(self.cache_capacity)),
            ("HOROVOD_HIERARCHICAL_ALLREDUCE", flag(self.hierarchical_allreduce)),
            ("HOROVOD_HIERARCHICAL_ALLGATHER", flag(self.hierarchical_allgather)),
            ("HOROVOD_TORUS_ALLREDUCE", flag(self.torus_allreduce)),
            ("HOROVOD_AUTOTUNE", flag(self.autotune)),
            ("HOROVOD_AUTOTUNE_LOG", tuned(self.autotune_log_file.clone())),
            ("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", tuned(number(self.autotune_warmup_samples))),
            ("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", tuned(number(self.autotune_steps_per_sample))),
            ("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", tuned(number(self.autotune_bayes_opt_max_samples))),
            ("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", tuned(real(self.autotune_gaussian_process_noise))),
            ("HOROVOD_TIMELINE", self.timeline_filename.clone()),
            ("HOROVOD_TIMELINE_MARK_CYCLES", flag(self.timeline_mark_cycles)),
            ("HOROVOD_STALL_CHECK_DISABLE", flag(self.no_stall_check)),
            ("HOROVOD_STALL_CHECK_TIME_SECONDS", number(self.stall_check_warning_time_seconds)),
            ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", number(self.stall_check_shutdown_time_seconds)),
            ("HOROVOD_MPI_THREADS_DISABLE", flag(self.mpi_threads_disable)),
            ("HOROVOD_NUM_NCCL_STREAMS", number(self.num_nccl_streams)),
            ("HOROVOD_THREAD_AFFINITY", number(self.thread_affinity)),
            ("HOROVOD_GLOO_TIMEOUT_SECONDS", number(self.gloo_timeout_seconds)),
            ("HOROVOD_LOG_LEVEL", self.log_level.clone()),
            ("HOROVOD_LOG_HIDE_TIME", flag(self.log_with_timestamp.map(|with| !with))),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
