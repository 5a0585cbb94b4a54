//! The user's kubeconfig: adds the context `ronde`, selects it, and takes both back.
//!
//! `ronde up` checks before it starts anything, writes once the API is open, and `ronde down` (or a graceful end of
//! `ronde up`) undoes it. Whatever is malformed or belongs to somebody else is never written. This module decides
//! and does the file work; the text edits are in `edit` and `entries`.

mod edit;
mod entries;
mod file;
mod locate;
mod record;
#[cfg(test)]
mod tests;
mod tree;

use std::{
    io,
    path::{Path, PathBuf},
};

pub use entries::{Access, NAME};
pub use locate::locate;
pub use record::Record;

use entries::{EntriesError, Owner};
use file::{FileError, LockedFile, Tightened};

use crate::failure::{Blame, Failure};

/// Why a kubeconfig was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("cannot find a kubeconfig: there is no home directory")]
    NoHome,
    #[error("cannot use the kubeconfig {path}")]
    File { path: PathBuf, source: FileError },
    #[error("cannot edit the kubeconfig {path}")]
    Content { path: PathBuf, source: EntriesError },
    #[error("cannot remove the context `{NAME}` from the kubeconfig {path}")]
    Leftover { path: PathBuf, source: EntriesError },
    #[error("the kubeconfig {path} already has an entry named `{NAME}` under `{section}` that is not ours")]
    Taken { path: PathBuf, section: &'static str },
    #[error("the context `{NAME}` in the kubeconfig {path} belongs to another running instance, on {data_dir}")]
    OtherInstance { path: PathBuf, data_dir: PathBuf },
    #[error("cannot record what was changed in the kubeconfig {path}")]
    Record { path: PathBuf, source: io::Error },
}

