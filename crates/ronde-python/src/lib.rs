//! The collective engine as a Python extension module, `ronde._ronde`.
//!
//! It knows no framework: the adapters in `python/ronde` hand over tensors as addresses, types and shapes, and keep
//! what the environment says as arguments of [`engine::Engine`]. Everything that may wait goes through `gate`, which
//! lets other Python threads run and hears Ctrl-C.

mod current;
mod desk;
mod engine;
mod forks;
mod gate;
mod handle;
mod log;
mod memory;
mod options;
mod server;
mod tensorflow;
mod work;

use pyo3::prelude::*;

/// The engine under `ronde` and `horovod`.
#[pymodule(name = "_ronde")]
mod ronde {
    use super::{Bound, PyModule, PyResult};
    #[pymodule_export]
    use super::{
        desk::Desk,
        engine::{Engine, link_descriptors},
        gate::{HorovodInternalError, InitializationError, MismatchError},
        handle::{Handle, Outcome},
        log::log_to_stderr,
        server::Server,
        tensorflow::{tensorflow_register, tensorflow_symbols},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::forks::watch(module)
    }
}
