//! Whether this process is a forked copy of the one that started something.
//!
//! Asking the kernel who we are for every operation costs more than a small operation itself; Python tells after each
//! fork instead. A fork behind its back runs no Python in the child.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::{prelude::*, types::PyDict};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between this process and the one that loaded the module.
pub(crate) fn count() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

#[pyfunction]
fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Asks Python to tell.
pub(crate) fn watch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let when = PyDict::new(py);
    when.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&when))?;
    Ok(())
}
