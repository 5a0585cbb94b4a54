//! The files of volumes whose content comes from the API: configMap, secret, projected, downwardAPI.
//!
//! Called by the pod's worker before it starts containers and whenever something that the pod refers to changes.
//! `references` says what to fetch, `content` makes the files (pure), `write` puts them into a folder so that readers
//! see all of a change or nothing of it. Mounts nothing; other kinds of volumes are not its concern.

mod content;
mod references;
mod write;

#[cfg(test)]
mod tests;

pub use self::{
    content::{File, Files, Tokens, VolumeError, content, failed_mount},
    references::{References, TokenWanted, references},
    write::{WriteError, write},
};
