//! What `ronde doctor` makes of what it has seen: findings, each a sentence and a command. Pure.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::{Lease, LeaseSpec},
    core::v1::{ContainerStatus, Pod},
    flowcontrol::v1::{FlowSchema, FlowSchemaSpec},
};
use kube::{ResourceExt as _, api::DynamicObject};
use ronde_api::{crd, names::elastic};
use ronde_control::{elastic::pod::INIT_AGENT, metrics::ACTIVE, operator::MACHINE};
use ronde_runtime::telemetry::metrics::REQUESTS;
use serde::Serialize;
use serde_json::Value;

use super::{
    rights::{self, joined},
    seen::{Looked, Operator, Seen, Webhook},
};

/// What needs the attention of somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    pub severity: Severity,
    /// One sentence.
    pub message: String,
    /// What helps, or shows more.
    pub command: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Jobs are refused, or do not run.
    Error,
    /// Something is slower or less safe than it could be, or fails for some jobs only.
    Warning,
}

/// A check that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    pub check: &'static str,
    pub reason: String,
}

/// The outcome. This is the format of `-o json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub findings: Vec<Finding>,
    pub skipped: Vec<Skipped>,
    /// The names of all checks that were made.
    pub checked: Vec<&'static str>,
}

/// A clock that is off by less is as good as right: times of leases are exact to a second or two.
const SKEW_MAX: SignedDuration = SignedDuration::from_secs(10);
/// Of so many requests, one may be held back before that is worth a word.
const REQUESTS_PER_REFUSAL: f64 = 100.0;
/// Objects that one sentence names.
const NAMED_MAX: usize = 3;
/// How containers fail that have no image, or whose image has no such program.
const NO_IMAGE: [&str; 5] =
    ["ErrImagePull", "ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName", "ImageInspectError"];
const NO_PROGRAM: [&str; 4] = ["CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun"];
/// What brings the kinds and the operator of this program, on a cluster and on one machine.
const INSTALL: &str = "ronde install operator --wait";
const RESTART: &str = "ronde down && ronde up --detach";

type Found = Looked<Vec<Finding>>;
/// A check: its name, and what looks.
type Check = (&'static str, fn(&Seen) -> Found);

/// Every check, in the order in which findings are shown.
const CHECKS: [Check; 10] = [
    ("access", access),
    ("kinds", kinds),
    ("definitions", definitions),
    ("leader", leader),
    ("operator-access", operator_access),
    ("rivals", rivals),
    ("agent-image", agent_image),
    ("clocks", clocks),
    ("priority", priority),
    ("webhooks", webhooks),
];

/// Makes every check.
pub fn judge(seen: &Seen) -> Report {
    let mut report = Report::default();
    for (check, look) in CHECKS {
        match look(seen) {
            Ok(findings) => {
                report.checked.push(check);
                report.findings.extend(findings.into_iter().map(|finding| Finding { check, ..finding }));
            }
            Err(reason) => report.skipped.push(Skipped { check, reason }),
        }
    }
    report
}

fn error(message: String, command: impl Into<String>) -> Finding {
    Finding { check: "", severity: Severity::Error, message, command: command.into() }
}

fn warning(message: String, command: impl Into<String>) -> Finding {
    Finding { severity: Severity::Warning, ..error(message, command) }
}

fn access(seen: &Seen) -> Found {
    let denied = seen.denied.clone()?;
    if denied.is_empty() {
        return Ok(Vec::new());
    }
    let Seen { user, namespace, .. } = seen;
    let rights = rights::in_words(&denied);
    let message = format!("`{user}` may not do in namespace `{namespace}` what users of jobs do: {rights}");
    // The name of an account has colons, which the name of a binding may not have.
    let name = user.rsplit(':').next().unwrap_or(user);
    let command =
        format!("kubectl create rolebinding ronde-{name} --namespace {namespace} --clusterrole edit --user {user}");
    Ok(vec![error(message, command)])
}

fn kinds(seen: &Seen) -> Found {
    let unserved = seen.unserved.clone()?;
    let finding = (!unserved.is_empty())
        .then(|| error(format!("the cluster does not serve {}", some(&unserved, "resource")), install(seen)));
    Ok(finding.into_iter().collect())
}

/// Names the first few, and counts the others.
fn some(names: &[String], noun: &str) -> String {
    let shown: Vec<String> = names.iter().take(NAMED_MAX).map(|name| format!("`{name}`")).collect();
    let mut shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    let more = match names.len().saturating_sub(NAMED_MAX) {
        0 => None,
        1 => Some(format!("1 more {noun}")),
        more => Some(format!("{more} more {noun}s")),
    };
    shown.extend(more.as_deref());
    joined(&shown)
}

fn definitions(seen: &Seen) -> Found {
    let ours = crd::all();
    let found = seen.definitions.as_ref().map_err(Clone::clone)?;
    let finding = |theirs: &DynamicObject| {
        let ours = ours.iter().find(|it| crd::name(it) == theirs.name_any())?;
        definition(ours, theirs, install(seen))
    };
    Ok(found.iter().filter_map(finding).collect())
}

/// Returns what installs the definitions where they come from.
fn install(seen: &Seen) -> &'static str {
    if holder(seen) == MACHINE { RESTART } else { INSTALL }
}

