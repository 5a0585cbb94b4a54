//! Pods that really run: kubectl and Helm against `ronde up` with its node and its controllers.
//!
//! Each transcript in `transcripts/` is a script of commands and what a user sees, in the words of a real cluster. Those
//! that run at the same time share one machine, each in a namespace of its own. What takes the machine down, or needs
//! one of its own, is in Rust: `restart`, `registry`, `nodes`, `leftovers`, `ordinary_user`. `scenarios` and `seeds` run
//! where their make targets have prepared a cluster.
//!
//! `RONDE_CLIENTS_RECORD=1` writes down what differs as the new expectation, to be read before it is believed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

#[path = "../clients/client.rs"]
mod client;
mod cluster;
mod disk;
#[path = "../clients/expectation.rs"]
mod expectation;
mod leftovers;
mod ordinary_user;
mod registry;
mod restart;
#[path = "../cli/sandbox.rs"]
#[expect(dead_code, reason = "the tests of the command use the rest of it")]
mod sandbox;
mod scenarios;
mod seeds;
#[path = "../clients/transcript.rs"]
#[expect(dead_code, reason = "the tests of clients use the rest of it")]
mod transcript;
#[path = "../chart/values.rs"]
#[expect(dead_code, reason = "the tests of the chart use the rest of it")]
mod values;

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use fs_err as fs;
use ronde_sim::{is_root, program, skip};

use crate::{
    client::{Home, Program},
    cluster::{Cluster, shared},
    sandbox::Sandbox,
};

/// Makes one test of each transcript, and one that finds those which nobody runs. In brackets: what it needs.
macro_rules! transcripts {
    ($($name:ident: [$($need:literal),*];)+) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name), &[$($need),*]);
            }
        )+

        #[test]
        fn every_transcript_is_run() {
            let own = [
                "isolation", "nodes", "preemption", "seed_000_tensorflow", "seed_001_keras", "seed_002_auto_mode",
                "seed_002_elastic_training", "seed_002_tensorflow", "seed_003_gang",
            ];
            let mut names: Vec<&str> = own.into_iter().chain([$(stringify!($name)),+]).collect();
            names.sort_unstable();
            assert_eq!(transcript::names_in(&directory().join("transcripts")), names);
        }
    };
}

transcripts! {
    api_from_a_pod: ["python3"];
    attach: [];
    batch_jobs: ["python3"];
    claims: [];
    cp: [];
    cron: [];
    deepspeed_job: ["python3"];
    delete: [];
    deployment: [];
    describe: [];
    ends: [];
    env: [];
    exec: ["script"];
    flow: ["python3"];
    helm_chart: ["helm", "python3"];
    hooks: [];
    horovod_chart: ["root", "helm", "/usr/sbin/sshd", "ssh", "mpirun"];
    horovod_chart_agent: ["root", "helm", "python3", "mpirun"];
    horovod_chart_failures: ["root", "helm", "/usr/sbin/sshd", "ssh"];
    horovod_chart_keys: ["root", "helm", "/usr/sbin/sshd", "ssh"];
    horovod_chart_rollback: ["root", "helm", "/usr/sbin/sshd", "ssh"];
    horovod_job: ["training"];
    identity: ["root"];
    images: ["static busybox"];
    init_containers: [];
    job: [];
    limits: ["root", "python3"];
    logs: [];
    mpi_job: ["root", "python3", "mpirun"];
    network: ["python3"];
    port_forward: ["python3"];
    probes: ["python3"];
    restarts: [];
    run: [];
    seed_000_horovod_on_volcano: ["root", "python3", "/usr/sbin/sshd", "ssh", "mpirun"];
    seed_001_horovod_chart: ["root", "helm", "python3", "/usr/sbin/sshd", "ssh", "mpirun"];
    seed_001_training: ["root", "helm", "horovod", "/usr/sbin/sshd", "ssh", "mpirun"];
    seed_001_training_numpy: ["training", "root", "helm", "/usr/sbin/sshd", "ssh", "mpirun"];
    seed_003_tensorflow: ["tensorflow"];
    service: ["python3"];
    ssh_and_mpi: ["root", "/usr/sbin/sshd", "ssh", "mpirun"];
    stateful_set: ["python3"];
    training_job: ["training"];
    training_job_baseline: [];
    training_job_ssh: ["training", "root", "/usr/sbin/sshd", "ssh"];
    volumes: ["root"];
}

/// Clients older than websockets, and those whose proxies refuse them.
#[test]
fn exec_and_cp_over_spdy() {
    let Some(kubectl) = Program::find_all(&[]).and_then(|()| program("kubectl")) else { return };
    let Some(cluster) = program("script").and_then(|_| shared()) else { return };
    let script = format!("#!/bin/sh\nKUBECTL_REMOTE_COMMAND_WEBSOCKETS=false exec {} \"$@\"\n", kubectl.display());
    let path = cluster.sandbox.write("spdy/kubectl", &script);
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let programs = format!("{}:{}", cluster.sandbox.path("spdy").display(), directory().join("bin").display());
    for name in ["exec", "cp"] {
        let home = Home::beside(&cluster.sandbox, &format!("{name}-spdy"), Path::new(&programs));
        transcript::run(&home, &directory().join(format!("transcripts/{name}.transcript")));
    }
}

/// On a machine whose data directory and kubeconfig are where a user has them: in folders that pods see.
#[test]
fn isolation() {
    if Program::find_all(&[]).is_none() || !is_there("root") || !is_there("python3") {
        return;
    }
    // Not in `/tmp`, of which pods have their own, nor in the checkout, which may be there.
    let sandbox = Sandbox::inside(Path::new("/var/tmp"));
    let Some(cluster) = Cluster::start(sandbox, "--nodes 1") else { return };
    play(&cluster, "isolation");
}

