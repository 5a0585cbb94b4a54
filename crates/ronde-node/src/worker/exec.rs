//! Running one more program in a container, through `ronde enter`.
//!
//! What a program needs to be at home there was written into the attempt's folder when the container was started, so
//! that it works also after a restart of the daemon.

use std::{
    io::{self, Write as _},
    path::Path,
    process::Stdio,
};

use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt as _;
use tokio::process::Command;

use crate::{
    sandbox::{
        enter::{Call, Entry},
        spec::{ContainerSpec, Root},
    },
    supervisor::{folder::PodFolder, record::Record},
};

/// Remembers how to enter a container that is about to be started.
pub fn remember(folder: &PodFolder, spec: &ContainerSpec, gpus: &[usize]) -> io::Result<()> {
    let entry = Entry {
        program: spec.program.clone(),
        credentials: spec.credentials.clone(),
        cgroup: spec.cgroup.clone(),
        isolated: matches!(spec.root, Root::Layers { .. }),
        gpus: gpus.to_vec(),
    };
    fs::create_dir_all(folder.attempt(&spec.name, spec.attempt))?;
    // The environment may have secrets in it.
    let mut options = fs::OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(folder.entry(&spec.name, spec.attempt))?;
    file.write_all(&serde_json::to_vec(&entry)?)
}

/// The GPUs that the containers of a pod hold, by container; those of a pod that was taken down hold none.
pub fn gpus_of(folder: &PodFolder) -> Vec<(String, Vec<usize>)> {
    let records = crate::supervisor::record::read_all(folder).unwrap_or_default();
    let held = records.into_iter().filter_map(|(name, records)| {
        let bytes = fs::read(folder.entry(&name, records.last()?.attempt)).ok()?;
        let entry: Entry = serde_json::from_slice(&bytes).ok()?;
        Some((name, entry.gpus))
    });
    held.collect()
}

/// Where and what to run.
pub struct Exec<'a> {
    /// The `ronde` binary.
    pub program: &'a Path,
    pub folder: &'a PodFolder,
    pub container: &'a str,
    pub argv: Vec<String>,
    pub tty: bool,
}

impl Exec<'_> {
    /// Returns the command that runs the program in the container's newest attempt, and that attempt's first process.
    ///
    /// # Errors
    /// If the container does not run.
    pub fn command(self) -> io::Result<(Command, u32)> {
        let not_running = || io::Error::other(format!("container {} is not running", self.container));
        let record = newest(self.folder, self.container)?.ok_or_else(not_running)?;
        let pid = record.pid.filter(|_| record.end.is_none()).ok_or_else(not_running)?;
        let call =
            Call { entry: self.folder.entry(self.container, record.attempt), pid, tty: self.tty, argv: self.argv };
        let mut command = Command::new(self.program);
        command.arg("enter").args(call.to_args());
        command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
        Ok((command, pid))
    }
}

/// Returns the newest attempt of a container.
pub fn newest(folder: &PodFolder, container: &str) -> io::Result<Option<Record>> {
    let mut all = crate::supervisor::record::read_all(folder)?;
    Ok(all.remove(container).and_then(|records| records.into_iter().next_back()))
}
