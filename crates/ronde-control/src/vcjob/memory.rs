//! What the status of a job remembers beyond the fields that people read.
//!
//! Pure. Everything that the controller must know after a `kill -9` and cannot see in the cluster is here, and is
//! written together with the phase, so that the two never disagree. It lives in `status.controlledResources`, the one
//! free map of the status: a CRD that Volcano itself has installed keeps it too. Keys begin with `ronde.`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ronde_api::{Event, JobSpec, JobStatus};
use ronde_runtime::indexes::Indexes;

use super::member::Member;

/// What the entry of a plugin that was made for a job begins with, for people to read.
pub const PLUGIN: &str = "plugin-";

const PREFIX: &str = "ronde.";
const RESTART: &str = "ronde.restart";
const RESTART_TASK: &str = "ronde.restart.task.";
const RESTART_PARTITION: &str = "ronde.restart.partition.";
const RESTART_POD: &str = "ronde.restart.pod.";
const SUCCEEDED: &str = "ronde.succeeded.";
const SEEN: &str = "ronde.seen.";
const COMMAND: &str = "ronde.command";
const GENERATION: &str = "ronde.generation";
const APPLIED: &str = "ronde.applied";
const QUEUE: &str = "ronde.queue";
const FIXED: &str = "ronde.fixed";
const DISRUPTION: &str = "ronde.disruption";

/// What of a job was restarted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Job,
    Task(String),
    /// A task, and the number of a partition in it.
    Partition(String, i32),
    /// The name of a pod.
    Pod(String),
}

impl Scope {
    /// Tells whether a pod is in it.
    pub fn covers(&self, member: &Member) -> bool {
        match self {
            Self::Job => true,
            Self::Task(task) => *task == member.task,
            Self::Partition(task, partition) => *task == member.task && member.partition == Some(*partition),
            Self::Pod(name) => *name == member.name,
        }
    }

    fn key(&self) -> String {
        match self {
            Self::Job => RESTART.to_owned(),
            Self::Task(task) => format!("{RESTART_TASK}{task}"),
            Self::Partition(task, partition) => format!("{RESTART_PARTITION}{task}.{partition}"),
            Self::Pod(name) => format!("{RESTART_POD}{name}"),
        }
    }

    fn parse(key: &str) -> Option<Self> {
        if let Some(task) = key.strip_prefix(RESTART_TASK) {
            return Some(Self::Task(task.to_owned()));
        }
        if let Some(rest) = key.strip_prefix(RESTART_PARTITION) {
            let (task, partition) = rest.rsplit_once('.')?;
            return Some(Self::Partition(task.to_owned(), partition.parse().ok()?));
        }
        if let Some(name) = key.strip_prefix(RESTART_POD) {
            return Some(Self::Pod(name.to_owned()));
        }
        (key == RESTART).then_some(Self::Job)
    }
}

/// Something that happened and cannot be seen in a pod: to the whole job if no task is named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Occasion {
    pub event: Event,
    pub task: String,
    /// Of [`Event::PodEvicted`] only.
    pub pod: String,
}

impl Occasion {
    pub fn of_job(event: Event) -> Self {
        Self { event, task: String::new(), pod: String::new() }
    }

    pub fn of_task(event: Event, task: &str) -> Self {
        Self { event, task: task.to_owned(), pod: String::new() }
    }

    pub fn of_pod(event: Event, member: &Member) -> Self {
        Self { event, task: member.task.clone(), pod: member.name.clone() }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let event = parts.next()?.parse().ok()?;
        Some(Self { event, task: parts.next()?.to_owned(), pod: parts.next()?.to_owned() })
    }
}

/// Since when an occasion is known, and whether a policy has answered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotedOccasion {
    pub since: Timestamp,
    pub is_answered: bool,
}

impl NotedOccasion {
    fn parse(text: &str) -> Option<Self> {
        let (seconds, word) = text.split_once(' ')?;
        let since = Timestamp::from_second(seconds.parse().ok()?).ok()?;
        Some(Self { since, is_answered: word == "answered" })
    }

    fn text(self) -> String {
        let word = if self.is_answered { "answered" } else { "waits" };
        format!("{} {word}", self.since.as_second())
    }
}

