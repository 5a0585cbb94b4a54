//! `ronde submit`: makes a job from flags, in arena's words, and says how it goes.
//!
//! Flags are checked and objects are built before anything is asked of the cluster ([`check`], [`training`], [`batch`]); what
//! is created is created in one go, and taken back if a part of it is refused.

mod batch;
mod check;
pub mod file;
mod follow;
mod pods;
mod shell;
pub mod sight;
pub mod state;
mod training;
mod volumes;

use http::{Request, StatusCode, header::CONTENT_TYPE};
use k8s_openapi::api::{
    core::v1::{ConfigMap, PersistentVolumeClaim},
    scheduling::v1::PriorityClass,
};
use kube::Client;
use ronde_api::Job;
use serde::Serialize;
use serde_json::{Value, json};

use self::{
    check::{Faults, Leave, Plain},
    state::Companion,
};
use crate::{
    Context,
    apply::FIELD_MANAGER,
    arena::JobType,
    args::{CommonArgs, ManifestOutput, SubmitArgs, SubmitHow, SubmitJob},
    client::{self, ClientError},
    environment,
    failure::{Answer, Blame, Failure, Outcome},
    get,
    jobs::any::{self, AnyJob},
    objects,
};

/// Why a job that makes sense was not submitted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("job `{name}` already exists")]
    JobExists { name: String },
    #[error("ConfigMap `{name}` already exists")]
    StateExists { name: String, job: String },
    /// The same, word for word as arena says it.
    #[error("the job {name} is already exist, please delete it first. use 'arena delete {name}'")]
    ArenaJobExists { name: String },
    #[error("the job configmap {name} is already exist, please delete it first")]
    ArenaStateExists { name: String, job: String },
    #[error("there is no priority class `{name}`")]
    Priority { name: String },
    #[error("cannot create {title}; the job was not submitted")]
    Create { title: String, source: ClientError },
}

impl Failure for SubmitError {
    fn blame(&self) -> Blame {
        match self {
            Self::Create { source, .. } => source.blame(),
            _ => Blame::User,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::ArenaJobExists { .. } => None,
            Self::JobExists { name } => {
                Some(format!("choose another name, or delete the job first with `ronde delete {name}`"))
            }
            Self::StateExists { job, .. } | Self::ArenaStateExists { job, .. } => {
                Some(format!("it was left behind by an earlier submission; remove it with `ronde delete {job}`"))
            }
            Self::Priority { .. } => Some("`ronde get priorityclasses` lists them".to_owned()),
            Self::Create { source, .. } => source.hint(),
        }
    }
}

/// Runs the verb.
pub fn run(args: &SubmitArgs, context: &Context) -> Outcome {
    let submission = build(&args.job)?;
    submission.common.ignored.notices().into_iter().for_each(|notice| context.printer.warn(notice));
    if submission.how.dry_run {
        submission.print(context);
        return Ok(Answer::Done);
    }
    client::runtime()?.block_on(async {
        let client = client::connect_as(&submission.common.cluster).await?;
        let namespace = submission.common.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        submission.check_sight(&client, &namespace, context).await?;
        let job = submission.create(&client, &namespace, context).await?;
        submission.say(&client, &job, context);
        follow::run(&client, &job, submission.how, context).await
    })
}

/// Returns the job of Volcano that the flags of a job ask for, which is to start later, and again and again.
///
/// # Errors
/// If the flags make no sense, or ask for what only a job that starts now can have.
pub fn build_for_later(job: &SubmitJob) -> Result<Job, Box<dyn Failure>> {
    let Submission { how, plain, job, .. } = build(job)?;
    let asks = [
        (how.file.is_some(), "--file"),
        (how.wait, "--wait"),
        (how.follow, "--follow"),
        (plain.common.tensorboard, "--tensorboard"),
        (!plain.files.is_empty(), "--config-file"),
    ];
    let faults: Vec<String> = asks
        .iter()
        .filter(|(is_asked, _)| *is_asked)
        .map(|(_, flag)| format!("{flag} is for a job that starts now"))
        .collect();
    match job {
        AnyJob::Batch(job) if faults.is_empty() => Ok(*job),
        other => Err(Faults { job_type: other.job_type(), faults }.into()),
    }
}

/// All that a job is made of.
struct Submission<'a> {
    common: &'a CommonArgs,
    how: &'a SubmitHow,
    plain: Plain<'a>,
    job: AnyJob,
    state: Companion,
    companions: Vec<Companion>,
}

