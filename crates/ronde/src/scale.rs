//! `ronde scaleout` and `ronde scalein`: ask for more or fewer workers of an elastic job, once.
//!
//! What cannot work is refused here with arena's sentences; the controller checks it again. Each operation is an object of
//! its own, with a ConfigMap beside it; both go with the job.

use k8s_openapi::{
    Resource,
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::Client;
use ronde_api::{
    JobSelector, ReplicaBound, ScaleIn, ScaleInSpec, ScaleOut, ScaleOutSpec, Scaler, ScalingOutcome, ScalingWay, ToAdd,
    ToDelete, TrainingJob, rules::PODS_MAX,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Context,
    args::{ScaleArgs, ScaleinArgs, ScaleinJob, ScaleoutArgs, ScaleoutJob},
    client::{self, ClientError},
    environment,
    failure::{Answer, Blame, Failure, Outcome},
    jobs::{
        MissingError,
        any::{AnyJob, State},
    },
    objects::{self, watch_one},
    submit::{
        self,
        state::{CREATED_BY, Companion},
    },
    wait::{self, Progress},
};

/// Why a job is not scaled.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    #[error("--name must be set")]
    Name,
    #[error("--count is {count}, at least 1 worker can be {}", verb(*way))]
    Count { way: ScalingWay, count: i32 },
    #[error("--count is {count}, a job has at most {PODS_MAX} workers")]
    Most { count: i32 },
    #[error("--timeout is {timeout}, a scale operation needs at least a second")]
    Timeout { timeout: ronde_api::Duration },
    #[error("the job: {name} status: {state} , is not RUNNING or SCALING, please try again later")]
    State { name: String, state: State },
    #[error(
        "the number of scaling out plus the number of current workers exceeds the max-workers: {current} + {count} > {max}"
    )]
    TooMany { current: i32, count: i32, max: i32 },
    #[error(
        "the number of current workers minus the number of scaling in is less than the min-workers: {current} - {count} < {min}"
    )]
    TooFew { current: i32, count: i32, min: i32 },
    #[error("the job {job} has no worker `{pod}`")]
    Pod { job: String, pod: String, workers: Vec<String> },
    #[error("the {kind} job {name} has failed{why}")]
    Failed { kind: String, name: String, why: String },
    #[error("the {kind} job {name} was deleted in the meantime")]
    Gone { kind: String, name: String },
}

impl Failure for ScaleError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Pod { workers, .. } => Some(format!("its workers are `{}`", workers.join("`, `"))),
            Self::State { name, .. } => Some(format!("see `ronde get {name}`")),
            _ => None,
        }
    }
}

fn verb(way: ScalingWay) -> &'static str {
    match way {
        ScalingWay::Out => "added",
        ScalingWay::In => "removed",
    }
}

/// Asks for more workers.
pub fn out(args: &ScaleoutArgs, context: &Context) -> Outcome {
    let ScaleoutJob::Etjob(args) = &args.job;
    run(args, &[], context, |metadata| ScaleOut {
        metadata,
        spec: ScaleOutSpec {
            selector: JobSelector { name: args.name.clone().unwrap_or_default() },
            to_add: Some(ToAdd { count: Some(args.count) }),
            timeout: Some(seconds(args)),
            ..ScaleOutSpec::default()
        },
        status: None,
    })
}

/// Asks for fewer workers.
pub fn inwards(args: &ScaleinArgs, context: &Context) -> Outcome {
    let ScaleinJob::Etjob(args) = &args.job;
    let (scale, pods) = (&args.scale, &args.pods);
    run(scale, pods, context, |metadata| ScaleIn {
        metadata,
        spec: ScaleInSpec {
            selector: JobSelector { name: scale.name.clone().unwrap_or_default() },
            to_delete: Some(ToDelete { count: pods.is_empty().then_some(scale.count), pod_names: pods.clone() }),
            timeout: Some(seconds(scale)),
            ..ScaleInSpec::default()
        },
        status: None,
    })
}

fn seconds(args: &ScaleArgs) -> i32 {
    i32::try_from(args.timeout.to_std().as_secs()).unwrap_or(i32::MAX)
}