fn holder(seen: &Seen) -> &str {
    let lease = seen.lease.as_ref().ok().and_then(Option::as_ref).and_then(|lease| lease.spec.as_ref());
    lease.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// Compares the fields of a definition with those of ours.
fn definition(ours: &Value, theirs: &DynamicObject, install: &str) -> Option<Finding> {
    let name = theirs.name_any();
    let version = &ours["spec"]["versions"][0];
    let versions = theirs.data["spec"]["versions"].as_array()?;
    // That it is not served is found by another check.
    let stored = versions.iter().find(|it| it["name"] == version["name"])?;
    let schema = |version: &'_ Value| version["schema"]["openAPIV3Schema"].clone();
    let (ours, theirs) = (schema(version), schema(stored));
    let (older, newer) = (missing_fields(&ours, &theirs), missing_fields(&theirs, &ours));
    if !older.is_empty() {
        let fields = some(&older, "field");
        let message = format!("the definition `{name}` is older than this program, or another's: it lacks {fields}");
        return Some(error(message, install));
    }
    if newer.is_empty() {
        return None;
    }
    let fields = some(&newer, "field");
    let message = format!("the definition `{name}` is newer than this program, or another's: it also has {fields}");
    Some(warning(message, "ronde --version"))
}

/// Returns the paths of the fields of one schema that another does not have.
fn missing_fields(wanted: &Value, found: &Value) -> Vec<String> {
    let mut missing = Vec::new();
    compare(wanted, found, "", &mut missing);
    missing
}

fn compare(wanted: &Value, found: &Value, path: &str, missing: &mut Vec<String>) {
    if found["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (name, wanted) in wanted["properties"].as_object().into_iter().flatten() {
        // The same for all kinds, and written down by some only.
        if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match found["properties"].get(name) {
            Some(found) => compare(wanted, found, &path, missing),
            None => missing.push(path),
        }
    }
    for inner in ["items", "additionalProperties"] {
        if wanted[inner].is_object() {
            compare(&wanted[inner], &found[inner], path, missing);
        }
    }
}

fn our_operators(seen: &Seen) -> Vec<Operator> {
    seen.deployments.iter().flatten().filter_map(Operator::of).collect()
}

fn leader(seen: &Seen) -> Found {
    let spec = seen.lease.clone()?.and_then(|lease| lease.spec).unwrap_or_default();
    let holder = holder(seen);
    let operators = our_operators(seen);
    let mut found = Vec::new();
    if let Some(why) = why_nobody_leads(&spec, holder, seen) {
        let command = operators.first().map_or(INSTALL.to_owned(), |it| format!("kubectl logs {}", it.title()));
        found.push(error(format!("no operator is active, so nobody runs jobs and places pods: {why}"), command));
    }
    let active = actives(seen);
    if active.len() > 1 {
        let names = some(&active, "operator");
        let command = operators.first().map_or_else(
            || "kubectl --namespace kube-system get lease ronde-operator --output yaml".to_owned(),
            |it| format!("kubectl rollout restart {}", it.title()),
        );
        found.push(error(format!("{names} are active at once"), command));
    }
    if holder == MACHINE
        && let Some(operator) = operators.first()
    {
        let message =
            format!("`{MACHINE}` runs the jobs of this cluster, so deployment `{}` never will", operator.name);
        found.push(warning(message, format!("kubectl delete {}", operator.title())));
    } else if let [_, second, ..] = &operators[..] {
        let all: Vec<String> = operators.iter().map(|it| format!("{}/{}", it.namespace, it.name)).collect();
        let message = format!(
            "the operator is installed {} times, as {}, and only one is ever active",
            all.len(),
            some(&all, "deployment")
        );
        found.push(warning(message, format!("helm list --namespace {}", second.namespace)));
    }
    Ok(found)
}

fn why_nobody_leads(spec: &LeaseSpec, holder: &str, seen: &Seen) -> Option<String> {
    if holder.is_empty() {
        return Some("nobody has the lease `kube-system/ronde-operator`".to_owned());
    }
    let renewed = spec.renew_time.as_ref()?.0;
    let lasts = SignedDuration::from_secs(spec.lease_duration_seconds?.into());
    let age = seen.server_time.duration_since(renewed);
    // The clock of the holder may be off, too.
    (age > lasts + SKEW_MAX)
        .then(|| format!("`{holder}` has the lease and has not renewed it for {} seconds", age.as_secs()))
}

/// Returns the operators that say of themselves that they are active.
fn actives(seen: &Seen) -> Vec<String> {
    let pages = seen.metrics.iter().flatten();
    pages.filter(|(_, page)| sum(page, ACTIVE.name, "") >= 1.0).map(|(name, _)| name.clone()).collect()
}

/// Sums up the values of a metric whose labels contain a text.
fn sum(page: &str, metric: &str, label: &str) -> f64 {
    let values = page.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let labels = series.strip_prefix(metric)?;
        let is_it = labels.is_empty() || labels.starts_with('{');
        if is_it && labels.contains(label) { value.parse::<f64>().ok() } else { None }
    });
    values.sum()
}

