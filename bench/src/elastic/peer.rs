//! Who is measured: a launcher, a Python, and the training that it runs.

use std::{
    env,
    ffi::OsString,
    process::{Command, Stdio},
};

use super::Options;

const NUMPY: &str = include_str!("worker.py");
const TORCH: &str = include_str!("worker_torch.py");

/// A way to run an elastic training.
#[derive(Debug)]
pub struct Peer {
    launcher: Vec<OsString>,
    python: OsString,
    /// What Python finds before its own modules.
    modules: Option<OsString>,
    /// What each worker runs.
    pub script: &'static str,
    /// Whether the launcher looks at the file with the hosts, and does not only ask a program every second.
    pub is_watching: bool,
}

impl Peer {
    /// Ours, as it needs the least: NumPy, and hosts in a file.
    pub fn with_numpy(options: &Options) -> Self {
        let python = options.python.clone();
        Self { python, script: NUMPY, is_watching: true, ..Self::with_torch(options, OsString::new()) }
    }

    /// Ours, as Horovod is used.
    pub fn with_torch(options: &Options, python: OsString) -> Self {
        let modules = Some(options.package.clone().into());
        Self { launcher: vec![options.launcher.clone().into()], python, modules, script: TORCH, is_watching: false }
    }

    /// Horovod itself, if that Python has it; ours has its name, and is not taken for it.
    pub fn horovod(python: OsString) -> Option<Self> {
        let launcher = vec![python.clone(), "-m".into(), "horovod.runner.launch".into()];
        let modules = env::var_os("HOROVOD_PYTHONPATH");
        let peer = Self { launcher, python, modules, script: TORCH, is_watching: false };
        let mut tried = peer.command(&peer.python);
        tried.args(["-c", "import horovod.torch.mpi_lib_v2"]).stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success()).then_some(peer)
    }

    /// The launcher with its arguments up to the command, and then Python.
    pub fn launch(&self, words: &[&str]) -> Command {
        let mut command = self.command(&self.launcher[0]);
        command.args(&self.launcher[1..]).args(words).arg(&self.python);
        command
    }

    fn command(&self, program: &OsString) -> Command {
        let mut command = Command::new(program);
        command.env_remove("PYTHONPATH").env("OMP_NUM_THREADS", "1").stdin(Stdio::null());
        if let Some(modules) = &self.modules {
            command.env("PYTHONPATH", modules);
        }
        command
    }
}
