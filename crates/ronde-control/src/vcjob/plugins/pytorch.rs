//! `pytorch`: what `torch.distributed` reads from the environment.

use k8s_openapi::api::core::v1::{Container, Pod};
use ronde_api::{
    Job,
    flags::{Flags, Kind},
};

use super::{Plugin, Seat, add_env, hosts, main_containers, open_port};

pub const FLAGS: &[(&str, Kind)] = &[
    ("master", Kind::Text),
    ("worker", Kind::Text),
    ("port", Kind::Number),
    ("wait-master-enabled", Kind::Bool),
    ("wait-master-timeout", Kind::Number),
    ("wait-master-image", Kind::Text),
];
const PORT: i32 = 23456;
const PORT_NAME: &str = "pytorchjob-port";
const WAIT_SECONDS: i64 = 300;
const WAIT_IMAGE: &str = "busybox:1.36.1";

pub struct Pytorch {
    master: String,
    worker: String,
    port: i32,
    /// For how long and with which image workers wait for the master.
    wait: Option<(i64, String)>,
}

impl Pytorch {
    pub fn new(flags: &Flags) -> Self {
        let wait = (flags.number("wait-master-timeout", WAIT_SECONDS), flags.text("wait-master-image", WAIT_IMAGE));
        Self {
            master: flags.text("master", "master"),
            worker: flags.text("worker", "worker"),
            port: flags.port("port", PORT),
            wait: flags.is("wait-master-enabled", false).then_some(wait),
        }
    }

    fn replicas(job: &Job, task: &str) -> i32 {
        hosts::task(job, task).map_or(0, |task| task.replicas)
    }

    /// An init container that ends when the master listens.
    fn waiting(&self, address: &str, seconds: i64, image: &str) -> Container {
        let port = self.port;
        let script = format!(
            "end=$(( $(date +%s) + {seconds} ))\n\
             until nc -z {address} {port} 2>/dev/null || (: </dev/tcp/{address}/{port}) 2>/dev/null; do\n\
             \x20 if [ \"$(date +%s)\" -ge \"$end\" ]; then echo 'no answer from {address}:{port} in {seconds} s'; exit 1; fi\n\
             \x20 sleep 2\n\
             done\n"
        );
        Container {
            name: "wait-for-master".to_owned(),
            image: Some(image.to_owned()),
            command: Some(["sh", "-c", &script].map(ToOwned::to_owned).into()),
            ..Container::default()
        }
    }
}

impl Plugin for Pytorch {
    fn wire(&self, seat: &Seat<'_>, pod: &mut Pod) {
        let Some(address) = hosts::first(seat.job, &self.master) else { return };
        let rank = match &seat.task.name {
            task if *task == self.master => Some(0),
            task if *task == self.worker => Some(seat.index + 1),
            _ => None,
        };
        let world = Self::replicas(seat.job, &self.master) + Self::replicas(seat.job, &self.worker);
        main_containers(pod, |container| {
            add_env(container, "MASTER_ADDR", &address);
            add_env(container, "MASTER_PORT", self.port.to_string());
            add_env(container, "WORLD_SIZE", world.to_string());
            if let Some(rank) = rank {
                add_env(container, "RANK", rank.to_string());
            }
            open_port(container, PORT_NAME, self.port);
        });
        if let Some((seconds, image)) = self.wait.as_ref().filter(|_| seat.task.name == self.worker) {
            let waiting = self.waiting(&address, *seconds, image);
            pod.spec.get_or_insert_default().init_containers.get_or_insert_default().push(waiting);
        }
    }
}
