//! Who goes when the disk is full. Pure; ranked as a kubelet does: who uses more than it asked for, then by priority, then
//! by how much more.
//!
//! Unlike a kubelet's, only a pod that has something to give back is evicted: when others have filled the disk, ending
//! pods would not help anybody.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::Pod;

use super::{
    limits::{evicted, request},
    room::{Resource, Shortage, kibibytes},
    usage::Usage,
};
use crate::lifecycle::Cause;

/// A pod must free at least this part of what is missing.
const USEFUL_PART: u64 = 10;
/// From this priority on pods are critical: they are not evicted.
const CRITICAL: i32 = 2_000_000_000;

/// A pod that may have to go, with what it uses.
pub type Candidate<'a> = (&'a Pod, &'a Usage);

/// Chooses the pod whose end makes room, and says why it had to go.
pub fn choose<'a>(candidates: &[Candidate<'a>], shortage: &Shortage) -> Option<(&'a Pod, Cause)> {
    let used = |usage: &Usage| match shortage.resource {
        Resource::Bytes => usage.total().bytes,
        Resource::Inodes => usage.total().inodes,
    };
    let is_useful = |usage: &Usage| used(usage) > 0 && used(usage) >= shortage.missing() / USEFUL_PART;
    let may_go = candidates.iter().filter(|(pod, usage)| priority(pod) < CRITICAL && is_useful(usage));
    let (pod, usage) = may_go.min_by_key(|(pod, usage)| {
        let requested = if shortage.resource == Resource::Bytes { requested(pod) } else { 0 };
        let over = used(usage).saturating_sub(requested);
        (Reverse(over > 0), priority(pod), Reverse(over))
    })?;
    Some((pod, evicted(message(pod, usage, shortage))))
}

/// Whether a pod is so important that it is neither evicted nor refused.
pub fn is_critical(pod: &Pod) -> bool {
    priority(pod) >= CRITICAL
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

fn requested(pod: &Pod) -> u64 {
    pod.spec.iter().flat_map(|spec| &spec.containers).map(request).fold(0, u64::saturating_add)
}

fn message(pod: &Pod, usage: &Usage, shortage: &Shortage) -> String {
    let (threshold, free) = (shortage.shown(shortage.threshold), shortage.shown(shortage.free));
    let resource = shortage.resource;
    let mut text =
        format!("The node was low on resource: {resource}. Threshold quantity: {threshold}, available: {free}. ");
    let larger = pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|container| {
        let (used, asked) = (usage.containers.get(&container.name)?.bytes, request(container));
        let is_told = resource == Resource::Bytes && used > asked;
        is_told.then(|| {
            let (used, asked) = (kibibytes(used), kibibytes(asked));
            let name = &container.name;
            format!("Container {name} was using {used}, request is {asked}, has larger consumption of {resource}. ")
        })
    });
    larger.for_each(|words| text.push_str(&words));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::disk::usage::Used;

    const MIB: u64 = 1 << 20;

    /// A pod such as `name used=MiB request=MiB priority=N`.
    fn pod(text: &str) -> (Pod, Usage) {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap();
        let value = |key: &str| {
            let found = text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            found.map_or(0, |number| number.parse::<i64>().unwrap())
        };
        let requests = json!({"ephemeral-storage": format!("{}Mi", value("request"))});
        let pod = json!({"metadata": {"name": name}, "spec": {"priority": value("priority"),
            "containers": [{"name": "c", "resources": {"requests": requests}}]}});
        let used = Used { bytes: value("used").cast_unsigned() * MIB, inodes: value("inodes").cast_unsigned() };
        let usage = Usage { containers: [("c".to_owned(), used)].into(), ..Usage::default() };
        (serde_json::from_value(pod).unwrap(), usage)
    }

    fn check(what: &str, resource: Resource, pods: &[&str], expected: &str) {
        let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
        let candidates: Vec<Candidate<'_>> = pods.iter().map(|(pod, usage)| (pod, usage)).collect();
        let threshold = if resource == Resource::Bytes { 50 * MIB } else { 50 };
        let chosen = choose(&candidates, &Shortage { resource, free: 0, threshold });
        let name = chosen.map_or("nobody".to_owned(), |(pod, _)| pod.metadata.name.clone().unwrap());
        assert_eq!(name, expected, "{what}");
    }

    #[test]
    fn who_uses_most_beyond_its_request_goes_first() {
        let bytes = Resource::Bytes;
        check("nobody is there", bytes, &[], "nobody");
        check("the biggest", bytes, &["a used=20", "b used=30", "c used=25"], "b");
        check("who asked for it stays", bytes, &["a used=90 request=100", "b used=30"], "b");
        check("over the request", bytes, &["a used=90 request=80", "b used=30 request=10"], "b");
        check("the less important", bytes, &["a used=90 priority=5", "b used=30 priority=1"], "b");
        check(
            "over its request before the less important",
            bytes,
            &["a used=20 priority=5", "b used=30 request=40"],
            "a",
        );
        check("others have filled the disk", bytes, &["a used=9", "b used=1"], "nobody");
        check("critical", bytes, &["a used=90 priority=2000000000", "b used=30"], "b");
        check("inodes", Resource::Inodes, &["a used=90 inodes=10", "b inodes=1000"], "b");
    }

    #[test]
    fn the_reason_is_told_as_a_kubelet_does() {
        let (pod, usage) = pod("fill used=57 request=1");
        let shortage = Shortage { resource: Resource::Bytes, free: 0, threshold: 3 * MIB };
        let (_, cause) = choose(&[(&pod, &usage)], &shortage).unwrap();
        assert_eq!(cause.reason, "Evicted");
        assert_eq!(
            cause.message,
            "The node was low on resource: ephemeral-storage. Threshold quantity: 3072Ki, available: 0. Container c was \
             using 58368Ki, request is 1024Ki, has larger consumption of ephemeral-storage. "
        );
        let shortage = Shortage { resource: Resource::Inodes, free: 7, threshold: 100 };
        let usage = Usage { containers: [("c".to_owned(), Used { bytes: 0, inodes: 900 })].into(), ..usage };
        let (_, cause) = choose(&[(&pod, &usage)], &shortage).unwrap();
        assert_eq!(cause.message, "The node was low on resource: inodes. Threshold quantity: 100, available: 7. ");
    }
}
