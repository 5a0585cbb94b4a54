//! What is simulated: a cluster, its work, and what happens to its nodes. Times are milliseconds on the virtual clock.

use std::sync::Arc;

use ronde_scheduler::{Amounts, Group, GroupId, HyperNode, Labels, Node, NodeName, PodSpec, Policy, Queue};

/// A cluster and its work.
#[derive(Debug, Clone, Default)]
pub struct Scenario {
    pub nodes: Vec<Node>,
    /// Queues that jobs name and that are not here are made with weight 1.
    pub queues: Vec<Queue>,
    pub jobs: Vec<Job>,
    pub faults: Vec<Fault>,
    /// Labels of nodes that name parts of the network, the closest first.
    pub tier_labels: Vec<String>,
    /// Parts of the network that objects describe.
    pub parts: Vec<HyperNode>,
    pub policy: Policy,
    /// How long a pod that has to go still takes room.
    pub grace: i64,
    /// The scheduler decides at most once in this time; what comes in between is decided together.
    pub pace: i64,
    /// When the simulation begins; jobs that arrive earlier are there from the beginning.
    pub begin: i64,
    /// When to stop, whatever still runs.
    pub until: Option<i64>,
}

/// A job: a gang and what it has above its minimum.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its group as the scheduler is to see it: name, queue, priority, minimum.
    pub group: Group,
    pub user: String,
    pub arrival: i64,
    pub tasks: Vec<Task>,
    /// How long it runs with all the pods that it asks for; none if nobody knows.
    pub run: Option<i64>,
    /// How often it saves what it has done; none if it begins anew whenever its gang breaks.
    pub checkpoint: Option<i64>,
    /// Set for jobs that have a range of sizes.
    pub elastic: Option<Elastic>,
    /// Where its pods are at the beginning, if it runs then.
    pub placed: Option<Placed>,
}

/// Pods that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub name: Arc<str>,
    pub replicas: u32,
    pub spec: Arc<PodSpec>,
    /// Of its pods, for affinity.
    pub labels: Labels,
}

/// The sizes of a job; they are about its last task, the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elastic {
    pub max: u32,
    /// Grows into free room by itself, and gives back what it has above `replicas` when others wait.
    pub auto: bool,
}

/// A job that runs when the simulation begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The nodes of its pods, in the order of the tasks; a pod without a node is pending.
    pub nodes: Vec<Option<NodeName>>,
    /// Since when it runs.
    pub since: i64,
}

/// Something that happens to the nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub at: i64,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FaultKind {
    /// A node is gone at once, with everything on it; it may come back after a while.
    Lose { node: NodeName, back_after: Option<i64> },
    /// Its owner wants it back: nothing new is placed on it, and after the notice it is gone.
    Reclaim { node: NodeName, notice: i64, back_after: Option<i64> },
    /// It is emptied for maintenance.
    Drain { node: NodeName, back_after: Option<i64> },
    /// A node joins.
    Add { node: Box<Node> },
}

/// Why a job is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    #[error("it has no pods")]
    NoPods,
    #[error("`min` is {min}, and `replicas` is {replicas}")]
    MinAboveReplicas { min: u32, replicas: u32 },
    #[error("`max` is {max}, and `replicas` is {replicas}")]
    MaxBelowReplicas { max: u32, replicas: u32 },
    #[error("it has {pods} pods, and at most {PODS_MAX} are simulated of one job")]
    TooLarge { pods: u32 },
}

/// More than any job has; what is above is a slip of the pen.
const PODS_MAX: u32 = 100_000;

impl Job {
    /// Makes a job of one kind of pods.
    ///
    /// # Errors
    /// If its numbers contradict each other.
    pub fn uniform(name: &str, queue: &str, sizes: (u32, u32), request: Amounts) -> Result<Self, JobError> {
        let (min, replicas) = sizes;
        let group = Group::new(GroupId::new("sim", name), queue, min);
        let spec = Arc::new(PodSpec { requests: request, ..PodSpec::default() });
        let tasks = vec![Task { name: "worker".into(), replicas, spec, labels: Labels::new() }];
        Self::new(group, tasks)
    }

    /// Makes a job from its group and tasks; works out what its minimum takes.
    ///
    /// # Errors
    /// If its numbers contradict each other.
    pub fn new(mut group: Group, tasks: Vec<Task>) -> Result<Self, JobError> {
        let replicas = tasks.iter().fold(0, |sum: u32, task| sum.saturating_add(task.replicas));
        let min = group.min_member;
        match replicas {
            0 => return Err(JobError::NoPods),
            _ if min > replicas => return Err(JobError::MinAboveReplicas { min, replicas }),
            _ if replicas > PODS_MAX => return Err(JobError::TooLarge { pods: replicas }),
            _ => {}
        }
        group.min_member = min.max(1);
        group.min_resources.get_or_insert_with(|| minimum(&tasks, min.max(1)));
        Ok(Self {
            group,
            user: String::new(),
            arrival: 0,
            tasks,
            run: None,
            checkpoint: None,
            elastic: None,
            placed: None,
        })
    }

    /// Gives the job a largest size.
    ///
    /// # Errors
    /// If it is less than what the job asks for.
    pub fn with_max(mut self, max: u32, auto: bool) -> Result<Self, JobError> {
        let replicas = self.replicas();
        match max {
            _ if max < replicas => return Err(JobError::MaxBelowReplicas { max, replicas }),
            _ if max > PODS_MAX => return Err(JobError::TooLarge { pods: max }),
            _ => self.elastic = Some(Elastic { max, auto }),
        }
        Ok(self)
    }

    pub fn replicas(&self) -> u32 {
        self.tasks.iter().map(|task| task.replicas).sum()
    }

    /// Returns how many of its pods may come and go without it.
    pub fn is_resizable(&self) -> bool {
        self.elastic.is_some() || self.group.min_member < self.replicas()
    }

    /// Returns what all its pods ask for of a resource.
    pub fn total(&self, resource: &str) -> i64 {
        let of_task = |task: &Task| task.spec.requests.get(resource).unwrap_or(0).saturating_mul(task.replicas.into());
        self.tasks.iter().map(of_task).sum()
    }
}

/// Adds up what the first pods ask for.
fn minimum(tasks: &[Task], least: u32) -> Amounts {
    let mut sum = Amounts::default();
    let mut left = least;
    for task in tasks {
        let taken = task.replicas.min(left);
        left -= taken;
        for (name, amount) in task.spec.requests.iter() {
            let before = sum.get(name).unwrap_or(0);
            sum.set(name, before.saturating_add(amount.saturating_mul(taken.into())));
        }
    }
    sum
}
