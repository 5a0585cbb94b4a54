//! The one function that XLA calls for all operations inside of `jax.jit`, handed to JAX when `ronde.jax` is imported.
//!
//! `abi.rs` is XLA's interface, `collect.rs` what a call does. What users call, lowering, names and gradients are in
//! `python/ronde/ronde/jax`.

mod abi;
mod collect;

use pyo3::{prelude::*, types::PyCapsule};

use self::collect::Collect;

/// The function, as `jax.ffi.register_ffi_target` takes it.
#[pyfunction]
pub(crate) fn jax_handler(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    abi::capsule::<Collect>(py)
}
