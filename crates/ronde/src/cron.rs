//! `ronde flow` and `ronde cron`: what starts jobs, one after another or on a schedule.
//!
//! They are the general verbs for these kinds alone, so that their rows, watches and formats are those of `ronde get`.
//! `ronde cron tfjob` takes the flags of `ronde submit tfjob`, in arena's words.

use http::{Request, header::CONTENT_TYPE};
use k8s_openapi::{Resource, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Client, ResourceExt as _};
use ronde_api::{CronJob, CronJobSpec, CronJobTemplate, Job, JobFlow, JobTemplate, names::FLOW_SUSPENDED};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    Context,
    apply::FIELD_MANAGER,
    arena::JobType,
    args::{
        CronArgs, CronTfjobArgs, CronVerb, DeleteArgs, FlowArgs, FlowVerb, GetArgs, GetOutput, KindCreateArgs,
        KindDeleteArgs, KindGetArgs, KindListArgs, ManifestOutput, SubmitJob, SwitchArgs,
    },
    client::{self, ClientError},
    delete,
    failure::{Answer, Blame, Failure, Outcome},
    get,
    jobs::MissingError,
    manifest::{self, Manifest},
    objects::{self, title},
    partial_failure::{self, Batch},
    submit, table,
};

/// The columns of `arena cron list`.
const ARENA_COLUMNS: [&str; 6] = ["NAME", "TYPE", "SCHEDULE", "SUSPEND", "DEADLINE", "CONCURRENCYPOLICY"];

/// Why a manifest was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("{object} ({origin}) is {other}")]
    OtherKind { object: String, origin: String, other: String },
    #[error("cannot create {object} ({origin})")]
    Refused { object: String, origin: String, source: ClientError },
}

impl Failure for CreateError {
    fn blame(&self) -> Blame {
        match self {
            Self::OtherKind { .. } => Blame::User,
            Self::Refused { source, .. } => source.blame(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::OtherKind { .. } => Some("`ronde apply -f FILE` takes all kinds".to_owned()),
            Self::Refused { source, .. } => source.hint(),
        }
    }
}

/// Runs `ronde flow`.
pub fn flow(args: &FlowArgs, context: &Context) -> Outcome {
    match &args.verb {
        FlowVerb::List(args) => list::<JobFlow>(args, context),
        FlowVerb::Get(args) => show::<JobFlow>(args, context),
        FlowVerb::Create(args) => create(args, &[kind::<JobFlow>(), kind::<JobTemplate>()], context),
        FlowVerb::Suspend(args) => switch::<JobFlow>(args, true, context),
        FlowVerb::Resume(args) => switch::<JobFlow>(args, false, context),
        FlowVerb::Delete(args) => delete::<JobFlow>(args, context),
    }
}

/// Runs `ronde cron`.
pub fn run(args: &CronArgs, context: &Context) -> Outcome {
    match &args.verb {
        CronVerb::List(args) if context.caller.is_arena && args.output == GetOutput::Table && !args.watch => {
            list_as_arena(args, context)
        }
        CronVerb::List(args) => list::<CronJob>(args, context),
        CronVerb::Get(args) => show::<CronJob>(args, context),
        CronVerb::Create(args) => create(args, &[kind::<CronJob>()], context),
        CronVerb::Tfjob(args) => submit_later(args, context),
        CronVerb::Suspend(args) => switch::<CronJob>(args, true, context),
        CronVerb::Resume(args) => switch::<CronJob>(args, false, context),
        CronVerb::Delete(args) => delete::<CronJob>(args, context),
    }
}

/// Returns the word for a kind that no other group has.
fn word<K: Resource>() -> String {
    format!("{}.{}", K::URL_PATH_SEGMENT, K::GROUP)
}

fn list<K: Resource>(args: &KindListArgs, context: &Context) -> Outcome {
    let all = GetArgs {
        cluster: args.cluster.clone(),
        kind: word::<K>(),
        namespace: args.namespace.clone(),
        all_namespaces: args.all_namespaces,
        watch: args.watch,
        output: args.output,
        ..GetArgs::default()
    };
    get::objects(&all, context)
}

fn show<K: Resource>(args: &KindGetArgs, context: &Context) -> Outcome {
    let named = GetArgs {
        cluster: args.cluster.clone(),
        kind: word::<K>(),
        names: args.names.clone(),
        namespace: args.namespace.clone(),
        watch: args.watch,
        output: args.output,
        ..GetArgs::default()
    };
    get::objects(&named, context)
}

fn delete<K: Resource>(args: &KindDeleteArgs, context: &Context) -> Outcome {
    let named = DeleteArgs {
        cluster: args.cluster.clone(),
        words: args.names.iter().map(|name| format!("{}/{name}", word::<K>())).collect(),
        all: false,
        selector: None,
        files: Vec::new(),
        namespace: args.namespace.clone(),
        ignore_not_found: args.ignore_not_found,
        fail_not_found: false,
        job_type: None,
        cascade: args.cascade,
        wait: args.wait,
    };
    delete::run(&named, context)
}

/// A kind that manifests may be of.
struct Known {
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
}

fn kind<K: Resource>() -> Known {
    Known { api_version: K::API_VERSION, kind: K::KIND, plural: K::URL_PATH_SEGMENT }
}

fn create(args: &KindCreateArgs, known: &[Known], context: &Context) -> Outcome {
    let manifests = manifest::read(&args.files)?;
    let wanted = manifests.iter().map(|manifest| find(manifest, known).map(|known| (manifest, known)));
    let wanted = wanted.collect::<Result<Vec<_>, CreateError>>()?;
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        let mut refused = Vec::<Box<dyn Failure>>::new();
        for (manifest, known) in &wanted {
            match post(&client, manifest, known, &namespace).await {
                Ok(line) => drop(context.printer.data(line)),
                Err(error) => refused.push(error.into()),
            }
        }
        let batch = Batch { total: wanted.len(), what: "objects", done: "created" };
        partial_failure::outcome(refused, batch, context.printer)
    })
}

