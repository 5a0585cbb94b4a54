//! `ronde top`: what jobs ask for and what nodes have. GPUs first, as arena; CPUs and memory beside them.
//!
//! What GPUs are busy with is known to their own monitoring only and not shown.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{Client, ResourceExt as _};
use ronde_text::quantity::Quantity as Amount;
use serde_json::{Value, json};

use crate::{
    Context,
    args::{GpuMode, TopArgs, TopJobArgs, TopNodeArgs, TopOutput, TopWhat},
    client, environment,
    failure::{Answer, Blame, Failure, Outcome},
    jobs::{any, instances::Instance},
    list::arena::{self, Row, Scope},
    objects,
    printer::Reader,
    show::training::{self, Page},
    table,
};

const GPU: &str = "nvidia.com/gpu";
const GIB: i128 = 1 << 30;
/// Between two looks of `--refresh`, as with arena.
const PAUSE: Duration = Duration::from_secs(2);

/// Nodes were asked for by names that no node has.
#[derive(Debug, thiserror::Error)]
#[error("there is no node `{names}`")]
struct MissingNodes {
    names: String,
}

impl Failure for MissingNodes {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        Some("`ronde top node` lists all nodes".to_owned())
    }
}

/// Runs the verb.
pub fn run(args: &TopArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let (cluster, refresh) = match &args.what {
            TopWhat::Job(args) => (&args.cluster, args.refresh),
            TopWhat::Node(args) => (&args.cluster, args.refresh),
        };
        say_what_is_not_here(&args.what, context);
        let client = client::connect_as(cluster).await?;
        loop {
            let reader = show_once(&client, &args.what, context).await?;
            if !refresh || reader == Reader::Gone {
                return Ok(Answer::Done);
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

async fn show_once(client: &Client, what: &TopWhat, context: &Context) -> Result<Reader, Box<dyn Failure>> {
    match what {
        TopWhat::Job(args) => match &args.job {
            Some(name) => one_job(client, args, name, context).await,
            None => jobs(client, args, context).await,
        },
        TopWhat::Node(args) => nodes(client, args, context).await,
    }
}

fn say_what_is_not_here(what: &TopWhat, context: &Context) {
    let TopWhat::Node(args) = what else { return };
    if args.metric {
        context.printer.warn("`--metric` has no effect: only the monitoring of the GPUs knows how busy they are");
    }
    if matches!(args.gpu_mode, Some(GpuMode::Topology | GpuMode::Share)) {
        context
            .printer
            .warn("no node works like that: a GPU is given to one pod at a time, whatever it is connected to");
    }
}

async fn jobs(client: &Client, args: &TopJobArgs, context: &Context) -> Result<Reader, Box<dyn Failure>> {
    let own = args.namespace.as_deref().unwrap_or(client.default_namespace());
    let scope = Scope { namespace: (!args.all_namespaces).then_some(own), job_type: args.job_type };
    let mut rows = arena::fetch(client, scope).await?;
    rows.sort_by_key(|row| std::cmp::Reverse(row.requested));
    let now = environment::now();
    if args.output != TopOutput::Wide {
        let all: Value = rows.iter().map(|row| row.to_json(now)).collect();
        return Ok(training::write(&all, args.output == TopOutput::Json, context.printer));
    }
    let mut lines = arena::lines(&rows, "AGE", args.all_namespaces, now);
    lines.extend([String::new(), total(&rows)]);
    Ok(context.printer.data(lines.join("\n")))
}

fn total(rows: &[Row]) -> String {
    let active = rows.iter().filter(|row| row.is_active());
    let (allocated, requested) =
        active.fold((0, 0), |(allocated, requested), row| (allocated + row.allocated, requested + row.requested));
    format!("Total Allocated/Requested GPUs of Training Jobs: {allocated}/{requested}")
}

async fn one_job(
    client: &Client,
    args: &TopJobArgs,
    name: &str,
    context: &Context,
) -> Result<Reader, Box<dyn Failure>> {
    let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace());
    let job = any::fetch(client, namespace, name, args.job_type).await?;
    let mut page = Page::fetch(client, job, false).await?;
    page.instances.retain(|one| args.instance.as_ref().is_none_or(|wanted| one.name == *wanted));
    let now = environment::now();
    if args.output != TopOutput::Wide {
        return Ok(training::write(&page.to_json(now), args.output == TopOutput::Json, context.printer));
    }
    let mut lines = page.head(context.caller, now);
    lines.extend([String::new(), "Instances:".to_owned()]);
    let row = |one: &Instance| {
        vec![one.name.clone(), one.status.clone(), one.gpus.to_string(), one.node_or_none().to_owned()]
    };
    let rows = page.instances.iter().map(row).collect();
    lines.extend(table::arena(&["NAME", "STATUS", "GPU(Request)", "NODE"], rows, true));
    let (allocated, requested) =
        (page.instances.iter().map(Instance::allocated).sum::<i64>(), page.job.requested_gpus());
    lines.extend([String::new(), format!("Allocated/Requested GPUs of Job: {allocated}/{requested}")]);
    Ok(context.printer.data(lines.join("\n")))
}

/// A node, and what pods have of it.
struct Load {
    name: String,
    address: String,
    role: String,
    status: String,
    total: BTreeMap<&'static str, i128>,
    taken: BTreeMap<&'static str, i128>,
    /// Namespace, name and GPUs of each.
    pods: Vec<[String; 3]>,
}

/// What is counted, each in thousandths.
const RESOURCES: [&str; 3] = [GPU, "cpu", "memory"];

async fn nodes(client: &Client, args: &TopNodeArgs, context: &Context) -> Result<Reader, Box<dyn Failure>> {
    let mut loads = fetch(client).await?;
    check_names(&args.nodes, &loads)?;
    loads.retain(|load| args.nodes.is_empty() || args.nodes.contains(&load.name));
    loads.retain(|load| args.gpu_mode.is_none_or(|wanted| load.gpu_mode() == wanted));
    Ok(match args.output {
        TopOutput::Wide => {
            let details = if args.details { details(&loads) } else { Vec::new() };
            let lines: Vec<String> = details.into_iter().chain(show(&loads)).collect();
            context.printer.data(lines.join("\n"))
        }
        other => training::write(&to_json(&loads), other == TopOutput::Json, context.printer),
    })
}

/// Names every node that is asked for and not there.
fn check_names(wanted: &[String], loads: &[Load]) -> Result<(), MissingNodes> {
    let is_there = |name: &&String| loads.iter().any(|load| load.name == **name);
    let missing: Vec<String> = wanted.iter().filter(|name| !is_there(name)).cloned().collect();
    if missing.is_empty() { Ok(()) } else { Err(MissingNodes { names: missing.join("`, `") }) }
}

async fn fetch(client: &Client) -> Result<Vec<Load>, Box<dyn Failure>> {
    let pods = objects::list::<Pod>(client, None, &[]).await?;
    let nodes = objects::list::<Node>(client, None, &[]).await?;
    Ok(nodes.iter().map(|node| Load::of(node, &pods)).collect())
}

impl Load {
    fn of(node: &Node, pods: &[Pod]) -> Self {
        let status = node.status.clone().unwrap_or_default();
        let address = status.addresses.iter().flatten().find(|address| address.type_ == "InternalIP");
        let ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
        let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        let total = status.allocatable.unwrap_or_default();
        let name = node.name_any();
        let is_here = |pod: &&Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(&name)
                && !matches!(phase, Some("Succeeded" | "Failed"))
        };
        let here: Vec<&Pod> = pods.iter().filter(is_here).collect();
        Self {
            address: address.map(|address| address.address.clone()).unwrap_or_default(),
            role: role(node),
            status: format!(
                "{}{}",
                if ready { "Ready" } else { "NotReady" },
                if cordoned { ",SchedulingDisabled" } else { "" }
            ),
            total: RESOURCES.map(|resource| (resource, milli(total.get(resource)))).into(),
            taken: RESOURCES.map(|resource| (resource, here.iter().map(|pod| requested(pod, resource)).sum())).into(),
            pods: here.iter().map(|pod| instance(pod)).collect(),
            name,
        }
    }

    fn gpu_mode(&self) -> GpuMode {
        if self.total[GPU] > 0 { GpuMode::Exclusive } else { GpuMode::None }
    }

    fn gpus(&self) -> (i128, i128) {
        (self.total[GPU] / 1000, self.taken[GPU] / 1000)
    }
}

fn role(node: &Node) -> String {
    const PREFIX: &str = "node-role.kubernetes.io/";
    let roles: Vec<&str> = node.labels().keys().filter_map(|label| label.strip_prefix(PREFIX)).collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn milli(amount: Option<&Quantity>) -> i128 {
    amount.and_then(|amount| Amount::parse(&amount.0).ok()).map_or(0, Amount::milli)
}

/// Sums up what the containers of a pod ask for. Init containers run before and leave it again.
fn requested(pod: &Pod, resource: &str) -> i128 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let amount = |container: &k8s_openapi::api::core::v1::Container| {
        milli(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()?.get(resource)))
    };
    containers.map(amount).sum()
}

