//! `tensorflow`: the variable `TF_CONFIG`, by which TensorFlow knows the cluster and its place in it.

use k8s_openapi::api::core::v1::Pod;
use ronde_api::{
    Job,
    flags::{Flags, Kind},
};
use serde::Serialize;

use super::{Plugin, Seat, add_env, hosts, main_containers};

pub const FLAGS: &[(&str, Kind)] = &[
    ("ps", Kind::Text),
    ("worker", Kind::Text),
    ("chief", Kind::Text),
    ("evaluator", Kind::Text),
    ("port", Kind::Number),
];
const PORT: i32 = 2222;

pub struct Tensorflow {
    ps: String,
    worker: String,
    chief: String,
    evaluator: String,
    port: i32,
}

#[derive(Serialize)]
struct Config {
    cluster: Cluster,
    task: Task,
}

#[derive(Serialize)]
struct Cluster {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ps: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    worker: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    chief: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evaluator: Vec<String>,
}

#[derive(Serialize)]
struct Task {
    #[serde(rename = "type")]
    kind: &'static str,
    index: i32,
}

impl Tensorflow {
    pub fn new(flags: &Flags) -> Self {
        Self {
            ps: flags.text("ps", "ps"),
            worker: flags.text("worker", "worker"),
            chief: flags.text("chief", "chief"),
            evaluator: flags.text("evaluator", "evaluator"),
            port: flags.port("port", PORT),
        }
    }

    fn addresses(&self, job: &Job, task: &str) -> Vec<String> {
        hosts::addresses(job, task).into_iter().map(|address| format!("{address}:{}", self.port)).collect()
    }

    fn role(&self, task: &str) -> Option<&'static str> {
        let roles =
            [(&self.ps, "ps"), (&self.worker, "worker"), (&self.chief, "chief"), (&self.evaluator, "evaluator")];
        roles.into_iter().find(|(name, _)| *name == task).map(|(_, role)| role)
    }
}

impl Plugin for Tensorflow {
    fn wire(&self, seat: &Seat<'_>, pod: &mut Pod) {
        let tasks = &seat.job.spec.tasks;
        let is_alone = matches!(tasks.as_slice(), [task] if task.replicas == 1);
        let Some(kind) = self.role(&seat.task.name).filter(|_| !is_alone) else { return };
        let cluster = Cluster {
            ps: self.addresses(seat.job, &self.ps),
            worker: self.addresses(seat.job, &self.worker),
            chief: self.addresses(seat.job, &self.chief),
            evaluator: self.addresses(seat.job, &self.evaluator),
        };
        let config = Config { cluster, task: Task { kind, index: seat.index } };
        let text = serde_json::to_string(&config).expect("texts and numbers are JSON");
        main_containers(pod, |container| add_env(container, "TF_CONFIG", &text));
    }
}
