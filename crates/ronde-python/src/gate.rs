//! The one way to wait for something, and the exceptions that come of it.

use std::{
    cell::Cell,
    sync::{
        Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use pyo3::{
    create_exception,
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
};
use ronde_collective::Error;

create_exception!(ronde, HorovodInternalError, PyRuntimeError, "The ring is broken, or an operation failed.");
create_exception!(ronde, InitializationError, PyValueError, "No ring came together.");
create_exception!(ronde, MismatchError, HorovodInternalError, "The ranks disagree about an operation.");

/// How long Ctrl-C may go unheard.
const SLICE: Duration = Duration::from_millis(100);

thread_local! {
    /// What a signal's handler has raised in the middle of an operation.
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Lets signals be heard in the middle of an operation; whether one of them ends it.
pub(crate) fn is_interrupted() -> bool {
    let raised = Python::attach(|py| py.check_signals().err());
    raised.is_some_and(|raised| {
        RAISED.set(Some(raised));
        true
    })
}

/// What a signal's handler has raised is raised again as soon as Python code runs: by the signal, once more.
pub(crate) fn raise_again() {
    if RAISED.take().is_some() {
        Python::attach(|py| {
            let again = py.import("signal").and_then(|signal| signal.call_method1("raise_signal", (2,)));
            drop(again);
        });
    }
}

/// Waits in slices, without Python's lock; between them signals are heard.
pub(crate) fn wait<T: Send>(py: Python<'_>, wait: impl Fn(Duration) -> Option<T> + Sync) -> PyResult<T> {
    loop {
        if let Some(result) = py.detach(|| wait(SLICE)) {
            return Ok(result);
        }
        py.check_signals()?;
    }
}

/// As [`wait`], but not for longer than said; nothing if the time is over.
pub(crate) fn wait_for<T: Send>(
    py: Python<'_>,
    mut left: Duration,
    wait: impl Fn(Duration) -> Option<T> + Sync,
) -> PyResult<Option<T>> {
    loop {
        let slice = left.min(SLICE);
        let result = py.detach(|| wait(slice));
        py.check_signals()?;
        left -= slice;
        if result.is_some() || left.is_zero() {
            return Ok(result);
        }
    }
}

/// Does something that waits in its own way, in a thread of its own. If a signal ends the wait, it goes on there, and
/// what comes of it is dropped.
pub(crate) fn wait_apart<T: Send + 'static>(py: Python<'_>, act: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (sender, receiver) = mpsc::channel();
    // The receiver is gone if nobody waits any more.
    let thread = thread::Builder::new().name("ronde-apart".to_owned()).spawn(move || drop(sender.send(act())))?;
    let receiver = Mutex::new(receiver);
    let result = wait(py, |slice| {
        let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
        match receiver.recv_timeout(slice) {
            Err(RecvTimeoutError::Timeout) => None,
            ended => Some(ended),
        }
    })?;
    // It is ending, and who counts threads is not to find it.
    let _ended = thread.join();
    result.map_err(|_| PyRuntimeError::new_err("the engine failed: this is a bug in Ronde; please report it"))
}

/// The exception for an error of the engine.
pub(crate) fn exception(error: &Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Invalid(_) => PyValueError::new_err(text),
        Error::Mismatch(_) => MismatchError::new_err(text),
        Error::Bootstrap(_) => InitializationError::new_err(format!("Horovod initialization failed: {text}")),
        Error::Shutdown(_) => HorovodInternalError::new_err(format!("Horovod has been shut down: {text}")),
        Error::Interrupted => RAISED.take().unwrap_or_else(|| HorovodInternalError::new_err(text)),
        Error::Lost { .. } | Error::Stalled(_) | Error::Device(_) => HorovodInternalError::new_err(text),
    }
}