fn instance(pod: &Pod) -> [String; 3] {
    let gpus = requested(pod, GPU) / 1000;
    [pod.namespace().unwrap_or_default(), pod.name_any(), gpus.to_string()]
}

/// Lays out the pods of each node.
fn details(loads: &[Load]) -> Vec<String> {
    let one = |load: &Load| {
        let field = |name: &str, value: &str| format!("{:<13}{value}", format!("{name}:"));
        let mut lines = vec![
            field("Name", &load.name),
            field("Status", &load.status),
            field("Role", &load.role),
            field("Address", &load.address),
            String::new(),
            "Instances:".to_owned(),
        ];
        let rows = load.pods.iter().map(|pod| pod.to_vec()).collect();
        lines.extend(table::arena(&["NAMESPACE", "NAME", "GPU(Requested)"], rows, true));
        lines.push(String::new());
        lines
    };
    loads.iter().flat_map(one).collect()
}

fn show(loads: &[Load]) -> Vec<String> {
    let row = |load: &Load| {
        let (total, taken) = load.gpus();
        let pair = |resource: &str, unit: i128| {
            format!("{}/{}", decimal(load.taken[resource], unit), decimal(load.total[resource], unit))
        };
        let memory = format!("{}Gi", pair("memory", GIB));
        let words = [&load.name, &load.address, &load.role, &load.status].map(Clone::clone);
        words.into_iter().chain([total.to_string(), taken.to_string(), pair("cpu", 1), memory]).collect()
    };
    let columns =
        ["NAME", "IPADDRESS", "ROLE", "STATUS", "GPU(Total)", "GPU(Allocated)", "CPU(Allocated/Total)", "MEMORY"];
    let mut lines = table::arena(&columns, loads.iter().map(row).collect(), false);
    let (total, taken) = loads.iter().map(Load::gpus).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let share = if total == 0 { 0 } else { taken * 100 / total };
    lines.push("-".repeat(lines.iter().map(|line| line.chars().count()).max().unwrap_or(0)));
    lines.push("Allocated/Total GPUs In Cluster:".to_owned());
    lines.push(format!("{taken}/{total} ({share}%)"));
    lines
}

