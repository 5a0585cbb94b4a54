//! The configuration file of a job: the same parameters as YAML. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::parameters::Parameters;

/// What a file says, and what in it is unknown.
#[derive(Debug, Default, PartialEq)]
pub struct Config {
    pub parameters: Parameters,
    /// Keys that mean nothing, as `section.key`.
    pub unknown: Vec<String>,
    /// One line for each key that means something else here than in the original.
    pub notices: Vec<String>,
}

/// Reads the text of a file.
pub fn parse(text: &str) -> Result<Config, String> {
    let sections: BTreeMap<String, Value> = match serde_saphyr::from_str::<Option<BTreeMap<String, Value>>>(text) {
        Ok(sections) => sections.unwrap_or_default(),
        Err(error) => return Err(error.to_string()),
    };
    let mut keys = Keys::default();
    for (section, value) in sections {
        match value {
            Value::Object(entries) => {
                keys.0.extend(entries.into_iter().map(|(key, value)| (format!("{section}.{key}"), value)));
            }
            Value::Null => {}
            value => {
                keys.0.insert(section, value);
            }
        }
    }
    let by_itself = |it: String| format!("`controller: {it}` is ignored; Ronde starts and connects the ranks itself");
    let parameters = parameters(&mut keys)?;
    let controller = parameters.controller.clone().filter(|controller| controller != "gloo");
    let threads = parameters
        .mpi_threads_disable
        .unwrap_or_default()
        .then(|| "`library_options.mpi_threads_disable`: ignored, since there are no threads of MPI".to_owned());
    let notices = controller.map(by_itself).into_iter().chain(threads).collect();
    Ok(Config { parameters, unknown: keys.0.into_keys().collect(), notices })
}

fn parameters(keys: &mut Keys) -> Result<Parameters, String> {
    let hide_timestamp = keys.flag("logging.hide_timestamp")?;
    Ok(Parameters {
        controller: keys.text("controller")?.map(|name| name.to_lowercase()),
        fusion_threshold_mb: keys.number("params.fusion_threshold_mb")?,
        cycle_time_ms: keys.real("params.cycle_time_ms")?,
        cache_capacity: keys.number("params.cache_capacity")?,
        hierarchical_allreduce: keys.flag("params.hierarchical_allreduce")?,
        hierarchical_allgather: keys.flag("params.hierarchical_allgather")?,
        torus_allreduce: keys.flag("params.torus_allreduce")?,
        autotune: keys.flag("autotune.enabled")?,
        autotune_log_file: keys.text("autotune.log_file")?,
        autotune_warmup_samples: keys.number("autotune.warmup_samples")?,
        autotune_steps_per_sample: keys.number("autotune.steps_per_sample")?,
        autotune_bayes_opt_max_samples: keys.number("autotune.bayes_opt_max_samples")?,
        autotune_gaussian_process_noise: keys.real("autotune.gaussian_process_noise")?,
        timeline_filename: keys.text("timeline.filename")?,
        timeline_mark_cycles: keys.flag("timeline.mark_cycles")?,
        no_stall_check: keys.flag("stall_check.enabled")?.map(|enabled| !enabled),
        stall_check_warning_time_seconds: keys.number("stall_check.warning_time_seconds")?,
        stall_check_shutdown_time_seconds: keys.number("stall_check.shutdown_time_seconds")?,
        mpi_threads_disable: keys.flag("library_options.mpi_threads_disable")?,
        num_nccl_streams: keys.number("library_options.num_nccl_streams")?,
        thread_affinity: keys.number("library_options.thread_affinity")?,
        gloo_timeout_seconds: keys.number("library_options.gloo_timeout_seconds")?,
        log_level: keys.text("logging.level")?.map(|level| level.to_uppercase()),
        log_with_timestamp: keys.flag("logging.with_timestamp")?.or(hide_timestamp.map(|hide| !hide)),
    })
}

/// What has not been understood yet.
#[derive(Default)]
struct Keys(BTreeMap<String, Value>);

impl Keys {
    fn take_value<T>(
        &mut self,
        key: &str,
        kind: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.0.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(&value).map(Some).ok_or_else(|| format!("`{key}` is {value}, not {kind}")),
        }
    }

    fn number(&mut self, key: &str) -> Result<Option<i64>, String> {
        self.take_value(key, "a non-negative integer", |value| value.as_i64().filter(|number| *number >= 0))
    }

    fn real(&mut self, key: &str) -> Result<Option<f64>, String> {
        self.take_value(key, "a non-negative number", |value| value.as_f64().filter(|number| *number >= 0.0))
    }

    fn flag(&mut self, key: &str) -> Result<Option<bool>, String> {
        self.take_value(key, "true or false", Value::as_bool)
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        self.take_value(key, "a string", |value| value.as_str().map(str::to_owned))
    }
}
