//! Events about objects, as `kubectl describe` shows them.
//!
//! Controllers record through a [`Recorder`], which neither waits nor fails; one task per process writes them. The same
//! event about the same object is written once and counted up. What comes faster than it can be written, or
//! too often about one object, is dropped: events are told for people, and nothing depends on them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    causes::Causes,
    runner::{Clock, in_time},
};

/// One event takes about 1 ms to write; a second of backlog.
const BACKLOG_MAX: usize = 1000;
/// How many events are remembered, to be counted up when they come again.
const REMEMBERED_MAX: usize = 4096;
/// A repetition after this long is a new story.
const REMEMBERED_FOR: SignedDuration = SignedDuration::from_mins(10);
/// How many writes about one object one component may do at once; then one in five minutes, as in Kubernetes.
const BURST: u32 = 25;
const REFILL: SignedDuration = SignedDuration::from_mins(5);
/// Upstream's bound on the length of a message.
const MESSAGE_MAX: usize = 1024;

/// Records events in the name of one component.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: Arc<str>,
    clock: Clock,
    sender: mpsc::Sender<Record>,
}

impl Recorder {
    /// Returns a recorder for another component.
    pub fn for_component(&self, component: &str) -> Self {
        Self { component: component.into(), ..self.clone() }
    }

    /// Tells that something went as it should.
    pub fn normal<K: Resource<DynamicType = ()>>(&self, about: &K, reason: &'static str, message: impl Into<String>) {
        self.record(Subject::of(about), Severity::Normal, reason, message.into());
    }

    /// Tells that something did not.
    pub fn warning<K: Resource<DynamicType = ()>>(&self, about: &K, reason: &'static str, message: impl Into<String>) {
        self.record(Subject::of(about), Severity::Warning, reason, message.into());
    }

    /// Tells of a part of an object, such as `spec.containers{app}`.
    pub fn about_part<K: Resource<DynamicType = ()>>(
        &self,
        about: &K,
        field_path: &str,
        is_warning: bool,
        reason: &str,
        message: String,
    ) {
        let severity = if is_warning { Severity::Warning } else { Severity::Normal };
        let field_path = Some(field_path.to_owned()).filter(|path| !path.is_empty());
        self.record(Subject { field_path, ..Subject::of(about) }, severity, reason, message);
    }

    fn record(&self, about: Subject, severity: Severity, reason: &str, mut message: String) {
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        let story = Story { about, component: self.component.clone(), severity, reason: reason.to_owned(), message };
        let record = Record { story, at: self.clock.now() };
        if self.sender.try_send(record).is_err() {
            tracing::debug!(component = &*self.component, reason, "an event is dropped");
        }
    }
}

/// What is told; the same story again is only counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Story {
    about: Subject,
    component: Arc<str>,
    severity: Severity,
    reason: String,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Normal,
    Warning,
}

/// The object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    uid: Option<String>,
    field_path: Option<String>,
}

impl Subject {
    fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone(),
            field_path: None,
        }
    }

    /// Events of objects without a namespace are in the default one.
    fn event_namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version.clone()),
            kind: Some(self.kind.clone()),
            namespace: self.namespace.clone(),
            name: Some(self.name.clone()),
            uid: self.uid.clone(),
            field_path: self.field_path.clone(),
            ..ObjectReference::default()
        }
    }
}

struct Record {
    story: Story,
    at: Timestamp,
}

/// Makes the two ends of the events of a process.
pub fn channel(client: Client, clock: Clock) -> (Recorder, Writer) {
    let (sender, receiver) = mpsc::channel(BACKLOG_MAX);
    (Recorder { component: "ronde".into(), clock, sender }, Writer { client, receiver, memory: Memory::default() })
}

/// Writes events until it is stopped.
pub struct Writer {
    client: Client,
    receiver: mpsc::Receiver<Record>,
    memory: Memory,
}

impl Writer {
    pub async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled_owned(Box::pin(self.write_all())).await;
    }

    async fn write_all(mut self) {
        while let Some(record) = self.receiver.recv().await {
            let Some(write) = self.memory.write(record) else { continue };
            if let Err(error) = in_time(self.write(&write)).await {
                tracing::debug!(error = %Causes(&error), reason = write.story.reason, "an event is not written");
            }
        }
    }

    async fn write(&self, write: &Write) -> Result<(), kube::Error> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), write.story.about.event_namespace());
        if write.count > 1 {
            let patch = json!({"count": write.count, "lastTimestamp": Time(write.last)});
            match events.patch(&write.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                // The old one has expired: it is told anew, with its count.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => return other.map(drop),
            }
        }
        events.create(&PostParams::default(), &write.event()).await.map(drop)
    }
}

/// An event as it is to be written now.
#[derive(Debug, Clone, PartialEq)]
struct Write {
    story: Story,
    name: String,
    first: Timestamp,
    last: Timestamp,
    count: i32,
}

