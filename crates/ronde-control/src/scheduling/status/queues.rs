//! What the status of a queue says of its use. Pure.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use ronde_api::{Queue, ResourceList};
use ronde_scheduler::{Amounts, QueueName, quantity};
use serde_json::{Map, Value, json};

/// Returns the first of some queues in the order of their names, beginning behind the one that was last in the last turn;
/// and the last one now, if not all have had theirs.
pub fn take_turns<T>(
    mut queues: Vec<(QueueName, T)>,
    last: Option<&QueueName>,
    most: usize,
) -> (Vec<(QueueName, T)>, Option<QueueName>) {
    let behind = queues.partition_point(|(name, _)| last.is_some_and(|last| name <= last));
    queues.rotate_left(behind);
    let has_more = queues.len() > most;
    queues.truncate(most);
    let last = queues.last().filter(|_| has_more).map(|(name, _)| name.clone());
    (queues, last)
}

/// Returns the change that brings the status of a queue up to date, if there is one.
pub fn change(queue: &Queue, allocated: &Amounts) -> Option<Value> {
    let before = queue.status.as_ref().and_then(|status| status.allocated.clone()).unwrap_or_default();
    let after: ResourceList =
        allocated.iter().map(|(name, amount)| (name.to_string(), Quantity(quantity(name, amount)))).collect();
    if before == after {
        return None;
    }
    // What is not used any more has to be taken out by name.
    let mut change: Map<String, Value> = before.into_keys().map(|name| (name, Value::Null)).collect();
    change.extend(after.into_iter().map(|(name, amount)| (name, json!(amount))));
    Some(json!({"status": {"allocated": change}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(what: &str, queues: &str, last: Option<&str>, expected: (&str, Option<&str>)) {
        let queues = queues.split_whitespace().map(|name| (QueueName::from(name), ())).collect();
        let (taken, last) = take_turns(queues, last.map(QueueName::from).as_ref(), 2);
        let taken: Vec<String> = taken.iter().map(|(name, ())| name.to_string()).collect();
        assert_eq!((taken.join(" ").as_str(), last.map(|name| name.to_string()).as_deref()), expected, "{what}");
    }

    #[test]
    fn every_queue_has_its_turn() {
        check("few are told at once", "a b", None, ("a b", None));
        check("of many the first", "a b c d", None, ("a b", Some("b")));
        check("then those behind", "a b c d", Some("b"), ("c d", Some("d")));
        check("then the first again", "a b c", Some("d"), ("a b", Some("b")));
        check("around the end", "a c d", Some("c"), ("d a", Some("a")));
        check("also behind one that has gone", "a c", Some("b"), ("c a", None));
    }
}
