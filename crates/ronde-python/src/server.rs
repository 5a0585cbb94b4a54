//! The rendezvous server, for launchers and for ranks that are their own.

use pyo3::{exceptions::PyOSError, prelude::*};
use ronde_collective::{Secret, Server as Inner};

/// Where ranks meet; it serves until it is dropped.
#[pyclass(frozen, module = "ronde._ronde")]
#[derive(Debug)]
pub(crate) struct Server(Inner);

#[pymethods]
impl Server {
    #[new]
    fn new(address: &str, secret: Vec<u8>) -> PyResult<Self> {
        let parsed = address.parse().map_err(|_| PyOSError::new_err(format!("`{address}` is not `address:port`")))?;
        let server = Inner::start(parsed, Secret::new(&secret));
        server.map(Self).map_err(|error| PyOSError::new_err(format!("cannot listen on `{address}`: {error}")))
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.address().port()
    }

    /// Every `address:port` where ranks may find it.
    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.0.addresses().iter().map(ToString::to_string).collect()
    }
}
