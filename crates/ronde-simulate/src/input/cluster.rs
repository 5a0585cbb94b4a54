//! Nodes and queues in a line each: `1000x8gpu`, `gpu-a=4x8gpu+64cpu+512Gi`, `team-a:weight=3,capability.gpu=16`.

use ronde_scheduler::{Amounts, CPU, Dequeue, MEMORY, Node, Queue, QueueState};

use super::{InputError, csv, item, put};
use crate::engine::BOUNDLESS;

/// More than any cluster has; what is above is a slip of the pen.
const NODES_MAX: usize = 100_000;

/// Reads nodes: `[NAME=]COUNTxAMOUNT[+AMOUNT...]`. CPU and memory that are not named are never short.
///
/// # Errors
/// If the text is something else; it says what would do.
pub fn nodes(text: &str) -> Result<Vec<Node>, InputError> {
    let wrong = |why: String| InputError::Whole(format!("`{text}` describes no nodes: {why}"));
    let (name, rest) = split_name(text);
    let (count, amounts) = rest.split_once('x').unwrap_or(("1", rest));
    let count: usize =
        count.parse().map_err(|_| wrong("write it as `4x8gpu` or `gpu-a=4x8gpu+64cpu+512Gi`".to_owned()))?;
    if !(1..=NODES_MAX).contains(&count) {
        return Err(wrong(format!("there are 1 to {NODES_MAX} of them")));
    }
    let mut room = Amounts::of([(CPU, BOUNDLESS), (MEMORY, BOUNDLESS)]);
    for part in amounts.split('+') {
        let (resource, amount) = item(part).map_err(wrong)?;
        room.set(&resource, amount);
    }
    let width = (count - 1).to_string().len();
    Ok((0..count).map(|number| named(&format!("{name}-{number:0width$}"), room.clone())).collect())
}

/// A name stands before `=` unless that belongs to an amount, as in `4xrdma/hca=2`.
fn split_name(text: &str) -> (&str, &str) {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
    match text.split_once('=') {
        Some((name, rest)) if is_name(name) && !name.contains('+') => (name, rest),
        _ => ("node", text),
    }
}

fn named(name: &str, room: Amounts) -> Node {
    let mut node = Node::new(name, room);
    node.labels.insert("kubernetes.io/hostname".to_owned(), name.to_owned());
    node
}

/// Returns copies of a node that is there, or of one of a series: `gpu-a` stands for `gpu-a-0`.
///
/// # Errors
/// If there is no such node.
pub fn more_like(nodes: &[Node], model: &str, count: usize) -> Result<Vec<Node>, InputError> {
    let missing =
        || InputError::Whole(format!("there is no node `{model}`, and none whose name begins with `{model}-`"));
    let found = find_like(nodes, model).next().ok_or_else(missing)?;
    let copy = |number: usize| {
        let mut node = named(&format!("{model}-more-{number}"), found.allocatable.clone());
        let labels = found.labels.iter().filter(|(key, _)| *key != "kubernetes.io/hostname");
        node.labels.extend(labels.map(|(key, value)| (key.clone(), value.clone())));
        node.taints.clone_from(&found.taints);
        node
    };
    Ok((0..count.min(NODES_MAX)).map(copy).collect())
}

/// Finds the node with a name, and those of a series of that name.
pub fn find_like<'a>(nodes: &'a [Node], model: &'a str) -> impl Iterator<Item = &'a Node> {
    let is_like = move |name: &str| name == model || name.strip_prefix(model).is_some_and(|rest| rest.starts_with('-'));
    nodes.iter().filter(move |node| is_like(node.name.as_str()))
}

/// Reads the nodes of a public trace: Philly's `cluster_machine_list` or Alibaba's `openb_node_list`. None if it is neither.
///
/// # Errors
/// If a line is wrong.
pub fn trace_nodes(text: &str) -> Result<Option<Vec<Node>>, InputError> {
    let table = csv::Table::read(text)?;
    let is = |columns: &[&str]| columns.iter().all(|column| table.has(column));
    let node = if is(&["sn", "cpu_milli", "memory_mib", "gpu"]) {
        |row: &csv::Row<'_>| {
            let room = [
                (CPU, row.integer("cpu_milli")?),
                (MEMORY, row.integer("memory_mib")?.saturating_mul(1 << 20)),
                (super::GPU, row.integer("gpu")?),
            ];
            let mut node = named(row.text("sn"), Amounts::of(room));
            node.labels.insert("gpu-model".to_owned(), row.text("model").to_owned());
            Ok(node)
        }
    } else if is(&["machineId", "number of GPUs"]) {
        |row: &csv::Row<'_>| {
            let room = [(CPU, BOUNDLESS), (MEMORY, BOUNDLESS), (super::GPU, row.integer("number of GPUs")?)];
            Ok(named(row.text("machineId"), Amounts::of(room)))
        }
    } else {
        return Ok(None);
    };
    table.rows().map(|row| node(&row)).collect::<Result<_, InputError>>().map(Some)
}