fn build(job: &SubmitJob) -> Result<Submission<'_>, Faults> {
    let none = Leave::default();
    match job {
        SubmitJob::Etjob(args) => {
            let sizes = |faults: &mut Vec<String>| check::sizes(args, faults);
            assemble((JobType::Etjob, &args.common, none), args, sizes, |plain| training::elastic(plain, args).into())
        }
        SubmitJob::Mpijob(args) | SubmitJob::Horovodjob(args) | SubmitJob::Deepspeedjob(args) => {
            let job_type = match job {
                SubmitJob::Mpijob(_) => JobType::Mpijob,
                SubmitJob::Horovodjob(_) => JobType::Horovodjob,
                _ => JobType::Deepspeedjob,
            };
            let build = |plain: &Plain<'_>| training::fixed(plain, &args.launcher).into();
            assemble((job_type, &args.common, none), args, |_| {}, build)
        }
        SubmitJob::Pytorchjob(args) => {
            let build = |plain: &Plain<'_>| batch::pytorch(plain, args).into();
            assemble((JobType::Pytorchjob, &args.common, none), args, |_| {}, build)
        }
        SubmitJob::Tfjob(args) => {
            let leave = Leave { image: args.worker_image.is_some(), ..none };
            let build = |plain: &Plain<'_>| batch::tensorflow(plain, args).into();
            assemble((JobType::Tfjob, &args.common, leave), args, |_| {}, build)
        }
        SubmitJob::Volcanojob(args) => {
            let leave = Leave { image: !args.task_images.is_empty(), command: true };
            let build = |plain: &Plain<'_>| batch::volcano(plain, args).into();
            assemble((JobType::Volcanojob, &args.common, leave), args, |_| {}, build)
        }
    }
}

/// Checks everything, and builds everything if nothing is wrong.
fn assemble<'a>(
    (job_type, common, leave): (JobType, &'a CommonArgs, Leave),
    values: &impl Serialize,
    check: impl FnOnce(&mut Vec<String>),
    build: impl FnOnce(&Plain<'a>) -> AnyJob,
) -> Result<Submission<'a>, Faults> {
    let mut faults = Vec::new();
    let plain = check::common(common, job_type, leave, &mut faults);
    check(&mut faults);
    if !faults.is_empty() {
        return Err(Faults { job_type, faults });
    }
    let job = build(&plain);
    let companions = state::companions(&plain);
    let titles: Vec<String> = companions.iter().map(|one| one.title.clone()).chain([job.title()]).collect();
    let state = state::config_map(&plain, values, &titles);
    Ok(Submission { common, how: &common.how, plain, job, state, companions })
}

