//! A large state for a new rank: what `ArrayState.sync` takes, beside a plain copy of as many bytes.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use super::{Options, job, median};

/// Of the state; two ranks hold it twice each, as they do in a training.
pub const MEGABYTES: usize = 1024;
const SCRIPT: &str = include_str!("sync.py");

/// In seconds, medians.
pub struct Times {
    pub sync: f64,
    pub copy: f64,
}

/// Two ranks of this machine, of which one has the state and the other gets it.
pub fn measure(options: &Options) -> anyhow::Result<Times> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("sync.py");
    fs_err::write(&script, SCRIPT)?;
    job::build_package(folder.path(), &options.library)?;
    let output = Command::new(&options.launcher)
        .args(["-np", "2"])
        .arg(&options.python)
        .arg(script)
        .args([MEGABYTES.to_string(), options.rounds.to_string()])
        .env("PYTHONPATH", folder.path())
        .env("OMP_NUM_THREADS", "1")
        .stdin(Stdio::null())
        .output()
        .context("cannot start the launcher")?;
    ensure!(output.status.success(), "the ranks failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    let seconds = |what: &str| {
        let lines = said.lines().filter_map(|line| line.split_once("<stdout>:")?.1.strip_prefix(what));
        lines.map(|seconds| seconds.trim().parse::<f64>()).collect::<Result<Vec<f64>, _>>()
    };
    Ok(Times { sync: median(seconds("sync")?), copy: median(seconds("copy")?) })
}