#[test]
fn nodes() {
    if Program::find_all(&[]).is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let Some(cluster) = Cluster::start(sandbox, "--nodes 3 --cpus 2 --memory 1Gi --gpus 4") else { return };
    play(&cluster, "nodes");
}

#[test]
fn preemption() {
    if Program::find_all(&[]).is_none() {
        return;
    }
    let Some(cluster) = Cluster::start(Sandbox::new(), "--nodes 3 --cpus 2 --memory 1Gi") else { return };
    play(&cluster, "preemption");
}

#[test]
fn seed_002_elastic_training() {
    if Program::find_all(&[]).is_none() || !is_there("training") {
        return;
    }
    let Some(cluster) = Cluster::start(Sandbox::new(), "--nodes 4 --cpus 4 --gpus 2 --memory 2Gi") else { return };
    play(&cluster, "seed_002_elastic_training");
}

#[test]
fn seed_002_auto_mode() {
    if Program::find_all(&[]).is_none() || !is_there("training") {
        return;
    }
    let Some(cluster) = Cluster::start(Sandbox::new(), "--nodes 2 --cpus 3 --memory 2Gi") else { return };
    play(&cluster, "seed_002_auto_mode");
}

#[test]
fn seed_000_tensorflow() {
    play_with_tensorflow("seed_000_tensorflow", &["root", "/usr/sbin/sshd", "ssh", "mpirun"]);
}

#[test]
fn seed_001_keras() {
    play_with_tensorflow("seed_001_keras", &["root", "helm", "/usr/sbin/sshd", "ssh", "mpirun"]);
}

#[test]
fn seed_002_tensorflow() {
    play_with_tensorflow("seed_002_tensorflow", &[]);
}

/// Runs a seed's own script on a machine that has room for what the seed asks for.
fn play_with_tensorflow(name: &str, needs: &[&str]) {
    let is_ready = is_there("tensorflow") && is_there("training") && needs.iter().all(|need| is_there(need));
    if !is_ready || Program::find_all(&[]).is_none() {
        return;
    }
    let Some(cluster) = Cluster::start(Sandbox::new(), "--nodes 4 --cpus 4 --gpus 1 --memory 8Gi") else { return };
    play(&cluster, name);
}

#[test]
fn seed_003_gang() {
    if Program::find_all(&[]).is_none() {
        return;
    }
    let Some(cluster) = Cluster::start(Sandbox::new(), "--nodes 3 --cpus 2") else { return };
    play(&cluster, "seed_003_gang");
}

/// Runs a transcript on the shared machine, or skips it when something is missing.
fn check(name: &str, needs: &[&str]) {
    if !needs.iter().all(|need| is_there(need)) || Program::find_all(&[]).is_none() {
        return;
    }
    let Some(cluster) = shared() else { return };
    play(&cluster, name);
}

fn play(cluster: &Cluster, name: &str) {
    play_in(&cluster.sandbox, name);
}

/// Plays a transcript in the sandbox of an instance, in a namespace of its name.
fn play_in(sandbox: &Sandbox, name: &str) {
    let home = Home::beside(sandbox, &name.replace('_', "-"), &directory().join("bin"));
    transcript::run(&home, &directory().join(format!("transcripts/{name}.transcript")));
}

/// Whether the Python that pods will find has these modules; if not, `otherwise` is the reason to skip the test.
fn has_modules(names: &[&str], otherwise: &str) -> bool {
    let find = "import importlib.util as i, sys; sys.exit(any(i.find_spec(name) is None for name in sys.argv[1:]))";
    let found = Command::new("python").args(["-c", find]).args(names).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        skip(otherwise);
    }
    found
}

/// Whether there is a Python with NumPy and our package, as `make test` prepares it.
fn can_train() -> bool {
    let found = client::variable("RONDE_TEST_PYTHON").is_some() && client::variable("RONDE_TEST_PYTHONPATH").is_some();
    if !found {
        skip("no python3 with numpy and cloudpickle, or not run by `make test`, which builds our package for it");
    }
    found
}

/// Whether there is a busybox that needs no libraries, which images are made of.
fn has_static_busybox() -> bool {
    let Some(path) = program("busybox") else { return false };
    let linked = Command::new("ldd").arg(path).output();
    let is_static = linked.is_ok_and(|output| !output.status.success());
    if !is_static {
        skip("`busybox` is not static (`apt-get install busybox-static`)");
    }
    is_static
}

fn has_seeds() -> bool {
    let found = client::seeds().is_dir();
    if !found {
        skip("the texts of the seeds are not beside the checkout");
    }
    found
}

fn is_there(need: &str) -> bool {
    match need {
        "training" => can_train(),
        "root" => is_root(),
        "static busybox" => has_static_busybox(),
        "seeds" => has_seeds(),
        "tensorflow" => has_modules(
            &["tensorflow", "horovod"],
            "TensorFlow is not installed (`make e2e-frameworks` brings it and runs this test)",
        ),
        "horovod" => has_modules(
            &["horovod", "torch", "sklearn"],
            "our wheels, PyTorch and scikit-learn are not installed (`make e2e-chart` runs this test where the last two are)",
        ),
        "helm" => Program::find_all(&[Program::Helm]).is_some(),
        path if path.starts_with('/') => {
            let found = Path::new(path).exists();
            if !found {
                skip(&format!("`{path}` is not installed"));
            }
            found
        }
        name => program(name).is_some(),
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pods")
}
