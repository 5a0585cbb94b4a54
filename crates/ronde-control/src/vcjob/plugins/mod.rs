//! Plugins of jobs: what wires the pods of a job to each other.
//!
//! Pure. A plugin changes pods before they are made ([`Plugin::wire`]) and names the objects that they need
//! ([`Plugin::objects`]); it never talks to the cluster. Names, files and variables are those of Volcano. The order is
//! fixed, so that the same job always gets the same pods.

mod env;
mod hcclrank;
mod hosts;
mod mpi;
mod pytorch;
mod ray;
pub mod ssh;
mod svc;
mod tensorflow;
#[cfg(test)]
mod tests;

use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Container, ContainerPort, EnvVar, Pod, PodSpec, Service},
        networking::v1::NetworkPolicy,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt as _;
use ronde_api::{
    Job, TaskSpec,
    flags::{Flags, Kind},
    names::{MANAGED_BY, MANAGER, plugins as name},
    rules::job::MPI_FLAGS,
};
use serde::Serialize;

pub use self::ssh::KeySecret;
use ronde_runtime::pods::{controller_ref, hash};

/// The place of a pod in its job.
#[derive(Debug, Clone, Copy)]
pub struct Seat<'a> {
    pub job: &'a Job,
    pub task: &'a TaskSpec,
    pub index: i32,
}

/// An object that the pods of a job need.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Object {
    ConfigMap(Box<ConfigMap>),
    Service(Box<Service>),
    NetworkPolicy(Box<NetworkPolicy>),
    Keys(Box<KeySecret>),
}

/// What wires pods.
trait Plugin: Send + Sync {
    /// Changes a pod that is about to be made.
    fn wire(&self, seat: &Seat<'_>, pod: &mut Pod);

    /// Returns the objects that pods need; the same until the job changes.
    fn objects(&self, _job: &Job) -> Vec<Object> {
        Vec::new()
    }

    /// Returns why the plugin cannot do its work for a job.
    fn obstacle(&self, _job: &Job) -> Option<String> {
        None
    }
}

/// A plugin as it is found by its name.
struct Entry {
    name: &'static str,
    /// What of it must be there as well.
    needs: &'static [&'static str],
    flags: &'static [(&'static str, Kind)],
    build: fn(&Flags) -> Box<dyn Plugin>,
}

/// All plugins, in the order in which they wire.
const ENTRIES: [Entry; 8] = [
    Entry { name: name::ENV, needs: &[], flags: &[], build: |_| Box::new(env::Env) },
    Entry { name: name::SVC, needs: &[], flags: svc::FLAGS, build: |flags| Box::new(svc::Svc::new(flags)) },
    Entry { name: name::SSH, needs: &[], flags: ssh::FLAGS, build: |flags| Box::new(ssh::Ssh::new(flags)) },
    Entry {
        name: name::PYTORCH,
        needs: &[name::SVC],
        flags: pytorch::FLAGS,
        build: |flags| Box::new(pytorch::Pytorch::new(flags)),
    },
    Entry {
        name: name::TENSORFLOW,
        needs: &[name::SVC],
        flags: tensorflow::FLAGS,
        build: |flags| Box::new(tensorflow::Tensorflow::new(flags)),
    },
    Entry {
        name: name::MPI,
        needs: &[name::SVC, name::SSH],
        flags: MPI_FLAGS,
        build: |flags| Box::new(mpi::Mpi::new(flags)),
    },
    Entry { name: name::RAY, needs: &[name::SVC], flags: ray::FLAGS, build: |flags| Box::new(ray::Ray::new(flags)) },
    Entry {
        name: name::HCCLRANK,
        needs: &[],
        flags: hcclrank::FLAGS,
        build: |flags| Box::new(hcclrank::HcclRank::new(flags)),
    },
];

