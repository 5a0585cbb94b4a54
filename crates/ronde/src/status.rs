//! `ronde status`: whether an instance runs, where, since when, and what it holds. Changes nothing.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use ronde_node::start;
use serde::Serialize;

use crate::{
    Context,
    args::{StatusArgs, StatusOutput},
    client::{self, ClientError},
    data_dir::DataDir,
    environment,
    failure::{Answer, Outcome},
    instances::{self, Listed},
    lock::{self, Holder},
    table::age,
};

/// The API answers in a millisecond; a machine under load gets some thousand times that.
const ANSWER: Duration = Duration::from_secs(5);
/// The metric of our API server that counts stored objects.
const OBJECTS_METRIC: &str = "ronde_apiserver_objects";

/// What there is to know about an instance. This is the format of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    running: bool,
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    data_dir: PathBuf,
    data_bytes: u64,
    /// Why the API is not ready although it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    unready: Option<String>,
    /// Whether the disk has too little room for more pods.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disk_pressure: bool,
    /// Pods that outlived a daemon which was killed.
    #[serde(skip_serializing_if = "is_zero")]
    pods: usize,
    /// Stored objects by resource, as in `deployments.apps`; kinds without objects are left out.
    objects: BTreeMap<String, u64>,
}

/// Runs the verb.
pub fn run(args: &StatusArgs, context: &Context) -> Outcome {
    if args.all {
        return list(args.output, context);
    }
    let data_dir = DataDir::resolve(args.data_dir.data_dir.as_deref(), &context.environment)?;
    let mut status = observe(&data_dir)?;
    if !status.running {
        status.pods = pods_without_daemon(&data_dir, context)?;
    }
    match args.output {
        StatusOutput::Json => {
            let json = serde_json::to_string_pretty(&status).expect("a status has only plain fields");
            context.printer.data(json);
        }
        StatusOutput::Text => {
            context.printer.data(render(&status, environment::now()));
        }
    }
    Ok(if status.ready { Answer::Done } else { Answer::No })
}

/// Lists all instances of this user.
fn list(output: StatusOutput, context: &Context) -> Outcome {
    let listed: Vec<Listed> = instances::find(context)?.iter().map(Listed::new).collect();
    match output {
        StatusOutput::Json => {
            let json = serde_json::to_string_pretty(&listed).expect("a list has only plain fields");
            context.printer.data(json);
        }
        StatusOutput::Text => match instances::render(&listed, environment::now()) {
            Some(text) => drop(context.printer.data(text)),
            None => context.printer.say("no instances of yours on this machine"),
        },
    }
    Ok(Answer::Done)
}

fn observe(data_dir: &DataDir) -> Result<Status, Box<dyn crate::failure::Failure>> {
    let ours = data_dir.is_ours()?;
    let holder = if ours { lock::holder(data_dir.path())? } else { None };
    let mut status = Status {
        running: holder.is_some(),
        ready: false,
        pid: None,
        endpoint: None,
        since: None,
        version: None,
        data_dir: data_dir.path().to_owned(),
        data_bytes: if ours { data_dir.size()?.bytes } else { 0 },
        unready: None,
        disk_pressure: false,
        pods: 0,
        objects: BTreeMap::new(),
    };
    if let Some(Holder { pid, about }) = holder {
        status.pid = pid.map(|pid| pid.as_raw_nonzero().get());
        if let Some(about) = about {
            status.endpoint = about.endpoint.map(|endpoint| format!("https://{endpoint}"));
            status.since = Some(about.started);
            status.version = Some(about.version);
        }
        match ask(data_dir) {
            Some(Ok(Told { objects, disk_pressure })) => {
                status.ready = true;
                (status.objects, status.disk_pressure) = (objects, disk_pressure);
            }
            Some(Err(why)) => status.unready = Some(why),
            None => {}
        }
    }
    Ok(status)
}

