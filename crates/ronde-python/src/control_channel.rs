//! A rank's connection to the launcher of an elastic job, as Python holds it.

use std::{process, time::Duration};

use pyo3::{
    exceptions::{PyConnectionError, PyOSError, PyRuntimeError},
    prelude::*,
};
use ronde_collective::{
    Secret,
    control_channel::{Client, ClientError, Join, JoinReply},
};

use crate::gate::wait;

/// Where a rank gets its place, and hears that the hosts have changed.
#[pyclass(frozen, module = "ronde._ronde")]
#[derive(Debug)]
pub(crate) struct ControlChannel {
    /// Until the channel is dropped.
    client: Option<Client>,
    pid: u32,
}

/// Generation, rank, size, local rank and size, cross rank and size, commits, and whether all have the same state.
type Seat = (u64, usize, usize, usize, usize, usize, usize, u64, bool);

#[pymethods]
impl ControlChannel {
    #[new]
    fn new(address: &str, secret: Vec<u8>, worker: u64) -> PyResult<Self> {
        let client = Client::connect(address, Secret::new(&secret), worker);
        let channel = client.map(|client| Self { client: Some(client), pid: process::id() });
        channel.map_err(|error| PyOSError::new_err(format!("cannot connect to the launcher: {error}")))
    }

    /// Waits for a place in the next ring; None if there will be none.
    fn join(&self, py: Python<'_>, commits: Option<u64>, is_interrupted: bool, why: String) -> PyResult<Option<Seat>> {
        let client = self.client()?;
        client.join(Join { seen: 0, commits, is_interrupted, why });
        let answer = wait(py, |slice| client.answer(slice))?.map_err(|error| exception(&error))?;
        Ok(match answer {
            JoinReply::Leave => None,
            JoinReply::Assigned(it) => Some((
                it.generation,
                it.rank,
                it.size,
                it.local_rank,
                it.local_size,
                it.cross_rank,
                it.cross_size,
                it.commits,
                it.is_in_step,
            )),
        })
    }

    /// What has changed if all ranks are to leave their ring here; None to go on.
    fn check(&self, py: Python<'_>) -> PyResult<Option<u8>> {
        let client = self.client()?;
        client.check();
        let verdict = match client.verdict(Duration::ZERO) {
            Some(verdict) => verdict,
            None => wait(py, |slice| client.verdict(slice))?,
        };
        verdict.map_err(|error| exception(&error))
    }

    /// Whether a change has been announced since the last place.
    fn is_noticed(&self) -> PyResult<bool> {
        Ok(self.client()?.is_noticed())
    }
}

impl ControlChannel {
    pub(crate) fn client(&self) -> PyResult<&Client> {
        let client = self.client.as_ref().filter(|_| self.pid == process::id());
        client.ok_or_else(|| PyRuntimeError::new_err("the connection to the launcher belongs to another process"))
    }
}

impl Drop for ControlChannel {
    fn drop(&mut self) {
        if self.pid != process::id() {
            // A copy in a forked child: its thread is not here, and its connection is the parent's.
            std::mem::forget(self.client.take());
        }
    }
}

fn exception(error: &ClientError) -> PyErr {
    PyConnectionError::new_err(error.to_string())
}
