//! A cluster described in lines, and its plans in lines. The tables of all tests speak this language:
//!
//! ```text
//! node a cpu=4 gpu=2 zone=1 taint=k=v:NoSchedule cordoned
//! queue q jobs=3 run=60 delay=60 defragments=60 weight=2 cap.gpu=6 deserved.gpu=4 guarantee.gpu=1 parent=p prio=1 fifo closed unreclaimable
//! group g queue=q min=4 prio=5 at=10 since=10 whole=10 needs.gpu=4 admitted=0 started elastic never all within=zone
//! pods g 0..4 gpu=1 task=w on=a running bound=10 run=60
//! budget b allowed=1 app=g
//! ```
//! Namespaces are `ns` throughout; pods of `g` are `g-0`, `g-1`, ...; times are seconds.

use std::{str::FromStr, sync::Arc};

use ronde_scheduler::{
    Amounts, Budget, Change, Cluster, Dequeue, Effect, Group, GroupId, LabelSelector, Node, Phase, Plan, Pod, PodId,
    PodSpec, Policy, Queue, QueueState, Strictness, Taint, Time, Topology, Within,
};

/// Makes a cluster from lines.
pub fn world(text: &str) -> Cluster {
    let mut cluster = Cluster::new(Policy::default());
    cluster.apply(Change::Queue(Queue::new("default")));
    tell(&mut cluster, text);
    cluster
}

/// Tells a cluster what lines describe; `gone pod NAME` and `gone node NAME` take away.
pub fn tell(cluster: &mut Cluster, text: &str) {
    changes(text).into_iter().for_each(|change| cluster.apply(change));
}

/// Returns what lines describe.
pub fn changes(text: &str) -> Vec<Change> {
    let lines = text.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty());
    lines
        .flat_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[0] {
                "node" => vec![Change::Node(node(&words[1..]))],
                "queue" => vec![Change::Queue(queue(&words[1..]))],
                "group" => vec![Change::Group(group(&words[1..]))],
                "pods" => pods(&words[1..]).into_iter().map(Change::Pod).collect(),
                "budget" => vec![Change::Budget(budget(&words[1..]))],
                "gone" if words[1] == "pod" => vec![Change::PodGone(PodId::new("ns", words[2]))],
                "gone" if words[1] == "budget" => vec![Change::BudgetGone("ns".to_owned(), words[2].to_owned())],
                "gone" if words[1] == "node" => vec![Change::NodeGone(words[2].into())],
                "gone" => vec![Change::GroupGone(GroupId::new("ns", words[2]))],
                other => panic!("no such thing as `{other}`"),
            }
        })
        .collect()
}

/// Runs a cycle at a second; returns the plan in lines without namespaces.
pub fn plan(cluster: &mut Cluster, second: i64) -> Plan {
    cluster.cycle(at(second))
}

pub fn show(plan: &Plan) -> String {
    plan.to_string().replace("ns/", "")
}

/// Returns the steps only: no reasons for waiting, no admissions.
pub fn steps(plan: &Plan) -> String {
    let lines: Vec<String> = plan.steps.iter().map(|step| step.to_string().replace("ns/", "")).collect();
    lines.iter().filter(|line| !line.starts_with("admit")).cloned().collect::<Vec<_>>().join("; ")
}

pub fn at(second: i64) -> Time {
    Time::from_millis(second * 1000)
}

/// Compares with the expected text, line by line and without indentation.
#[track_caller]
pub fn same(name: &str, found: &str, expected: &str) {
    let clean = |text: &str| text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    assert_eq!(clean(found), clean(expected), "{name}");
}

fn number<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

/// Reads `cpu=2`, `cpu=500m`, `memory=4`, `gpu=1`: memory in Gi.
fn amount(key: &str, value: &str) -> Option<(&'static str, i64)> {
    Some(match key {
        "cpu" => match value.strip_suffix('m') {
            Some(milli) => ("cpu", number(milli)),
            None => ("cpu", number::<i64>(value) * 1000),
        },
        "memory" => ("memory", number::<i64>(value) << 30),
        "gpu" => ("nvidia.com/gpu", number(value)),
        "podcount" => ("pods", number(value)),
        _ => return None,
    })
}

fn put(amounts: &mut Amounts, key: &str, value: &str) -> bool {
    let found = amount(key, value);
    if let Some((name, amount)) = found {
        amounts.set(name, amount);
    }
    found.is_some()
}

fn node(words: &[&str]) -> Node {
    let mut node = Node::new(words[0], Amounts::default());
    node.labels.insert("kubernetes.io/hostname".to_owned(), words[0].to_owned());
    for word in &words[1..] {
        match word.split_once('=').unwrap_or((word, "")) {
            ("cordoned", _) => node.unschedulable = true,
            ("notready", _) => node.ready = false,
            ("taint", value) => node.taints.push(taint(value)),
            (key, value) if put(&mut node.allocatable, key, value) => {}
            (key, value) => _ = node.labels.insert(key.to_owned(), value.to_owned()),
        }
    }
    node
}

fn taint(text: &str) -> Taint {
    let (rest, effect) = text.split_once(':').expect("a taint has an effect");
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    let effect = match effect {
        "NoSchedule" => Effect::NoSchedule,
        "PreferNoSchedule" => Effect::PreferNoSchedule,
        _ => Effect::NoExecute,
    };
    Taint { key: key.to_owned(), value: value.to_owned(), effect }
}

