//! `ronde logs`: writes what a pod, or the pods of a job, have said to stdout, once or as it goes on.
//!
//! A name is that of a pod if there is such a pod, else that of a job: a pod is the smaller thing, and was there first in
//! the words of kubectl. `pod/NAME`, `vcjob/NAME`, `--task` and `--index` leave no doubt.

pub mod job;
pub mod stream;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;

use self::stream::Wanted;
use crate::{
    Context,
    args::LogsArgs,
    client::{self, ClientError},
    failure::{Answer, Blame, Failure, Outcome},
    jobs::{self, MissingError, any, trouble::Warnings},
    objects::{self, is_missing},
};

/// Why a name cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    #[error("`{kind}` in `{name}` is neither a pod nor a job")]
    Kind { kind: String, name: String },
    #[error("`--task` and `--index` are for jobs, `{name}` is a pod")]
    OnlyForJobs { name: String },
    #[error("{text}")]
    NotStarted { text: String },
}

impl Failure for LogsError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Kind { .. } => {
                Some("write `pod/NAME`, `vcjob/NAME`, `trainingjob/NAME` or the name alone".to_owned())
            }
            Self::OnlyForJobs { .. } | Self::NotStarted { .. } => None,
        }
    }
}

/// What a name may stand for.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    Pod(&'a str),
    Job(&'a str),
    Either(&'a str),
}

/// Runs the verb.
pub fn run(args: &LogsArgs, context: &Context) -> Outcome {
    let named = named(args)?;
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        match named {
            Named::Pod(pod) => of_pod(&client, &Wanted::new(args, &namespace, pod), context).await,
            Named::Job(name) => match any::find(&client, &namespace, name, args.job_type).await? {
                Some(job) => job::run(&client, args, &job, context).await,
                None => Err(jobs::missing(&client, &namespace, name).await),
            },
            Named::Either(name) => of_either(&client, args, (&namespace, name), context).await,
        }
    })
}

fn named(args: &LogsArgs) -> Result<Named<'_>, LogsError> {
    let is_of_job = args.is_of_job();
    let Some((kind, name)) = args.name.split_once('/') else {
        return Ok(if is_of_job { Named::Job(&args.name) } else { Named::Either(&args.name) });
    };
    // As in `job.batch.volcano.sh/mnist`, which `ronde list -o name` writes.
    match kind.split('.').next().unwrap_or_default() {
        "pod" | "pods" | "po" if is_of_job => Err(LogsError::OnlyForJobs { name: name.to_owned() }),
        "pod" | "pods" | "po" => Ok(Named::Pod(name)),
        "job" | "jobs" | "vcjob" | "vj" | "trainingjob" | "trainingjobs" => Ok(Named::Job(name)),
        _ => Err(LogsError::Kind { kind: kind.to_owned(), name: args.name.clone() }),
    }
}

async fn of_pod(client: &Client, wanted: &Wanted, context: &Context) -> Outcome {
    let log = match stream::open(client, wanted).await {
        Ok(log) => log,
        Err(error) => return Err(explained(client, (&wanted.namespace, &wanted.pod), error).await),
    };
    stream::copy(log, context.printer).await?;
    Ok(Answer::Done)
}

/// Says why a pod has written nothing, where the API says only that it waits.
async fn explained(client: &Client, (namespace, name): (&str, &str), error: ClientError) -> Box<dyn Failure> {
    if !matches!(&error, ClientError::Refused { message, .. } if message.contains("waiting to start")) {
        return error.into();
    }
    let pod = objects::find_if_served::<Pod>(client, Some(namespace), name).await.ok().flatten();
    let warnings = Warnings::fetch(client, Some(namespace)).await.unwrap_or_default();
    match pod {
        Some(pod) => LogsError::NotStarted { text: job::not_started(&pod, &warnings) }.into(),
        None => error.into(),
    }
}

async fn of_either(client: &Client, args: &LogsArgs, (namespace, name): (&str, &str), context: &Context) -> Outcome {
    let error = match stream::open(client, &Wanted::new(args, namespace, name)).await {
        Ok(log) => {
            stream::copy(log, context.printer).await?;
            return Ok(Answer::Done);
        }
        Err(error) => error,
    };
    if !is_missing(&error) {
        return Err(explained(client, (namespace, name), error).await);
    }
    match any::find(client, namespace, name, args.job_type).await? {
        Some(job) => job::run(client, args, &job, context).await,
        None => Err(MissingError::PodOrJob { namespace: namespace.to_owned(), name: name.to_owned() }.into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Verb};

    fn check(line: &str, expected: Result<&str, &str>) {
        let words = ["ronde", "logs"].into_iter().chain(line.split_whitespace());
        let Verb::Logs(args) = Args::try_parse_from(words).unwrap().verb else { panic!("{line} is for logs") };
        let shown = named(&args).map(|named| format!("{named:?}")).map_err(|error| error.to_string());
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{line}");
    }

    #[test]
    fn a_name_says_what_it_is_of() {
        check("web", Ok(r#"Either("web")"#));
        check("pod/web", Ok(r#"Pod("web")"#));
        check("vcjob/mnist", Ok(r#"Job("mnist")"#));
        check("job.batch.volcano.sh/mnist", Ok(r#"Job("mnist")"#));
        check("mnist --task worker", Ok(r#"Job("mnist")"#));
        check("mnist --index 1", Ok(r#"Job("mnist")"#));
        check("pod/web --index 1", Err("`--task` and `--index` are for jobs, `web` is a pod"));
        check("deploy/web", Err("`deploy` in `deploy/web` is neither a pod nor a job"));
    }
}