fn run<T>(args: &ScaleArgs, pods: &[String], context: &Context, build: impl FnOnce(ObjectMeta) -> T) -> Outcome
where
    T: Scaler + Resource + Serialize + DeserializeOwned,
{
    let name = args.name.as_deref().filter(|name| !name.is_empty()).ok_or(ScaleError::Name)?;
    check_args(T::WAY, args, pods)?;
    if args.script.is_some() {
        context.printer.warn("`--script` has no effect: the list of hosts needs no script");
    }
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        let job = objects::find_if_served::<TrainingJob>(&client, Some(&namespace), name).await?;
        let missing = || MissingError::Training { namespace: namespace.clone(), name: name.to_owned() };
        let job = job.ok_or_else(missing)?;
        check(T::WAY, &job, args.count, pods)?;
        let job = AnyJob::from(job);
        let scaler = build(metadata(&job, name, free_second::<T>(&client, &job).await?));
        create(&client, &job, &scaler, context).await?;
        if args.wait { follow(&client, &scaler, args, context).await } else { Ok(Answer::Done) }
    })
}

fn check_args(way: ScalingWay, args: &ScaleArgs, pods: &[String]) -> Result<(), ScaleError> {
    if args.count < 1 && pods.is_empty() {
        return Err(ScaleError::Count { way, count: args.count });
    }
    if args.count > PODS_MAX {
        return Err(ScaleError::Most { count: args.count });
    }
    if seconds(args) < 1 { Err(ScaleError::Timeout { timeout: args.timeout }) } else { Ok(()) }
}

/// Checks an operation against the job as it is.
fn check(way: ScalingWay, job: &TrainingJob, count: i32, pods: &[String]) -> Result<(), ScaleError> {
    let name = job.metadata.name.clone().unwrap_or_default();
    let state = AnyJob::from(job.clone()).state();
    if !matches!(state, State::Running | State::Scaling) {
        return Err(ScaleError::State { name, state });
    }
    let status = job.status.clone().unwrap_or_default();
    let workers = status.target_workers;
    if let Some(pod) = pods.iter().find(|pod| !workers.contains(pod)) {
        return Err(ScaleError::Pod { job: name, pod: pod.clone(), workers });
    }
    let size = |length: usize| i32::try_from(length).unwrap_or(i32::MAX);
    // As the controller counts: with those that are on their way for lost ones.
    let current = status.elastic.wanted;
    let count = if pods.is_empty() { count } else { size(pods.len()) };
    job.spec.worker().check_scaling(way, current, count).map_err(|bound| match bound {
        ReplicaBound::Max(max) => ScaleError::TooMany { current, count, max },
        ReplicaBound::Min(min) => ScaleError::TooFew { current, count, min },
    })
}

/// Operations of one job within a second are named by the seconds that follow.
const NAMES_MAX: i64 = 60;

/// Returns the time, or the next second by which no operation of the job is named.
async fn free_second<T: Scaler + Resource + DeserializeOwned>(
    client: &Client,
    job: &AnyJob,
) -> Result<i64, ClientError> {
    let now = environment::now().as_second();
    for second in now..now + NAMES_MAX {
        let name = format!("{}-{second}", job.name());
        if objects::find_if_served::<T>(client, Some(job.namespace()), &name).await?.is_none() {
            return Ok(second);
        }
    }
    Ok(now)
}

/// Names an operation by its job and the time.
fn metadata(job: &AnyJob, name: &str, second: i64) -> ObjectMeta {
    let labels = [("app", "etjob"), ("release", name), ("createdBy", "etjob")];
    let label = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    ObjectMeta {
        name: Some(format!("{name}-{second}")),
        namespace: Some(job.namespace().to_owned()),
        labels: Some(labels.map(label).into()),
        owner_references: Some(vec![OwnerReference { controller: Some(true), ..job.reference() }]),
        ..ObjectMeta::default()
    }
}

fn title<T: Scaler + Resource>(scaler: &T) -> (String, String) {
    (T::KIND.to_lowercase(), scaler.metadata().name.clone().unwrap_or_default())
}

/// Creates the ConfigMap and the operation, or nothing.
async fn create<T>(client: &Client, job: &AnyJob, scaler: &T, context: &Context) -> Result<(), Box<dyn Failure>>
where
    T: Scaler + Resource + Serialize,
{
    let (kind, name) = title(scaler);
    let mut state = state(&kind, &name, scaler);
    state.owned_by(&job.reference());
    submit::create(client, job.namespace(), &state).await?;
    if let Err(failure) = objects::create(client, Some(job.namespace()), scaler).await {
        submit::take_back(client, &[state.path(job.namespace())]).await;
        return Err(failure);
    }
    let printer = context.printer;
    printer.data(format_args!("{} created", state.title));
    printer.data(format_args!("{} labeled", state.title));
    printer.data(format_args!("{} created", objects::title::<T>(&name)));
    context.caller.info(printer, format_args!("The {kind} job {name} has been submitted successfully"));
    Ok(())
}