/// That pods of the job were ended which had done nothing wrong; remembered until it is whole again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disrupted {
    pub since: Timestamp,
    /// For people: `preempted by hi (priority high)`.
    pub why: String,
}

impl Disrupted {
    fn parse(text: &str) -> Option<Self> {
        let (seconds, why) = text.split_once(' ')?;
        let since = Timestamp::from_second(seconds.parse().ok()?).ok()?;
        Some(Self { since, why: why.to_owned() })
    }

    fn text(&self) -> String {
        format!("{} {}", self.since.as_second(), self.why)
    }
}

/// The memory of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Pods of a lower version than this are of the past: what they do is no event any more.
    pub floors: BTreeMap<Scope, i32>,
    /// The indexes of each task that have succeeded, whether their pods are still there or not.
    pub succeeded: BTreeMap<String, Indexes>,
    pub seen: BTreeMap<Occasion, NotedOccasion>,
    /// The uid of the last command that was carried out.
    pub command: Option<String>,
    /// The generation of the job that was last looked at.
    pub generation: Option<i64>,
    /// Stands for the contents of the objects that plugins have made. Written along with the next news: until then whoever
    /// takes over looks once more.
    pub applied: Option<String>,
    /// The queue that the job has got, if it is not the default one.
    pub queue: Option<String>,
    /// Stands for what may not change; see [`super::changes`].
    pub fixed: Option<String>,
    pub disruption: Option<Disrupted>,
}

impl Memory {
    /// Reads the memory, leaving out tasks and indexes that the job does not have any more.
    pub fn read(status: &JobStatus, spec: &JobSpec) -> Self {
        let mut memory = Self::default();
        for (key, value) in &status.controlled_resources {
            memory.read_entry(key, value, spec);
        }
        memory
    }

    fn read_entry(&mut self, key: &str, value: &str, spec: &JobSpec) {
        if let Some(scope) = Scope::parse(key) {
            self.floors.extend(value.parse().ok().map(|floor| (scope, floor)));
        } else if let Some(name) = key.strip_prefix(SUCCEEDED) {
            let task = spec.tasks.iter().find(|task| task.name == name);
            let indexes = Indexes::parse(value, task.map_or(0, |task| task.replicas));
            self.remember_succeeded(name, indexes);
        } else if let Some(occasion) = key.strip_prefix(SEEN) {
            self.seen.extend(Occasion::parse(occasion).zip(NotedOccasion::parse(value)));
        } else if key == COMMAND {
            self.command = Some(value.to_owned());
        } else if key == GENERATION {
            self.generation = value.parse().ok();
        } else if key == APPLIED {
            self.applied = Some(value.to_owned());
        } else if key == QUEUE {
            self.queue = Some(value.to_owned());
        } else if key == FIXED {
            self.fixed = Some(value.to_owned());
        } else if key == DISRUPTION {
            self.disruption = Disrupted::parse(value);
        }
    }

    /// Puts the memory in the place of what a status remembered before.
    pub fn write(&self, status: &mut JobStatus) {
        let resources = &mut status.controlled_resources;
        resources.retain(|key, _| !key.starts_with(PREFIX));
        let mut put = |key: String, value: String| resources.insert(key, value);
        for (scope, floor) in &self.floors {
            put(scope.key(), floor.to_string());
        }
        for (task, indexes) in &self.succeeded {
            put(format!("{SUCCEEDED}{task}"), indexes.to_string());
        }
        for (Occasion { event, task, pod }, seen) in &self.seen {
            put(format!("{SEEN}{event}.{task}.{pod}"), seen.text());
        }
        let generation = self.generation.map(|generation| generation.to_string());
        let disruption = self.disruption.as_ref().map(Disrupted::text);
        let facts = [
            (COMMAND, &self.command),
            (GENERATION, &generation),
            (APPLIED, &self.applied),
            (QUEUE, &self.queue),
            (FIXED, &self.fixed),
            (DISRUPTION, &disruption),
        ];
        for (key, value) in facts {
            if let Some(value) = value {
                put(key.to_owned(), value.clone());
            }
        }
    }

    /// Tells whether a pod belongs to a run that is over.
    pub fn is_past(&self, member: &Member) -> bool {
        self.floors.iter().any(|(scope, floor)| member.version < *floor && scope.covers(member))
    }

