//! `ronde rsh`, and `ssh` where our program goes by that name: runs a command on another host, through its agent.

use std::{
    ffi::OsStr,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use fs_err as fs;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tokio_util::task::TaskTracker;

use super::{
    client::{self, Ends},
    dial::{DialError, Dialer},
    frame::Run,
    shim::Call,
};
use crate::start::{Ended, Order};

/// What ssh ends with when there is no connection.
pub const NO_CONNECTION: u8 = 255;
/// Signals that wait to be sent.
const ORDERS_MAX: usize = 16;

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RshError {
    #[error(transparent)]
    Reach(#[from] DialError),
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
}

/// Runs a command on a host with our own streams, and returns how it ended. Needs a runtime; its reader of stdin may
/// outlive this call.
pub async fn run(dialer: &Dialer, call: Call) -> Result<Ended, RshError> {
    let (orders, given) = mpsc::channel(ORDERS_MAX);
    let forwarding = forward_signals(orders).map_err(RshError::Signals)?;
    let channel = dialer.dial(&call.host).await?;
    let words = ["sh".to_owned(), "-c".to_owned(), call.command];
    let ends = Ends {
        stdin: call.has_input.then(|| Box::new(tokio::io::stdin()) as _),
        stdout: Box::new(tokio::io::stdout()),
        stderr: Box::new(tokio::io::stderr()),
    };
    let passing = TaskTracker::new();
    let run = Run { words: words.into(), ..Run::default() };
    let ended = client::run(channel, run, ends, given, &passing).await;
    forwarding.abort();
    passing.close();
    passing.wait().await;
    Ok(ended)
}

/// Passes on what asks us to end; the second time it is the end.
fn forward_signals(orders: mpsc::Sender<Order>) -> io::Result<tokio::task::JoinHandle<()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(tokio::spawn(async move {
        let mut is_asked = false;
        loop {
            let kind = tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt(),
                _ = terminate.recv() => SignalKind::terminate(),
                _ = hangup.recv() => SignalKind::hangup(),
            };
            let order = if is_asked { Order::Kill } else { Order::Signal(kind.as_raw_value()) };
            is_asked = true;
            if orders.send(order).await.is_err() {
                return;
            }
        }
    }))
}

/// Finds the real ssh: the first on the `PATH` that is not our own program.
pub fn real_ssh(path: &OsStr, own: &Path) -> Option<PathBuf> {
    let own = fs::canonicalize(own).ok();
    let candidates = std::env::split_paths(path).map(|folder| folder.join("ssh"));
    let mut programs = candidates.filter(|path| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    });
    programs.find(|path| fs::canonicalize(path).ok() != own)
}

#[cfg(test)]
mod tests {
    use fs_err::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_real_ssh_is_not_ourselves() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["shims", "none", "usr"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for program in ["ronde", "usr/ssh"] {
            fs::write(at(program), "").unwrap();
            fs::set_permissions(at(program), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink("../ronde", at("shims/ssh")).unwrap();
        let path = std::env::join_paths([at("shims"), at("none"), at("usr")]).unwrap();
        assert_eq!(real_ssh(&path, &at("ronde")), Some(at("usr/ssh")));
        assert_eq!(real_ssh(at("shims").as_os_str(), &at("ronde")), None);
    }
}
