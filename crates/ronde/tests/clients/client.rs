//! A home with a kubeconfig, a server behind it, and the clients a user has installed.
//!
//! The server is a `ronde up` of its own, or the one `RONDE_CLIENTS_KUBECONFIG` names.

use std::{
    ffi::OsString,
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
    directory: PathBuf,
    path: OsString,
    /// The server that ends with this home, unless others use it too.
    _sandbox: Option<Sandbox>,
}

impl Home {
    /// Starts a server and makes a namespace, or skips the test when a program is missing.
    pub fn new(namespace: &str, programs: &[Program]) -> Option<Self> {
        Program::find_all(programs)?;
        let sandbox = Sandbox::new();
        let path = variable("PATH").unwrap_or_default();
        let home = match variable("RONDE_CLIENTS_KUBECONFIG") {
            Some(file) => {
                let home = Self { directory: sandbox.path(""), path, _sandbox: Some(sandbox) };
                home.borrow_server(Path::new(&file), namespace);
                home
            }
            None => {
                sandbox.up();
                Self { directory: sandbox.path(""), path, _sandbox: Some(sandbox) }
            }
        };
        home.enter(namespace);
        Some(home)
    }

    /// The home of the server itself, in the namespace `default`, with more programs at the front of the path.
    pub fn of(sandbox: &Sandbox, programs: &Path) -> Self {
        let mut path = programs.as_os_str().to_owned();
        path.push(":");
        path.push(variable("PATH").unwrap_or_default());
        Self { directory: sandbox.path(""), path, _sandbox: None }
    }

    /// Makes a home on somebody else's server.
    pub fn borrow(kubeconfig: &Path, namespace: &str, programs: &Path) -> Self {
        let sandbox = Sandbox::new();
        let Self { directory, path, .. } = Self::of(&sandbox, programs);
        let home = Self { directory, path, _sandbox: Some(sandbox) };
        home.borrow_server(kubeconfig, namespace);
        home.enter(namespace);
        home
    }

    /// Makes a home on somebody else's server, in the namespace `default`, which it leaves as it is.
    pub fn in_default(kubeconfig: &Path, programs: &Path) -> Self {
        let sandbox = Sandbox::new();
        sandbox.write(".kube/config", &fs::read_to_string(kubeconfig).unwrap());
        let Self { directory, path, .. } = Self::of(&sandbox, programs);
        Self { directory, path, _sandbox: Some(sandbox) }
    }

    /// Makes a home beside others on a server that runs.
    pub fn beside(sandbox: &Sandbox, namespace: &str, programs: &Path) -> Self {
        sandbox.write(&format!("{namespace}/.kube/config"), &sandbox.read(".kube/config"));
        let home = Self { directory: sandbox.path(namespace), ..Self::of(sandbox, programs) };
        home.enter(namespace);
        home
    }

    /// Makes the namespace, and the one that commands without a namespace mean.
    fn enter(&self, namespace: &str) {
        self.succeed(&format!("kubectl create namespace {namespace}"));
        self.succeed(&format!("kubectl config set-context --current --namespace {namespace}"));
    }

    /// Returns a shell that runs `script` in this home, with nothing of the user's environment.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-o", "pipefail", "-c", script]).current_dir(&self.directory).env_clear();
        command.env("PATH", &self.path).env("HOME", &self.directory).env("TMPDIR", &self.directory);
        // The clients are gone before collecting their garbage would pay: a fifth of their time.
        command.env("GOGC", "off");
        command.env("CRDS", Path::new(env!("CARGO_MANIFEST_DIR")).join("../ronde-api/crds"));
        command.env("CHART", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/chart"));
        command.env("CHARTS", Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts"));
        command.env("RONDE", env!("CARGO_BIN_EXE_ronde"));
        command.env("EXAMPLES", Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"));
        command.env("RONDE_SEEDS", seeds());
        for name in ["RONDE_TEST_PYTHON", "RONDE_TEST_PYTHONPATH"] {
            command.envs(variable(name).map(|value| (name, value)));
        }
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
        self.directory.to_str().unwrap().trim_end_matches('/').to_owned()
    }

    /// Leads the kubeconfig to a server that others use too, and removes what an earlier run left there.
    fn borrow_server(&self, kubeconfig: &Path, namespace: &str) {
        fs::create_dir_all(self.directory.join(".kube")).unwrap();
        fs::copy(kubeconfig, self.directory.join(".kube/config")).unwrap();
        // No node runs these pods, so nobody else would confirm their end.
        self.succeed(&format!("kubectl delete pods --all -n {namespace} --force --grace-period 0"));
        self.succeed(&format!("kubectl delete namespace {namespace} --ignore-not-found --timeout 60s"));
    }
}

impl Program {
    /// Tells that all of them are there, or skips the test.
    pub fn find_all(programs: &[Self]) -> Option<()> {
        // Namespaces are made with kubectl, also for Helm.
        [&[Self::Kubectl], programs].concat().into_iter().all(|program| program.find().is_some()).then_some(())
    }

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

/// Returns where the texts of the seeds are: by default beside the checkout, if they are there at all.
pub fn seeds() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds");
    variable("RONDE_SEEDS").map_or(beside, PathBuf::from)
}

/// Reads the environment, for all of this test target.
#[expect(clippy::disallowed_methods, reason = "the tests find their programs where the user has them")]
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
