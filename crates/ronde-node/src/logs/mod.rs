//! What containers say: kept on disk by the supervisor of a pod ([`write`]), read back for the API ([`read`]).
//!
//! One folder per container; in it, for each run of the container (its *attempt*, counted from 0), the newest lines in
//! `3.log` and older ones in `3.log.1`, `3.log.2` and so on. The lines have the format of the Container Runtime
//! Interface, so that log collectors made for Kubernetes can read them. The two sides share these files and nothing
//! else: they are in different processes, and either may be killed at any time.

pub mod read;
pub mod record;
pub mod run;
mod tail;
pub mod write;

use std::path::{Path, PathBuf};

pub use self::record::Output;

/// What one run of a container may keep on disk: 10 MB times 5, as a kubelet's defaults.
const FILE_BYTES_MAX: u64 = 10_000_000;
const FILES_MAX: u32 = 5;

/// Returns the file of one attempt: the newest has age 0.
fn file_path(folder: &Path, attempt: u32, age: u32) -> PathBuf {
    match age {
        0 => folder.join(format!("{attempt}.log")),
        age => folder.join(format!("{attempt}.log.{age}")),
    }
}