impl Write {
    fn event(&self) -> Event {
        let about = &self.story.about;
        Event {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(about.event_namespace().to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: about.reference(),
            type_: Some(format!("{:?}", self.story.severity)),
            reason: Some(self.story.reason.clone()),
            message: Some(self.story.message.clone()),
            source: Some(EventSource { component: Some(self.story.component.to_string()), host: None }),
            reporting_component: Some(self.story.component.to_string()),
            first_timestamp: Some(Time(self.first)),
            last_timestamp: Some(Time(self.last)),
            count: Some(self.count),
            ..Event::default()
        }
    }
}

/// What has been told lately. Pure; owned by the writer.
#[derive(Default)]
struct Memory {
    told: BTreeMap<Story, Write>,
    oldest_first: VecDeque<Story>,
    /// How many writes are left about an object to a component, and since when.
    left: BTreeMap<(Subject, Arc<str>), (u32, Timestamp)>,
    /// Keeps names apart that are made in the same nanosecond.
    sequence: i128,
}

impl Memory {
    fn write(&mut self, record: Record) -> Option<Write> {
        let Record { story, at } = record;
        if !self.may_write(&story, at) {
            return None;
        }
        if let Some(told) = self.told.get_mut(&story)
            && at.duration_since(told.last) <= REMEMBERED_FOR
        {
            told.count = told.count.saturating_add(1);
            told.last = at;
            return Some(told.clone());
        }
        self.sequence += 1;
        let name = format!("{}.{:x}", story.about.name, at.as_nanosecond() + self.sequence);
        let write = Write { story: story.clone(), name, first: at, last: at, count: 1 };
        self.remember(story, write.clone());
        Some(write)
    }

    fn remember(&mut self, story: Story, write: Write) {
        if self.told.insert(story.clone(), write).is_none() {
            self.oldest_first.push_back(story);
        }
        while self.told.len() > REMEMBERED_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.told.remove(&oldest);
        }
    }

    fn may_write(&mut self, story: &Story, at: Timestamp) -> bool {
        if self.left.len() > REMEMBERED_MAX {
            self.left.clear();
        }
        let whom = (story.about.clone(), story.component.clone());
        let (left, since) = self.left.entry(whom).or_insert((BURST, at));
        let refills = at.duration_since(*since).as_secs() / REFILL.as_secs();
        if refills > 0 {
            *left = left.saturating_add(u32::try_from(refills).unwrap_or(BURST)).min(BURST);
            *since = at;
        }
        let may = *left > 0;
        *left = left.saturating_sub(1);
        may
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn record(pod: &str, message: &str, second: i64) -> Record {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": pod, "namespace": "n", "uid": pod}})).unwrap();
        let story = Story {
            about: Subject::of(&pod),
            component: "c".into(),
            severity: Severity::Normal,
            reason: "Why".to_owned(),
            message: message.to_owned(),
        };
        Record { story, at: Timestamp::from_second(second).unwrap() }
    }

    fn written(memory: &mut Memory, record: Record) -> Option<(i32, String)> {
        memory.write(record).map(|write| (write.count, write.name))
    }

    #[test]
    fn the_same_event_is_counted_up() {
        let mut memory = Memory::default();
        let (_, name) = written(&mut memory, record("a", "x", 1)).unwrap();
        assert_eq!(written(&mut memory, record("a", "x", 2)), Some((2, name.clone())));
        let other = written(&mut memory, record("a", "y", 2)).unwrap();
        assert_eq!(other.0, 1, "another message is another event");
        assert_ne!(other.1, name);
        assert_eq!(written(&mut memory, record("b", "x", 2)).unwrap().0, 1, "another object too");
        let later = written(&mut memory, record("a", "x", 2 + REMEMBERED_FOR.as_secs() + 1)).unwrap();
        assert_eq!(later.0, 1, "after a long while it is a new story");
    }

    #[test]
    fn one_object_cannot_fill_the_log() {
        let mut memory = Memory::default();
        let at_once = (0..100).filter(|_| memory.write(record("a", "x", 1)).is_some()).count();
        assert_eq!(at_once, 25);
        assert!(memory.write(record("b", "x", 1)).is_some(), "others are still heard");
        assert!(memory.write(record("a", "x", 301)).is_some(), "and it is again after five minutes");
        assert!(memory.write(record("a", "x", 302)).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let mut memory = Memory::default();
        for number in 0..REMEMBERED_MAX + 100 {
            memory.write(record(&format!("p{number}"), "x", 1));
        }
        assert!(memory.told.len() <= REMEMBERED_MAX && memory.left.len() <= REMEMBERED_MAX + 1);
        assert_eq!(memory.told.len(), memory.oldest_first.len());
    }

    #[test]
    fn names_made_at_the_same_time_differ() {
        let mut memory = Memory::default();
        let first = memory.write(record("a", "x", 1)).unwrap().name;
        let second = memory.write(record("a", "y", 1)).unwrap().name;
        assert_ne!(first, second);
    }
}
