//! Deletes jobs by name, with all that was made for them, also what an interrupted submission has left.
//!
//! What the API knows to belong to a job goes with it; the ConfigMap by which arena remembers it is deleted by name, because
//! one that arena itself made may have no owner.

use http::Request;
use k8s_openapi::{Resource as _, api::core::v1::ConfigMap};
use kube::{Client, ResourceExt as _};
use ronde_api::{Job, TrainingJob};

use super::{Going, Target, begin, finish};
use crate::{
    Context,
    arena::JobType,
    args::{CascadeArg, DeleteArgs},
    client::{self, ClientError},
    failure::{Answer, Blame, Failure, Outcome},
    jobs::{
        MissingError,
        any::{self, AnyJob},
    },
    objects,
    resources::Catalogue,
    submit::state::{self, CREATED_BY},
};

/// Why jobs were not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteJobError {
    #[error("`{word}` is neither a kind of the API nor a job in namespace `{namespace}`; nothing was deleted")]
    Neither { word: String, namespace: String },
    #[error("{missing} of {all} jobs were not there")]
    Missing { missing: usize, all: usize },
}

impl Failure for DeleteJobError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Neither { .. } => {
                Some("`ronde list` shows the jobs; `--type TYPE` takes all words for jobs".to_owned())
            }
            Self::Missing { .. } => Some("`--ignore-not-found` takes them for done".to_owned()),
        }
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
    /// Deletes the jobs of these names.
    pub async fn delete_all(&self, names: &[String]) -> Outcome {
        let (args, context) = (self.args, self.context);
        let namespace = args.namespace.as_deref().unwrap_or(self.client.default_namespace()).to_owned();
        let mut found = Vec::new();
        for name in names {
            found.push((name, any::find(self.client, &namespace, name, args.job_type).await?));
        }
        let is_certain = args.job_type.is_some() || context.caller.is_arena;
        let stray = found.iter().find(|(_, job)| job.is_none()).filter(|_| !is_certain && names.len() > 1);
        if let Some((word, _)) = stray {
            return Err(DeleteJobError::Neither { word: (*word).clone(), namespace }.into());
        }
        let mut missing = 0;
        for (name, job) in found {
            let is_gone = match job {
                Some(job) => delete(self.client, self.catalogue, &job, (args, context)).await.map(|()| true)?,
                None => sweep(self.client, &namespace, name, args.job_type).await?,
            };
            if is_gone {
                let text = format!("The training job {name} has been deleted successfully");
                context.caller.info(context.printer, text);
            } else {
                missing += 1;
                self.say_missing(&namespace, name);
            }
        }
        let forgives = args.ignore_not_found || context.caller.is_arena && !args.fail_not_found;
        match missing {
            0 => Ok(Answer::Done),
            _ if forgives => Ok(Answer::Done),
            missing => Err(DeleteJobError::Missing { missing, all: names.len() }.into()),
        }
    }

    fn say_missing(&self, namespace: &str, name: &str) {
        let missing = MissingError::Training { namespace: namespace.to_owned(), name: name.to_owned() };
        if !self.args.ignore_not_found {
            self.context.caller.info(self.context.printer, missing);
        }
    }
}

/// Deletes a job and what arena remembers of it, and waits until the job is gone.
async fn delete(
    client: &Client,
    catalogue: &Catalogue,
    job: &AnyJob,
    (args, context): (&DeleteArgs, &Context),
) -> Result<(), Box<dyn Failure>> {
    if let Some(going) = ask(client, catalogue, job, args.cascade).await? {
        finish(client, &going, args.wait, context).await?;
    }
    sweep(client, job.namespace(), &job.name(), Some(job.job_type())).await?;
    Ok(())
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
