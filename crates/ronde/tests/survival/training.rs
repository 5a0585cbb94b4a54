//! The trainings that have to come to the right end: the NumPy example, and one for PyTorch that counts its samples.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use ronde_sim::skip;
use tempfile::TempDir;

/// Says its process before it does anything else.
const WITH_PID: &str = "import os, runpy, sys; print('pid', os.getpid(), flush=True); sys.argv.pop(0); \
                        runpy.run_path(sys.argv[0], run_name='__main__')";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Every step uses the same samples whoever computes them: the result must be that of a training alone.
    NumPy,
    /// Samples by Horovod's `ElasticSampler`: each of an epoch is to be used once.
    PyTorch,
}

#[derive(Debug)]
pub struct Training {
    kind: Kind,
    python: PathBuf,
    packages: String,
    /// Epochs of PyTorch. The other trains until there is the sign.
    length: u64,
    /// Where the sign to end is put.
    folder: TempDir,
}

impl Training {
    /// One that takes about so long without disturbance; skips the test where Python lacks what it needs.
    pub fn new(kind: Kind, seconds: u64) -> Option<Self> {
        let (Some(python), Some(packages)) = (variable("RONDE_TEST_PYTHON"), variable("RONDE_TEST_PYTHONPATH")) else {
            skip("no Python with NumPy and our package is named by RONDE_TEST_PYTHON and RONDE_TEST_PYTHONPATH");
            return None;
        };
        let (length, folder) = (30 + seconds / 2, tempfile::tempdir().unwrap());
        let training = Self { kind, python: python.into(), packages, length, folder };
        let has_torch = || training.python(&["-c", "import torch"]).output().unwrap().status.success();
        if kind == Kind::PyTorch && !has_torch() {
            skip("PyTorch is not installed");
            return None;
        }
        Some(training)
    }

    fn python(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.python);
        command.args(words).env("PYTHONPATH", &self.packages);
        command
    }

    fn script(&self) -> String {
        let path = match self.kind {
            Kind::NumPy => "../../examples/numpy_elastic.py",
            Kind::PyTorch => "tests/survival/counting.py",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join(path).display().to_string()
    }

    fn sign(&self) -> PathBuf {
        self.folder.path().join("enough")
    }

    /// The training may end.
    pub fn enough(&self) {
        fs_err::write(self.sign(), "").unwrap();
    }

    /// Puts the program behind the launcher's flags.
    pub fn complete(&self, command: &mut Command) {
        command.arg(&self.python).args(["-c", WITH_PID, &self.script(), "--pause", "0.02"]);
        match self.kind {
            Kind::NumPy => command.args(["--steps", "100000000", "--print-every", "1", "--until"]).arg(self.sign()),
            Kind::PyTorch => command.args(["--epochs", &self.length.to_string()]),
        };
        command.env("PYTHONPATH", &self.packages);
    }

    /// The step from which on it may end at any moment by itself; the rest takes a second and more.
    pub fn nearly_done(&self) -> u64 {
        match self.kind {
            Kind::NumPy => u64::MAX,
            Kind::PyTorch => self.length - 6,
        }
    }

    /// Looks at what a training has said, which must have the right loss and the right count of samples.
    pub fn check(&self, lines: &[String]) -> String {
        let said = lines.iter().filter_map(|line| line.split_once("<stdout>:"));
        let found: Vec<&str> = said.map(|(_, text)| text).filter(|text| text.contains("samples: ")).collect();
        match self.kind {
            Kind::NumPy => {
                let (steps, _) = found[0].strip_prefix("steps: ").and_then(|rest| rest.split_once(',')).unwrap();
                let output = self.python(&[&self.script(), "--steps", steps]).output().unwrap();
                let alone = String::from_utf8(output.stdout).unwrap();
                assert_eq!(found, [alone.lines().last().unwrap()]);
            }
            Kind::PyTorch => {
                let expected = format!("epochs: {0}, samples: {0} times all of them, lost: 0, ", self.length);
                assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
                let loss: f64 = found[0].rsplit_once("loss: ").unwrap().1.parse().unwrap();
                assert!(loss < 1e-6, "{found:?}");
            }
        }
        found[0].to_owned()
    }
}

#[expect(clippy::disallowed_methods, reason = "how the tests are told which Python there is")]
fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}
