//! The inside of a container: its file system, its first process, and the way in for others.
//!
//! The worker describes a container as a [`spec::ContainerSpec`]; the supervisor forks; [`init`] builds the root with
//! [`root`] and starts the program. [`layers`] decides what of the machine a container sees, and is pure.

pub mod cgroup;
pub mod enter;
mod image;
pub mod init;
pub mod layers;
mod paths;
mod root;
pub mod spec;

pub use self::root::overlay;
