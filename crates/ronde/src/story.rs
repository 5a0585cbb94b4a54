//! `ronde story JOB`: how it went, or goes, with a job: what it waited for, its sizes and why, its losses, its end.
//!
//! Only reads. [`ronde_story`] tells; here is what it tells from: the objects of the job, and the last lines of its output.

use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Client, ResourceExt as _};
use ronde_api::{ScaleIn, ScaleOut, Scaler};
use ronde_story::{Sample, Seen, Story, Subject, svg, tell, text};
use ronde_text::progress;

use crate::{
    Context,
    args::{StoryArgs, StoryOutput},
    client::{self, ClientError},
    environment,
    failure::{Answer, Failure, Outcome},
    jobs::{
        MissingError,
        any::{self, AnyJob},
    },
    logs::stream::{self, Wanted},
    objects,
};

/// How many of the last lines of its output are looked at: some 2 MB.
const LINES_MAX: u64 = 20_000;
/// A longer line says nothing of progress; the rest of it is read as another.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Runs the verb.
pub fn run(args: &StoryArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace());
        let missing = || MissingError::Job { namespace: namespace.to_owned(), name: args.name.clone() };
        let job = any::find(&client, namespace, &args.name, args.job_type).await?.ok_or_else(missing)?;
        let story = fetch(&client, &job).await?;
        match args.output {
            StoryOutput::Text => context.printer.data(text::lines(&story).join("\n")),
            StoryOutput::Json => {
                let story = serde_json::to_string_pretty(&story).expect("a story can be written as JSON");
                context.printer.data(story)
            }
            StoryOutput::Svg => context.printer.bytes(svg::picture(&story).as_bytes()),
        };
        Ok(Answer::Done)
    })
}

/// Reads what there is of a job, and tells its story.
pub async fn fetch(client: &Client, job: &AnyJob) -> Result<Story, Box<dyn Failure>> {
    let namespace = Some(job.namespace());
    let pods = objects::list::<Pod>(client, namespace, &[("labelSelector", &job.selector())]).await?;
    let pods: Vec<Pod> = pods.into_iter().filter(|pod| job.owns(pod)).collect();
    let events = objects::list::<Event>(client, namespace, &[]).await?;
    let is_ours = |event: &Event| {
        let uid = event.involved_object.uid.as_deref();
        uid.is_some_and(|uid| uid == job.uid() || pods.iter().any(|pod| pod.metadata.uid.as_deref() == Some(uid)))
    };
    let events: Vec<Event> = events.into_iter().filter(is_ours).collect();
    let (mut outs, mut ins) = (Vec::new(), Vec::new());
    if let AnyJob::Training(_) = job {
        outs = scalers::<ScaleOut>(client, job).await?;
        ins = scalers::<ScaleIn>(client, job).await?;
    }
    let samples = samples(client, job, &pods).await?;
    let subject = match job {
        AnyJob::Training(job) => Subject::Training(job),
        AnyJob::Batch(job) => Subject::Batch(job),
    };
    Ok(tell(&Seen {
        job: subject,
        pods: &pods,
        events: &events,
        scale_outs: &outs,
        scale_ins: &ins,
        samples: &samples,
        now: environment::now(),
    }))
}

async fn scalers<T: Scaler + serde::de::DeserializeOwned + k8s_openapi::Resource>(
    client: &Client,
    job: &AnyJob,
) -> Result<Vec<T>, ClientError> {
    let Some(watch) = objects::watch_if_served::<T>(client, Some(job.namespace())).await? else {
        return Ok(Vec::new());
    };
    Ok(watch.all::<T>()?.into_iter().filter(|scaler| scaler.job_name() == job.name()).collect())
}

/// Reads what the job says of its progress, if the pod that says it is still there.
async fn samples(client: &Client, job: &AnyJob, pods: &[Pod]) -> Result<Vec<Sample>, ClientError> {
    let Some(pod) = pods.iter().find(|pod| job.is_chief(&pod.name_any())) else { return Ok(Vec::new()) };
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first()).map(|first| first.name.clone());
    let wanted = Wanted::last_lines(job.namespace(), &pod.name_any(), container, LINES_MAX);
    match stream::open(client, &wanted).await {
        Ok(log) => read(log).await,
        // It has not begun, or its node is gone: there is a story all the same.
        Err(ClientError::Refused { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

async fn read(mut log: impl AsyncBufRead + Unpin) -> Result<Vec<Sample>, ClientError> {
    let (mut samples, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let read = (&mut log).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await.map_err(stream::broken)?;
        if read == 0 {
            return Ok(samples);
        }
        let sample = sample(&String::from_utf8_lossy(&line));
        // All ranks say the same, and what is done again after a loss was told before.
        samples.extend(sample.filter(|sample| samples.last().is_none_or(|last: &Sample| last.step < sample.step)));
    }
}

/// Reads a line with its time in front.
fn sample(line: &str) -> Option<Sample> {
    let (time, said) = line.split_once(' ')?;
    let progress::Progress { step, loss } = progress::read(said)?;
    Some(Sample { time: time.parse::<Timestamp>().ok()?, step, loss })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_progress_of_a_log_is_that_of_the_rank_that_is_ahead() {
        let log = "2026-01-01T00:00:01.5Z [0]<stdout>:Step #10    Loss: 2.5\n\
                   2026-01-01T00:00:01.6Z [1]<stdout>:Step #10    Loss: 2.5\n\
                   loading\n\
                   2026-01-01T00:00:02Z [1]<stdout>:Step #20    Loss: 1.5\n\
                   2026-01-01T00:00:03Z [1]<stdout>:Step #11    Loss: 2.4\n\
                   never Step #30 Loss: 1\n";
        let samples = read(log.as_bytes()).await.unwrap();
        let told: Vec<String> = samples.iter().map(|it| format!("{} {} {}", it.time, it.step, it.loss)).collect();
        assert_eq!(told, ["2026-01-01T00:00:01.5Z 10 2.5", "2026-01-01T00:00:02Z 20 1.5"]);
    }
}