fn operator_access(seen: &Seen) -> Found {
    seen.deployments.as_ref().map_err(Clone::clone)?;
    let all = seen.operators_denied.clone()?;
    let lacking = all.into_iter().filter(|(.., rights)| !rights.is_empty());
    let finding = |(namespace, account, rights): (String, String, Vec<_>)| {
        let rights = rights::in_words(&rights);
        error(format!("the operator's account `{namespace}/{account}` lacks rights of its chart: {rights}"), INSTALL)
    };
    Ok(lacking.map(finding).collect())
}

fn rivals(seen: &Seen) -> Found {
    let deployments = seen.deployments.as_ref().map_err(Clone::clone)?;
    let finding = |deployment: &Deployment| {
        let whose = rival(deployment)?;
        let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
        let message = format!(
            "{whose}'s deployment `{namespace}/{name}` is at work, and fights with Ronde over the same objects"
        );
        Some(error(message, format!("kubectl scale --namespace {namespace} deployment {name} --replicas=0")))
    };
    Ok(deployments.iter().filter_map(finding).collect())
}

/// Tells whose deployment it is, if it is at work; by the same signs as the chart.
fn rival(deployment: &Deployment) -> Option<&'static str> {
    let replicas = deployment.spec.as_ref()?.replicas.unwrap_or(1);
    let app = deployment.labels().get("app").map_or("", String::as_str);
    let is_volcano = ["volcano-admission", "volcano-controller", "volcano-scheduler"].contains(&app);
    let is_et_operator = app == "et-operator" || deployment.name_any() == "et-operator";
    match (replicas > 0, is_volcano, is_et_operator) {
        (true, true, _) => Some("Volcano"),
        (true, _, true) => Some("et-operator"),
        _ => None,
    }
}

