//! The rules of our kinds as the one-machine API server asks for them, in process.
//!
//! Handed to the server by `ronde up`. Decides nothing itself: the rules are [`ronde_api::rules`], which controllers
//! on a cluster also apply to what they read. Here objects are raw JSON and the facts come from the store.

mod kinds;
mod overlay;
mod pods;

use std::sync::Arc;

use parking_lot::Mutex;
use ronde_api::{
    Job, PodGroup, Queue, TrainingJob,
    names::GROUP_QUEUE,
    rules::{self, Queues, occupants::in_queue},
};
use ronde_apiserver::{
    admission::{Admission, Operation, Review, Stored},
    discovery::ResourceInfo,
    error::{FieldError, FieldErrorKind},
    schema::crd::Verdict,
    store::Revision,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::kinds::{Kind, Surroundings};

const QUEUES: &str = "queues.scheduling.volcano.sh";

/// The rules of our kinds.
#[derive(Default)]
pub struct OwnKinds {
    /// Jobs come by the thousand and queues change rarely: they are read anew only when one has been written.
    queues: Mutex<Option<(Seen, Arc<Queues>)>>,
}

/// The queues that were read: how many, and the newest write. A deletion changes the one, all else the other.
type Seen = (usize, Revision);

impl OwnKinds {
    fn queues(&self, stored: Stored<'_>) -> Arc<Queues> {
        let objects = stored.list(QUEUES);
        let seen = (objects.len(), objects.iter().map(|object| object.revision).max().unwrap_or_default());
        let mut cached = self.queues.lock();
        if let Some((_, queues)) = cached.as_ref().filter(|(of, _)| *of == seen) {
            return queues.clone();
        }
        let read = objects.iter().filter_map(|object| serde_json::from_value::<Queue>(object.value()).ok());
        let queues: Arc<Queues> = Arc::new(read.collect());
        *cached = Some((seen, queues.clone()));
        queues
    }

    fn surroundings(&self, review: &Review<'_>, object: &Value) -> Surroundings {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let found = review.stored.get("namespaces", "", namespace);
        let queue = found.and_then(|found| Some(found["metadata"]["annotations"][GROUP_QUEUE].as_str()?.to_owned()));
        Surroundings { namespace_queue: queue, queues: self.queues(review.stored) }
    }
}

/// Returns the kind of a write that rules look at: those of the objects themselves.
fn kind_of(review: &Review<'_>) -> Option<&'static dyn Kind> {
    let is_main = review.subresource.is_empty();
    is_main.then(|| kinds::find(&review.resource.api_version(), &review.resource.kind)).flatten()
}

impl Admission for OwnKinds {
    fn default(&self, review: &Review<'_>, new: &mut Value, old: Option<&Value>) {
        if let Some(kind) = kind_of(review)
            && !is_unchanged(new, old)
        {
            kind.default(new, old, &self.surroundings(review, new));
        }
    }

    fn check(&self, review: &Review<'_>, new: &Value, old: Option<&Value>) -> Option<Verdict> {
        let resource = (review.resource.group.as_str(), review.resource.plural.as_str(), review.subresource);
        if resource == ("", "pods", "") {
            return if old.is_none() { pods::check(new) } else { None };
        }
        let kind = kind_of(review)?;
        if is_unchanged(new, old) {
            return None;
        }
        kind.check(new, old, &self.surroundings(review, new))
    }

    fn pod_templates(&self, resource: &ResourceInfo, object: &Value) -> Vec<Value> {
        kinds::pod_templates(&resource.api_version(), &resource.kind, object)
            .into_iter()
            .map(|(_, found)| found.clone())
            .collect()
    }

    fn check_delete(&self, review: &Review<'_>, old: &Value) -> Option<String> {
        debug_assert_eq!(review.operation, Operation::Delete);
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let is_queue =
            review.resource.api_version() == "scheduling.volcano.sh/v1beta1" && review.resource.kind == "Queue";
        let occupants = || occupants(review.stored, name);
        is_queue.then(|| rules::queue::validate_delete(name, &self.queues(review.stored), &occupants())).flatten()
    }
}

/// Returns what is in a queue.
fn occupants(stored: Stored<'_>, queue: &str) -> Vec<String> {
    let jobs = read_all::<Job>(stored, "jobs.batch.volcano.sh");
    let trainings = read_all::<TrainingJob>(stored, "trainingjobs.kai.alibabacloud.com");
    let groups = read_all::<PodGroup>(stored, "podgroups.scheduling.volcano.sh");
    let mut all = in_queue(queue, &jobs);
    all.extend(in_queue(queue, &trainings));
    all.extend(in_queue(queue, &groups));
    all
}

fn read_all<K: DeserializeOwned>(stored: Stored<'_>, collection: &str) -> Vec<K> {
    stored.list(collection).iter().filter_map(|object| serde_json::from_value(object.value()).ok()).collect()
}

/// Whether a write leaves alone all that rules look at: schedulers and controllers write statuses and labels often.
fn is_unchanged(new: &Value, old: Option<&Value>) -> bool {
    let same =
        |old: &Value| new["spec"] == old["spec"] && new["metadata"]["annotations"] == old["metadata"]["annotations"];
    old.is_some_and(|old| new.get("spec").is_some() && same(old))
}

/// A fault in the words of the API server.
fn field_error(fault: &ronde_api::rules::Fault) -> FieldError {
    use ronde_api::rules::FaultKind;
    let kind = match fault.kind {
        FaultKind::Required => FieldErrorKind::Required,
        FaultKind::Invalid => FieldErrorKind::Invalid,
        FaultKind::Unsupported => FieldErrorKind::NotSupported,
        FaultKind::Duplicate => FieldErrorKind::Duplicate,
        FaultKind::NotFound => FieldErrorKind::NotFound,
        FaultKind::Forbidden => FieldErrorKind::Forbidden,
    };
    FieldError::new(kind, fault.path.as_str(), Value::Null, fault.message.as_str()).verbatim()
}
