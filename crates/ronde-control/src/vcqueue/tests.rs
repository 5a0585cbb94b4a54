//! Queues that open and close.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use ronde_api::Queue;
use ronde_sim::pods::at;
use serde_json::{Value, json};

use super::plan::{ObservedQueue, QueueStep, plan};

/// A queue that has been used.
fn queue(name: &str, state: Option<&str>, is_marked: bool) -> Queue {
    let parent = if name == "root" { "" } else { "root" };
    let annotations = if is_marked { json!({"volcano.sh/closed-by-parent": "true"}) } else { json!({}) };
    let mut queue: Value =
        json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"weight": 1, "parent": parent}});
    queue["metadata"]["finalizers"] = json!(["ronde.dev/queue-in-use"]);
    if let Some(state) = state {
        queue["status"] = json!({"state": state});
    }
    serde_json::from_value(queue).unwrap()
}

/// What is around a queue: `parent-closed`, `groups`, a command.
fn check(what: &str, queue: &Queue, around: &str, expected: &str) {
    let words: Vec<&str> = around.split_whitespace().collect();
    let seen = ObservedQueue {
        queue,
        is_parent_open: !words.contains(&"parent-closed"),
        has_groups: words.contains(&"groups"),
        occupants: words.iter().filter(|word| word.starts_with("job:")).map(|word| word.replace(':', " ")).collect(),
        faults: words.iter().filter(|word| word.starts_with("fault:")).map(|word| word.replace(':', " ")).collect(),
        command: words.iter().find(|word| word.ends_with("Queue")).map(ToString::to_string),
    };
    let shown: Vec<String> = plan(&seen)
        .iter()
        .map(|step| match step {
            QueueStep::Join(parent) => format!("joins {parent}"),
            QueueStep::Mark(is_marked) => format!("marked {is_marked}"),
            QueueStep::State(state) => state.to_string(),
            QueueStep::Message(message) => format!("says {message:?}"),
            QueueStep::Hold => "held".to_owned(),
            QueueStep::Release => "released".to_owned(),
            QueueStep::Warn { message, .. } => message.clone(),
        })
        .collect();
    assert_eq!(shown.join(", "), expected, "{what}");
}

#[test]
fn a_new_queue_is_open_and_below_the_root() {
    let mut new = queue("q", None, false);
    new.spec.parent.clear();
    check("a new one", &new, "", "joins root, Open");
    check("the root", &queue("root", None, false), "", "Open");
    check("one that is all right", &queue("q", Some("Open"), false), "groups", "");
}

#[test]
fn commands_open_and_close() {
    let (open, closing, closed) =
        (queue("q", Some("Open"), false), queue("q", Some("Closing"), false), queue("q", Some("Closed"), false));
    check("close an empty one", &open, "CloseQueue", "Closed");
    check("close one with groups", &open, "groups CloseQueue", "Closing");
    check("the last group has gone", &closing, "", "Closed");
    check("there are still groups", &closing, "groups", "");
    check("open", &closed, "OpenQueue", "Open");
    check("open one that is closing", &closing, "groups OpenQueue", "Open");
    check("the root stays open", &queue("root", Some("Open"), false), "CloseQueue", "the root queue cannot be closed");
    check("what does not apply to queues", &open, "SyncQueue", "command SyncQueue does not apply to queues");
}

#[test]
fn queues_follow_their_parent() {
    let (open, marked) = (queue("q", Some("Open"), false), queue("q", Some("Closed"), true));
    check("the parent closes", &open, "parent-closed", "marked true, Closed");
    check("with groups inside", &open, "parent-closed groups", "marked true, Closing");
    check("the parent opens again", &marked, "", "Open, marked false");
    check("one that was closed for itself stays closed", &queue("q", Some("Closed"), false), "", "");
    check("closed for itself while its parent is", &marked, "parent-closed CloseQueue", "marked false");
    let message = "the queue cannot be opened: its parent root is not open";
    check("not before its parent", &marked, "parent-closed OpenQueue", message);
    check("killed after the mark", &queue("q", Some("Open"), true), "parent-closed", "Closed");
    check("killed after it was opened", &queue("q", Some("Open"), true), "", "marked false");
}

fn deleted(state: &str) -> Queue {
    let mut queue = queue("q", Some(state), false);
    queue.metadata.deletion_timestamp = Some(Time(at(0)));
    queue
}

#[test]
fn a_queue_with_something_in_it_is_not_deleted() {
    let mut unused = queue("q", Some("Open"), false);
    unused.metadata.finalizers = None;
    check("it was never used", &unused, "", "");
    check("it is used for the first time", &unused, "groups", "held");
    let in_use = "Closing, cannot be deleted yet: it is not empty: job ns/lm";
    check("it is to go", &deleted("Open"), "groups job:ns/lm", in_use);
    let suspended = "Closed, cannot be deleted yet: it is not empty: job ns/lm";
    check("a suspended job has no group", &deleted("Open"), "job:ns/lm", suspended);
    check("it is empty", &deleted("Closing"), "", "Closed, released");
    check("nobody opens it", &deleted("Closed"), "OpenQueue", "released");
}

#[test]
fn what_is_wrong_with_a_queue_is_said_until_it_is_right() {
    let mut open = queue("q", Some("Open"), false);
    check("it is new", &open, "fault:weight", "says \"fault weight\", fault weight");
    open.status.as_mut().expect("a status").message = "fault weight".to_owned();
    check("it is known", &open, "fault:weight", "");
    check("something else", &open, "fault:parent", "says \"fault parent\", fault parent");
    check("it is mended", &open, "", "says \"\"");
}

#[test]
fn what_has_no_effect_is_told_of_a_new_queue() {
    let mut new = queue("dev", None, false);
    let path = ("volcano.sh/hierarchy".to_owned(), "root/sci/dev".to_owned());
    new.metadata.annotations = Some([path].into());
    let ignored = "metadata.annotations[volcano.sh/hierarchy]: \"root/sci/dev\" is ignored, the queue is right below \
                   `root`; set spec.parent and spec.weight instead, Open";
    check("a path that is flattened", &new, "", ignored);
    new.spec.parent = "sci".to_owned();
    check("a path that is so", &new, "", "Open");
}
