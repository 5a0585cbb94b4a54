//! `ssh`: gives all pods of a job one key, and a configuration in which each pod is a host.
//!
//! The key is made once and lives in the Secret: it survives restarts of the job and of the controller, so that
//! pods that stay and pods that come understand each other. When the job is scaled only the list of hosts changes.

use k8s_openapi::api::core::v1::{KeyToPath, Pod, SecretVolumeSource, Volume, VolumeMount};
use kube::ResourceExt as _;
use ronde_api::{
    Job,
    flags::{Flags, Kind},
};
use serde::Serialize;

use super::{Object, Plugin, Seat, all_containers, hosts};

pub const FLAGS: &[(&str, Kind)] = &[
    ("ssh-key-file-path", Kind::Text),
    ("ssh-private-key", Kind::Text),
    ("ssh-public-key", Kind::Text),
    ("ssh-port", Kind::Number),
];
const ROOT_FOLDER: &str = "/root/.ssh";
const FOLDER: &str = ".ssh";
const PORT: i32 = 22;
/// Other users than root cannot read what is root's alone.
const MODE_SHARED: i32 = 0o644;
const MODE_PRIVATE: i32 = 0o600;

/// The names of the files.
pub const PRIVATE: &str = "id_rsa";
pub const PUBLIC: &str = "id_rsa.pub";
pub const AUTHORIZED: &str = "authorized_keys";
pub const CONFIG: &str = "config";

/// A Secret with a pair of keys, which are made when the Secret is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeySecret {
    pub name: String,
    pub config: String,
    /// The private and the public key that the user brings.
    pub given: Option<(String, String)>,
}

pub struct Ssh {
    folder: String,
    port: i32,
    given: Option<(String, String)>,
}

impl Ssh {
    pub fn new(flags: &Flags) -> Self {
        let (private, public) = (flags.text("ssh-private-key", ""), flags.text("ssh-public-key", ""));
        let is_given = !private.is_empty() && !public.is_empty();
        Self {
            folder: flags.text("ssh-key-file-path", ROOT_FOLDER),
            port: flags.port("ssh-port", PORT),
            given: is_given.then_some((private, public)),
        }
    }

    fn config(&self, job: &Job) -> String {
        let mut config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n".to_owned();
        for host in job.spec.tasks.iter().flat_map(|task| hosts::of_task(job, task)) {
            let (alias, address) = (&host.hostname, host.address());
            config.push_str(&format!("Host {alias}\n  HostName {address}\n  Port {}\n", self.port));
        }
        config
    }
}

impl Plugin for Ssh {
    fn wire(&self, seat: &Seat<'_>, pod: &mut Pod) {
        let name = secret_name(seat.job);
        let item = |key: &str| KeyToPath { key: key.to_owned(), path: format!("{FOLDER}/{key}"), mode: None };
        let mode = if self.folder == ROOT_FOLDER { MODE_PRIVATE } else { MODE_SHARED };
        let source = SecretVolumeSource {
            secret_name: Some(name.clone()),
            items: Some([PRIVATE, PUBLIC, AUTHORIZED, CONFIG].map(item).into()),
            default_mode: Some(mode),
            optional: None,
        };
        let volume = Volume { name: name.clone(), secret: Some(source), ..Volume::default() };
        pod.spec.get_or_insert_default().volumes.get_or_insert_default().push(volume);
        all_containers(pod, |container| {
            let mount = VolumeMount {
                name: name.clone(),
                mount_path: self.folder.clone(),
                sub_path: Some(FOLDER.to_owned()),
                ..VolumeMount::default()
            };
            container.volume_mounts.get_or_insert_default().push(mount);
        });
    }

    fn objects(&self, job: &Job) -> Vec<Object> {
        let secret = KeySecret { name: secret_name(job), config: self.config(job), given: self.given.clone() };
        vec![Object::Keys(Box::new(secret))]
    }
}

fn secret_name(job: &Job) -> String {
    format!("{}-ssh", job.name_any())
}
