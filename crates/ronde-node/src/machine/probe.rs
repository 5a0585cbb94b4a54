//! Finds out, by trying, which isolation this machine allows, and says what follows from what is missing.
//!
//! [`try_out`] runs in a process of its own (`ronde try-isolation`), because only trying tells: kernels, container
//! runtimes and security modules refuse in many ways. [`choose`] is pure.

use std::{io, path::Path};

use fs_err as fs;
use ronde_images::unpack::Rights;
use ronde_process::{Alone, Fork, Namespaces, fork};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use serde::{Deserialize, Serialize};

use crate::sandbox::{init::rustix_exit, layers::Manner, overlay};

/// What the user asked for with `--isolation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The best there is.
    Auto,
    /// All of it, or nothing starts.
    Full,
    /// Plain processes.
    None,
}

/// What pods get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    Namespaces { files: Manner, user_attributes: bool },
    None,
}

/// What was tried: nothing if it worked, or the words of the refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    pub namespaces: Option<String>,
    pub overlay: Option<String>,
    pub proc: Option<String>,
}

/// Something that is not as it should be, with its consequence, in one sentence each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub what: String,
    pub consequence: String,
}

impl Missing {
    pub fn new(what: impl Into<String>, consequence: impl Into<String>) -> Self {
        Self { what: what.into(), consequence: consequence.into() }
    }
}

/// What follows from no isolation at all.
const PLAIN: &str = "pods are plain processes that share this machine's files, network and processes, and what they \
    write stays there; volumes and service names do not work";

/// Decides the isolation.
///
/// # Errors
/// What is missing, if all of it was asked for.
pub fn choose(wish: Wish, tried: &Tried, is_root: bool) -> Result<(Isolation, Vec<Missing>), Vec<Missing>> {
    if wish == Wish::None {
        let note = Missing::new("isolation is switched off", PLAIN);
        return Ok((Isolation::None, vec![note]));
    }
    let missing = complaints(tried);
    if wish == Wish::Full && !missing.is_empty() {
        return Err(missing);
    }
    let isolation = match (&tried.namespaces, &tried.overlay) {
        (Some(_), _) => Isolation::None,
        (None, Some(_)) => Isolation::Namespaces { files: Manner::ReadOnly, user_attributes: !is_root },
        (None, None) => Isolation::Namespaces { files: Manner::CopyOnWrite, user_attributes: !is_root },
    };
    Ok((isolation, missing))
}

fn complaints(tried: &Tried) -> Vec<Missing> {
    if let Some(why) = &tried.namespaces {
        let what = format!("no namespaces: {why}");
        return vec![Missing::new(what, PLAIN)];
    }
    let overlay = tried.overlay.as_ref().map(|why| {
        Missing::new(
            format!("no overlay file system: {why}"),
            "pods see this machine's files read-only; they can write to /tmp and to their volumes",
        )
    });
    let proc = tried.proc.as_ref().map(|why| {
        Missing::new(
            format!("cannot mount /proc for a pod: {why}"),
            "pods see this machine's processes, though they cannot touch them",
        )
    });
    overlay.into_iter().chain(proc).collect()
}

/// Tries everything in a scratch folder, where also pods will be, and removes what it made.
pub fn try_out(alone: Alone, folder: &Path) -> io::Result<Tried> {
    fs::create_dir_all(folder)?;
    let (mut answer, tell) = io::pipe()?;
    let all = Namespaces { pid: true, mount: true, network: true, hostname: true, ipc: true, user: false };
    let tried = match fork(alone, all) {
        Err(error) => Tried { namespaces: Some(words(&error)), ..Tried::default() },
        Ok(Fork::Child) => {
            drop(answer);
            let tried = inside(folder);
            let _ = serde_json::to_writer(&tell, &tried);
            rustix_exit(0)
        }
        Ok(Fork::Parent(child)) => {
            drop(tell);
            let mut text = String::new();
            io::Read::read_to_string(&mut answer, &mut text)?;
            child.wait()?;
            serde_json::from_str(&text).map_err(io::Error::other)?
        }
    };
    let _ = fs::remove_dir_all(folder);
    Ok(tried)
}

fn inside(folder: &Path) -> Tried {
    if let Err(error) = mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC) {
        return Tried { namespaces: Some(words(&error.into())), ..Tried::default() };
    }
    let user_attributes = !Rights::of_caller().is_of_machine();
    let overlay = overlay("/etc", &folder.join("overlay"), user_attributes).err().map(|error| words(&error));
    let place = folder.join("proc");
    let proc = fs::create_dir_all(&place).and_then(|()| {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", &place, "proc", flags, None).map_err(Into::into)
    });
    Tried { namespaces: None, overlay, proc: proc.err().map(|error| words(&error)) }
}

fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{Isolation, Tried, Wish, choose};
    use crate::sandbox::layers::Manner;

    fn check(what: &str, wish: Wish, tried: &Tried, expected: Result<(Isolation, usize), usize>) {
        let chosen = choose(wish, tried, true);
        let short = chosen.map(|(isolation, missing)| (isolation, missing.len())).map_err(|missing| missing.len());
        assert_eq!(short, expected, "{what}");
    }

    #[test]
    fn the_best_that_is_allowed_is_chosen() {
        let full = Isolation::Namespaces { files: Manner::CopyOnWrite, user_attributes: false };
        let files_read_only = Isolation::Namespaces { files: Manner::ReadOnly, user_attributes: false };
        let no = |text: &str| Some(text.to_owned());
        let all = Tried::default();
        let no_overlay = Tried { overlay: no("invalid argument"), ..Tried::default() };
        let nothing = Tried { namespaces: no("operation not permitted"), ..Tried::default() };
        check("all works", Wish::Auto, &all, Ok((full, 0)));
        check("all works and is wanted", Wish::Full, &all, Ok((full, 0)));
        check("all works and is not wanted", Wish::None, &all, Ok((Isolation::None, 1)));
        check("no overlay", Wish::Auto, &no_overlay, Ok((files_read_only, 1)));
        check("no overlay, but all is wanted", Wish::Full, &no_overlay, Err(1));
        check("nothing works", Wish::Auto, &nothing, Ok((Isolation::None, 1)));
    }
}
