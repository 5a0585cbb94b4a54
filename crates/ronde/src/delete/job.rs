//! Deletes jobs by name, with all that was made for them, also what an interrupted submission has left.
//!
//! What the API knows to belong to a job goes with it; the ConfigMap by which arena remembers it is deleted by name, because
//! one that arena itself made may have no owner.

use std::collections::BTreeSet;

use http::Request;
use k8s_openapi::{Resource as _, api::core::v1::ConfigMap};
use kube::{Client, ResourceExt as _};
use ronde_api::{Job, TrainingJob};

use super::{Going, Target, begin};
use crate::{
    Context,
    arena::JobType,
    args::{CascadeArg, DeleteArgs},
    client::{self, ClientError},
    failure::{Blame, Failure, Outcome},
    jobs::{
        MissingError,
        any::{self, AnyJob},
    },
    objects,
    partial_failure::{self, Batch},
    resources::Catalogue,
    submit::state::{self, CREATED_BY},
};

/// A word is neither, and may have been meant as a kind.
#[derive(Debug, thiserror::Error)]
#[error("`{word}` is neither a kind nor a job in namespace `{namespace}`; nothing was deleted")]
pub struct NeitherError {
    word: String,
    namespace: String,
}

impl Failure for NeitherError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        Some(
            "if all of them are jobs, add `--ignore-not-found` or `--type TYPE`; `ronde list` shows the jobs"
                .to_owned(),
        )
    }
}

/// How names are taken.
pub struct Jobs<'a> {
    pub client: &'a Client,
    pub catalogue: &'a Catalogue,
    pub args: &'a DeleteArgs,
    pub context: &'a Context,
}

impl Jobs<'_> {
    /// Deletes the jobs of these names; one that is missing or refused does not keep the others back.
    pub async fn delete_all(&self, names: &[String]) -> Outcome {
        let namespace = self.args.namespace.as_deref().unwrap_or(self.client.default_namespace());
        self.refuse_misspelt_kind(namespace, names).await?;
        let mut seen = BTreeSet::new();
        let names: Vec<&String> = names.iter().filter(|name| seen.insert(*name)).collect();
        let (mut going, mut refused) = (Vec::new(), Vec::new());
        for name in &names {
            match self.begin(namespace, name).await {
                Ok(begun) => going.extend(begun),
                Err(failure) => refused.push(failure),
            }
        }
        for (job, going) in going {
            if let Err(failure) = self.finish(&job, going.as_ref()).await {
                refused.push(failure);
            }
        }
        let batch = Batch { total: names.len(), what: "jobs", done: "deleted" };
        partial_failure::outcome(refused, batch, self.context.printer)
    }

    /// Refuses `deploymnt web`, which should not delete the job `web`.
    async fn refuse_misspelt_kind(&self, namespace: &str, names: &[String]) -> Result<(), Box<dyn Failure>> {
        let are_jobs = self.args.job_type.is_some() || self.context.caller.is_arena || self.args.ignore_not_found;
        let [word, _, ..] = names else { return Ok(()) };
        if are_jobs || !any::find_all(self.client, namespace, word).await?.is_empty() {
            return Ok(());
        }
        Err(NeitherError { word: word.clone(), namespace: namespace.to_owned() }.into())
    }

    /// Asks for the end of a job; of one that is not there, what is left of it goes at once.
    async fn begin(&self, namespace: &str, name: &str) -> Result<Option<(AnyJob, Option<Going>)>, Box<dyn Failure>> {
        let job_type = self.args.job_type;
        if let Some(job) = any::find(self.client, namespace, name, job_type).await? {
            let going = ask(self.client, self.catalogue, &job, self.args.cascade).await?;
            return Ok(Some((job, going)));
        }
        if sweep(self.client, namespace, name, job_type).await? {
            self.say_deleted(name);
            return Ok(None);
        }
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        match (self.context.caller.is_arena, self.args.ignore_not_found) {
            (_, true) => Ok(None),
            (true, false) => self.miss(MissingError::Training { namespace, name }),
            (false, false) if self.args.words.len() == 1 => Err(MissingError::KindOrJob { namespace, name }.into()),
            (false, false) => Err(MissingError::Job { namespace, name }.into()),
        }
    }

    /// Tells of a job that is not there as arena does: it is no failure unless it is asked for.
    fn miss<T>(&self, missing: MissingError) -> Result<Option<T>, Box<dyn Failure>> {
        if self.args.fail_not_found {
            return Err(missing.into());
        }
        self.context.caller.info(self.context.printer, missing);
        Ok(None)
    }

    /// Waits until a job is gone, and takes away what arena remembers of it.
    async fn finish(&self, job: &AnyJob, going: Option<&Going>) -> Result<(), Box<dyn Failure>> {
        if let Some(going) = going {
            super::finish(self.client, going, self.args.wait, self.context).await?;
        }
        sweep(self.client, job.namespace(), &job.name(), Some(job.job_type())).await?;
        self.say_deleted(&job.name());
        Ok(())
    }

    fn say_deleted(&self, name: &str) {
        let text = format!("The training job {name} has been deleted successfully");
        self.context.caller.info(self.context.printer, text);
    }
}

/// Deletes a job and what arena remembers of it.
pub async fn prune(client: &Client, catalogue: &Catalogue, job: &AnyJob) -> Result<(), Box<dyn Failure>> {
    ask(client, catalogue, job, CascadeArg::Background).await?;
    sweep(client, job.namespace(), &job.name(), Some(job.job_type())).await?;
    Ok(())
}

/// Asks for the end of a job; somebody else may have been faster.
async fn ask(
    client: &Client,
    catalogue: &Catalogue,
    job: &AnyJob,
    cascade: CascadeArg,
) -> Result<Option<Going>, Box<dyn Failure>> {
    let resource = match job {
        AnyJob::Training(_) => catalogue.find_kind(TrainingJob::API_VERSION, TrainingJob::KIND)?,
        AnyJob::Batch(_) => catalogue.find_kind(Job::API_VERSION, Job::KIND)?,
    };
    let namespace = Some(job.namespace().to_owned());
    let target = Target { resource: resource.clone(), namespace, name: job.name() };
    match begin(client, target, cascade).await {
        Ok(going) => Ok(Some(going)),
        Err(error) if objects::is_missing(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Deletes the ConfigMaps of a job, of one type or of all; tells whether there was one.
async fn sweep(client: &Client, namespace: &str, name: &str, job_type: Option<JobType>) -> Result<bool, ClientError> {
    let mut is_found = false;
    for job_type in JobType::ALL.into_iter().filter(|one| job_type.is_none_or(|wanted| wanted == *one)) {
        let state = state::name(name, job_type);
        let map = objects::find_if_served::<ConfigMap>(client, Some(namespace), &state).await?;
        let is_ours = |map: &ConfigMap| map.labels().get(CREATED_BY.0).is_some_and(|value| value == CREATED_BY.1);
        if map.as_ref().is_some_and(is_ours) {
            let path = objects::path::<ConfigMap>(Some(namespace), Some(&state));
            match client::send(client, Request::delete(path), Vec::new()).await {
                Err(error) if !objects::is_missing(&error) => return Err(error),
                _ => is_found = true,
            }
        }
    }
    Ok(is_found)
}