fn queue(words: &[&str]) -> Queue {
    let mut queue = Queue::new(words[0]);
    for word in &words[1..] {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key.split_once('.').unwrap_or((key, "")) {
            ("weight", _) => queue.weight = number(value),
            ("prio", _) => queue.priority = number(value),
            ("parent", _) => queue.parent = Some(value.into()),
            ("run", _) => queue.min_run_ms = Some(number::<i64>(value) * 1000),
            ("delay", _) => queue.reclaim_delay_ms = Some(number::<i64>(value) * 1000),
            ("defragments", _) => queue.defragments_until = Some(at(number(value))),
            ("jobs", _) => queue.jobs_max = Some(number(value)),
            ("fifo", _) => queue.dequeue = Dequeue::Fifo,
            ("closed", _) => queue.state = QueueState::Closed,
            ("unreclaimable", _) => queue.reclaimable = false,
            ("cap", name) => assert!(put(&mut queue.capability, name, value), "{word}"),
            ("deserved", name) => assert!(put(&mut queue.deserved, name, value), "{word}"),
            ("guarantee", name) => assert!(put(&mut queue.guarantee, name, value), "{word}"),
            _ => panic!("queues have no `{word}`"),
        }
    }
    queue
}

fn budget(words: &[&str]) -> Budget {
    let mut selector = LabelSelector::default();
    let mut allowed = 0;
    for word in &words[1..] {
        match word.split_once('=').unwrap_or((word, "")) {
            ("allowed", value) => allowed = number(value),
            (key, value) => _ = selector.labels.insert(key.to_owned(), value.to_owned()),
        }
    }
    Budget { namespace: "ns".to_owned(), name: words[0].to_owned(), selector: Some(selector), allowed }
}

fn group(words: &[&str]) -> Group {
    let mut group = Group::new(GroupId::new("ns", words[0]), "default", 1);
    for word in &words[1..] {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key.split_once('.').unwrap_or((key, "")) {
            ("queue", _) => group.queue = value.into(),
            ("min", "") => group.min_member = number(value),
            ("min", task) => _ = group.min_task_member.insert(task.into(), number(value)),
            ("prio", _) => group.priority = number(value),
            ("at", _) => group.created = at(number(value)),
            ("since", _) => group.waiting_since = Some(at(number(value))),
            ("whole", _) => group.whole_since = Some(at(number(value))),
            ("admitted", _) => group.admitted = Some(at(number(value))),
            ("started", _) => group.started = true,
            ("elastic", _) => group.elastic = true,
            ("never", _) => group.preempts = false,
            ("hard", _) => group.topology = Some(topology(Strictness::Hard, value)),
            ("soft", _) => group.topology = Some(topology(Strictness::Soft, value)),
            ("within", _) => {
                group.topology = Some(Topology { strictness: Strictness::Hard, within: Within::Label(value.into()) });
            }
            ("all", _) => group.leaves_whole = true,
            ("needs", name) => assert!(put(group.min_resources.get_or_insert_default(), name, value), "{word}"),
            _ => panic!("groups have no `{word}`"),
        }
    }
    group
}

pub fn topology(strictness: Strictness, tier: &str) -> Topology {
    Topology { strictness, within: Within::Tier(number(tier)) }
}

/// Makes pods from `GROUP FROM..TO word...`, or `GROUP N` for one.
pub fn pods(words: &[&str]) -> Vec<Pod> {
    let range = words[1].split_once("..").map(|(from, to)| number(from)..number(to));
    let range = range.unwrap_or_else(|| number(words[1])..number::<u32>(words[1]) + 1);
    range.map(|index| pod(words[0], index, &words[2..])).collect()
}

fn pod(group: &str, index: u32, words: &[&str]) -> Pod {
    let id = PodId::new("ns", &format!("{group}-{index}"));
    let mut pod = Pod::new(id, GroupId::new("ns", group), Amounts::default());
    let mut spec = PodSpec::default();
    pod.index = index;
    pod.labels.insert("app".to_owned(), group.to_owned());
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("task", value) => pod.task = value.into(),
            ("on", value) => pod.node = Some(value.into()),
            ("bound", value) => pod.bound_since = Some(at(number(value))),
            ("run", value) => pod.min_run_ms = Some(number::<i64>(value) * 1000),
            ("nominated", value) => pod.nominated = Some(value.into()),
            ("prio", value) => pod.priority = number(value),
            ("running", _) => pod.phase = Phase::Running,
            ("succeeded", _) => pod.phase = Phase::Succeeded,
            ("failed", _) => pod.phase = Phase::Failed,
            ("leaving", _) => pod.leaving = true,
            ("held", _) => pod.held = true,
            ("fixed", _) => pod.preemptable = false,
            (key, value) if put(&mut spec.requests, key, value) => {}
            (key, value) => _ = pod.labels.insert(key.to_owned(), value.to_owned()),
        }
    }
    pod.spec = Arc::new(spec);
    pod
}

/// Gives pods another spec.
pub fn with_spec(pods: Vec<Pod>, change: impl Fn(&mut PodSpec)) -> Vec<Change> {
    let changed = pods.into_iter().map(|mut pod| {
        let mut spec = PodSpec::clone(&pod.spec);
        change(&mut spec);
        pod.spec = Arc::new(spec);
        Change::Pod(pod)
    });
    changed.collect()
}
