//! Builds the pods of a training job and wires them: how a launcher finds its workers and gets into them.
//!
//! Pure. The names, labels, paths and variables are a contract: with clients of et-operator, with the scripts of users, and
//! with `ronde agent`, which runs in every pod unless the job asks for ssh.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    CSIVolumeSource, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar, ExecAction, KeyToPath, Lifecycle,
    LifecycleHandler, Pod, PodSpec, PodTemplateSpec, ResourceRequirements, SecretVolumeSource, Volume, VolumeMount,
};
use kube::ResourceExt as _;
use ronde_api::{
    AttachMode, TrainingJob,
    names::{self as common, elastic as names},
};
use ronde_runtime::pods;

use super::{
    files, group,
    observed::{TRACKING, is_gang},
};

/// The port that agents listen on.
pub const AGENT_PORT: i32 = 9009;
/// The init container that brings the agent.
pub const INIT_AGENT: &str = "init-agent";
/// The key of the job's Secret with the secret of its agents.
pub const AGENT_SECRET: &str = "agent-secret";
/// The keys of the Secret in ssh mode, and the files in `/root/.ssh`.
pub const SSH_FILES: [(&str, &str); 4] =
    [("id_rsa", "id_rsa"), ("id_rsa.pub", "id_rsa.pub"), ("id_rsa.pub", "authorized_keys"), ("config", "config")];

const PROGRAM: &str = "/opt/kube/ronde";
const SECRET_FILE: &str = "/etc/ronde/agent-secret";
const HOSTS_FILE: &str = "/etc/edl/hostfile";
const KUBE: (&str, &str) = ("training-job-kubectl", "/opt/kube");
const EDL: (&str, &str) = ("training-job-hostfile", "/etc/edl");
const MPI: (&str, &str) = ("training-job-config", "/etc/mpi");
const JOB: (&str, &str) = ("deepspeed-hostfile", "/job");
const SECRET: (&str, &str) = ("training-job-secret", "/etc/ronde");
const SSHD: &str = "/usr/sbin/sshd  && sleep 365d";
/// The launcher is placed with its workers and starts when the list names them: not before they run.
const INIT_HOSTFILE: &str = "until [ -s /etc/mpi/hostfile ]; do sleep 0.2 2>/dev/null || sleep 1; done
cp /etc/mpi/hostfile /etc/edl/hostfile && chmod 0600 /etc/edl/hostfile
cp /etc/mpi/discover_hosts.sh /etc/edl/discover_hosts.sh && chmod +x /etc/edl/discover_hosts.sh
cp /etc/mpi/deepspeed-hostfile /job/hostfile && chmod 0600 /job/hostfile";
/// What an agent tells its programs is how to use agents; one that uses ssh is to find the real one.
const UNTOLD: &str =
    "PATH=${PATH#/opt/kube/bin:}; unset RONDE_SECRET_FILE RONDE_AGENT_PORT RONDE_HOSTS_FILE; exec \"$@\"";
/// Whoever deletes a worker lets it leave first: its agent ends when its ranks have left. The grace period is the limit.
const LEAVE: &str = "while kill -0 1 2>/dev/null; do sleep 0.2 2>/dev/null || sleep 1; done";
const MODE_READ: i32 = 0o444;
const MODE_RUN: i32 = 0o555;
const MODE_PRIVATE: i32 = 0o600;

/// Where the program comes from that runs in pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// The path of `ronde` in the image of the init container.
    pub program: String,
    /// That image; the pod's own if none.
    pub image: Option<String>,
    /// The CSI driver that mounts a folder with the program; with one there is nothing to copy, and no init container.
    pub driver: Option<String>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self { program: "/usr/local/bin/ronde".to_owned(), image: None, driver: None }
    }
}

/// Wires pods.
#[derive(Debug, Clone, Default)]
pub struct Wiring {
    pub agent: AgentSettings,
}

impl Wiring {
    /// Builds the launcher of a run.
    pub fn launcher(&self, job: &TrainingJob, run: i32) -> Pod {
        let name = names::launcher(&job.name_any());
        let mut pod = base(job, &job.spec.launcher().template, names::LAUNCHER, run);
        pod.metadata.name = Some(name.clone());
        pod.finalizers_mut().push(TRACKING.to_owned());
        self.install_agent(job, &mut pod);
        let spec = pod.spec.get_or_insert_default();
        spec.service_account_name = Some(name);
        spec.service_account = None;
        mount_hosts(job, spec);
        mount_secrets(job, spec);
        if let Some(first) = spec.containers.first_mut() {
            wrap_launcher(job, first);
        }
        pod
    }

    /// Builds a worker of a run.
    pub fn worker(&self, job: &TrainingJob, name: &str, run: i32) -> Pod {
        let index = names::worker_index(&job.name_any(), name).unwrap_or_default().to_string();
        let mut pod = base(job, &job.spec.worker().template, names::WORKER, run);
        pod.metadata.name = Some(name.to_owned());
        pod.labels_mut().insert(names::INDEX.to_owned(), index.clone());
        pod.annotations_mut().insert(common::TASK_INDEX.to_owned(), index);
        self.install_agent(job, &mut pod);
        let spec = pod.spec.get_or_insert_default();
        mount_secrets(job, spec);
        if let Some(first) = spec.containers.first_mut() {
            wrap_worker(job, first);
        }
        pod
    }

