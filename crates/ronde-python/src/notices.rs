//! Numbers of operations that are done, for a thread of Python that waits for any of many.
//!
//! The engine's own threads never run Python: they would have to wait for its lock, and could be caught by the end of
//! the interpreter.

use std::sync::{
    Mutex, PoisonError,
    mpsc::{self, Receiver, RecvTimeoutError, Sender},
};

use pyo3::prelude::*;

use crate::gate::wait;

/// A queue of notices; none is the last.
type Notice = Option<u64>;

/// Where [`crate::handle::Handle::when_done`] puts numbers.
#[pyclass(frozen, module = "ronde._ronde")]
#[derive(Debug)]
pub(crate) struct Notices {
    sender: Sender<Notice>,
    /// Owned by the one thread that asks.
    receiver: Mutex<Receiver<Notice>>,
}

impl Notices {
    pub(crate) fn sender(&self) -> Sender<Notice> {
        self.sender.clone()
    }
}

#[pymethods]
impl Notices {
    #[new]
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver: Mutex::new(receiver) }
    }

    /// Waits for the next number; none after `close()`.
    fn next(&self, py: Python<'_>) -> PyResult<Notice> {
        wait(py, |slice| {
            let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
            match receiver.recv_timeout(slice) {
                Ok(notice) => Some(notice),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(None),
            }
        })
    }

    /// Ends the thread that asks, after what has been put in before.
    fn close(&self) {
        // The receiver is here, in this object.
        let _ = self.sender.send(None);
    }
}
