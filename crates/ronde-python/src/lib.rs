//! The collective engine as a Python extension module, `ronde._ronde`.
//!
//! It knows no framework: the adapters in `python/ronde` hand over tensors as addresses, types and shapes, and keep
//! what the environment says as arguments of [`engine::Engine`]. Everything that may wait goes through `gate`, which
//! lets other Python threads run and hears Ctrl-C.

mod control_channel;
mod current;
mod device;
mod engine;
mod flight;
mod forks;
mod gate;
mod handle;
mod jax;
mod log;
mod memory;
mod notices;
mod options;
mod request;
mod server;
mod tensorflow;

use pyo3::prelude::*;

/// The engine under `ronde` and `horovod`.
#[pymodule(name = "_ronde")]
mod ronde {
    use super::{Bound, PyModule, PyModuleMethods as _, PyResult};
    #[pymodule_export]
    use super::{
        control_channel::ControlChannel,
        device::Batch,
        engine::{Engine, link_descriptors},
        gate::{HorovodInternalError, InitializationError, MismatchError},
        handle::{Handle, Results},
        jax::jax_handler,
        log::log_to_stderr,
        notices::Notices,
        server::Server,
        tensorflow::{tensorflow_register, tensorflow_symbols},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("TYPE_CODES", super::request::type_codes(module.py())?)?;
        module.add("REDUCTION_CODES", super::request::reduction_codes(module.py())?)?;
        super::forks::watch(module)
    }
}