fn find<'a>(manifest: &Manifest, known: &'a [Known]) -> Result<&'a Known, CreateError> {
    let is_it = |one: &&Known| (one.api_version, one.kind) == (manifest.api_version.as_str(), manifest.kind.as_str());
    known.iter().find(is_it).ok_or_else(|| {
        let names: Vec<String> = known.iter().map(|one| format!("a {} of {}", one.kind, one.api_version)).collect();
        let not = if names.len() == 1 { "not" } else { "neither" };
        let object = format!("{} `{}`", manifest.kind, manifest.name);
        CreateError::OtherKind {
            object,
            origin: manifest.origin.clone(),
            other: format!("{not} {}", names.join(" nor ")),
        }
    })
}

/// Creates one object; returns the line to print.
async fn post(client: &Client, manifest: &Manifest, known: &Known, namespace: &str) -> Result<String, CreateError> {
    let namespace = manifest.namespace.as_deref().unwrap_or(namespace);
    let (plural, api_version) = (known.plural, known.api_version);
    let path = format!(
        "/apis/{api_version}/namespaces/{}/{plural}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict",
        client::encode(namespace)
    );
    let request = Request::post(path).header(CONTENT_TYPE, "application/json");
    let (object, origin) = (format!("{} `{}`", manifest.kind, manifest.name), manifest.origin.clone());
    let sent = client::send(client, request, manifest.object.to_string().into_bytes()).await;
    sent.map_err(|source| CreateError::Refused { object, origin, source })?;
    let group = api_version.split('/').next().unwrap_or_default();
    Ok(format!("{}.{group}/{} created", known.kind.to_lowercase(), manifest.name))
}

/// Something that starts jobs, and can be told to start none for now.
trait Starter: Resource + DeserializeOwned {
    /// What arena calls it, or would.
    const WORD: &'static str;

    fn is_suspended(&self) -> bool;

    /// Returns what makes it start none, or start some again.
    fn switch(suspend: bool) -> Value;

    fn missing(namespace: &str, name: &str) -> MissingError;
}

impl Starter for CronJob {
    const WORD: &'static str = "cron";

    fn is_suspended(&self) -> bool {
        self.spec.is_suspended()
    }

    fn switch(suspend: bool) -> Value {
        json!({"spec": {"suspend": suspend}})
    }