    /// Brings the program into the pod, whatever its image is.
    fn install_agent(&self, job: &TrainingJob, pod: &mut Pod) {
        let is_launcher = pod.labels().get(names::ROLE).is_some_and(|role| role == names::LAUNCHER);
        if job.spec.attach_mode() == AttachMode::Ssh && !is_launcher {
            return;
        }
        let spec = pod.spec.get_or_insert_default();
        let Some(first) = spec.containers.first_mut() else { return };
        if let Some(driver) = &self.agent.driver {
            first.volume_mounts.get_or_insert_default().push(VolumeMount { read_only: Some(true), ..mount(KUBE) });
            return spec.volumes.get_or_insert_default().push(csi(KUBE.0, driver));
        }
        first.volume_mounts.get_or_insert_default().push(mount(KUBE));
        let mut init = beside(first, INIT_AGENT, &[self.agent.program.as_str(), "agent", "install", KUBE.1]);
        spec.volumes.get_or_insert_default().push(empty(KUBE.0));
        init.volume_mounts = Some(vec![mount(KUBE)]);
        if let Some(image) = &self.agent.image {
            init.image = Some(image.clone());
            init.image_pull_policy = None;
        }
        spec.init_containers.get_or_insert_default().push(init);
    }
}

fn base(job: &TrainingJob, template: &PodTemplateSpec, role: &str, run: i32) -> Pod {
    let mut pod = pods::build(template, job);
    pod.metadata.generate_name = None;
    pod.labels_mut().extend(labels(job, role));
    let mut notes = vec![(names::RUN, run.to_string()), (common::TASK_SPEC, role.to_owned())];
    if is_gang(job) {
        notes.push((common::GROUP_NAME, group::name(job)));
    }
    pod.annotations_mut().extend(notes.into_iter().map(|(key, value)| (key.to_owned(), value)));
    let spec = pod.spec.get_or_insert_default();
    spec.restart_policy = Some("Never".to_owned());
    pods::trouble::keep_last_lines(spec);
    if spec.scheduler_name.as_ref().is_none_or(String::is_empty) {
        spec.scheduler_name = Some(common::SCHEDULER.to_owned());
    }
    pod
}

