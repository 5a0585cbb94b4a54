//! The logs of a job: those of its pods, one after the other, or all together as they go on.
//!
//! With more than one pod in the selection, each line has the name of its pod in front. That follows from the job alone,
//! so it does not depend on how far the job has come. The output of a training job is that of its launcher; `--all` is
//! that of its workers too.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::{Client, ResourceExt as _};
use ronde_api::{
    Job,
    names::{self, elastic},
};

use super::stream::{self, Wanted};
use crate::{
    Context,
    args::LogsArgs,
    client::ClientError,
    failure::{Answer, Blame, Failure, Outcome},
    jobs::{
        self,
        any::{self, AnyJob, State},
        trouble::{self, Warnings},
    },
    objects,
    printer::{Printer, Reader},
    watch,
};

/// Why a selection of pods is empty.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    #[error("job `{job}` has no task `{task}`")]
    Task { job: String, task: String, tasks: Vec<String> },
    #[error("no selected pod of job `{job}` has index {index}")]
    Index { job: String, index: u32, last: i32 },
}

impl Failure for SelectionError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Task { tasks, .. } => format!("its tasks are `{}`", tasks.join("`, `")),
            Self::Index { last, .. } => format!("indexes go from 0 to {last}"),
        })
    }
}

/// Writes the logs of a job.
pub async fn run(client: &Client, args: &LogsArgs, job: &AnyJob, context: &Context) -> Outcome {
    let selection = Selection::new(args, job, context.caller.is_arena)?;
    let logs = Logs { client, args, job, selection, printer: context.printer };
    if args.follow { logs.follow().await } else { logs.once().await }
}

/// Which pods are meant.
#[derive(Debug, PartialEq, Eq)]
enum Selection {
    /// These, in this order.
    Named(Vec<String>),
    /// Those of a training job that there are, of a role and an index if they are given: they come and go.
    Present { role: Option<String>, index: Option<u32> },
}

impl Selection {
    fn new(args: &LogsArgs, job: &AnyJob, only_chief: bool) -> Result<Self, SelectionError> {
        let (task, index) = (args.task.clone(), args.index);
        let is_open = task.is_none() && index.is_none() && !args.all;
        match (&args.instance, job) {
            (Some(instance), _) => Ok(Self::Named(vec![instance.clone()])),
            (None, AnyJob::Training(_)) if is_open => Ok(Self::Named(vec![job.chief()])),
            (None, AnyJob::Training(_)) => {
                let roles = || [elastic::LAUNCHER, elastic::WORKER].map(str::to_owned).into();
                match task {
                    Some(task) if task != elastic::LAUNCHER && task != elastic::WORKER => {
                        Err(SelectionError::Task { job: job.name(), task, tasks: roles() })
                    }
                    role => Ok(Self::Present { role, index }),
                }
            }
            (None, AnyJob::Batch(_)) if only_chief && is_open => Ok(Self::Named(vec![job.chief()])),
            (None, AnyJob::Batch(job)) => Ok(Self::Named(select(job, task.as_deref(), index)?)),
        }
    }

    fn has(&self, pod: &Pod) -> bool {
        match self {
            Self::Named(names) => names.contains(&pod.name_any()),
            Self::Present { role, index } => {
                let label = |key: &str| pod.labels().get(key);
                role.as_ref().is_none_or(|role| label(elastic::ROLE) == Some(role))
                    && index.is_none_or(|index| label(elastic::INDEX) == Some(&index.to_string()))
            }
        }
    }

    /// Returns how wide the names of pods are, if they are to be written.
    fn width(&self, job: &AnyJob) -> Option<usize> {
        match self {
            Self::Named(names) if names.len() == 1 => None,
            Self::Named(names) => names.iter().map(|name| name.chars().count()).max(),
            Self::Present { .. } => Some(elastic::worker(&job.name(), 10).chars().count()),
        }
    }
}

