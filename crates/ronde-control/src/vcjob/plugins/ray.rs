//! `ray`: starts Ray in the containers of the head and of the workers, and gives the head a service.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Pod, Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt as _;
use ronde_api::{
    Job,
    flags::{Flags, Kind},
    names,
};

use super::{Object, Plugin, Seat, hosts, main_containers, open_port, owned_meta};

pub const FLAGS: &[(&str, Kind)] = &[
    ("head", Kind::Text),
    ("headContainer", Kind::Text),
    ("worker", Kind::Text),
    ("workerContainer", Kind::Text),
    ("port", Kind::Number),
    ("dashboardPort", Kind::Number),
    ("clientPort", Kind::Number),
];

pub struct Ray {
    head: String,
    head_container: String,
    worker: String,
    worker_container: String,
    port: i32,
    dashboard_port: i32,
    client_port: i32,
}

impl Ray {
    pub fn new(flags: &Flags) -> Self {
        Self {
            head: flags.text("head", "head"),
            head_container: flags.text("headContainer", "head"),
            worker: flags.text("worker", "worker"),
            worker_container: flags.text("workerContainer", "worker"),
            port: flags.port("port", 6379),
            dashboard_port: flags.port("dashboardPort", 8265),
            client_port: flags.port("clientPort", 10001),
        }
    }

    fn ports(&self) -> [(&'static str, i32); 3] {
        [("gcs", self.port), ("dashboard", self.dashboard_port), ("client-server", self.client_port)]
    }

    fn head_command(&self) -> String {
        let Self { port, dashboard_port, client_port, .. } = self;
        format!(
            "ray start --head --block --dashboard-host=0.0.0.0 --port={port} --dashboard-port={dashboard_port} \
             --ray-client-server-port={client_port}"
        )
    }
}

impl Plugin for Ray {
    fn wire(&self, seat: &Seat<'_>, pod: &mut Pod) {
        let (name, command) = if seat.task.name == self.head {
            (&self.head_container, self.head_command())
        } else if seat.task.name == self.worker {
            let Some(head) = hosts::first(seat.job, &self.head) else { return };
            (&self.worker_container, format!("ray start --block --address={head}:{}", self.port))
        } else {
            return;
        };
        main_containers(pod, |container| {
            if container.name == *name {
                container.command = Some(["sh", "-c", &command].map(ToOwned::to_owned).into());
                container.args = None;
                if seat.task.name == self.head {
                    self.ports().into_iter().for_each(|(name, number)| open_port(container, name, number));
                }
            }
        });
    }

    fn objects(&self, job: &Job) -> Vec<Object> {
        let selector = [
            (names::JOB_NAME, job.name_any()),
            (names::JOB_NAMESPACE, job.namespace().unwrap_or_default()),
            (names::TASK_SPEC, self.head.clone()),
        ];
        let selector: BTreeMap<String, String> =
            selector.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let ports = self.ports().map(|(name, port)| ServicePort {
            name: Some(name.to_owned()),
            port,
            target_port: Some(IntOrString::Int(port)),
            ..ServicePort::default()
        });
        let spec = ServiceSpec { selector: Some(selector), ports: Some(ports.into()), ..ServiceSpec::default() };
        let metadata = owned_meta(job, format!("{}-head-svc", job.name_any()));
        vec![Object::Service(Box::new(Service { metadata, spec: Some(spec), status: None }))]
    }

    fn obstacle(&self, job: &Job) -> Option<String> {
        hosts::task(job, &self.head).is_none().then(|| format!("the job has no task {:?} for the head", self.head))
    }
}
