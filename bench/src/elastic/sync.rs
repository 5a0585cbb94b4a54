//! A large state for a new rank: what `ArrayState.sync` takes, beside a plain copy of as many bytes.

use anyhow::{Context as _, ensure};

use super::{median, peer::Peer};

/// Of the state; two ranks hold it twice each, as they do in a training.
pub const MEGABYTES: usize = 1024;
const SCRIPT: &str = include_str!("sync.py");

/// In seconds, medians.
pub struct Times {
    pub sync: f64,
    pub copy: f64,
}

/// Two ranks of this machine, of which one has the state and the other gets it.
pub fn measure(peer: &Peer, rounds: usize) -> anyhow::Result<Times> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("sync.py");
    fs_err::write(&script, SCRIPT)?;
    let mut command = peer.launch(&["-np", "2"]);
    command.arg(script).args([MEGABYTES.to_string(), rounds.to_string()]);
    let output = command.output().context("cannot start the launcher")?;
    ensure!(output.status.success(), "the ranks failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    let seconds = |what: &str| {
        let lines = said.lines().filter_map(|line| line.split_once("<stdout>:")?.1.strip_prefix(what));
        lines.map(|seconds| seconds.trim().parse::<f64>()).collect::<Result<Vec<f64>, _>>()
    };
    Ok(Times { sync: median(seconds("sync")?), copy: median(seconds("copy")?) })
}
