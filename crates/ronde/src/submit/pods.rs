//! The pods of a job: one template from the common flags, with what differs from role to role.
//!
//! Whatever the user wrote stays as it is: the command is one word of an argument list, a variable's value is a value.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

use super::{
    check::Plain,
    state,
    volumes::{self, CODE_VOLUME, Mount},
};
use crate::{
    arena::JobType,
    args::{CommonArgs, SyncMode},
};

pub const GPU: &str = "nvidia.com/gpu";
const CODE_ROOT: &str = "/code";

/// What one role of a job has of its own.
#[derive(Debug, Default)]
pub struct Role<'a> {
    pub container: &'a str,
    /// Empty for the job's.
    pub image: &'a str,
    pub has_command: bool,
    pub has_devices: bool,
    pub cpu: Option<&'a str>,
    pub memory: Option<&'a str>,
    pub port: Option<u16>,
    pub selectors: &'a [(String, String)],
    pub annotations: &'a [(String, String)],
    pub labels: Vec<(&'a str, String)>,
    pub env: Vec<(&'a str, String)>,
}

/// Builds the template of a role.
pub fn template(plain: &Plain<'_>, role: &Role<'_>) -> PodTemplateSpec {
    let common = plain.common;
    let mut mounts = plain.mounts.clone();
    mounts.extend(volumes::file_mounts(&state::files_name(plain), &plain.files));
    let mut spec = json!({
        "containers": [container(plain, role, &mounts)],
        "volumes": unique(mounts.iter().map(|mount| mount.volume.clone())),
        "restartPolicy": "Never",
        "nodeSelector": map(role.selectors),
        "tolerations": common.tolerations,
        "imagePullSecrets": common.image_pull_secrets.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        "initContainers": init_code(plain, role).into_iter().collect::<Vec<_>>(),
    });
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            spec[name] = value;
        }
    };
    let switch = |is_on: bool| is_on.then_some(json!(true));
    set("hostNetwork", switch(common.host_network));
    set("dnsPolicy", common.host_network.then_some(json!("ClusterFirstWithHostNet")));
    set("hostIPC", switch(common.host_ipc));
    set("hostPID", switch(common.host_pid));
    set("schedulerName", common.scheduler.as_ref().map(|name| json!(name)));
    set("priorityClassName", common.priority.as_ref().map(|name| json!(name)));
    let mut labels = labels(plain.job_type, plain.name, &common.labels);
    labels.extend(role.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let annotations: BTreeMap<_, _> = common.annotations.iter().chain(role.annotations).cloned().collect();
    let template = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec});
    serde_json::from_value(template).expect("a template of our own has the form of one")
}

/// Returns the labels of a job and all that is made for it, which arena looks for.
pub fn labels(job_type: JobType, name: &str, own: &[(String, String)]) -> BTreeMap<String, String> {
    let kept = [(crate::arena::TYPE_LABEL, job_type.name()), ("release", name), ("createdBy", job_type.name())];
    let kept = kept.map(|(key, value)| (key.to_owned(), value.to_owned()));
    own.iter().cloned().chain(kept).collect()
}

fn container(plain: &Plain<'_>, role: &Role<'_>, mounts: &[Mount]) -> Value {
    let common = plain.common;
    let mut container = json!({
        "name": role.container,
        "image": if role.image.is_empty() { plain.image } else { role.image },
        "imagePullPolicy": common.image_pull_policy,
        "workingDir": common.working_dir,
        "env": env(common, role),
        "volumeMounts": mounts.iter().map(|mount| mount.mount.clone()).collect::<Vec<_>>(),
    });
    if role.has_command && !plain.command.is_empty() {
        container["command"] = json!([common.shell, "-c", plain.command]);
    }
    let amounts = resources(common, role);
    if !amounts.is_empty() {
        container["resources"] = json!({"requests": amounts, "limits": amounts});
    }
    if let Some(port) = role.port {
        container["ports"] = json!([{"name": "port", "containerPort": port}]);
    }
    if common.rdma {
        container["securityContext"] = json!({"capabilities": {"add": ["IPC_LOCK"]}});
    }
    container
}

/// Variables: arena's first, so that the user's win.
fn env(common: &CommonArgs, role: &Role<'_>) -> Vec<Value> {
    let void = (common.gpus == 0 && common.devices.is_empty()).then(|| ("NVIDIA_VISIBLE_DEVICES", "void".to_owned()));
    let ours = role.env.iter().cloned().chain(void).map(|(name, value)| (name.to_owned(), value));
    let is_users = |name: &str| common.env.iter().any(|(own, _)| own == name);
    let ours = ours.filter(|(name, _)| !is_users(name));
    ours.chain(common.env.iter().cloned()).map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn resources(common: &CommonArgs, role: &Role<'_>) -> BTreeMap<String, String> {
    let mut amounts = BTreeMap::new();
    let mut set = |name: &str, amount: Option<String>| amounts.extend(amount.map(|amount| (name.to_owned(), amount)));
    set("cpu", role.cpu.or(common.cpu.as_deref()).map(str::to_owned));
    set("memory", role.memory.or(common.memory.as_deref()).map(str::to_owned));
    set("rdma/hca", common.rdma.then(|| "1".to_owned()));
    if role.has_devices {
        set(GPU, (common.gpus > 0).then(|| common.gpus.to_string()));
        for (name, amount) in &common.devices {
            set(name, Some(amount.clone()));
        }
    }
    amounts
}

/// Brings code into the pod before anything else.
fn init_code(plain: &Plain<'_>, role: &Role<'_>) -> Option<Value> {
    let common = plain.common;
    let (mode, source) = (common.sync_mode?, common.sync_source.as_deref()?);
    let image = common.sync_image.as_deref().unwrap_or(plain.image);
    let folder = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default().trim_end_matches(".git");
    let mut env = self::env(common, role);
    let mut command = match mode {
        SyncMode::Rsync => vec!["rsync", "-avP", source, CODE_ROOT],
        SyncMode::Git => vec!["git", "clone", "--depth=1", source],
    };
    let target = format!("{CODE_ROOT}/{folder}");
    if mode == SyncMode::Git {
        command.push(&target);
        for (name, value) in [("REPO", source), ("DEST", folder), ("ROOT", CODE_ROOT), ("ONE_TIME", "true")] {
            env.push(json!({"name": format!("GIT_SYNC_{name}"), "value": value}));
        }
    }
    let mut init = json!({"name": "init-code", "image": image, "imagePullPolicy": common.image_pull_policy, "env": env,
        "volumeMounts": [{"name": CODE_VOLUME, "mountPath": CODE_ROOT}]});
    // An image of its own for git is git-sync, which needs no command.
    if mode == SyncMode::Rsync || common.sync_image.is_none() {
        init["command"] = json!(command);
    }
    Some(init)
}

fn map(pairs: &[(String, String)]) -> BTreeMap<&str, &str> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn unique(volumes: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for volume in volumes {
        if !kept.iter().any(|other| other["name"] == volume["name"]) {
            kept.push(volume);
        }
    }
    kept
}
