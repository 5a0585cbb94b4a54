//! The queues of a cluster, as the rules of jobs, groups and queues look at them.

use std::collections::BTreeMap;

use super::fault::Faults;
use crate::{
    Queue,
    names::{DEFAULT_QUEUE, ROOT_QUEUE},
};

/// All queues by name.
#[derive(Debug, Clone, Default)]
pub struct Queues(BTreeMap<String, Queue>);

impl FromIterator<Queue> for Queues {
    fn from_iter<I: IntoIterator<Item = Queue>>(queues: I) -> Self {
        let named = |queue: Queue| (queue.metadata.name.clone().unwrap_or_default(), queue);
        Self(queues.into_iter().map(named).collect())
    }
}

impl Queues {
    pub fn get(&self, name: &str) -> Option<&Queue> {
        self.0.get(name)
    }

    /// The queues right below one, by name.
    pub fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a Queue)> {
        let all = self.0.iter().map(|(name, queue)| (name.as_str(), queue));
        all.filter(move |(child, queue)| *child != name && parent_of(child, queue) == name)
    }

    /// The same queues with one written anew.
    #[must_use]
    pub fn with(&self, queue: &Queue) -> Self {
        let mut queues = self.clone();
        queues.0.insert(queue.metadata.name.clone().unwrap_or_default(), queue.clone());
        queues
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Queue)> {
        self.0.iter().map(|(name, queue)| (name.as_str(), queue))
    }

    /// The queues above one, from its parent upwards; ends at a name that comes twice.
    pub(super) fn above<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        let mut path: Vec<&str> = Vec::new();
        let mut at = name;
        while let Some(queue) = self.get(at) {
            at = parent_of(at, queue);
            if at.is_empty() || at == name || path.contains(&at) {
                break;
            }
            path.push(at);
        }
        path
    }

    /// Checks that something new, such as a `job`, may wait in the queue `name`.
    pub(super) fn check_open(&self, what: &str, name: &str, path: &str, faults: &mut Faults) {
        match self.get(name) {
            None if name == DEFAULT_QUEUE => faults.not_found(path, "there is no queue `default` yet"),
            None => faults.not_found(path, format!("there is no queue {name:?}")),
            Some(queue) if !queue.is_open() => {
                let state = queue.status.as_ref().and_then(|status| status.state).map_or("closed", |s| s.as_str());
                let state = if queue.metadata.deletion_timestamp.is_some() { "being deleted" } else { state };
                let why = format!("can only submit {what} to queue with state `Open`: {name:?} is {state}");
                faults.invalid(path, why);
            }
            Some(_) => {}
        }
    }

    /// Checks that jobs may wait in the queue `name`: at the ends of the tree only.
    pub(super) fn check_leaf(&self, name: &str, path: &str, faults: &mut Faults) {
        if name == ROOT_QUEUE {
            faults.invalid(path, "can not submit job to root queue: it is the parent of all queues");
        } else if let Some((child, _)) = self.children(name).next() {
            let why = format!("can only submit job to leaf queue: {name:?} has child queues, such as {child:?}");
            faults.invalid(path, why);
        }
    }
}

/// The queue that another is a part of; empty for the root.
pub(super) fn parent_of<'a>(name: &str, queue: &'a Queue) -> &'a str {
    match queue.spec.parent.as_str() {
        _ if name == ROOT_QUEUE => "",
        "" => ROOT_QUEUE,
        parent => parent,
    }
}
