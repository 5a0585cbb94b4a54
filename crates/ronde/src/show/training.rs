//! `ronde get JOB` in arena's form: the head, the pods, and below it what arena keeps to itself: why the job waits, scale
//! operations, the sizes it has had.
//!
//! Only reads. The head and the pods are as arena's documentation prints them; what is added stands below.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{Client, ResourceExt as _};
use ronde_api::{PodGroup, ScaleIn, ScaleOut, Scaler, ToDelete, TrainingJob};
use serde_json::{Value, json};

use super::last_seen;
use crate::{
    Context,
    arena::Caller,
    args::{GetArgs, GetOutput},
    client::ClientError,
    environment,
    failure::{Answer, Failure, Outcome},
    get,
    jobs::{
        self,
        any::{AnyJob, State},
        instances::{self, Instance},
        trouble::{self, Warnings},
    },
    objects,
    printer::{Printer, Reader},
    scale,
    table::{self, Span},
};

/// More changes of size than a person reads at once.
const SIZES_MAX: usize = 8;

/// All that is shown of a job.
pub struct Page {
    pub job: AnyJob,
    pub instances: Vec<Instance>,
    pub reason: Option<String>,
    scalers: Vec<Operation>,
    events: Option<Vec<Event>>,
}

/// A scale operation, of either direction.
#[derive(Debug, Clone)]
struct Operation {
    created: Option<Timestamp>,
    cells: [String; 4],
    why: String,
}

/// Shows a job.
pub async fn run(client: &Client, job: AnyJob, args: &GetArgs, context: &Context) -> Outcome {
    let now = environment::now();
    if args.output == GetOutput::Name {
        context.printer.data(job.title());
        return Ok(Answer::Done);
    }
    let page = Page::fetch(client, job, args.events).await?;
    match args.output {
        GetOutput::Json | GetOutput::Yaml => write(&page.to_json(now), args.output == GetOutput::Json, context.printer),
        _ => context.printer.data(page.lines(args.gpus, context.caller, now).join("\n")),
    };
    Ok(Answer::Done)
}

/// Writes a value as arena does: with four spaces, and no end of line behind it.
pub fn write(value: &Value, is_json: bool, printer: Printer) -> Reader {
    if !is_json {
        return printer.data(get::yaml(value));
    }
    let mut text = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut text, form);
    serde::Serialize::serialize(value, &mut writer).expect("a JSON value can be written");
    printer.bytes(&text)
}

impl Page {
    pub async fn fetch(client: &Client, job: AnyJob, with_events: bool) -> Result<Self, Box<dyn Failure>> {
        let warnings = match job.state() {
            State::Pending => Warnings::fetch(client, Some(job.namespace())).await?,
            _ => Warnings::default(),
        };
        let instances = instances::fetch(client, &job, &warnings).await?;
        let reason = with_trouble(&job, fetch_reason(client, &job).await?, &instances);
        let scalers = match &job {
            AnyJob::Training(job) => operations(client, job).await?,
            AnyJob::Batch(_) => Vec::new(),
        };
        let events = if with_events { Some(events(client, &job, &instances).await?) } else { None };
        Ok(Self { job, instances, reason, scalers, events })
    }

    fn lines(&self, with_gpus: bool, caller: Caller, now: Timestamp) -> Vec<String> {
        let mut lines = self.head(caller, now);
        lines.push(String::new());
        lines.push("Instances:".to_owned());
        let columns = ["NAME", "STATUS", "AGE", "IS_CHIEF", "GPU(Requested)", "NODE"];
        lines.extend(table::arena(&columns, self.instances.iter().map(|one| cells(one, now)).collect(), true));
        let parts = [with_gpus.then(|| self.gpus()), self.scaling(now), self.sizes(now), self.happened(now)];
        for part in parts.into_iter().flatten() {
            lines.push(String::new());
            lines.extend(part);
        }
        lines
    }