fn state<T: Resource + Serialize>(kind: &str, name: &str, scaler: &T) -> Companion {
    let values = serde_saphyr::to_string(scaler).expect("a scale operation can be written as YAML");
    let data = [("values".to_owned(), values), ("app".to_owned(), objects::title::<T>(name))];
    let label = (CREATED_BY.0.to_owned(), CREATED_BY.1.to_owned());
    let metadata =
        ObjectMeta { name: Some(format!("{name}-{kind}")), labels: Some([label].into()), ..ObjectMeta::default() };
    Companion::new(&ConfigMap { metadata, data: Some(data.into()), ..ConfigMap::default() })
}

/// Waits until the controller has done it or given it up.
async fn follow<T>(client: &Client, scaler: &T, args: &ScaleArgs, context: &Context) -> Outcome
where
    T: Scaler + Resource + DeserializeOwned,
{
    let (kind, name) = title(scaler);
    let namespace = scaler.metadata().namespace.as_deref();
    let mut watches = [
        watch_one::<T>(client, namespace, &name).await?,
        watch_one::<TrainingJob>(client, namespace, scaler.job_name()).await?,
    ];
    wait::until(&mut watches, args.patience(), context, |watches| {
        Ok(progress::<T>((&kind, &name), watches[0].one()?.as_ref(), watches[1].one()?.as_ref())?)
    })
    .await?;
    context.caller.info(context.printer, format_args!("The {kind} job {name} has succeeded"));
    Ok(Answer::Done)
}

fn progress<T: Scaler>(
    (kind, name): (&str, &str),
    scaler: Option<&T>,
    job: Option<&TrainingJob>,
) -> Result<Progress, ScaleError> {
    let (kind, name) = (kind.to_owned(), name.to_owned());
    let Some(scaler) = scaler else { return Err(ScaleError::Gone { kind, name }) };
    let last = scaler.status().and_then(|status| status.conditions.last());
    let why = last.map(|last| last.message.clone()).filter(|message| !message.is_empty());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    match scaler.outcome() {
        Some(ScalingOutcome::Succeeded) => Ok(Progress::Done),
        Some(ScalingOutcome::Failed) => Err(ScaleError::Failed { kind, name, why }),
        None => Ok(Progress::Waits(format!("{}{why}", waits(&kind, &name, job)))),
    }
}

/// Says how many workers there are, and how many there shall be.
fn waits(kind: &str, name: &str, job: Option<&TrainingJob>) -> String {
    let status = job.and_then(|job| job.status.as_ref());
    let Some(scaling) = status.and_then(|status| status.elastic.scaling.as_ref()).filter(|one| one.name == name) else {
        return format!("the {kind} job {name} has not started");
    };
    let hosts = status.map(|status| status.current_workers.as_slice()).unwrap_or_default();
    let is_host = |worker: &&String| hosts.contains(worker);
    let (left, what) = match scaling.way {
        ScalingWay::Out => (scaling.workers.iter().filter(|worker| !is_host(worker)).collect::<Vec<_>>(), "new"),
        ScalingWay::In => (scaling.workers.iter().collect(), "leaving"),
    };
    let left: Vec<&str> = left.into_iter().map(String::as_str).collect();
    let (count, all) = (left.len(), scaling.workers.len());
    let workers = if all == 1 { "worker" } else { "workers" };
    if left.is_empty() {
        return format!("{all} new {workers} joined; waiting for the training to use them");
    }
    format!("waiting for {count} of {all} {what} {workers}: {}", left.join(", "))
}

/// Returns the sign of an operation, for tables: `+2` or `-1`.
pub fn change<T: Scaler>(scaler: &T, count: i32) -> String {
    let status = scaler.status();
    let chosen = status.map_or(0, |status| status.add_pods.len().max(status.to_delete_pods.len()));
    let count = i32::try_from(chosen).ok().filter(|chosen| *chosen > 0).unwrap_or(count);
    match T::WAY {
        ScalingWay::Out => format!("+{count}"),
        ScalingWay::In => format!("-{count}"),
    }
}

#[cfg(test)]
mod tests {
    use ronde_api::names::elastic;
    use serde_json::{Value, json};

    use super::*;

