//! Gang scheduling as a library: changes of the cluster go in, plans come out.
//!
//! [`Cluster`] owns what is known of nodes, pods, groups and queues. The caller tells it every [`Change`] and asks for a
//! [`Plan`] with [`Cluster::cycle`]; the plan says which groups to admit, which pods to bind and to evict, and of every
//! gang that waits why. The plan is taken as done; a step that failed is told back as [`Change::Failed`].
//!
//! Pure: knows no Kubernetes client, no clock and no randomness. The same changes give the same plan, byte for byte, and a
//! cluster built anew from the same objects decides as one that has seen them change.
//!
//! ```
//! use ronde_scheduler::{Amounts, Change, Cluster, Group, GroupId, Node, Pod, PodId, Policy, Queue, Time};
//!
//! let mut cluster = Cluster::new(Policy::default());
//! cluster.apply(Change::Queue(Queue::new("default")));
//! cluster.apply(Change::Node(Node::new("node-a", Amounts::of([("cpu", 4000)]))));
//! let group = GroupId::new("ml", "mnist");
//! cluster.apply(Change::Group(Group::new(group.clone(), "default", 2)));
//! for name in ["mnist-0", "mnist-1"] {
//!     cluster.apply(Change::Pod(Pod::new(PodId::new("ml", name), group.clone(), Amounts::of([("cpu", 1000)]))));
//! }
//! let plan = cluster.cycle(Time::from_millis(0));
//! assert_eq!(plan.to_string(), "admit ml/mnist\nbind ml/mnist-0 to node-a\nbind ml/mnist-1 to node-a\n");
//! ```
//!
//! Inside: `model/` are the words that a caller uses, `change.rs` and `plan.rs` what goes in and comes out.
//! `cluster/` is the state, kept up with every change (`sums.rs` is the only place where room is taken or given up;
//! `view.rs` are the nodes as one class of equal pods sees them, best first). `cycle/mod.rs` is the table of contents
//! of a decision: `admit.rs`, `lines.rs` and `ledger.rs` (who is next, what queues may have), `gang.rs` and
//! `place.rs` (whole or not at all), `room.rs`, `preempt.rs` and `victims.rs` (room that is coming, held or made; who
//! may have to go for it), `patience.rs` (and who not yet), `moves.rs` (pods that only move), `surplus.rs`, `explain.rs`
//! and `census.rs` (why the others wait). `defragment.rs` tries on a copy what would move on request.

mod change;
mod cluster;
mod cycle;
mod defragment;
mod model;
mod plan;
mod policy;

pub use crate::{
    change::Change,
    cluster::Cluster,
    defragment::{Move, Relief},
    model::{
        amounts::{Amounts, CPU, MEMORY, PODS, ResourceName, quantity},
        budget::Budget,
        group::{Group, Strictness, SubGroups, Topology, Within},
        ids::{GroupId, HyperNodeName, NodeName, PodId, QueueName, Time},
        node::{Effect, HyperNode, Node, Taint},
        pod::{HostPort, NodeAffinity, Phase, Pod, PodAffinityTerm, PodSpec, Spread, Toleration, Volumes, Weighted},
        queue::{Dequeue, Queue, QueueState, QueueUsage},
        selector::{LabelSelector, Labels, NodeSelector, NodeSelectorTerm, Operator, Requirement},
    },
    plan::{Eviction, Plan, Reason, Step, Waiting},
    policy::Policy,
};