/// Counts what still runs of an instance that does not.
fn pods_without_daemon(data_dir: &DataDir, context: &Context) -> Result<usize, Box<dyn crate::failure::Failure>> {
    let name = start::instance(data_dir.path());
    Ok(instances::find(context)?.iter().filter(|instance| instance.name == name).map(|found| found.pods.len()).sum())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What the API says when it is ready.
struct Told {
    objects: BTreeMap<String, u64>,
    disk_pressure: bool,
}

/// Asks the API whether it is ready, what it holds and how the disk is; nothing if it does not answer.
fn ask(data_dir: &DataDir) -> Option<Result<Told, String>> {
    client::runtime().ok()?.block_on(async {
        let answer = async {
            let client = client::connect(Some(&data_dir.kubeconfig()), None).await.ok()?;
            match client::get_text(&client, "/readyz").await {
                Ok(_) => {}
                Err(ClientError::Refused { message, .. }) => return Some(Err(failed_check(&message))),
                Err(_) => return None,
            }
            let metrics = client::get_text(&client, "/metrics").await.unwrap_or_default();
            Some(Ok(Told { objects: count_objects(&metrics), disk_pressure: has_disk_pressure(&client).await }))
        };
        tokio::time::timeout(ANSWER, answer).await.ok().flatten()
    })
}

/// Finds the check that has failed in what `/readyz` says.
fn failed_check(answer: &str) -> String {
    let failed = answer.lines().find_map(|line| line.strip_prefix("[-]")?.split_once(" failed: "));
    failed.map_or("the API is not ready", |(_, why)| why).to_owned()
}

async fn has_disk_pressure(client: &kube::Client) -> bool {
    let nodes = kube::Api::<Node>::all(client.clone()).list(&kube::api::ListParams::default()).await;
    let nodes = nodes.map(|nodes| nodes.items).unwrap_or_default();
    let conditions =
        nodes.iter().flat_map(|node| node.status.iter().flat_map(|status| status.conditions.iter().flatten()));
    conditions.into_iter().any(|condition| condition.type_ == "DiskPressure" && condition.status == "True")
}

/// Reads the counts out of a page in the Prometheus text format.
fn count_objects(metrics: &str) -> BTreeMap<String, u64> {
    let counted = metrics.lines().filter_map(|line| {
        let labels = line.strip_prefix(OBJECTS_METRIC)?.strip_prefix('{')?;
        let (labels, value) = labels.split_once('}')?;
        let resource = labels.split("resource=\"").nth(1)?.split('"').next()?;
        let count: f64 = value.trim().parse().ok()?;
        // Counts are far below the integers that a float cannot hold.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count is a small whole number")]
        let count = count as u64;
        (count > 0).then(|| (resource.to_owned(), count))
    });
    counted.collect()
}

fn render(status: &Status, now: Timestamp) -> String {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push(format!("{name:<10}{value}"));
    line(
        "status",
        match (status.running, status.ready, &status.unready) {
            (true, true, _) => "running".to_owned(),
            (true, false, Some(why)) => format!("running, but not ready: {why}"),
            (true, false, None) => "running, but the API does not answer".to_owned(),
            (false, ..) => "not running".to_owned(),
        },
    );
    if status.pods > 0 {
        let pods = instances::count_pods(status.pods);
        let them = if status.pods == 1 { "it" } else { "them" };
        line("pods", format!("{pods} still running: `ronde up` takes {them} over, `ronde down` stops {them}"));
    }
    if let Some(pid) = status.pid {
        line("process", pid.to_string());
    }
    if let Some(endpoint) = &status.endpoint {
        line("endpoint", endpoint.clone());
    }
    if let Some(since) = status.since {
        line("since", format!("{} ({})", since.strftime("%Y-%m-%d %H:%M:%S UTC"), age(now.duration_since(since))));
    }
    let mebibytes = status.data_bytes as f64 / 1_048_576.0;
    line("data", format!("{} ({mebibytes:.1} MiB)", status.data_dir.display()));
    if status.disk_pressure {
        line("disk", "nearly full: no pod is placed until there is room (disk pressure)".to_owned());
    }
    for (index, (resource, count)) in status.objects.iter().enumerate() {
        line(if index == 0 { "objects" } else { "" }, format!("{count:>6}  {resource}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_from_the_metrics() {
        let metrics = "# HELP ronde_apiserver_objects Number of stored objects.\n\
                       # TYPE ronde_apiserver_objects gauge\n\
                       ronde_apiserver_objects{resource=\"pods\"} 12\n\
                       ronde_apiserver_objects{resource=\"deployments.apps\"} 1e3\n\
                       ronde_apiserver_objects{resource=\"leases.coordination.k8s.io\"} 0\n\
                       ronde_apiserver_objects_total 7\n\
                       ronde_apiserver_objects{broken\n";
        let counted: Vec<_> = count_objects(metrics).into_iter().collect();
        assert_eq!(counted, [("deployments.apps".to_owned(), 1000), ("pods".to_owned(), 12)]);
    }
}