    fn job(phase: &str, workers: i32) -> TrainingJob {
        let names: Vec<String> = (0..workers).map(|index| elastic::worker("lm", index)).collect();
        let worker = json!({"replicas": 3, "minReplicas": 1, "maxReplicas": 4});
        let spec = json!({"etReplicaSpecs": {"worker": worker, "launcher": {}}});
        let status = json!({"phase": phase, "targetWorkers": names, "conditions": [], "replicaStatuses": {},
            "elastic": {"run": 1, "wanted": workers}});
        serde_json::from_value(json!({"metadata": {"name": "lm"}, "spec": spec, "status": status})).unwrap()
    }

    fn check_row(name: &str, way: ScalingWay, job: &TrainingJob, (count, pods): (i32, &[&str]), expected: &str) {
        let pods: Vec<String> = pods.iter().map(ToString::to_string).collect();
        let shown = check(way, job, count, &pods).map_or_else(|error| error.to_string(), |()| "goes".to_owned());
        assert_eq!(shown, expected, "{name}");
    }

    #[test]
    fn the_limits_of_a_job_are_kept() {
        use ScalingWay::{In, Out};
        let running = job("Running", 3);
        check_row("one more", Out, &running, (1, &[]), "goes");
        check_row("while it scales", Out, &job("Scaling", 3), (1, &[]), "goes");
        check_row(
            "too many",
            Out,
            &running,
            (2, &[]),
            "the number of scaling out plus the number of current workers exceeds the max-workers: 3 + 2 > 4",
        );
        check_row("all but one", In, &running, (2, &[]), "goes");
        check_row(
            "too few",
            In,
            &running,
            (3, &[]),
            "the number of current workers minus the number of scaling in is less than the min-workers: 3 - 3 < 1",
        );
        let mut short = job("Running", 2);
        short.status.as_mut().unwrap().elastic.wanted = 3;
        check_row(
            "too many, as one is to be replaced",
            Out,
            &short,
            (2, &[]),
            "the number of scaling out plus the number of current workers exceeds the max-workers: 3 + 2 > 4",
        );
        check_row("by name", In, &running, (1, &["lm-worker-0", "lm-worker-2"]), "goes");
        check_row("not one of them", In, &running, (1, &["lm-worker-7"]), "the job lm has no worker `lm-worker-7`");
        check_row(
            "a job that has ended",
            Out,
            &job("Succeeded", 3),
            (1, &[]),
            "the job: lm status: SUCCEEDED , is not RUNNING or SCALING, please try again later",
        );
    }

    #[test]
    fn an_operation_is_followed_with_words() {
        let scaler = |status: Value| -> ScaleOut {
            serde_json::from_value(json!({"metadata": {"name": "lm-7"}, "status": status})).unwrap()
        };
        let shown =
            |status: Value, job: Option<&TrainingJob>| match progress(("scaleout", "lm-7"), Some(&scaler(status)), job)
            {
                Ok(Progress::Done) => "done".to_owned(),
                Ok(Progress::Waits(waits)) => waits,
                Err(error) => format!("error: {error}"),
            };
        let mut scaling = job("Scaling", 3);
        assert_eq!(shown(json!(null), Some(&scaling)), "the scaleout job lm-7 has not started");
        let operation = json!({"way": "ScaleOut", "name": "lm-7", "workers": ["lm-worker-3", "lm-worker-4"],
            "since": "2026-01-01T00:00:00Z", "timeout": 60});
        let status = scaling.status.as_mut().unwrap();
        status.elastic.scaling = Some(serde_json::from_value(operation).unwrap());
        status.current_workers = vec!["lm-worker-3".to_owned()];
        let waits = "waiting for 1 of 2 new workers: lm-worker-4";
        assert_eq!(shown(json!({"phase": "Scaling"}), Some(&scaling)), waits);
        let status = scaling.status.as_mut().unwrap();
        status.current_workers.push("lm-worker-4".to_owned());
        let joined = "2 new workers joined; waiting for the training to use them";
        assert_eq!(shown(json!({"phase": "Scaling"}), Some(&scaling)), joined);
        assert_eq!(shown(json!({"phase": "ScaleSucceeded"}), None), "done");
        let failed = json!({"phase": "ScaleFailed", "conditions": [{"type": "ScaleFailed", "status": "True",
            "message": "execution timeout"}]});
        assert_eq!(shown(failed, None), "error: the scaleout job lm-7 has failed: execution timeout");
    }
}
