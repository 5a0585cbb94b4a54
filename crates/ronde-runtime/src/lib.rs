//! What every controller needs, and nothing of what one decides.
//!
//! [`watch`] lists and watches kinds and keeps them in caches; [`work_queue`] holds the keys that changed; [`runner`] brings
//! the two together for any number of [`runner::Controller`]s, and [`cluster_loop`] for a loop over everything at once, as
//! scheduling is. [`events`] records what users should know, [`lease`] makes sure that one process works at a time,
//! [`client`] watches over requests, [`telemetry`] is what a process tells about itself.
//! [`pods`], [`podstatus`], [`nodes`], [`taints`], [`volumes`] and [`indexes`] are what several controllers read from, and
//! write to, objects of Kubernetes.
//!
//! Knows `kube::Client` only: no kind of ours, and not which engine answers.
//!
//! Inside: `watch/` lists and watches each kind once (`list_watch.rs`) and keeps it (`cache.rs`); `work_queue.rs`
//! holds what changed, `runner.rs` brings both to the controllers, `cluster_loop.rs` to a loop over everything at
//! once; `events.rs`, `lease.rs`, `client.rs` and `telemetry/` (metrics, health) are what their names say, `causes.rs` writes errors into logs, `refusal.rs` tells answers of
//! the API apart; `pods/`,
//! `podstatus.rs`, `nodes.rs`, `taints.rs`, `volumes.rs` are what several controllers know of those objects.

pub mod causes;
pub mod client;
pub mod cluster_loop;
pub mod events;
pub mod indexes;
pub mod lease;
pub mod nodes;
pub mod pods;
pub mod podstatus;
pub mod refusal;
pub mod runner;
pub mod taints;
pub mod telemetry;
pub mod volumes;
pub mod watch;
pub mod work_queue;