    fn missing(namespace: &str, name: &str) -> MissingError {
        MissingError::Cron { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl Starter for JobFlow {
    const WORD: &'static str = "flow";

    fn is_suspended(&self) -> bool {
        self.is_suspended()
    }

    fn switch(suspend: bool) -> Value {
        json!({"metadata": {"annotations": {FLOW_SUSPENDED: suspend.then_some("true")}}})
    }

    fn missing(namespace: &str, name: &str) -> MissingError {
        MissingError::Flow { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

fn switch<K: Starter>(args: &SwitchArgs, suspend: bool, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        let (name, title) = (&args.name, title::<K>(&args.name));
        let found = objects::find::<K>(&client, Some(&namespace), name).await?;
        let found = found.ok_or_else(|| K::missing(&namespace, name))?;
        let done = if suspend { "suspended" } else { "resumed" };
        if found.is_suspended() == suspend && !context.caller.is_arena {
            let state = if suspend { "suspended already" } else { "not suspended" };
            context.printer.say(format_args!("{} `{name}` is {state}", K::KIND));
            context.printer.data(format_args!("{title} unchanged"));
            return Ok(Answer::Done);
        }
        let patch = K::switch(suspend);
        let path = objects::path::<K>(Some(&namespace), Some(name));
        let request = Request::patch(path).header(CONTENT_TYPE, "application/merge-patch+json");
        client::send(&client, request, patch.to_string().into_bytes()).await?;
        if context.caller.is_arena {
            let verb = if suspend { "suspend" } else { "resume" };
            context.printer.data(format_args!("{} {name} {verb} success", K::WORD));
        } else {
            context.printer.data(format_args!("{title} {done}"));
        }
        Ok(Answer::Done)
    })
}

fn submit_later(args: &CronTfjobArgs, context: &Context) -> Outcome {
    let submit = SubmitJob::Tfjob(args.job.clone());
    let cron = build(args, submit::build_for_later(&submit)?);
    let common = &args.job.common;
    common.ignored.notices().into_iter().for_each(|notice| context.printer.warn(notice));
    if common.how.dry_run {
        let cron = serde_json::to_value(&cron).expect("our kinds can be written as JSON");
        match common.how.output {
            ManifestOutput::Yaml => drop(context.printer.data(get::yaml(&cron))),
            ManifestOutput::Json => drop(context.printer.data(format_args!("{cron:#}"))),
        }
        return Ok(Answer::Done);
    }
    client::runtime()?.block_on(async {
        let client = client::connect_as(&common.cluster).await?;
        let namespace = common.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        objects::create(&client, Some(&namespace), &cron).await?;
        context.printer.data(format_args!("{} created", title::<CronJob>(&cron.name_any())));
        Ok(Answer::Done)
    })
}

fn build(args: &CronTfjobArgs, job: Job) -> CronJob {
    let Job { metadata: ObjectMeta { name, namespace, labels, annotations, .. }, spec, .. } = job;
    let metadata = ObjectMeta { labels: labels.clone(), annotations, ..ObjectMeta::default() };
    let spec = CronJobSpec {
        schedule: args.schedule.clone(),
        time_zone: args.time_zone.clone(),
        starting_deadline_seconds: args.deadline,
        concurrency_policy: args.concurrency_policy.clone(),
        suspend: args.suspend.then_some(true),
        job_template: CronJobTemplate { metadata, spec },
        successful_jobs_history_limit: Some(args.history_limit),
        failed_jobs_history_limit: Some(args.history_limit),
    };
    CronJob { metadata: ObjectMeta { name, namespace, labels, ..ObjectMeta::default() }, spec, status: None }
}

fn list_as_arena(args: &KindListArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace());
        let namespace = (!args.all_namespaces).then_some(namespace);
        let crons = objects::list::<CronJob>(&client, namespace, &[]).await?;
        let rows = crons.iter().map(arena_row).collect();
        context.printer.data(table::render(&ARENA_COLUMNS, rows).join("\n"));
        Ok(Answer::Done)
    })
}

fn arena_row(cron: &CronJob) -> Vec<String> {
    let template = &cron.spec.job_template;
    let job = Job { metadata: template.metadata.clone(), spec: template.spec.clone(), status: None };
    vec![
        cron.name_any(),
        JobType::of_batch(&job).to_string(),
        cron.spec.schedule.clone(),
        cron.spec.is_suspended().to_string(),
        cron.spec.starting_deadline_seconds.map(|seconds| seconds.to_string()).unwrap_or_default(),
        cron.spec.concurrency_policy().to_string(),
    ]
}