/// Returns the arguments that a plugin understands.
pub fn flags_of(plugin: &str) -> &'static [(&'static str, Kind)] {
    ENTRIES.iter().find(|entry| entry.name == plugin).map_or(&[], |entry| entry.flags)
}

/// The plugins of a job.
pub struct Plugins<'a> {
    job: &'a Job,
    list: Vec<(&'static str, Box<dyn Plugin>)>,
    faults: Vec<(&'static str, String)>,
}

impl<'a> Plugins<'a> {
    /// Builds the plugins that a job names, and those that they need.
    pub fn of_job(job: &'a Job) -> Self {
        let asked = &job.spec.plugins;
        let is_needed = |name: &str| {
            let mut others = ENTRIES.iter().filter(|other| asked.contains_key(other.name));
            asked.contains_key(name) || others.any(|other| other.needs.contains(&name))
        };
        let mut plugins = Self { job, list: Vec::new(), faults: Vec::new() };
        for entry in ENTRIES.iter().filter(|entry| is_needed(entry.name)) {
            let arguments = asked.get(entry.name).map(Vec::as_slice).unwrap_or_default();
            let flags = Flags::parse(arguments, entry.flags);
            let fault = flags.fault.iter().map(|fault| (entry.name, format!("plugin {}: {fault}", entry.name)));
            plugins.faults.extend(fault);
            plugins.list.push((entry.name, (entry.build)(&flags)));
        }
        plugins
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.list.iter().map(|(name, _)| *name)
    }

    /// Returns what is wrong with the arguments of a plugin.
    pub fn faults_of(&self, name: &str) -> impl Iterator<Item = String> {
        self.faults.iter().filter(move |(of, _)| *of == name).map(|(_, fault)| fault.clone())
    }

    /// Returns why pods cannot be made.
    pub fn obstacle(&self) -> Option<String> {
        let obstacle =
            |(name, plugin): &(&str, Box<dyn Plugin>)| Some(format!("plugin {name}: {}", plugin.obstacle(self.job)?));
        self.list.iter().find_map(obstacle)
    }

    /// Wires a pod that is about to be made.
    pub fn wire(&self, seat: &Seat<'_>, pod: &mut Pod) {
        self.list.iter().for_each(|(_, plugin)| plugin.wire(seat, pod));
    }

    pub fn objects(&self) -> Vec<Object> {
        self.list.iter().flat_map(|(_, plugin)| plugin.objects(self.job)).collect()
    }

    /// Returns a text that changes when the objects do.
    pub fn fingerprint(&self) -> String {
        hash::name(&self.objects(), None)
    }
}

/// Returns the metadata of an object that goes with its job.
pub fn owned_meta(job: &Job, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: job.namespace(),
        labels: Some([(MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
        owner_references: Some(vec![controller_ref(job)]),
        ..ObjectMeta::default()
    }
}

/// Changes every container of a pod, init containers included.
fn all_containers(pod: &mut Pod, mut change: impl FnMut(&mut Container)) {
    let PodSpec { containers, init_containers, .. } = pod.spec.get_or_insert_default();
    init_containers.iter_mut().flatten().chain(containers).for_each(&mut change);
}

/// Changes the main containers of a pod.
fn main_containers(pod: &mut Pod, change: impl FnMut(&mut Container)) {
    pod.spec.get_or_insert_default().containers.iter_mut().for_each(change);
}

fn add_env(container: &mut Container, name: &str, value: impl Into<String>) {
    let variable = EnvVar { name: name.to_owned(), value: Some(value.into()), value_from: None };
    container.env.get_or_insert_default().push(variable);
}

/// Opens a port of a container, unless one of its name or number is open.
fn open_port(container: &mut Container, name: &str, number: i32) {
    let ports = container.ports.get_or_insert_default();
    if !ports.iter().any(|port| port.name.as_deref() == Some(name) || port.container_port == number) {
        ports.push(ContainerPort { name: Some(name.to_owned()), container_port: number, ..ContainerPort::default() });
    }
}