    /// The head, with the values at the column that arena has them at.
    pub fn head(&self, caller: Caller, now: Timestamp) -> Vec<String> {
        let indented = |value: &str| value.trim_end().replace('\n', &format!("\n{:13}", ""));
        let field = |name: &str, value: &str| format!("{:<13}{}", format!("{name}:"), indented(value));
        let mut lines = vec![
            field("Name", &self.job.name()),
            field("Status", &self.job.phase_for(caller)),
            field("Namespace", self.job.namespace()),
            field("Priority", self.job.priority().unwrap_or("N/A")),
            field("Trainer", &self.job.job_type().name().to_uppercase()),
            field("Duration", &Span(self.job.duration(now)).to_string()),
        ];
        lines.extend(self.reason.as_ref().map(|reason| field("Reason", reason)));
        lines
    }

    /// The GPUs of each pod. What they are busy with is known to their own monitoring only.
    fn gpus(&self) -> Vec<String> {
        let mut lines = vec!["GPUs:".to_owned()];
        let row = |one: &Instance| vec![one.name.clone(), one.node_or_none().to_owned(), one.gpus.to_string()];
        let columns = ["INSTANCE", "NODE", "GPU(Requested)"];
        lines.extend(table::arena(&columns, self.instances.iter().map(row).collect(), true));
        lines.push(String::new());
        lines.push(format!("Allocated/Requested GPUs of Job: {}/{}", self.allocated(), self.requested()));
        lines
    }

    fn requested(&self) -> i64 {
        self.job.requested_gpus()
    }

    fn allocated(&self) -> i64 {
        self.instances.iter().map(Instance::allocated).sum()
    }

    fn scaling(&self, now: Timestamp) -> Option<Vec<String>> {
        let row = |one: &Operation| {
            let [name, kind, status, change] = one.cells.clone();
            vec![name, kind, status, change, Span::between(one.created, now).to_string(), one.why.clone()]
        };
        let columns = ["NAME", "KIND", "STATUS", "WORKERS", "AGE", "MESSAGE"];
        let rows: Vec<Vec<String>> = self.scalers.iter().map(row).collect();
        let lines = (!rows.is_empty()).then(|| table::arena(&columns, rows, true))?;
        Some(std::iter::once("Scaling:".to_owned()).chain(lines).collect())
    }

    /// The sizes that the job has had, if they have ever changed.
    fn sizes(&self, now: Timestamp) -> Option<Vec<String>> {
        let AnyJob::Training(job) = &self.job else { return None };
        let sizes = &job.status.as_ref()?.sizes;
        if sizes.len() < 2 {
            return None;
        }
        let row = |size: &ronde_api::SizeChange| {
            let age = Span::between(Some(size.time.0), now).to_string();
            vec![age, size.workers.to_string(), size.reason.clone(), size.message.clone()]
        };
        let rows = sizes.iter().skip(sizes.len().saturating_sub(SIZES_MAX)).map(row).collect();
        let lines = table::arena(&["AGE", "WORKERS", "REASON", "MESSAGE"], rows, true);
        Some(std::iter::once("Sizes:".to_owned()).chain(lines).collect())
    }

    fn happened(&self, now: Timestamp) -> Option<Vec<String>> {
        let events = self.events.as_ref()?;
        let row = |event: &Event| {
            let object = &event.involved_object;
            let kind = object.kind.as_deref().unwrap_or_default().to_lowercase();
            let source = format!("{kind}/{}", object.name.as_deref().unwrap_or_default());
            let message = event.message.as_deref().unwrap_or_default();
            let message = format!("[{}] {message}", event.reason.as_deref().unwrap_or_default());
            let age = Span::between(last_seen(event), now).to_string();
            vec![source, event.type_.clone().unwrap_or_default(), age, message]
        };
        let mut lines = vec!["Events:".to_owned()];
        if events.is_empty() {
            lines.push("  No events for resources".to_owned());
        } else {
            let rows = events.iter().map(row).collect();
            lines.extend(table::arena(&["SOURCE", "TYPE", "AGE", "MESSAGE"], rows, true));
        }
        Some(lines)
    }

    /// The shape of arena's JSON.
    pub fn to_json(&self, now: Timestamp) -> Value {
        let mut value = summary(&self.job, now);
        value["instances"] = self.instances.iter().map(|one| one.to_json(now)).collect();
        value["requestGPUs"] = self.requested().into();
        value["allocatedGPUs"] = self.allocated().into();
        if let Some(reason) = &self.reason {
            value["reason"] = reason.clone().into();
        }
        value
    }
}