/// Returns the labels of the pods of a role; a worker has its index beside them.
pub fn labels(job: &TrainingJob, role: &str) -> BTreeMap<String, String> {
    let name = job.name_any();
    let labels = [(names::GROUP, names::GROUP_VALUE), (names::JOB, &name), (names::ROLE, role)];
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Returns what selects the workers of a job.
pub fn worker_selector(job: &TrainingJob) -> String {
    let labels = labels(job, names::WORKER);
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Builds an init container that is like a container, but for what it runs and the devices that it has no use for.
fn beside(container: &Container, name: &str, command: &[&str]) -> Container {
    let plain = |list: &Option<BTreeMap<String, _>>| {
        let list = list.iter().flatten().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory"));
        Some(list.map(|(name, amount)| (name.clone(), Clone::clone(amount))).collect::<BTreeMap<_, _>>())
            .filter(|list| !list.is_empty())
    };
    let resources = container.resources.as_ref().map(|resources| ResourceRequirements {
        limits: plain(&resources.limits),
        requests: plain(&resources.requests),
        ..ResourceRequirements::default()
    });
    Container {
        name: name.to_owned(),
        image: container.image.clone(),
        image_pull_policy: container.image_pull_policy.clone(),
        security_context: container.security_context.clone(),
        command: Some(command.iter().map(|&word| word.to_owned()).collect()),
        resources,
        ..Container::default()
    }
}

fn mount_hosts(job: &TrainingJob, spec: &mut PodSpec) {
    let item = |(key, mode): (&str, i32)| KeyToPath { key: key.to_owned(), path: key.to_owned(), mode: Some(mode) };
    let items = [
        (files::HOSTFILE, MODE_READ),
        (files::DEEPSPEED, MODE_READ),
        (files::DISCOVER, MODE_READ),
        (files::KUBEXEC, MODE_RUN),
    ];
    let source = ConfigMapVolumeSource {
        name: names::config(&job.name_any()),
        items: Some(items.map(item).into()),
        ..ConfigMapVolumeSource::default()
    };
    let config = Volume { name: MPI.0.to_owned(), config_map: Some(source), ..Volume::default() };
    spec.volumes.get_or_insert_default().extend([empty(EDL.0), config, empty(JOB.0)]);
    let mounts = [EDL, MPI, JOB].map(mount);
    let Some(first) = spec.containers.first_mut() else { return };
    first.volume_mounts.get_or_insert_default().extend(mounts.clone());
    let mut init = beside(first, "init-hostfile", &["sh", "-c", INIT_HOSTFILE]);
    init.volume_mounts = Some(mounts.into());
    spec.init_containers.get_or_insert_default().push(init);
}

fn mount_secrets(job: &TrainingJob, spec: &mut PodSpec) {
    let items = vec![KeyToPath { key: AGENT_SECRET.to_owned(), path: AGENT_SECRET.to_owned(), mode: Some(MODE_READ) }];
    let source =
        SecretVolumeSource { secret_name: Some(job.name_any()), items: Some(items), ..SecretVolumeSource::default() };
    let volume = Volume { name: SECRET.0.to_owned(), secret: Some(source), ..Volume::default() };
    spec.volumes.get_or_insert_default().push(volume);
    if let Some(first) = spec.containers.first_mut() {
        let read_only = VolumeMount { read_only: Some(true), ..mount(SECRET) };
        first.volume_mounts.get_or_insert_default().push(read_only);
    }
    if job.spec.attach_mode() == AttachMode::Ssh {
        mount_keys(job, spec);
    }
}

fn mount_keys(job: &TrainingJob, spec: &mut PodSpec) {
    let name = ssh_secret(job);
    let item = |(key, file): (&str, &str)| KeyToPath { key: key.to_owned(), path: format!(".ssh/{file}"), mode: None };
    let source = SecretVolumeSource {
        secret_name: Some(name.clone()),
        items: Some(SSH_FILES.map(item).into()),
        default_mode: Some(MODE_PRIVATE),
        ..SecretVolumeSource::default()
    };
    spec.volumes.get_or_insert_default().push(Volume { name: name.clone(), secret: Some(source), ..Volume::default() });
    for container in &mut spec.containers {
        let mount = VolumeMount { sub_path: Some(".ssh".to_owned()), ..mount((&name, "/root/.ssh")) };
        container.volume_mounts.get_or_insert_default().push(mount);
    }
}

/// Returns the Secret with the keys of ssh mode.
pub fn ssh_secret(job: &TrainingJob) -> String {
    job.annotations().get(names::SSH_SECRET).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| job.name_any())
}

fn wrap_launcher(job: &TrainingJob, container: &mut Container) {
    let mut env = vec![("RONDE_AGENT_PORT", AGENT_PORT.to_string()), ("RONDE_HOSTS_FILE", HOSTS_FILE.to_owned())];
    let mut agent = vec![PROGRAM, "agent"];
    match job.spec.attach_mode() {
        AttachMode::Agent => env.push(("RONDE_SECRET_FILE", SECRET_FILE.to_owned())),
        AttachMode::Ssh => {
            env.clear();
            agent.extend(["--secret-file", SECRET_FILE]);
        }
    }
    set_env(container, env);
    agent.extend(["--hosts-from", "/etc/mpi/hostfile", "--hosts-to", HOSTS_FILE]);
    agent.extend(["--deepspeed-hosts-to", "/job/hostfile", "--"]);
    if job.spec.attach_mode() == AttachMode::Ssh {
        agent.extend(["sh", "-c", UNTOLD, "sh"]);
    }
    wrap(container, &agent);
}

fn wrap_worker(job: &TrainingJob, container: &mut Container) {
    let has_command = container.command.as_ref().is_some_and(|command| !command.is_empty());
    let run = |command: &[&str]| Some(command.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
    if job.spec.attach_mode() == AttachMode::Ssh {
        if !has_command {
            container.command = run(&["sh", "-c", SSHD]);
        }
        return;
    }
    let env = vec![("RONDE_SECRET_FILE", SECRET_FILE.to_owned()), ("RONDE_AGENT_PORT", AGENT_PORT.to_string())];
    set_env(container, env);
    if has_command {
        wrap(container, &[PROGRAM, "agent", "--"]);
    } else {
        (container.command, container.args) = (run(&[PROGRAM, "agent"]), None);
    }
    let lifecycle = container.lifecycle.get_or_insert_with(Lifecycle::default);
    lifecycle.pre_stop.get_or_insert_with(|| LifecycleHandler {
        exec: Some(ExecAction { command: run(&["sh", "-c", LEAVE]) }),
        ..LifecycleHandler::default()
    });
}

/// Puts words before the command of a container; one without a command runs what its image says, which is not known.
fn wrap(container: &mut Container, before: &[&str]) {
    let Some(command) = container.command.take().filter(|command| !command.is_empty()) else { return };
    let words = before.iter().map(|&word| word.to_owned());
    container.command = Some(words.chain(command).chain(container.args.take().into_iter().flatten()).collect());
}

/// What the user sets stays.
fn set_env(container: &mut Container, pairs: Vec<(&str, String)>) {
    let env = container.env.get_or_insert_default();
    for (name, value) in pairs {
        if !env.iter().any(|known| known.name == name) {
            env.push(EnvVar { name: name.to_owned(), value: Some(value), value_from: None });
        }
    }
}

fn empty(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

fn csi(name: &str, driver: &str) -> Volume {
    let source = CSIVolumeSource { driver: driver.to_owned(), read_only: Some(true), ..CSIVolumeSource::default() };
    Volume { name: name.to_owned(), csi: Some(source), ..Volume::default() }
}

fn mount((name, path): (&str, &str)) -> VolumeMount {
    VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}