/// Returns the names of the pods that are meant, in the order of the tasks.
fn select(job: &Job, task: Option<&str>, index: Option<u32>) -> Result<Vec<String>, SelectionError> {
    let name = job.name_any();
    let tasks: Vec<_> = job.spec.tasks.iter().filter(|one| task.is_none_or(|task| one.name == task)).collect();
    if let Some(task) = task.filter(|_| tasks.is_empty()) {
        let tasks = job.spec.tasks.iter().map(|task| task.name.clone()).collect();
        return Err(SelectionError::Task { job: name, task: task.to_owned(), tasks });
    }
    let is_meant = |number: &i32| index.is_none_or(|index| i64::from(*number) == i64::from(index));
    let pods: Vec<String> = tasks
        .iter()
        .flat_map(|task| (0..task.replicas).filter(is_meant).map(|index| names::pod(&name, &task.name, index)))
        .collect();
    match index {
        Some(index) if pods.is_empty() => {
            let last = tasks.iter().map(|task| task.replicas - 1).max().unwrap_or(0);
            Err(SelectionError::Index { job: name, index, last })
        }
        _ => Ok(pods),
    }
}

struct Logs<'a> {
    client: &'a Client,
    args: &'a LogsArgs,
    job: &'a AnyJob,
    selection: Selection,
    printer: Printer,
}

impl Logs<'_> {
    async fn once(&self) -> Outcome {
        let selector = self.selector();
        let pods = objects::list::<Pod>(self.client, self.namespace(), &[("labelSelector", &selector)]).await?;
        let pods = self.meant(pods);
        if pods.is_empty() {
            self.printer.say(self.nothing().await?);
        }
        let has_started = |pod: &Pod| attempt(pod, self.container_of(pod)).is_some();
        let warnings = if pods.iter().all(has_started) {
            Warnings::default()
        } else {
            Warnings::fetch(self.client, self.namespace()).await?
        };
        for pod in &pods {
            if !has_started(pod) {
                self.printer.say(not_started(pod, &warnings));
            } else if self.write(pod).await? == Reader::Gone {
                break;
            }
        }
        Ok(Answer::Done)
    }

    /// Writes until the job has ended and all has been read.
    async fn follow(&self) -> Outcome {
        let (namespace, selector) = (self.namespace(), self.selector());
        let job = any::watch(self.client, self.job).await?;
        let pods = objects::watch::<Pod>(self.client, namespace, &[("labelSelector", &selector)]).await?;
        let warnings = objects::watch::<Event>(self.client, namespace, &[trouble::OF_PODS]).await?;
        let mut watches = [job, pods, warnings];
        let mut begun = BTreeSet::new();
        let mut said = BTreeSet::new();
        let mut writing = FuturesUnordered::new();
        loop {
            let is_over = is_over(self.job, any::of_watch(self.job, &watches[0])?.as_ref());
            let pods = if is_over && writing.is_empty() {
                // The end of a job may be heard of before the beginning of its pods.
                objects::list::<Pod>(self.client, namespace, &[("labelSelector", &selector)]).await?
            } else {
                watches[1].all()?
            };
            let warnings = Warnings::of(&watches[2].all()?);
            for pod in self.meant(pods) {
                let attempt = attempt(&pod, self.container_of(&pod));
                let trouble = trouble::of_pod(&pod, &warnings).filter(|_| attempt.is_none());
                if trouble.is_some_and(|why| said.insert((pod.uid(), why))) {
                    self.printer.say(not_started(&pod, &warnings));
                }
                if attempt.is_some_and(|attempt| begun.insert((pod.uid(), attempt))) {
                    writing.push(async move { self.write(&pod).await });
                }
            }
            if is_over && writing.is_empty() {
                return Ok(Answer::Done);
            }
            tokio::select! {
                changed = watch::any_changed(&mut watches) => changed?,
                Some(written) = writing.next() => match written? {
                    Reader::Gone => return Ok(Answer::Done),
                    Reader::There => {}
                },
            }
        }
    }

    /// Says why there is nothing to read.
    async fn nothing(&self) -> Result<String, Box<dyn Failure>> {
        let why = match self.job {
            AnyJob::Batch(job) => jobs::reason(job, jobs::find_group(self.client, job).await?.as_ref()),
            AnyJob::Training(_) => self.job.message(),
        };
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let what = match (&self.selection, self.job) {
            (Selection::Named(names), AnyJob::Training(_)) => {
                format!("instance `{}` is not running", names.join("`, `"))
            }
            _ => format!("job `{}` has no pods", self.job.name()),
        };
        let it = if what.starts_with("job") { "it" } else { "the job" };
        Ok(format!("{what}, {it} is {}{why}", self.job.phase_word()))
    }

    fn namespace(&self) -> Option<&str> {
        Some(self.job.namespace())
    }

    fn selector(&self) -> String {
        self.job.selector()
    }

    /// Returns those of the pods that are meant, in the order of the tasks.
    fn meant(&self, mut pods: Vec<Pod>) -> Vec<Pod> {
        pods.retain(|pod| self.job.owns(pod) && self.selection.has(pod));
        pods.sort_by_key(|pod| self.job.place(pod));
        pods
    }

    /// Returns the container that is meant: of several, the first.
    fn container_of<'a>(&'a self, pod: &'a Pod) -> &'a str {
        let first = pod.spec.as_ref().and_then(|spec| spec.containers.first()).map(|container| container.name.as_str());
        self.args.container.as_deref().or(first).unwrap_or_default()
    }

    async fn write(&self, pod: &Pod) -> Result<Reader, ClientError> {
        let name = pod.name_any();
        let mut wanted = Wanted::new(self.args, self.namespace().unwrap_or_default(), &name);
        wanted.container = Some(self.container_of(pod).to_owned());
        let log = match stream::open(self.client, &wanted).await {
            Ok(log) => log,
            // It ended, or began anew, between two looks: there is nothing to read.
            Err(ClientError::Refused { message, .. }) => {
                self.printer.say(format_args!("pod `{name}`: {message}"));
                return Ok(Reader::There);
            }
            Err(error) => return Err(error),
        };
        match self.selection.width(self.job) {
            None => stream::copy(log, self.printer).await,
            Some(width) => stream::copy_lines(log, &format!("{name:<width$} | "), self.printer).await,
        }
    }
}

