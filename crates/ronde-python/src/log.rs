//! What the engine has to tell a person, such as who keeps everybody waiting.

use pyo3::{exceptions::PyValueError, prelude::*};
use tracing_subscriber::filter::LevelFilter;

/// Writes what is at least as grave as `level` to the standard error; the first call of a process counts.
#[pyfunction]
pub(crate) fn log_to_stderr(level: &str) -> PyResult<()> {
    let level: LevelFilter =
        level.parse().map_err(|_| PyValueError::new_err(format!("`{level}` is not a log level")))?;
    // Another call, or another library of this process, may have been first.
    let _ = tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(std::io::stderr).try_init();
    Ok(())
}
