//! What becomes of a queue: where it belongs, whether it is open.
//!
//! Pure. Everything is a state, also that a queue was closed because its parent was: a controller that is killed
//! between any two steps comes to the same end.

use kube::ResourceExt as _;
use ronde_api::{Action, Queue, QueueState, names, rules};

/// A queue and what counts for it.
#[derive(Debug, Clone)]
pub struct ObservedQueue<'a> {
    pub queue: &'a Queue,
    pub is_parent_open: bool,
    /// Whether a group is in it that has not ended.
    pub has_groups: bool,
    /// The jobs and groups in it, in words. Looked for only when it is to be deleted.
    pub occupants: Vec<String>,
    /// What is wrong with it.
    pub faults: Vec<String>,
    /// What a person asks for.
    pub command: Option<String>,
}

/// Something to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueStep {
    /// To be a part of this queue.
    Join(&'static str),
    /// To remember whether it was closed because its parent was.
    Mark(bool),
    State(QueueState),
    /// To say what is wrong with it, or that nothing is any more.
    Message(String),
    /// To keep it from being deleted while something is in it.
    Hold,
    /// To let it go.
    Release,
    Warn {
        reason: &'static str,
        message: String,
    },
}

/// The reason of events about queues that something is wrong with.
const INVALID: &str = "InvalidQueue";

/// The finalizer of queues that have been used.
pub const IN_USE: &str = "ronde.dev/queue-in-use";

/// Plans the steps for a queue, in their order.
pub fn plan(seen: &ObservedQueue<'_>) -> Vec<QueueStep> {
    let mut steps = Vec::new();
    let is_root = seen.queue.name_any() == names::ROOT_QUEUE;
    if !is_root && seen.queue.spec.parent.is_empty() {
        steps.push(QueueStep::Join(names::ROOT_QUEUE));
    }
    let stored = seen.queue.status.as_ref().and_then(|status| status.state);
    let was = stored.unwrap_or(QueueState::Open);
    let was_marked = seen.queue.annotations().get(names::CLOSED_BY_PARENT).is_some_and(|mark| mark == "true");
    let (mut is_open, mut is_marked) = (was == QueueState::Open, was_marked);
    match asked(seen, is_root) {
        Asked::Nothing => {}
        Asked::Open => (is_open, is_marked) = (true, false),
        Asked::Close => (is_open, is_marked) = (false, false),
        Asked::Wrong(message) => steps.push(QueueStep::Warn { reason: "CommandIssued", message }),
    }
    if stored.is_none() {
        let warnings = rules::queue::warnings(seen.queue).into_iter();
        steps.extend(warnings.map(|message| QueueStep::Warn { reason: "QueueWarning", message }));
    }
    steps.extend(told(seen));
    let is_deleted = seen.queue.metadata.deletion_timestamp.is_some();
    let is_held = seen.queue.finalizers().iter().any(|finalizer| finalizer == IN_USE);
    if is_deleted {
        is_open = false;
    } else if seen.has_groups && !is_held {
        steps.push(QueueStep::Hold);
    }
    if seen.is_parent_open && is_marked {
        (is_open, is_marked) = (true, false);
    } else if !seen.is_parent_open && is_open && !is_root {
        (is_open, is_marked) = (false, true);
    }
    let closed = if seen.has_groups { QueueState::Closing } else { QueueState::Closed };
    let now = if is_open { QueueState::Open } else { closed };
    let mark = (is_marked != was_marked).then_some(QueueStep::Mark(is_marked));
    let state = (stored != Some(now)).then_some(QueueStep::State(now));
    // The mark is there for as long as the queue may be closed because of its parent, never shorter.
    if is_marked {
        steps.extend(mark.into_iter().chain(state));
    } else {
        steps.extend(state.into_iter().chain(mark));
    }
    if is_deleted && is_held {
        let message = rules::occupants::describe(&seen.occupants);
        let in_use =
            |message| QueueStep::Warn { reason: "QueueInUse", message: format!("cannot be deleted yet: {message}") };
        steps.push(message.map_or(QueueStep::Release, in_use));
    }
    steps
}

/// Says what is wrong with the queue: in its status first, then, once, to people.
fn told(seen: &ObservedQueue<'_>) -> Vec<QueueStep> {
    let before = seen.queue.status.as_ref().map_or("", |status| status.message.as_str());
    let message = seen.faults.join("; ");
    if message == before {
        return Vec::new();
    }
    let warning = (!message.is_empty()).then(|| QueueStep::Warn { reason: INVALID, message: message.clone() });
    [QueueStep::Message(message)].into_iter().chain(warning).collect()
}

enum Asked {
    Nothing,
    Open,
    Close,
    Wrong(String),
}

fn asked(seen: &ObservedQueue<'_>, is_root: bool) -> Asked {
    let Some(command) = &seen.command else { return Asked::Nothing };
    match command.parse() {
        Ok(Action::OpenQueue) if !seen.is_parent_open => {
            Asked::Wrong(format!("the queue cannot be opened: its parent {} is not open", seen.queue.spec.parent))
        }
        Ok(Action::OpenQueue) => Asked::Open,
        Ok(Action::CloseQueue) if is_root => Asked::Wrong("the root queue cannot be closed".to_owned()),
        Ok(Action::CloseQueue) => Asked::Close,
        _ => Asked::Wrong(format!("command {command} does not apply to queues")),
    }
}
