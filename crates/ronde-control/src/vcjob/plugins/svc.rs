//! `svc`: gives pods names that resolve, and tells every pod the names of all the others.
//!
//! The hosts of a task are in the file `/etc/volcano/<task>.host` and in the variable `VC_<TASK>_HOSTS`. By default only pods of the
//! job can reach each other (a NetworkPolicy says so).

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::{
            ConfigMap, ConfigMapKeySelector, ConfigMapVolumeSource, EnvVar, EnvVarSource, Pod, Service, ServiceSpec,
            Volume, VolumeMount,
        },
        networking::v1::{NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::ResourceExt as _;
use ronde_api::{
    Job, TaskSpec,
    flags::{Flags, Kind},
    names,
};

use super::{
    Object, Plugin, Seat, all_containers,
    hosts::{self, Host},
    owned_meta,
};

pub const FLAGS: &[(&str, Kind)] = &[
    ("publish-not-ready-addresses", Kind::Bool),
    ("disable-network-policy", Kind::Bool),
    ("inject-hosts-env", Kind::Bool),
];
const FOLDER: &str = "/etc/volcano";

pub struct Svc {
    publishes_not_ready: bool,
    has_network_policy: bool,
    injects_hosts: bool,
}

impl Svc {
    pub fn new(flags: &Flags) -> Self {
        Self {
            publishes_not_ready: flags.is("publish-not-ready-addresses", false),
            has_network_policy: !flags.is("disable-network-policy", false),
            injects_hosts: flags.is("inject-hosts-env", true),
        }
    }

    fn service(&self, job: &Job) -> Service {
        let spec = ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(own_labels(job)),
            publish_not_ready_addresses: Some(self.publishes_not_ready),
            ..ServiceSpec::default()
        };
        Service { metadata: owned_meta(job, job.name_any()), spec: Some(spec), status: None }
    }
}

impl Plugin for Svc {
    fn wire(&self, seat: &Seat<'_>, pod: &mut Pod) {
        let (job, name) = (seat.job, pod.name_any());
        let spec = pod.spec.get_or_insert_default();
        let keep = |field: &mut Option<String>, value: String| {
            if field.as_ref().is_none_or(String::is_empty) {
                *field = Some(value);
            }
        };
        keep(&mut spec.hostname, name);
        keep(&mut spec.subdomain, job.name_any());
        let source = ConfigMapVolumeSource { name: config_name(job), ..ConfigMapVolumeSource::default() };
        let volume = Volume { name: config_name(job), config_map: Some(source), ..Volume::default() };
        spec.volumes.get_or_insert_default().push(volume);
        let variables: Vec<EnvVar> = if self.injects_hosts {
            job.spec.tasks.iter().flat_map(|task| variables(job, task)).collect()
        } else {
            Vec::new()
        };
        all_containers(pod, |container| {
            container.env.get_or_insert_default().extend(variables.iter().cloned());
            let mount = VolumeMount { name: config_name(job), mount_path: FOLDER.to_owned(), ..VolumeMount::default() };
            container.volume_mounts.get_or_insert_default().push(mount);
        });
    }

    fn objects(&self, job: &Job) -> Vec<Object> {
        let mut objects = vec![Object::ConfigMap(Box::new(config(job))), Object::Service(Box::new(self.service(job)))];
        if self.has_network_policy {
            objects.push(Object::NetworkPolicy(Box::new(network_policy(job))));
        }
        objects
    }
}

fn config_name(job: &Job) -> String {
    format!("{}-svc", job.name_any())
}

fn own_labels(job: &Job) -> BTreeMap<String, String> {
    let pairs = [(names::JOB_NAME, job.name_any()), (names::JOB_NAMESPACE, job.namespace().unwrap_or_default())];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn config(job: &Job) -> ConfigMap {
    let mut data = BTreeMap::new();
    for task in &job.spec.tasks {
        let hosts: Vec<String> = hosts::of_task(job, task).iter().map(Host::address).collect();
        let (hosts_key, number_key) = keys(task);
        data.insert(format!("{}.host", task.name.replace('-', "_")), hosts.join("\n"));
        data.insert(number_key, hosts.len().to_string());
        data.insert(hosts_key, hosts.join(","));
    }
    ConfigMap { metadata: owned_meta(job, config_name(job)), data: Some(data), ..ConfigMap::default() }
}

/// Returns the names of the variables with the hosts of a task and their number.
fn keys(task: &TaskSpec) -> (String, String) {
    let name = task.name.replace('-', "_").to_uppercase();
    (format!("VC_{name}_HOSTS"), format!("VC_{name}_NUM"))
}

fn variables(job: &Job, task: &TaskSpec) -> [EnvVar; 2] {
    let (hosts, number) = keys(task);
    [hosts, number].map(|key| {
        let selector = ConfigMapKeySelector { name: config_name(job), key: key.clone(), optional: None };
        let source = EnvVarSource { config_map_key_ref: Some(selector), ..EnvVarSource::default() };
        EnvVar { name: key, value: None, value_from: Some(source) }
    })
}

fn network_policy(job: &Job) -> NetworkPolicy {
    let own = || LabelSelector { match_labels: Some(own_labels(job)), ..LabelSelector::default() };
    let peer = NetworkPolicyPeer { pod_selector: Some(own()), ..NetworkPolicyPeer::default() };
    let spec = NetworkPolicySpec {
        pod_selector: Some(own()),
        policy_types: Some(vec!["Ingress".to_owned()]),
        ingress: Some(vec![NetworkPolicyIngressRule { from: Some(vec![peer]), ports: None }]),
        egress: None,
    };
    NetworkPolicy { metadata: owned_meta(job, job.name_any()), spec: Some(spec) }
}