/// Returns what arena's JSON says of a job without its pods.
pub fn summary(job: &AnyJob, now: Timestamp) -> Value {
    json!({
        "uuid": job.uid(),
        "name": job.name(),
        "namespace": job.namespace(),
        "duration": Span(job.duration(now)).seconds(),
        "status": job.state().to_string(),
        "trainer": job.job_type().name(),
        "tensorboard": "",
        "chiefName": job.chief(),
        "instances": [],
        "priority": job.priority().unwrap_or("N/A"),
        "requestGPUs": job.requested_gpus(),
        "allocatedGPUs": 0,
        "creationTimestamp": job.created().map_or(0, Timestamp::as_second),
        "modelName": "",
        "modelVersion": "",
        "modelSource": "",
    })
}

fn cells(one: &Instance, now: Timestamp) -> Vec<String> {
    let (age, node) = (one.age(now).to_string(), one.node_or_none().to_owned());
    vec![one.name.clone(), one.status.clone(), age, one.is_chief.to_string(), one.gpus.to_string(), node]
}

/// Says why a job is where it is, if that is not where it should be, or what it lacks; `group` is that of a job of Volcano.
pub fn reason(job: &AnyJob, group: Option<&PodGroup>) -> Option<String> {
    match (job, job.state()) {
        (_, State::Succeeded) => None,
        (AnyJob::Batch(_), State::Running) => group.and_then(jobs::unschedulable),
        (AnyJob::Batch(batch), _) => jobs::reason(batch, group),
        (AnyJob::Training(training), State::Running) => {
            training.status.as_ref().map(|status| status.message.clone()).filter(|message| !message.is_empty())
        }
        (AnyJob::Training(_), _) => job.message(),
    }
}

/// Adds what is wrong with the pods, if the job has not ended or does not say why it has failed.
fn with_trouble(job: &AnyJob, reason: Option<String>, instances: &[Instance]) -> Option<String> {
    let troubled = instances.iter().filter_map(|one| Some((one.name.clone(), one.trouble.clone()?)));
    match job.state() {
        State::Failed if reason.is_some() => reason,
        State::Succeeded | State::Suspended => reason,
        _ => trouble::with_reason(reason, trouble::summed_up(troubled)),
    }
}

async fn fetch_reason(client: &Client, job: &AnyJob) -> Result<Option<String>, Box<dyn Failure>> {
    let group = match job {
        AnyJob::Batch(batch) => jobs::find_group(client, batch).await?,
        AnyJob::Training(_) => None,
    };
    Ok(reason(job, group.as_ref()))
}

async fn operations(client: &Client, job: &TrainingJob) -> Result<Vec<Operation>, ClientError> {
    let namespace = job.metadata.namespace.as_deref();
    let mut found = Vec::new();
    if let Some(watch) = objects::watch_if_served::<ScaleOut>(client, namespace).await? {
        let ours = watch.all::<ScaleOut>()?.into_iter().filter(|one| is_of(one, job));
        found.extend(ours.map(|one| Operation::of(&one, one.spec.count())));
    }
    if let Some(watch) = objects::watch_if_served::<ScaleIn>(client, namespace).await? {
        let named = |delete: &ToDelete| i32::try_from(delete.pod_names.len()).ok().filter(|named| *named > 0);
        let count = |one: &ScaleIn| {
            let delete = one.spec.to_delete.as_ref();
            delete.and_then(|delete| named(delete).or(delete.count)).unwrap_or(0)
        };
        let ours = watch.all::<ScaleIn>()?.into_iter().filter(|one| is_of(one, job));
        found.extend(ours.map(|one| Operation::of(&one, count(&one))));
    }
    found.sort_by(|one, other| (one.created, &one.cells[0]).cmp(&(other.created, &other.cells[0])));
    Ok(found)
}

/// Tells whether an operation is for this job, and not for an earlier one of its name.
fn is_of<T: Scaler>(scaler: &T, job: &TrainingJob) -> bool {
    let created = |metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
        metadata.creation_timestamp.as_ref().map(|time| time.0)
    };
    scaler.job_name() == job.name_any() && created(scaler.metadata()) >= created(&job.metadata)
}

