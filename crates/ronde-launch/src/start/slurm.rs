//! Hosts from an allocation of Slurm, and the `srun` that starts a rank on one of them. Pure.

use std::collections::BTreeMap;

use crate::hosts::Host;

/// Nodes that one list may stand for: more than any cluster has.
const NODES_MAX: usize = 100_000;

/// Returns the hosts of the allocation that this process is in; nothing outside of one.
pub fn hosts(environment: &BTreeMap<String, String>) -> Option<Vec<Host>> {
    environment.get("SLURM_JOB_ID")?;
    let names = names(environment.get("SLURM_JOB_NODELIST").or_else(|| environment.get("SLURM_NODELIST"))?)?;
    let counts =
        ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"].iter().find_map(|name| counts(environment.get(*name)?));
    let counts = counts.unwrap_or_default();
    let slots = |index: usize| counts.get(index).copied().unwrap_or(1);
    Some(names.into_iter().enumerate().map(|(index, name)| Host { name, slots: slots(index) }).collect())
}

/// The command up to the line that is to be run: one task on one node, beside the others of the allocation.
pub fn words(host: &str) -> Vec<String> {
    let fixed = ["srun", "--overlap", "--quiet", "--nodes=1", "--ntasks=1", "--cpu-bind=none", "--nodelist"];
    fixed.iter().copied().chain([host, "/bin/sh", "-c"]).map(str::to_owned).collect()
}

/// Reads a list of nodes: `a[03-05,9],b` is a03, a04, a05, a9 and b.
fn names(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for item in split(list) {
        let (head, rest) = item.split_once('[').unwrap_or((item, ""));
        if rest.is_empty() {
            names.push(head.to_owned());
            continue;
        }
        let (ranges, tail) = rest.split_once(']')?;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (from, to) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
            if to.checked_sub(from)? > NODES_MAX {
                return None;
            }
            let width = first.len();
            names.extend((from..=to).map(|number| format!("{head}{number:0width$}{tail}")));
        }
    }
    (!names.is_empty() && names.len() <= NODES_MAX).then_some(names)
}

/// Splits at the commas that are not inside brackets.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    list.split(move |c| {
        is_inside = (is_inside || c == '[') && c != ']';
        c == ',' && !is_inside
    })
}

/// Reads numbers per node: `2(x3),1` is 2, 2, 2 and 1.
fn counts(text: &str) -> Option<Vec<usize>> {
    let mut counts = Vec::new();
    for item in text.split(',') {
        let (count, times) = match item.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (item, 1),
        };
        let count = count.parse().ok().filter(|count: &usize| *count > 0)?;
        counts.extend(std::iter::repeat_n(count, usize::min(times, NODES_MAX)));
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: &str, tasks: &str, expected: &str) {
        let environment = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", nodes), ("SLURM_TASKS_PER_NODE", tasks)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = hosts(&environment.into()).map_or("none".to_owned(), |hosts| {
            hosts.iter().map(|host| format!("{}:{}", host.name, host.slots)).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found, expected, "{nodes} {tasks}");
    }

    #[test]
    fn an_allocation_is_a_list_of_hosts() {
        check("a", "4", "a:4");
        check("a,b", "4(x2)", "a:4 b:4");
        check("a[03-05,9],b-x", "2(x3),1,8", "a03:2 a04:2 a05:2 a9:1 b-x:8");
        check("r[1-2]n,c", "1(x3)", "r1n:1 r2n:1 c:1");
        check("a[1-", "1", "none");
        check("a[3-1]", "1", "none");
        check("a[1-99999999]", "1", "none");
        check("a", "", "a:1");
        assert_eq!(hosts(&BTreeMap::new()), None);
    }
}