fn agent_image(seen: &Seen) -> Found {
    let mut found = Vec::new();
    let operators = seen.deployments.as_ref().map_err(Clone::clone)?.iter().filter_map(Operator::of);
    for operator in operators.filter(|operator| !operator.has_agent_image) {
        let (namespace, name) = (operator.namespace, operator.name);
        let message = format!(
            "the operator `{namespace}/{name}` has no `--agent-image`, so training jobs only start from images that have `ronde`"
        );
        found.push(warning(message, "ronde install operator --set agent.inject=true"));
    }
    // Pods of the same image fail alike: the first one speaks for them.
    let mut stuck: BTreeMap<(String, String), (&Pod, usize)> = BTreeMap::new();
    for pod in seen.pods.as_ref().map_err(Clone::clone)? {
        if let Some((image, reason)) = agent_trouble(pod) {
            stuck.entry((image, reason)).or_insert((pod, 0)).1 += 1;
        }
    }
    for ((image, reason), (pod, count)) in stuck {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let others = match count {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let role = pod.labels().get(elastic::ROLE).map_or("pod", String::as_str);
        let message =
            format!("{role} `{namespace}/{name}`{others} cannot get the agent from image `{image}`: {reason}");
        found.push(error(message, format!("kubectl describe pod --namespace {namespace} {name}")));
    }
    Ok(found)
}

/// Returns the image of the init container that brings the agent, and why it does not run.
fn agent_trouble(pod: &Pod) -> Option<(String, String)> {
    let statuses = pod.status.as_ref()?.init_container_statuses.as_ref()?;
    let status: &ContainerStatus = statuses.iter().find(|status| status.name == INIT_AGENT)?;
    let state = status.state.as_ref()?;
    let waiting = state.waiting.as_ref().and_then(|it| it.reason.clone());
    let ended = state.terminated.as_ref().filter(|it| it.exit_code != 0).and_then(|it| it.reason.clone());
    let reason = waiting.or(ended)?;
    let is_trouble = NO_IMAGE.contains(&reason.as_str()) || NO_PROGRAM.contains(&reason.as_str());
    let mut containers = pod.spec.as_ref()?.init_containers.iter().flatten();
    let image = containers.find(|container| container.name == INIT_AGENT)?.image.clone()?;
    is_trouble.then_some((image, reason))
}

fn clocks(seen: &Seen) -> Found {
    let mut found = Vec::new();
    let own = seen.own_time.duration_since(seen.server_time);
    if let Some(skew) = skew(own) {
        let message = format!("the clock of this machine is {skew} that of the API server");
        found.push(warning(message, "timedatectl status"));
    }
    for lease in seen.node_leases.as_ref().map_err(Clone::clone)? {
        if let Some(skew) = node_skew(lease).and_then(skew) {
            let node = lease.name_any();
            let message = format!("the clock of node `{node}` is {skew} that of the API server");
            found.push(warning(message, format!("kubectl describe node {node}")));
        }
    }
    Ok(found)
}

/// Says how far a clock is off, if it is.
fn skew(off: SignedDuration) -> Option<String> {
    let way = if off.is_negative() { "behind" } else { "ahead of" };
    (off.abs() > SKEW_MAX).then(|| format!("{} seconds {way}", off.abs().as_secs()))
}

/// Returns how far a node is ahead of the API server. Both write down the time of a renewal, each by its own clock.
fn node_skew(lease: &Lease) -> Option<SignedDuration> {
    let renewed = lease.spec.as_ref()?.renew_time.as_ref()?.0;
    let written = lease.managed_fields().iter().filter_map(|manager| Some(manager.time.as_ref()?.0)).max()?;
    Some(renewed.duration_since(written))
}

fn priority(seen: &Seen) -> Found {
    seen.deployments.as_ref().map_err(Clone::clone)?;
    let mut found = Vec::new();
    for (name, page) in seen.metrics.as_ref().map_err(Clone::clone)? {
        let (all, refused) = (sum(page, REQUESTS.name, ""), sum(page, REQUESTS.name, "code=\"429\""));
        if refused * REQUESTS_PER_REFUSAL > all {
            let message = format!("the API server has held back {refused} of {all} requests of `{name}` (code 429)");
            found.push(warning(message, "kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels"));
        }
    }
    let Some(schemas) = seen.flow_schemas.as_ref().map_err(Clone::clone)? else { return Ok(found) };
    for operator in our_operators(seen) {
        if !schemas.iter().any(|schema| is_for(schema, &operator)) {
            let (namespace, account) = (&operator.namespace, &operator.account);
            let message = format!(
                "no FlowSchema is for the operator's account `{namespace}/{account}`, so its requests wait behind those of all other accounts"
            );
            found.push(warning(message, "ronde install operator --set apiPriority.enabled=true"));
        }
    }
    Ok(found)
}

/// Tells whether a schema names the account of an operator, or the accounts of its namespace.
fn is_for(schema: &FlowSchema, operator: &Operator) -> bool {
    let (namespace, name) = (&operator.namespace, &operator.account);
    let rules = schema.spec.iter().flat_map(|spec: &FlowSchemaSpec| spec.rules.iter().flatten());
    rules.flat_map(|rule| &rule.subjects).any(|subject| {
        let account = subject.service_account.as_ref();
        account.is_some_and(|it| it.namespace == *namespace && [name, "*"].contains(&it.name.as_str()))
            || subject.user.as_ref().is_some_and(|it| it.name == format!("system:serviceaccount:{namespace}:{name}"))
            || subject.group.as_ref().is_some_and(|it| it.name == format!("system:serviceaccounts:{namespace}"))
    })
}

fn webhooks(seen: &Seen) -> Found {
    let webhooks = seen.webhooks.as_ref().map_err(Clone::clone)?;
    Ok(webhooks.iter().filter_map(webhook).collect())
}

fn webhook(webhook: &Webhook) -> Option<Finding> {
    let Webhook { kind, configuration, name, .. } = webhook;
    if name.ends_with(".volcano.sh") {
        let message = format!(
            "Volcano's webhook `{name}` is asked before objects are written, and refuses or changes what Ronde takes"
        );
        return Some(error(message, format!("kubectl delete {kind} {configuration}")));
    }
    let kinds: Vec<String> =
        crd::COMMITTED.iter().filter(|(it, _)| is_asked(webhook, it)).map(|(it, _)| (*it).to_owned()).collect();
    if kinds.is_empty() || !webhook.must_answer {
        return None;
    }
    let message = format!("writes of {} fail whenever webhook `{name}` does not answer", some(&kinds, "kind"));
    Some(warning(message, format!("kubectl get {kind} {configuration} --output yaml")))
}

/// Tells whether a webhook is asked about a kind, or part of it.
fn is_asked(webhook: &Webhook, definition: &str) -> bool {
    let Some((plural, group)) = definition.split_once('.') else { return false };
    webhook.rules.iter().any(|rule| {
        let mut groups = rule.api_groups.iter().flatten();
        let mut resources = rule.resources.iter().flatten();
        groups.any(|it| it == "*" || it == group)
            && resources.any(|it| ["*", plural].contains(&it.split('/').next().unwrap_or_default()))
    })
}
