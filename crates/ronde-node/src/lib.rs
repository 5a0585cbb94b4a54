//! A kubelet for one machine: pods as isolated processes.
//!
//! Inside, from the API inwards: `agent.rs` hears of pods, refuses those without room (`admission.rs`, pure) and
//! passes them to `worker/`, one task per pod, which observes, asks `lifecycle/` (pure) and acts. `env/`, `volumes/`
//! and `probes/` make what a container needs. `disk/` watches the disk that pods write to (`room.rs`, `limits.rs` and
//! `victim.rs` decide and are pure). `supervisor/` is the process per pod and its protocol; `sandbox/` is the inside
//! of a container; `machine/` finds out what the machine allows, says what pods see of its files (`files.rs`) and
//! makes the namespaces of an ordinary user; `net/` is bridge, names and services; `logs/` and `streams/` are what
//! clients read and type, answered by `kubelet_api/`. `images/` chooses the files of containers and pulls images. `objects.rs` are the Node objects, `start.rs` puts it together,
//! `sweep.rs` takes it down without a daemon, `orphans.rs` ends what outlived a supervisor, `instances/` finds
//! instances by what the kernel knows of them and removes what is left of one, `presence.rs` tells whether a file
//! that a process lives by is still there, `gpus.rs` knows whose GPUs are whose, `helper.rs` is the way into the
//! small programs that the node starts.

pub mod admission;
pub mod agent;
pub mod disk;
pub mod env;
pub mod gpus;
pub mod helper;
pub mod images;
pub mod instances;
pub mod kubelet_api;
pub mod lifecycle;
pub mod logs;
pub mod machine;
pub mod net;
pub mod node;
pub mod objects;
pub mod orphans;
pub mod presence;
pub mod probes;
pub mod sandbox;
pub mod start;
pub mod streams;
pub mod supervisor;
pub mod sweep;
pub mod volumes;
pub mod worker;