    /// Returns the version below which everything of the job is of the past.
    pub fn job_floor(&self) -> i32 {
        self.floors.get(&Scope::Job).copied().unwrap_or(0)
    }

    pub fn has_succeeded(&self, task: &str, index: i32) -> bool {
        self.succeeded.get(task).is_some_and(|indexes| indexes.contains(index))
    }

    /// Returns how many indexes of a task have succeeded.
    pub fn succeeded_of(&self, task: &str) -> i32 {
        self.succeeded.get(task).map_or(0, Indexes::len)
    }

    /// Replaces the indexes of a task that have succeeded.
    pub fn remember_succeeded(&mut self, task: &str, indexes: Indexes) {
        if indexes.is_empty() {
            self.succeeded.remove(task);
        } else {
            self.succeeded.insert(task.to_owned(), indexes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ronde_api::TaskSpec;

    use super::*;

    fn spec() -> JobSpec {
        let task = |name: &str| TaskSpec { name: name.to_owned(), replicas: 10, ..TaskSpec::default() };
        JobSpec { tasks: vec![task("master"), task("gpu-worker")], ..JobSpec::default() }
    }

    fn scopes() -> impl Strategy<Value = Scope> {
        prop_oneof![
            Just(Scope::Job),
            Just(Scope::Task("gpu-worker".to_owned())),
            (0..9).prop_map(|partition| Scope::Partition("gpu-worker".to_owned(), partition)),
            "[a-z]{1,4}(\\.[a-z]{1,4}|-[0-9])?".prop_map(Scope::Pod),
        ]
    }

    fn occasions() -> impl Strategy<Value = Occasion> {
        prop_oneof![
            Just(Occasion::of_job(Event::Unknown)),
            Just(Occasion::of_task(Event::TaskCompleted, "gpu-worker")),
            "[a-z]{1,4}(\\.[a-z]{1,4})?".prop_map(|pod| Occasion {
                event: Event::PodEvicted,
                task: "master".to_owned(),
                pod
            }),
        ]
    }

    fn memories() -> impl Strategy<Value = Memory> {
        let seen = (1_800_000_000_i64..1_900_000_000, any::<bool>()).prop_map(|(second, is_answered)| NotedOccasion {
            since: Timestamp::from_second(second).unwrap(),
            is_answered,
        });
        let indexes = prop::collection::vec(0..10, 1..9).prop_map(|indexes| Indexes::default().with(indexes));
        let word = || prop::option::of("[a-f0-9-]{5}");
        let facts = (word(), prop::option::of(1_i64..99), word(), word(), word());
        let disruption = (1_800_000_000_i64..1_900_000_000, "[a-z]{1,4}( [a-z()]{1,4})?")
            .prop_map(|(second, why)| Disrupted { since: Timestamp::from_second(second).unwrap(), why });
        (
            prop::collection::btree_map(scopes(), 1..50, 0..5),
            prop::option::of(indexes),
            prop::collection::btree_map(occasions(), seen, 0..4),
            facts,
            prop::option::of(disruption),
        )
            .prop_map(|(floors, indexes, seen, (command, generation, applied, queue, fixed), disruption)| {
                Memory {
                    floors,
                    succeeded: indexes.map(|indexes| ("master".to_owned(), indexes)).into_iter().collect(),
                    seen,
                    command,
                    generation,
                    applied,
                    queue,
                    fixed,
                    disruption,
                }
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(memory in memories(), other in memories()) {
            let mut status = JobStatus::default();
            status.controlled_resources.insert("plugin-svc".to_owned(), "svc".to_owned());
            other.write(&mut status);
            memory.write(&mut status);
            prop_assert_eq!(Memory::read(&status, &spec()), memory);
            prop_assert_eq!(status.controlled_resources.get("plugin-svc").map(String::as_str), Some("svc"));
        }
    }

    #[test]
    fn indexes_that_the_job_has_no_more_are_forgotten() {
        let mut status = JobStatus::default();
        status.controlled_resources.insert("ronde.succeeded.master".to_owned(), "8-20".to_owned());
        status.controlled_resources.insert("ronde.succeeded.gone".to_owned(), "0".to_owned());
        let memory = Memory::read(&status, &spec());
        assert_eq!(memory.succeeded_of("master"), 2);
        assert_eq!(memory.succeeded.len(), 1);
    }
}
