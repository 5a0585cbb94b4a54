//! The batch controllers: Volcano's jobs, groups and queues, elastic training jobs, and the shell of the scheduler.
//!
//! Inside: each folder is a controller; `batch.rs` lists them, `operator.rs` runs them on a cluster, one process at a
//! time; `install.rs` puts our kinds into a cluster. No controller imports another; what several need is beside them:
//! `reconcile/` is the loop of all jobs (status first, then what follows from it), `membership.rs` says which pods are
//! ours, `commands.rs` finds orders, `ssh_keys.rs` makes keys, `metrics.rs` lists what is counted, `node_shutdown.rs`
//! knows which nodes are about to go, `trim.rs` what caches keep of pods and nodes, `forecast.rs` says a cluster in the
//! words of the simulator. In
//! `vcjob/` (Volcano's jobs) `decide.rs` is the way in: `status_builder.rs` makes a status from `occurrence.rs` (what has
//! happened), `policy.rs` (what answers it) and `rules.rs` (what follows from the pods), `memory.rs` is what the status
//! remembers; `plan.rs` says what is to be done when it stands; `plugins/` wire the pods. `elastic/` (training jobs) has
//! the same shape: `decide.rs` lists the steps of a status in the making (`status_builder.rs`, `losses.rs`, `scaling.rs`),
//! `plan.rs` and `scaler_status.rs` say what follows, `pod.rs` and `files.rs` are the contract with agents and launchers,
//! `capacity.rs` looks at nodes and other gangs, `reclaim.rs` at what those need of a job in auto mode. `podgroup/` gives
//! plain pods a group, `native_group/` those of Kubernetes' own PodGroups (`native.rs` has their shape), `vcqueue/` opens and closes queues, `jobflow/` makes the jobs of flows, one after another, and
//! `cronjob/` those of schedules.
//! `scheduling/` is the shell of the scheduler: `dirty.rs` notes
//! what changes, `objects/` says it in the scheduler's words, `apply.rs` carries out plans, `status/` tells users.

pub mod batch;
pub mod commands;
pub mod cronjob;
pub mod elastic;
pub mod forecast;
pub mod install;
pub mod jobflow;
pub mod membership;
pub mod metrics;
pub mod native;
pub mod native_group;
pub mod node_shutdown;
pub mod operator;
pub mod podgroup;
pub mod reconcile;
pub mod scheduling;
pub mod ssh_keys;
pub mod trim;
pub mod vcjob;
pub mod vcqueue;
