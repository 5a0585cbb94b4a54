//! What the caller tells the scheduler.

use crate::{
    model::{
        budget::Budget,
        group::Group,
        ids::{GroupId, HyperNodeName, NodeName, PodId, QueueName},
        node::{HyperNode, Node},
        pod::Pod,
        queue::Queue,
        selector::Labels,
    },
    plan::Step,
};

/// Something is new, different or gone. Telling the same twice is harmless, and the order of objects does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Node(Node),
    NodeGone(NodeName),
    /// A pod as the API shows it now. A bind or an eviction that is planned and not seen yet stays planned.
    Pod(Pod),
    PodGone(PodId),
    Group(Group),
    GroupGone(GroupId),
    Queue(Queue),
    QueueGone(QueueName),
    HyperNode(HyperNode),
    HyperNodeGone(HyperNodeName),
    /// Labels of nodes that name parts of the network, the closest first: the first label is tier 1.
    TierLabels(Vec<String>),
    /// Labels of a namespace, for affinity that selects namespaces.
    Namespace(String, Labels),
    NamespaceGone(String),
    /// How many pods may be gone at a time; who makes room by pushing others out spares them where it can.
    Budget(Budget),
    /// Namespace and name.
    BudgetGone(String, String),
    /// A step of a plan could not be done; the scheduler takes it back and plans anew.
    Failed(Step),
}
