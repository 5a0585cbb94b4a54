//! The engine that is in use, for operations that a framework runs without Python.

use std::sync::{Mutex, PoisonError, Weak};

use ronde_collective::Engine;

static CURRENT: Mutex<Weak<Engine>> = Mutex::new(Weak::new());

pub(crate) fn set_engine(engine: Weak<Engine>) {
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = engine;
}

/// The newest engine, if it still is one.
pub(crate) fn engine() -> Weak<Engine> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