impl Failure for KubeconfigError {
    fn blame(&self) -> Blame {
        match self {
            Self::Content { .. } | Self::Leftover { .. } | Self::Taken { .. } | Self::OtherInstance { .. } => {
                Blame::User
            }
            Self::File { source: FileError::Encoding | FileError::Irregular | FileError::TooLarge, .. } => Blame::User,
            Self::NoHome | Self::File { .. } | Self::Record { .. } => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        let elsewhere = "use another file with `--kubeconfig FILE`";
        match self {
            Self::NoHome => Some("name a file with `--kubeconfig FILE`".to_owned()),
            Self::File { source: FileError::Locked { lock }, .. } => {
                Some(format!("if no other program runs, remove it: `rm {}`", lock.display()))
            }
            Self::Taken { section, .. } => {
                let noun = section.trim_end_matches('s');
                Some(format!("{elsewhere}, or remove the entry with `kubectl config delete-{noun} {NAME}`"))
            }
            Self::OtherInstance { data_dir, .. } => {
                Some(format!("{elsewhere}, or stop the other one with `ronde down --data-dir {}`", data_dir.display()))
            }
            Self::File { .. } | Self::Content { .. } => Some(format!("repair it, or {elsewhere}")),
            Self::Leftover { .. } => Some("repair it and run `ronde down` again".to_owned()),
            Self::Record { .. } => None,
        }
    }
}

/// What was done to a kubeconfig.
#[derive(Debug, PartialEq, Eq)]
pub struct Added {
    /// The context that was selected before.
    pub previous: Option<String>,
    /// The mode of the file, if others could read it before.
    pub tightened_from: Option<u32>,
    /// What is to be undone, also if the data directory forgets it.
    pub record: Record,
}

/// What [`remove`] did.
#[derive(Debug, PartialEq, Eq)]
pub enum Removed {
    Nothing,
    Entries { kubeconfig: PathBuf },
}

/// Finds out, without changing anything, whether [`add`] would succeed. `is_running` asks for another data directory.
pub fn check(path: &Path, data_dir: &Path, is_running: impl Fn(&Path) -> bool) -> Result<(), KubeconfigError> {
    let text = file::read(path).map_err(|source| file_error(path, source))?;
    file::check_writable(path).map_err(|source| file_error(path, source))?;
    let text = evict_stopped_instance(path, text, data_dir, is_running)?;
    // A trial run with the longest parts left out: it finds what cannot be edited in place.
    let trial = Access {
        server: "https://127.0.0.1".to_owned(),
        certificate_authority: String::new(),
        credential: String::new(),
        data_dir: data_dir.to_string_lossy().into_owned(),
    };
    entries::install(&text, &trial).map(drop).map_err(|source| content_error(path, source))
}

/// Adds our entries and selects our context.
pub fn add(
    path: &Path,
    data_dir: &Path,
    access: &Access,
    is_running: impl Fn(&Path) -> bool,
) -> Result<Added, KubeconfigError> {
    forget_other_file(path, data_dir);
    let lock = LockedFile::lock(path).map_err(|source| file_error(path, source))?;
    let text =
        evict_stopped_instance(path, lock.read().map_err(|source| file_error(path, source))?, data_dir, is_running)?;
    let installed = entries::install(&text, access).map_err(|source| content_error(path, source))?;

    let old = Record::load(data_dir);
    let (previous, created) = match (installed.replaced, old) {
        (None, Some(old)) => (old.previous_context, old.created),
        (replaced, old) => {
            let created = old.is_some_and(|old| old.created) || !path.exists();
            (replaced.flatten(), created)
        }
    };
    let record = Record::new(path.to_owned(), previous.clone(), created);
    record.store(data_dir).map_err(|source| KubeconfigError::Record { path: path.to_owned(), source })?;
    let tightened = lock.replace(&installed.text).map_err(|source| file_error(path, source))?;
    let tightened_from = match tightened {
        Tightened::No => None,
        Tightened::From(mode) => Some(mode),
    };
    Ok(Added { previous: previous.filter(|name| !name.is_empty()), tightened_from, record })
}

/// Takes back what [`add`] did for this data directory; does nothing when nothing is left of it. A data directory that is
/// gone remembers nothing: then `record` is undone.
pub fn remove(data_dir: &Path, record: Option<Record>) -> Result<Removed, KubeconfigError> {
    let Some(record) = Record::load(data_dir).or(record) else { return Ok(Removed::Nothing) };
    let path = record.kubeconfig.clone();
    let removed = if path.exists() { remove_entries(&record, data_dir)? } else { Removed::Nothing };
    Record::forget(data_dir).map_err(|source| KubeconfigError::Record { path, source })?;
    Ok(removed)
}

/// Writes a kubeconfig that holds nothing but our own access.
pub fn write_standalone(path: &Path, access: &Access) -> Result<(), KubeconfigError> {
    let text = entries::standalone(access).map_err(|source| content_error(path, source))?;
    file::write_whole(path, &text).map_err(|source| file_error(path, FileError::Write { source }))
}

fn remove_entries(record: &Record, data_dir: &Path) -> Result<Removed, KubeconfigError> {
    let path = &record.kubeconfig;
    let lock = LockedFile::lock(path).map_err(|source| file_error(path, source))?;
    let before = lock.read().map_err(|source| file_error(path, source))?;
    let after = entries::uninstall(&before, &data_dir.to_string_lossy(), record.previous_context.clone())
        .map_err(|source| KubeconfigError::Leftover { path: path.clone(), source })?;
    if after == before {
        return Ok(Removed::Nothing);
    }
    let written =
        if record.created && entries::is_bare(&after) { lock.delete() } else { lock.replace(&after).map(drop) };
    written.map_err(|source| file_error(path, source))?;
    Ok(Removed::Entries { kubeconfig: path.clone() })
}

/// Cleans up in the file that an earlier, killed run of this instance used, if that was another one.
fn forget_other_file(path: &Path, data_dir: &Path) {
    if Record::load(data_dir).is_some_and(|record| record.kubeconfig != path) {
        // The old file may be gone or malformed by now; that must not keep us from starting.
        let _ = remove(data_dir, None);
    }
}

/// Returns the text without the entries of an instance that was killed and never cleaned up.
fn evict_stopped_instance(
    path: &Path,
    text: String,
    data_dir: &Path,
    is_running: impl Fn(&Path) -> bool,
) -> Result<String, KubeconfigError> {
    let owner = entries::owner(&text, &data_dir.to_string_lossy()).map_err(|source| content_error(path, source))?;
    let Owner::OtherInstance { data_dir: other } = &owner else {
        return refuse_strangers(path, owner, is_running).map(|()| text);
    };
    let other = other.clone();
    refuse_strangers(path, owner, is_running)?;
    let previous = Record::load(Path::new(&other)).and_then(|record| record.previous_context);
    entries::uninstall(&text, &other, previous).map_err(|source| content_error(path, source))
}

fn refuse_strangers(path: &Path, owner: Owner, is_running: impl Fn(&Path) -> bool) -> Result<(), KubeconfigError> {
    match owner {
        Owner::Stranger { section } => Err(KubeconfigError::Taken { path: path.to_owned(), section }),
        Owner::OtherInstance { data_dir } if is_running(Path::new(&data_dir)) => {
            Err(KubeconfigError::OtherInstance { path: path.to_owned(), data_dir: data_dir.into() })
        }
        Owner::Nobody | Owner::Us | Owner::OtherInstance { .. } => Ok(()),
    }
}

fn file_error(path: &Path, source: FileError) -> KubeconfigError {
    KubeconfigError::File { path: path.to_owned(), source }
}

fn content_error(path: &Path, source: EntriesError) -> KubeconfigError {
    KubeconfigError::Content { path: path.to_owned(), source }
}