/// Reads a queue: `NAME[:KEY=VALUE,...]` with the keys `weight`, `priority`, `parent`, `jobs`, `capability.RESOURCE`,
/// `deserved.RESOURCE` and `guarantee.RESOURCE`, and the words `fifo`, `closed` and `fixed` (nothing is reclaimed from it).
///
/// # Errors
/// If the text is something else.
pub fn queue(text: &str) -> Result<Queue, InputError> {
    let (name, words) = text.split_once(':').unwrap_or((text, ""));
    changed_queue(Queue::new(name), words)
}

/// Changes what words say about a queue.
///
/// # Errors
/// If a word is something else.
pub fn changed_queue(mut queue: Queue, words: &str) -> Result<Queue, InputError> {
    let name = queue.name.clone();
    for word in words.split(',').filter(|word| !word.is_empty()) {
        set(&mut queue, word)
            .map_err(|why| InputError::Whole(format!("`{name}:{words}` describes no queue: {why}")))?;
    }
    Ok(queue)
}

/// Changes one thing about a queue.
fn set(queue: &mut Queue, word: &str) -> Result<(), String> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let number = || value.parse::<u32>().map_err(|_| format!("`{word}` has no number"));
    match key.split_once('.').unwrap_or((key, "")) {
        ("weight", "") => queue.weight = number()?,
        ("priority", "") => queue.priority = value.parse().map_err(|_| format!("`{word}` has no number"))?,
        ("parent", "") => queue.parent = Some(value.into()),
        ("jobs", "") => queue.jobs_max = Some(number()?),
        ("fifo", "") => queue.dequeue = Dequeue::Fifo,
        ("closed", "") => queue.state = QueueState::Closed,
        ("fixed", "") => queue.reclaimable = false,
        ("capability", name) => put(&mut queue.capability, name, value)?,
        ("deserved", name) => put(&mut queue.deserved, name, value)?,
        ("guarantee", name) => put(&mut queue.guarantee, name, value)?,
        _ => return Err(format!("queues have no `{key}`")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_in_a_line() {
        let check = |text: &str, count: usize, first: &str, room: &str| {
            let all = nodes(text).expect(text);
            let shown: Vec<String> = all[0]
                .allocatable
                .iter()
                .filter(|(_, amount)| *amount < BOUNDLESS)
                .map(|(name, amount)| format!("{name}={amount}"))
                .collect();
            assert_eq!((all.len(), all[0].name.as_str(), shown.join(" ").as_str()), (count, first, room), "{text}");
        };
        check("1000x8gpu", 1000, "node-000", "nvidia.com/gpu=8");
        check("gpu-a=2x4gpu+64cpu+1Gi", 2, "gpu-a-0", "cpu=64000 memory=1073741824 nvidia.com/gpu=4");
        check("3xrdma/hca=2", 3, "node-0", "rdma/hca=2");
        check("8gpu", 1, "node-0", "nvidia.com/gpu=8");
        for wrong in ["", "x", "0x8gpu", "4x", "4x8", "4x8apples", "999999x8gpu", "a=b=4x8gpu"] {
            assert!(nodes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn queues_in_a_line() {
        let found = queue("team-a:weight=3,capability.gpu=16,fifo,fixed,parent=org,jobs=2").expect("it is one");
        assert_eq!((found.weight, found.jobs_max, found.reclaimable), (3, Some(2), false));
        assert_eq!(found.capability.get(super::super::GPU), Some(16));
        assert_eq!(queue("plain").expect("it is one"), Queue::new("plain"));
        let refused = |text: &str| queue(text).expect_err(text).to_string();
        assert_eq!(refused("a:colour=red"), "`a:colour=red` describes no queue: queues have no `colour`");
        assert_eq!(refused("a:weight=x"), "`a:weight=x` describes no queue: `weight=x` has no number");
    }

    #[test]
    fn more_nodes_are_made_like_one() {
        let all = nodes("gpu-a=2x8gpu").expect("nodes");
        let more = more_like(&all, "gpu-a", 2).expect("there is one");
        assert_eq!(more.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["gpu-a-more-0", "gpu-a-more-1"]);
        assert_eq!(more[0].allocatable, all[0].allocatable);
        assert!(more_like(&all, "gpu-b", 1).is_err());
    }
}
