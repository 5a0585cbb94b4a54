//! Starts, groups, watches and stops processes: the one crate that calls fork, exec or kill.
//!
//! Everything here is plain and synchronous, made for small programs with one thread: the supervisor of a pod, the
//! init of a container, the helper that enters one. It knows nothing of pods, nor of anything asynchronous.

pub mod become_program;
pub mod credentials;
pub mod fork;
pub mod kill;

pub use self::{
    become_program::{Program, become_program},
    credentials::{Capabilities, Credentials},
    fork::{Alone, Child, Ended, Fork, Namespaces, fork},
};
