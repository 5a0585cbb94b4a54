//! Operations in flight, and what comes of them.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use pyo3::{
    exceptions::{PyIndexError, PyTimeoutError},
    prelude::*,
};
use ronde_collective::{Done, Handle as Inner};

use crate::{
    forks,
    gate::{exception, is_interrupted, wait, wait_for},
    memory,
    notices::Notices,
};

/// Operations whose handle is gone before they were done: the engine still works on their tensors.
static ORPHANS: Mutex<Vec<Flight>> = Mutex::new(Vec::new());

/// An operation and the tensors it works on.
#[derive(Debug)]
struct Flight {
    inner: Inner,
    keep: Py<PyAny>,
}

/// An operation in flight.
#[pyclass(frozen, module = "ronde._ronde")]
#[derive(Debug)]
pub(crate) struct Handle {
    /// Until the handle is dropped.
    flight: Option<Flight>,
    /// Of which process, counted in forks.
    forks: u32,
}

impl Handle {
    pub(crate) fn new(inner: Inner, keep: Py<PyAny>) -> Self {
        Self { flight: Some(Flight { inner, keep }), forks: forks::count() }
    }

    fn inner(&self) -> PyResult<&Inner> {
        let flight = self.flight.as_ref().ok_or_else(|| PyIndexError::new_err("the handle was dropped"))?;
        Ok(&flight.inner)
    }
}

#[pymethods]
impl Handle {
    /// Whether waiting would return at once.
    fn poll(&self) -> bool {
        self.flight.as_ref().is_none_or(|flight| flight.inner.is_done())
    }

    /// Waits for the result and takes it. If so many seconds are not enough, it can be waited for again.
    #[pyo3(signature = (timeout=None))]
    pub(crate) fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Results> {
        let inner = self.inner()?;
        let wait_slice = |slice| inner.wait_unless(is_interrupted, Some(slice));
        let result = match timeout {
            None => wait(py, wait_slice)?,
            Some(seconds) => {
                let limit = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
                let over = || PyTimeoutError::new_err(format!("not done after {seconds} s"));
                wait_for(py, limit, wait_slice)?.ok_or_else(over)?
            }
        };
        result.map(|done| Results { done }).map_err(|error| exception(&error))
    }

    /// Gives `notices` this number once waiting would return at once.
    fn when_done(&self, py: Python<'_>, notices: &Notices, number: u64) -> PyResult<()> {
        let (inner, sender) = (self.inner()?, notices.sender());
        py.detach(|| {
            inner.when_done(move || {
                // The receiver is gone when the process ends.
                let _ = sender.send(Some(number));
            });
        });
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let Some(flight) = self.flight.take() else { return };
        if self.forks != forks::count() {
            // A copy of another process's: its locks may never be opened here.
            std::mem::forget(flight);
        } else if !flight.inner.is_done() {
            ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).push(flight);
        }
    }
}

/// Lets go of the tensors of abandoned operations that are done.
pub(crate) fn sweep() {
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    if !orphans.is_empty() {
        let done: Vec<Flight> = orphans.extract_if(.., |flight| flight.inner.is_done()).collect();
        // Python code may run when a tensor goes, and come back here.
        drop(orphans);
        done.into_iter().for_each(|flight| drop(flight.keep));
    }
}

/// What came of an operation.
#[pyclass(frozen, module = "ronde._ronde")]
#[derive(Debug)]
pub(crate) struct Results {
    done: Done,
}

#[pymethods]
impl Results {
    /// The shapes of the results.
    #[getter]
    fn shapes(&self) -> Vec<Vec<usize>> {
        self.done.tensors.iter().map(|output| output.shape.0.clone()).collect()
    }

    /// Rows that an alltoall received from each member.
    #[getter]
    fn received_splits(&self) -> Vec<usize> {
        self.done.received_splits.clone()
    }

    /// The rank that joined last.
    #[getter]
    fn last_joined(&self) -> Option<usize> {
        self.done.last_joined.map(|rank| rank.0)
    }

    /// Copies a result to an address that has room for it.
    fn copy_to(&self, py: Python<'_>, index: usize, address: usize) -> PyResult<()> {
        let output = self.done.tensors.get(index);
        let output = output.ok_or_else(|| PyIndexError::new_err(format!("there is no result {index}")))?;
        let mut target = memory::tensor(address, output.buffer.len());
        py.detach(|| target.as_mut_slice().copy_from_slice(output.buffer.as_slice()));
        Ok(())
    }
}
