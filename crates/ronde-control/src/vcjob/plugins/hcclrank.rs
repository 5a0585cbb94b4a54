//! `hcclrank`: the rank of a pod among masters and workers, as an annotation.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use ronde_api::flags::{Flags, Kind};

use super::{Plugin, Seat, hosts};

pub const FLAGS: &[(&str, Kind)] = &[("master", Kind::Text), ("worker", Kind::Text)];
const ANNOTATION: &str = "hccl/rankIndex";

pub struct HcclRank {
    master: String,
    worker: String,
}

impl HcclRank {
    pub fn new(flags: &Flags) -> Self {
        Self { master: flags.text("master", "master"), worker: flags.text("worker", "worker") }
    }
}

impl Plugin for HcclRank {
    fn wire(&self, seat: &Seat<'_>, pod: &mut Pod) {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let mut variables = containers.flat_map(|container| container.env.iter().flatten());
        let given = variables.find(|variable| variable.name == "RANK").and_then(|variable| variable.value.clone());
        let masters = hosts::task(seat.job, &self.master).map_or(0, |task| task.replicas);
        let rank = given.or_else(|| match &seat.task.name {
            task if *task == self.master => Some(seat.index.to_string()),
            task if *task == self.worker => Some((masters + seat.index).to_string()),
            _ => None,
        });
        pod.annotations_mut().extend(rank.map(|rank| (ANNOTATION.to_owned(), rank)));
    }
}