impl Submission<'_> {
    fn print(&self, context: &Context) {
        let job = job_json(&self.job);
        let all: Vec<&Value> =
            [&self.state.body].into_iter().chain(self.companions.iter().map(|one| &one.body)).chain([&job]).collect();
        match self.how.output {
            ManifestOutput::Yaml => {
                let documents: Vec<String> = all.into_iter().map(get::yaml).collect();
                context.printer.data(documents.join("\n"));
            }
            ManifestOutput::Json => {
                let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
                context.printer.data(format_args!("{list:#}"));
            }
        }
    }

    /// Tells what the pods will not see, where they run on the files of this machine.
    async fn check_sight(&self, client: &Client, namespace: &str, context: &Context) -> Result<(), Box<dyn Failure>> {
        let Some(machine) = sight::machine_of(client).await else { return Ok(()) };
        let variable = |name: &str| {
            let found = context.environment.for_pods.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        let shell = sight::Shell {
            folder: environment::current_folder(),
            path: variable("PATH"),
            python_path: variable("PYTHONPATH"),
        };
        let findings = sight::look(&self.plain, &machine, &shell, &sight::on_disk);
        findings.warnings.iter().for_each(|warning| context.printer.warn(warning));
        if !findings.faults.is_empty() {
            return Err(sight::UnseenError { faults: findings.faults }.into());
        }
        for volume in self.plain.mounts.iter().map(|mount| &mount.volume) {
            let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() else { continue };
            let found = objects::find_if_served::<PersistentVolumeClaim>(client, Some(namespace), claim).await;
            if matches!(found, Ok(None)) {
                let text =
                    format!("there is no claim `{claim}` in namespace `{namespace}`: pods wait until it is created");
                context.printer.warn(text);
            }
        }
        Ok(())
    }

    /// Creates everything, or nothing.
    async fn create(&self, client: &Client, namespace: &str, context: &Context) -> Result<AnyJob, Box<dyn Failure>> {
        self.look_around(client, namespace, context).await?;
        create(client, namespace, &self.state).await?;
        let job = match create_job(client, namespace, &self.job).await {
            Ok(job) => job,
            Err(failure) => {
                take_back(client, &[self.state.path(namespace)]).await;
                return Err(failure);
            }
        };
        if let Err(error) = self.create_companions(client, namespace, &job).await {
            take_back(client, &[job.path(), self.state.path(namespace)]).await;
            return Err(error.into());
        }
        Ok(job)
    }

    /// Looks for what would be in the way.
    async fn look_around(&self, client: &Client, namespace: &str, context: &Context) -> Result<(), Box<dyn Failure>> {
        let (name, is_arena) = (self.job.name(), context.caller.is_arena);
        let is_same_kind =
            |other: &AnyJob| matches!(other, AnyJob::Training(_)) == matches!(self.job, AnyJob::Training(_));
        if any::find_all(client, namespace, &name).await?.iter().any(is_same_kind) {
            let error = if is_arena { SubmitError::ArenaJobExists { name } } else { SubmitError::JobExists { name } };
            return Err(error.into());
        }
        let state = state::name(&name, self.job.job_type());
        if objects::find_if_served::<ConfigMap>(client, Some(namespace), &state).await?.is_some() {
            let (name, job) = (state, name);
            let error = if is_arena {
                SubmitError::ArenaStateExists { name, job }
            } else {
                SubmitError::StateExists { name, job }
            };
            return Err(error.into());
        }
        let Some(priority) = &self.common.priority else { return Ok(()) };
        match objects::find_if_served::<PriorityClass>(client, None, priority).await {
            Ok(None) => Err(SubmitError::Priority { name: priority.clone() }.into()),
            // Who may not look at classes may still use one.
            Ok(Some(_)) | Err(ClientError::Refused { code: StatusCode::FORBIDDEN, .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates what goes with the job, and gives it to the job.
    async fn create_companions(&self, client: &Client, namespace: &str, job: &AnyJob) -> Result<(), SubmitError> {
        let owner = job.reference();
        for one in &self.companions {
            let mut one = one.clone();
            one.owned_by(&owner);
            create(client, namespace, &one).await?;
        }
        give(client, &self.state, namespace, job).await
    }

    fn say(&self, client: &Client, job: &AnyJob, context: &Context) {
        let (printer, caller) = (context.printer, context.caller);
        printer.data(format_args!("{} created", self.state.title));
        printer.data(format_args!("{} labeled", self.state.title));
        for title in self.companions.iter().map(|one| one.title.clone()).chain([job.title()]) {
            printer.data(format_args!("{title} created"));
        }
        let (name, job_type, program) = (job.name(), job.job_type(), caller.name());
        let elsewhere = job.namespace() != client.default_namespace();
        let namespace = if elsewhere { format!(" -n {}", job.namespace()) } else { String::new() };
        caller.info(printer, format_args!("The Job {name} has been submitted successfully"));
        let command = format!("{program} get {name} --type {job_type}{namespace}");
        caller.info(printer, format_args!("You can run `{command}` to check the job status"));
    }
}

fn job_json(job: &AnyJob) -> Value {
    let value = match job {
        AnyJob::Training(job) => serde_json::to_value(job),
        AnyJob::Batch(job) => serde_json::to_value(job),
    };
    value.expect("our kinds can be written as JSON")
}

async fn create_job(client: &Client, namespace: &str, job: &AnyJob) -> Result<AnyJob, Box<dyn Failure>> {
    let not_json = |source| ClientError::NotJson { source };
    match job {
        AnyJob::Training(job) => {
            let made = objects::create(client, Some(namespace), job.as_ref()).await?;
            Ok(AnyJob::Training(serde_json::from_value(made).map_err(not_json)?))
        }
        AnyJob::Batch(job) => {
            let made = objects::create(client, Some(namespace), job.as_ref()).await?;
            Ok(AnyJob::Batch(serde_json::from_value(made).map_err(not_json)?))
        }
    }
}

/// Creates what goes with a job.
pub async fn create(client: &Client, namespace: &str, one: &Companion) -> Result<(), SubmitError> {
    let path = format!("{}?fieldManager={FIELD_MANAGER}", one.collection(namespace));
    let request = Request::post(path).header(CONTENT_TYPE, "application/json");
    let sent = client::send(client, request, one.body.to_string().into_bytes()).await;
    sent.map(drop).map_err(|source| SubmitError::Create { title: one.title.clone(), source })
}

/// Makes a ConfigMap that is there already go with a job.
pub async fn give(client: &Client, state: &Companion, namespace: &str, job: &AnyJob) -> Result<(), SubmitError> {
    let patch = json!({"metadata": {"ownerReferences": [job.reference()]}});
    let path = format!("{}?fieldManager={FIELD_MANAGER}", state.path(namespace));
    let request = Request::patch(path).header(CONTENT_TYPE, "application/merge-patch+json");
    let sent = client::send(client, request, patch.to_string().into_bytes()).await;
    sent.map(drop).map_err(|source| SubmitError::Create { title: state.title.clone(), source })
}

/// Deletes what was made, as far as it can be.
pub async fn take_back(client: &Client, paths: &[String]) {
    for path in paths {
        if let Err(error) = client::send(client, Request::delete(path), Vec::new()).await {
            tracing::warn!(%error, path, "cannot take back what was created");
        }
    }
}

#[cfg(test)]
pub mod fixtures {
    //! Arguments as a user writes them.

    use clap::Parser as _;

    use crate::args::{Args, EtjobArgs, SubmitJob, Verb};

    /// Reads the flags of a job.
    pub fn submit(job_type: &str, words: &[&str]) -> SubmitJob {
        let words = ["ronde", "submit", job_type].into_iter().chain(words.iter().copied());
        let Verb::Submit(args) = Args::parse_from(words).verb else { panic!("this is submit") };
        args.job
    }

    /// Reads the flags of an elastic job.
    pub fn etjob(line: &str) -> EtjobArgs {
        let words: Vec<&str> = line.split_whitespace().collect();
        let SubmitJob::Etjob(args) = submit("etjob", &words) else { panic!("this is an etjob") };
        args
    }
}

#[cfg(test)]
mod tests;