/// Says that a pod has written nothing, and why.
pub fn not_started(pod: &Pod, warnings: &Warnings) -> String {
    let name = pod.name_any();
    match trouble::of_pod(pod, warnings) {
        Some(why) => format!("pod `{name}` has not started: {why}"),
        None => format!("pod `{name}` has not started yet"),
    }
}

/// Returns how often a container of a pod has started before, if it has started.
fn attempt(pod: &Pod, container: &str) -> Option<i32> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let status: &ContainerStatus = all.into_iter().find(|status| status.name == container)?;
    let has_started = [status.state.as_ref(), status.last_state.as_ref()]
        .into_iter()
        .flatten()
        .any(|state| state.running.is_some() || state.terminated.is_some());
    has_started.then_some(status.restart_count)
}

/// Tells whether a job will say no more.
fn is_over(job: &AnyJob, now: Option<&AnyJob>) -> bool {
    let now = now.filter(|now| now.uid() == job.uid());
    // What is on its way to be suspended still writes.
    now.is_none_or(|now| now.state().is_final() || now.state() == State::Suspended && now.phase_word() != "Aborting")
}

#[cfg(test)]
mod tests {
    use ronde_api::TrainingJob;
    use serde_json::{Value, json};

    use super::*;

    fn job(phase: &str) -> Job {
        let tasks = json!([{"name": "master", "replicas": 1}, {"name": "worker", "replicas": 2}]);
        let metadata = json!({"name": "lm", "uid": "u1"});
        let status = json!({"state": {"phase": phase}});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"tasks": tasks}, "status": status})).unwrap()
    }

    fn check(name: &str, task: Option<&str>, index: Option<u32>, expected: Result<&str, &str>) {
        let selected = select(&job("Running"), task, index).map(|pods| pods.join(" "));
        let selected = selected.map_err(|error| format!("{error}; {}", error.hint().unwrap_or_default()));
        assert_eq!(selected.as_deref().map_err(String::as_str), expected, "{name}");
    }

    #[test]
    fn pods_are_selected_by_task_and_index() {
        check("all", None, None, Ok("lm-master-0 lm-worker-0 lm-worker-1"));
        check("one task", Some("worker"), None, Ok("lm-worker-0 lm-worker-1"));
        check("one pod", Some("worker"), Some(1), Ok("lm-worker-1"));
        check("the first of each task", None, Some(0), Ok("lm-master-0 lm-worker-0"));
        check("no such task", Some("ps"), None, Err("job `lm` has no task `ps`; its tasks are `master`, `worker`"));
        check(
            "no such index",
            Some("worker"),
            Some(2),
            Err("no selected pod of job `lm` has index 2; indexes go from 0 to 1"),
        );
    }

    fn check_selection(name: &str, line: &str, job: &AnyJob, expected: (&str, bool)) {
        use clap::Parser as _;
        let words = ["ronde", "logs", "lm"].into_iter().chain(line.split_whitespace());
        let crate::args::Verb::Logs(args) = crate::args::Args::parse_from(words).verb else { panic!("{line}") };
        let selection = Selection::new(&args, job, true).unwrap();
        let pod = |pod: &str, role: &str, index: &str| -> Pod {
            let labels = json!({"training-job-role": role, "replica-index": index});
            serde_json::from_value(json!({"metadata": {"name": pod, "labels": labels}})).unwrap()
        };
        let pods = [("lm-launcher", "launcher", ""), ("lm-worker-0", "worker", "0"), ("lm-worker-12", "worker", "12")];
        let pods = pods.iter().chain([&("lm-master-0", "", "")]).map(|(name, role, index)| pod(name, role, index));
        let meant: Vec<String> = pods.filter(|pod| selection.has(pod)).map(|pod| pod.name_any()).collect();
        assert_eq!((meant.join(" ").as_str(), selection.width(job).is_some()), expected, "{name}");
    }

    #[test]
    fn the_output_of_a_training_job_is_that_of_its_launcher() {
        let training: TrainingJob = serde_json::from_value(json!({"metadata": {"name": "lm"}})).unwrap();
        let training = AnyJob::from(training);
        check_selection("alone", "", &training, ("lm-launcher", false));
        check_selection("all", "--all", &training, ("lm-launcher lm-worker-0 lm-worker-12 lm-master-0", true));
        check_selection("workers", "--task worker", &training, ("lm-worker-0 lm-worker-12", true));
        check_selection("one", "-i lm-worker-12", &training, ("lm-worker-12", false));
        check_selection("an index", "--index 12", &training, ("lm-worker-12", true));
        check_selection("a batch job, for arena", "", &job("Running").into(), ("lm-master-0", false));
    }

    #[test]
    fn an_attempt_of_a_container_is_counted_once_it_has_started() {
        let pod = |state: Value, last: Value| -> Pod {
            let status = json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 2,
                "state": state, "lastState": last});
            serde_json::from_value(json!({"metadata": {}, "status": {"containerStatuses": [status]}})).unwrap()
        };
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let ended = json!({"terminated": {"exitCode": 1}});
        assert_eq!(attempt(&pod(json!({"running": {}}), json!({})), "c"), Some(2));
        assert_eq!(attempt(&pod(ended.clone(), json!({})), "c"), Some(2));
        assert_eq!(attempt(&pod(waiting.clone(), ended), "c"), Some(2));
        assert_eq!(attempt(&pod(waiting, json!({})), "c"), None);
        assert_eq!(attempt(&pod(json!({"running": {}}), json!({})), "other"), None);
        assert_eq!(attempt(&Pod::default(), "c"), None);
    }

    #[test]
    fn a_job_that_ended_or_went_says_no_more() {
        let is_over = |now: Option<Job>| is_over(&job("Running").into(), now.map(AnyJob::from).as_ref());
        assert!(!is_over(Some(job("Running"))));
        assert!(!is_over(Some(job("Restarting"))));
        assert!(is_over(Some(job("Completed"))));
        assert!(is_over(Some(job("Aborted"))));
        assert!(is_over(None));
        let mut other = job("Running");
        other.metadata.uid = Some("u2".to_owned());
        assert!(is_over(Some(other)));
    }
}
