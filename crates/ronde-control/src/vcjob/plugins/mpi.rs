//! `mpi`: tells the master where the workers are.

use k8s_openapi::api::core::v1::Pod;
use ronde_api::{flags::Flags, rules::job::MPI_MASTER};

use super::{Plugin, Seat, add_env, all_containers, hosts, open_port};

const PORT: i32 = 22;
const PORT_NAME: &str = "mpijob-port";

pub struct Mpi {
    master: String,
    worker: String,
    port: i32,
}

impl Mpi {
    pub fn new(flags: &Flags) -> Self {
        Self {
            master: flags.text("master", MPI_MASTER),
            worker: flags.text("worker", "worker"),
            port: flags.port("port", PORT),
        }
    }
}

impl Plugin for Mpi {
    fn wire(&self, seat: &Seat<'_>, pod: &mut Pod) {
        let workers = hosts::addresses(seat.job, &self.worker).join(",");
        all_containers(pod, |container| {
            if seat.task.name == self.master {
                add_env(container, "MPI_HOST", &workers);
            }
            open_port(container, PORT_NAME, self.port);
        });
    }
}
