//! A home with a kubeconfig, a server behind it, and the clients a user has installed.
//!
//! The server is a `ronde up` of its own, or the one `RONDE_CLIENTS_KUBECONFIG` names.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use fs_err as fs;
use ronde_sim::{program, skip};
use serde_json::Value;

use crate::sandbox::Sandbox;

/// The oldest kubectl these tests are for.
const KUBECTL_MINOR_MIN: u32 = 30;

/// A client of the Kubernetes API.
#[derive(Clone, Copy, Debug)]
pub enum Program {
    Kubectl,
    Helm,
}

/// A home whose kubeconfig leads to a server, into a namespace of its own.
pub struct Home {
    sandbox: Sandbox,
    path: std::ffi::OsString,
}

impl Home {
    /// Starts a server and makes a namespace, or skips the test when a program is missing.
    pub fn new(namespace: &str, programs: &[Program]) -> Option<Self> {
        for program in programs {
            program.find()?;
        }
        // Namespaces are made with kubectl, also for Helm.
        Program::Kubectl.find()?;
        let home = Self { sandbox: Sandbox::new(), path: variable("PATH").unwrap_or_default() };
        match variable("RONDE_CLIENTS_KUBECONFIG") {
            Some(file) => home.borrow_server(Path::new(&file), namespace),
            None => home.sandbox.up(),
        }
        home.succeed(&format!("kubectl create namespace {namespace}"));
        home.succeed(&format!("kubectl config set-context --current --namespace {namespace}"));
        Some(home)
    }

    /// Returns a shell that runs `script` in this home, with nothing of the user's environment.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-o", "pipefail", "-c", script]).current_dir(self.sandbox.path("")).env_clear();
        command.env("PATH", &self.path).env("HOME", self.sandbox.path("")).env("TMPDIR", self.sandbox.path(""));
        // The clients are gone before collecting their garbage would pay: a fifth of their time.
        command.env("GOGC", "off");
        command.env("CHART", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/chart"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, script: &str) -> Output {
        self.shell(script).output().unwrap()
    }

    /// Runs what has to work and returns its stdout.
    pub fn succeed(&self, script: &str) -> String {
        let output = self.run(script);
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "$ {script}\n{}\n{stdout}{stderr}", output.status);
        stdout.into_owned()
    }

    /// Returns what messages call the home, for redaction.
    pub fn directory(&self) -> String {
        self.sandbox.path("").to_str().unwrap().trim_end_matches('/').to_owned()
    }

    /// Leads the kubeconfig to a server that others use too, and removes what an earlier run left there.
    fn borrow_server(&self, kubeconfig: &Path, namespace: &str) {
        self.sandbox.write(".kube/config", &fs::read_to_string(kubeconfig).unwrap());
        // No node runs these pods, so nobody else would confirm their end.
        self.succeed(&format!("kubectl delete pods --all -n {namespace} --force --grace-period 0"));
        self.succeed(&format!("kubectl delete namespace {namespace} --ignore-not-found --timeout 60s"));
    }
}

impl Program {
    /// Returns where the program is, or skips the test.
    fn find(self) -> Option<PathBuf> {
        match self {
            Self::Helm => program("helm"),
            Self::Kubectl => program("kubectl").filter(|path| {
                let minor = kubectl_minor(path);
                if minor < KUBECTL_MINOR_MIN {
                    skip(&format!("`kubectl` 1.{minor} is older than 1.{KUBECTL_MINOR_MIN}"));
                }
                minor >= KUBECTL_MINOR_MIN
            }),
        }
    }
}

fn kubectl_minor(kubectl: &Path) -> u32 {
    let output = Command::new(kubectl).args(["version", "--client", "-o", "json"]).output().unwrap();
    let version: Value = serde_json::from_slice(&output.stdout).unwrap();
    let minor = version["clientVersion"]["minor"].as_str().unwrap();
    minor.trim_end_matches('+').parse().unwrap()
}

/// Reads the environment, for all of this test target.
#[expect(clippy::disallowed_methods, reason = "the tests find their programs where the user has them")]
pub fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}
