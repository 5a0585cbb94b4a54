//! A rank's connection to the launcher of an elastic job, as Python holds it.

use std::time::Duration;

use pyo3::{
    exceptions::{PyConnectionError, PyOSError},
    prelude::*,
};
use ronde_collective::{
    Secret,
    desk::{Answer, Client, ClientError, Join},
};

use crate::gate::wait;

/// Where a rank gets its place, and hears that the hosts have changed.
#[pyclass(frozen, module = "ronde._ronde")]
#[derive(Debug)]
pub(crate) struct Desk(pub(crate) Client);

/// Generation, rank, size, local rank and size, cross rank and size, commits, and whether all have the same state.
type Seat = (u64, usize, usize, usize, usize, usize, usize, u64, bool);

#[pymethods]
impl Desk {
    #[new]
    fn new(address: &str, secret: Vec<u8>, worker: u64) -> PyResult<Self> {
        let client = Client::connect(address, Secret::new(&secret), worker);
        client.map(Self).map_err(|error| PyOSError::new_err(format!("cannot call the launcher: {error}")))
    }

    /// Waits for a place in the next ring; None if there will be none.
    fn join(&self, py: Python<'_>, commits: Option<u64>, is_interrupted: bool, why: String) -> PyResult<Option<Seat>> {
        self.0.join(Join { seen: 0, commits, is_interrupted, why });
        let answer = wait(py, |slice| self.0.answer(slice))?.map_err(|error| exception(&error))?;
        Ok(match answer {
            Answer::Leave => None,
            Answer::Place(it) => Some((
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
        self.0.check();
        let verdict = match self.0.verdict(Duration::ZERO) {
            Some(verdict) => verdict,
            None => wait(py, |slice| self.0.verdict(slice))?,
        };
        verdict.map_err(|error| exception(&error))
    }

    /// Whether a change has been announced since the last place.
    fn is_noticed(&self) -> bool {
        self.0.is_noticed()
    }
}

fn exception(error: &ClientError) -> PyErr {
    PyConnectionError::new_err(error.to_string())
}
