//! `ronde demo`: shows an elastic training on this machine, from `ronde up` to `ronde down`.
//!
//! Everything it needs but Python is in the program. It has a data directory and a kubeconfig of its own, in a temporary
//! folder, and leaves nothing behind but the picture, however it ends. [`story`] is what happens, [`stage`] shows it.

mod processes;
mod python;
mod stage;
mod story;

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
};

use rustix::fs::{Access, access, statvfs};

use self::{python::Python, stage::Stage};
use crate::{
    Context,
    args::DemoArgs,
    client, environment,
    failure::{Answer, Blame, Failure, INTERRUPTED, Outcome},
    signals,
};

/// What the store and the logs take.
const ROOM_BYTES: u64 = 64 << 20;

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("cannot write the picture to {path}")]
    Picture { path: PathBuf, source: io::Error },
    #[error("cannot create a folder in {folder}")]
    Folder { folder: PathBuf, source: io::Error },
    #[error("{folder} has {free_mib} MiB free, and the demo needs {needed_mib} MiB")]
    Room { folder: PathBuf, free_mib: u64, needed_mib: u64 },
    #[error("cannot run `{program}`")]
    Spawn { program: String, source: io::Error },
    #[error("`{command}` failed: {status}")]
    Step { command: String, status: ExitStatus },
    #[error("timed out after {seconds} s waiting for {what}")]
    Late { what: String, seconds: u64 },
    #[error("no process of {name} is to be found")]
    NoWorker { name: &'static str },
    #[error("the training failed")]
    Training,
    #[error("the result is not that of a training alone:\n  elastic: {elastic}\n  alone:   {alone}")]
    Different { elastic: String, alone: String },
    #[error("cannot read or write the files of the demo")]
    Files { source: io::Error },
}

impl Failure for DemoError {
    fn blame(&self) -> Blame {
        match self {
            Self::Picture { .. } => Blame::User,
            Self::Different { .. } => Blame::Bug,
            _ => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Picture { .. } => Some("name another file with `--picture FILE`".to_owned()),
            Self::Folder { .. } | Self::Room { .. } => Some("set TMPDIR to a folder with room".to_owned()),
            _ => None,
        }
    }
}

/// Runs the verb.
pub fn run(args: &DemoArgs, context: &Context) -> Outcome {
    let picture = find_picture(&args.picture)?;
    let python = Python::find(args.python.as_deref())?;
    let parent = std::env::temp_dir();
    check_room(&parent, ROOM_BYTES)?;
    let folder = tempfile::Builder::new().prefix("ronde-demo-").tempdir_in(&parent);
    let folder = folder.map_err(|source| DemoError::Folder { folder: parent.clone(), source })?;
    let stage = Stage::new(folder.path(), context)?;
    let outcome = client::runtime()?.block_on(async {
        let stop = signals::first_stop().map_err(|source| DemoError::Files { source })?;
        let outcome = match story::begin(&stage).await {
            Err(failure) => Err(failure),
            Ok(()) => tokio::select! {
                biased;
                () = stop => Ok(Answer::Code(INTERRUPTED)),
                outcome = story::tell(&stage, &python, &picture) => outcome.map(|()| Answer::Done),
            },
        };
        stage.clean_up().await;
        outcome
    });
    folder.close().map_err(|source| DemoError::Files { source })?;
    outcome
}

/// Makes the path of the picture absolute, and asks beforehand whether it can be written.
fn find_picture(path: &Path) -> Result<PathBuf, DemoError> {
    let fail = |source| DemoError::Picture { path: path.to_owned(), source };
    let picture = environment::absolute(path).map_err(fail)?;
    access(picture.parent().unwrap_or(&picture), Access::WRITE_OK).map_err(|errno| fail(errno.into()))?;
    Ok(picture)
}

fn check_room(folder: &Path, needed: u64) -> Result<(), DemoError> {
    let fail = |errno: rustix::io::Errno| DemoError::Folder { folder: folder.to_owned(), source: errno.into() };
    let disk = statvfs(folder).map_err(fail)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= needed {
        return Ok(());
    }
    Err(DemoError::Room { folder: folder.to_owned(), free_mib: free >> 20, needed_mib: needed >> 20 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_named_before_anything_starts() {
        let folder = std::env::temp_dir();
        assert!(check_room(&folder, 1).is_ok());
        let error = check_room(&folder, u64::MAX).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("MiB free, and the demo needs 17592186044415 MiB"), "{text}");
        assert_eq!(error.hint().unwrap(), "set TMPDIR to a folder with room");
    }
}