impl Operation {
    fn of<T: Scaler + k8s_openapi::Resource>(scaler: &T, count: i32) -> Self {
        let metadata = scaler.metadata();
        let status = scaler.status();
        let last = status.and_then(|status| status.conditions.last());
        let phase = last.map_or("Pending", |last| last.type_.as_str()).to_owned();
        let why = last.filter(|last| last.type_ == "ScaleFailed").map(|last| last.message.clone()).unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        Self {
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            cells: [name, T::KIND.to_owned(), phase, scale::change(scaler, count)],
            why,
        }
    }
}

async fn events(client: &Client, job: &AnyJob, instances: &[Instance]) -> Result<Vec<Event>, Box<dyn Failure>> {
    let all = objects::list::<Event>(client, Some(job.namespace()), &[]).await?;
    let is_ours = |event: &Event| {
        let uid = event.involved_object.uid.as_deref().unwrap_or_default();
        uid == job.uid() || instances.iter().any(|one| one.uid == uid)
    };
    let mut events: Vec<Event> = all.into_iter().filter(is_ours).collect();
    events.sort_by_key(|event| (last_seen(event), event.name_any()));
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(name: &str, created: &str, (gpus, node): (i64, &str)) -> Instance {
        Instance {
            name: name.to_owned(),
            uid: String::new(),
            status: if node.is_empty() { "Pending" } else { "Running" }.to_owned(),
            created: Some(created.parse().unwrap()),
            is_chief: name.ends_with("launcher"),
            gpus,
            node: node.to_owned(),
            ip: String::new(),
            node_ip: String::new(),
            is_live: true,
            trouble: None,
        }
    }

    fn page(status: Value) -> Page {
        let metadata = json!({"name": "elastic-training", "namespace": "default", "uid": "u1",
            "creationTimestamp": "2026-01-01T00:00:00Z"});
        let limits = json!({"resources": {"limits": {"nvidia.com/gpu": "1"}}, "name": "et"});
        let worker = json!({"replicas": 2, "template": {"spec": {"containers": [limits]}}});
        let spec = json!({"etReplicaSpecs": {"worker": worker, "launcher": {}}});
        let job = json!({"metadata": metadata, "spec": spec, "status": status});
        let instances = vec![
            instance("elastic-training-launcher", "2026-01-01T00:00:00Z", (0, "node-173")),
            instance("elastic-training-worker-0", "2026-01-01T00:00:00Z", (1, "node-174")),
            instance("elastic-training-worker-1", "2026-01-01T00:01:30Z", (1, "")),
        ];
        let job = AnyJob::from(serde_json::from_value::<TrainingJob>(job).unwrap());
        let reason = reason(&job, None);
        Page { job, instances, reason, scalers: Vec::new(), events: None }
    }

    const NOW: &str = "2026-01-01T00:03:00Z";

    fn arena() -> Caller {
        Caller::of(Some(std::ffi::OsStr::new("arena")))
    }

    #[test]
    fn the_word_for_a_phase_is_that_of_the_list() {
        let page = page(json!({"phase": "Waiting"}));
        let status = |caller: Caller| page.head(caller, NOW.parse().unwrap())[1].clone();
        assert_eq!(status(arena()), "Status:      PENDING");
        assert_eq!(status(Caller::of(None)), "Status:      Waiting");
    }

    #[test]
    fn the_trouble_of_pods_is_told_unless_the_job_has_ended_and_says_why() {
        let check = |phase: &str, message: &str, expected: Option<&str>| {
            let mut page = page(json!({"phase": phase, "message": message}));
            page.instances[1].trouble = Some("CreateContainerError: no command".to_owned());
            let reason = with_trouble(&page.job, page.reason.clone(), &page.instances);
            assert_eq!(reason.as_deref(), expected, "{phase}");
        };
        let trouble = "pod elastic-training-worker-0: CreateContainerError: no command";
        check("Created", "0 of 2 workers", Some(&format!("0 of 2 workers; {trouble}")));
        check("Running", "", Some(trouble));
        check("Failed", "the launcher failed", Some("the launcher failed"));
        check("Failed", "", Some(trouble));
        check("Succeeded", "", None);
    }

    #[test]
    fn a_job_is_shown_in_the_form_of_the_documentation() {
        let lines = page(json!({"phase": "Running"})).lines(false, arena(), NOW.parse().unwrap());
        assert_eq!(
            lines,
            [
                "Name:        elastic-training",
                "Status:      RUNNING",
                "Namespace:   default",
                "Priority:    N/A",
                "Trainer:     ETJOB",
                "Duration:    3m",
                "",
                "Instances:",
                "  NAME                       STATUS   AGE  IS_CHIEF  GPU(Requested)  NODE",
                "  ----                       ------   ---  --------  --------------  ----",
                "  elastic-training-launcher  Running  3m   true      0               node-173",
                "  elastic-training-worker-0  Running  3m   false     1               node-174",
                "  elastic-training-worker-1  Pending  1m   false     1               N/A",
            ]
        );
    }

    #[test]
    fn a_job_that_runs_says_what_it_lacks() {
        let message = "1 of 2 workers are running; elastic-training-worker-1 waits: no node has enough";
        let page = page(json!({"phase": "Running", "reason": "TrainingJobRunning", "message": message}));
        let now = NOW.parse().unwrap();
        assert_eq!(page.lines(false, arena(), now)[6], format!("Reason:      {message}"));
        assert_eq!(page.to_json(now)["reason"], message);
    }

    #[test]
    fn what_arena_keeps_to_itself_stands_below() {
        let size = |second: i32, workers: i32, reason: &str| {
            json!({"time": format!("2026-01-01T00:02:{second:02}Z"),
            "workers": workers, "reason": reason, "message": "why"})
        };
        let status = json!({"phase": "Waiting", "message": "1 of at least 2 workers",
            "sizes": [size(0, 2, "Started"), size(30, 3, "ScaleOut")], "completionTime": null});
        let mut page = page(status);
        let scaler = json!({"metadata": {"name": "elastic-training-7", "creationTimestamp": "2026-01-01T00:02:00Z"},
            "spec": {"toAdd": {"count": 2}},
            "status": {"conditions": [{"type": "ScaleFailed", "status": "True", "message": "execution timeout"}]}});
        let scaler: ScaleOut = serde_json::from_value(scaler).unwrap();
        page.scalers.push(Operation::of(&scaler, scaler.spec.count()));
        page.events = Some(Vec::new());
        let lines = page.lines(true, arena(), NOW.parse().unwrap());
        assert_eq!(lines[5..7], ["Duration:    3m", "Reason:      1 of at least 2 workers"]);
        assert_eq!(
            lines[14..],
            [
                "",
                "GPUs:",
                "  INSTANCE                   NODE      GPU(Requested)",
                "  --------                   ----      --------------",
                "  elastic-training-launcher  node-173  0",
                "  elastic-training-worker-0  node-174  1",
                "  elastic-training-worker-1  N/A       1",
                "",
                "Allocated/Requested GPUs of Job: 1/2",
                "",
                "Scaling:",
                "  NAME                KIND      STATUS       WORKERS  AGE  MESSAGE",
                "  ----                ----      ------       -------  ---  -------",
                "  elastic-training-7  ScaleOut  ScaleFailed  +2       1m   execution timeout",
                "",
                "Sizes:",
                "  AGE  WORKERS  REASON    MESSAGE",
                "  ---  -------  ------    -------",
                "  1m   2        Started   why",
                "  30s  3        ScaleOut  why",
                "",
                "Events:",
                "  No events for resources",
            ]
        );
    }

    #[test]
    fn the_json_has_the_keys_of_arena() {
        let value =
            page(json!({"phase": "Succeeded", "completionTime": "2026-01-01T00:00:13Z"})).to_json(NOW.parse().unwrap());
        assert_eq!((&value["duration"], &value["status"]), (&json!("13s"), &json!("SUCCEEDED")));
        assert_eq!((&value["requestGPUs"], &value["allocatedGPUs"]), (&json!(2), &json!(1)));
        assert_eq!(value["chiefName"], "elastic-training-launcher");
        assert_eq!(value["instances"][2]["age"], "90s");
        assert_eq!(value["instances"][0]["chief"], true);
    }
}