/// Writes thousandths of a unit with one digit behind the point, if there is need of it.
fn decimal(milli: i128, unit: i128) -> String {
    let tenths = milli / unit / 100;
    if tenths % 10 == 0 { (tenths / 10).to_string() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

/// Returns the nodes under the keys of arena: those with GPUs and those without.
fn to_json(loads: &[Load]) -> Value {
    let one = |load: &Load| {
        let (total, taken) = load.gpus();
        json!({"name": load.name, "ip": load.address, "status": load.status, "role": load.role, "totalGPUs": total,
            "allocatedGPUs": taken})
    };
    let (with, without): (Vec<&Load>, Vec<&Load>) = loads.iter().partition(|load| load.total[GPU] > 0);
    let list = |loads: Vec<&Load>| loads.into_iter().map(one).collect::<Vec<_>>();
    json!({"gpuShareNodes": [], "gpuTopologyNodes": [], "gpuExclusiveNodes": list(with), "normalNodes": list(without)})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, gpus: &str) -> Node {
        let status = json!({"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": gpus}});
        serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap()
    }

    fn pod(node: &str, phase: &str) -> Pod {
        let requests = json!({"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "1"});
        let metadata = json!({"name": format!("{node}-1"), "namespace": "ml"});
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}})).unwrap()
    }

    #[test]
    fn a_node_that_is_not_there_is_named() {
        let loads = [Load::of(&node("a", "2"), &[])];
        let check = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            check_names(&names, &loads).err().map(|error| error.to_string())
        };
        assert_eq!((check(&[]), check(&["a"])), (None, None));
        assert_eq!(check(&["a", "x", "y"]).as_deref(), Some("there is no node `x`, `y`"));
    }

    #[test]
    fn nodes_are_shown_with_what_is_taken_of_them() {
        let pods = [pod("a", "Running"), pod("a", "Succeeded"), pod("b", "Pending")];
        let loads = [Load::of(&node("a", "2"), &pods), Load::of(&node("b", "0"), &[])];
        assert_eq!(
            show(&loads),
            [
                "NAME  IPADDRESS  ROLE    STATUS  GPU(Total)  GPU(Allocated)  CPU(Allocated/Total)  MEMORY",
                "a     10.0.0.1   <none>  Ready   2           1               1.5/4                 1/8Gi",
                "b     10.0.0.1   <none>  Ready   0           0               0/4                   0/8Gi",
                "-----------------------------------------------------------------------------------------",
                "Allocated/Total GPUs In Cluster:",
                "1/2 (50%)",
            ]
        );
        assert_eq!(
            details(&loads[..1]),
            [
                "Name:        a",
                "Status:      Ready",
                "Role:        <none>",
                "Address:     10.0.0.1",
                "",
                "Instances:",
                "  NAMESPACE  NAME  GPU(Requested)",
                "  ---------  ----  --------------",
                "  ml         a-1   1",
                "",
            ]
        );
        assert_eq!(loads.iter().map(Load::gpu_mode).collect::<Vec<_>>(), [GpuMode::Exclusive, GpuMode::None]);
        let json = to_json(&loads);
        assert_eq!(json["gpuExclusiveNodes"][0]["allocatedGPUs"], 1);
        assert_eq!(json["normalNodes"][0]["name"], "b");
    }
}
