//! Rows of what makes pods or watches over them: deployment, replica set, stateful set, job, disruption budget, scale.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age::{human_duration, parse},
    column::{
        AGE, CONTAINERS, CREATED_DESCRIPTION, Column, IMAGES, NAME, UNMARKED_NAME, column, integer_column, text_column,
        wide_column,
    },
    field::{NONE, age, cells, flag, has_condition, int, is_being_deleted, joined, list, name, text},
    labels,
};

const SELECTOR: Column = wide_column("Selector", "The labels of the pods that belong to it.");
const READY: Column = text_column("Ready", "The ready pods, of all that are wanted.");

/// The conditions that a job shows as its status, in the order in which they are looked for; a deletion comes between.
const JOB_ENDED: [&str; 2] = ["Complete", "Failed"];
const JOB_ALIVE: [&str; 3] = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];

pub(super) static DEPLOYMENT: [Column; 8] = [
    NAME,
    READY,
    text_column("Up-to-date", "The pods made from the newest template."),
    text_column("Available", "The pods that have been ready for long enough."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn deployment(deployment: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let (containers, images) = template_containers(spec);
    cells![
        name(deployment),
        ready(spec, status),
        int(&status["updatedReplicas"]),
        int(&status["availableReplicas"]),
        age(deployment, now),
        containers,
        images,
        labels::selector(&spec["selector"]).unwrap_or_else(|| "<invalid>".to_owned()),
    ]
}

pub(super) static REPLICA_SET: [Column; 8] = [
    NAME,
    integer_column("Desired", "The number of pods that are wanted."),
    integer_column("Current", "The number of pods there are."),
    integer_column("Ready", "The number of ready pods."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn replica_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let (containers, images) = template_containers(spec);
    cells![
        name(set),
        int(&spec["replicas"]),
        int(&status["replicas"]),
        int(&status["readyReplicas"]),
        age(set, now),
        containers,
        images,
        labels::selector_or_none(&spec["selector"]),
    ]
}

pub(super) static STATEFUL_SET: [Column; 5] = [NAME, READY, AGE, CONTAINERS, IMAGES];

pub(super) fn stateful_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (containers, images) = template_containers(&set["spec"]);
    cells![name(set), ready(&set["spec"], &set["status"]), age(set, now), containers, images]
}

pub(super) static CONTROLLER_REVISION: [Column; 4] = [
    NAME,
    text_column("Controller", "The object whose state this is."),
    text_column("Revision", "The number of the revision."),
    AGE,
];

pub(super) fn controller_revision(revision: &Value, now: Timestamp) -> Vec<Value> {
    cells![name(revision), controller(revision), int(&revision["revision"]), age(revision, now)]
}

/// The owner that manages the object, like `statefulset.apps/db`.
fn controller(object: &Value) -> String {
    let owners = list(&object["metadata"]["ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| flag(&owner["controller"])) else { return NONE.to_owned() };
    let kind = match text(&owner["apiVersion"]).split_once('/') {
        Some((group, _version)) => format!("{}.{group}", text(&owner["kind"])),
        None => text(&owner["kind"]).to_owned(),
    };
    format!("{}/{}", kind.to_lowercase(), text(&owner["name"]))
}

pub(super) static JOB: [Column; 8] = [
    NAME,
    text_column("Status", "Whether the job is running or how it ended."),
    text_column("Completions", "The pods that succeeded, of all that have to."),
    text_column("Duration", "How long the job ran."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (containers, images) = template_containers(&job["spec"]);
    cells![
        name(job),
        job_status(job),
        completions(job),
        job_duration(&job["status"], now),
        age(job, now),
        containers,
        images,
        labels::selector_or_none(&job["spec"]["selector"]),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let first_of = |conditions: &[&'static str]| {
        conditions.iter().copied().find(|condition| has_condition(&job["status"], condition))
    };
    match first_of(&JOB_ENDED) {
        Some(ended) => ended,
        None if is_being_deleted(job) => "Terminating",
        None => first_of(&JOB_ALIVE).unwrap_or("Running"),
    }
}

fn completions(job: &Value) -> String {
    let (spec, succeeded) = (&job["spec"], int(&job["status"]["succeeded"]));
    match (spec["completions"].as_i64(), int(&spec["parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(status: &Value, now: Timestamp) -> String {
    let Some(start) = parse(&status["startTime"]) else { return String::new() };
    let end = parse(&status["completionTime"]).unwrap_or(now);
    human_duration(end.duration_since(start))
}

pub(super) static DISRUPTION_BUDGET: [Column; 5] = [
    NAME,
    text_column("Min Available", "How many pods must stay available."),
    text_column("Max Unavailable", "How many pods may be missing."),
    integer_column("Allowed Disruptions", "How many pods may be evicted now."),
    AGE,
];

pub(super) fn disruption_budget(budget: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &budget["spec"];
    let number_or_percentage = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "N/A".to_owned(),
    };
    cells![
        name(budget),
        number_or_percentage(&spec["minAvailable"]),
        number_or_percentage(&spec["maxUnavailable"]),
        int(&budget["status"]["disruptionsAllowed"]),
        age(budget, now),
    ]
}

/// The subresource `scale` of a built-in kind.
pub(super) static SCALE: [Column; 4] = [
    UNMARKED_NAME,
    integer_column("Desired", "The number of pods that are wanted."),
    integer_column("Available", "The number of pods there are."),
    AGE,
];

/// The subresource `scale` of a custom resource; only the definitions differ.
pub(super) static CUSTOM_SCALE: [Column; 4] = [
    NAME,
    integer_column("Desired", "The number of pods that are wanted."),
    integer_column("Available", "The number of pods there are."),
    column("Age", "date", 0, CREATED_DESCRIPTION),
];

pub(super) fn scale(scale: &Value, now: Timestamp) -> Vec<Value> {
    cells![name(scale), int(&scale["spec"]["replicas"]), int(&scale["status"]["replicas"]), age(scale, now)]
}

fn ready(spec: &Value, status: &Value) -> String {
    format!("{}/{}", int(&status["readyReplicas"]), int(&spec["replicas"]))
}

/// Names and images of the containers in the pod template.
fn template_containers(spec: &Value) -> (String, String) {
    let containers = list(&spec["template"]["spec"]["containers"]);
    let all = |field: &str| joined(containers.iter().map(|container| text(&container[field])), ",");
    (all("name"), all("image"))
}
