//! `env`: tells each container which pod of its task it is in.

use k8s_openapi::api::core::v1::Pod;

use super::{Plugin, Seat, add_env, all_containers};

pub struct Env;

impl Plugin for Env {
    fn wire(&self, seat: &Seat<'_>, pod: &mut Pod) {
        all_containers(pod, |container| {
            for name in ["VK_TASK_INDEX", "VC_TASK_INDEX"] {
                add_env(container, name, seat.index.to_string());
            }
        });
    }
}
