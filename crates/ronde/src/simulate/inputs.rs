//! Where the cluster and its work come from: options, files, or the cluster of the context.

use std::path::PathBuf;

use fs_err as fs;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    scheduling::v1::PriorityClass,
};
use kube::Client;
use ronde_api::{HyperNode, Job, PodGroup, Queue, TrainingJob};
use ronde_control::{
    forecast::{self, Objects},
    scheduling::Scheduler,
};
use ronde_simulate::{
    Scenario,
    input::{
        InputError,
        cluster::{nodes, queue, trace_nodes},
        faults,
        generate::{self, Wish},
        jobs::{self, Work},
    },
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    args::SimulateArgs,
    client, environment,
    failure::Failure,
    manifest::{self, Manifest},
    objects,
    printer::Printer,
};

/// Larger files are no work of people: the public traces have less.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Why nothing can be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    #[error("{0}")]
    Input(InputError),
    #[error("cannot read `{}`", .file.display())]
    File { file: PathBuf, source: InputError },
    #[error("cannot read the jobs")]
    Read { source: std::io::Error },
    #[error("`{}` is larger than {} MiB", .file.display(), FILE_BYTES_MAX >> 20)]
    TooLarge { file: PathBuf },
    #[error("{origin} is no {kind} that can be simulated")]
    Object { origin: String, kind: String, source: serde_json::Error },
    #[error("there are no nodes to simulate")]
    NoNodes,
    #[error("there is no work to simulate")]
    NoWork,
    #[error("cannot write the chart")]
    Chart { source: std::io::Error },
    #[error("cannot write the report as JSON")]
    Json { source: serde_json::Error },
}

impl From<InputError> for SimulateError {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

/// Brings everything together.
pub async fn read(args: &SimulateArgs, printer: Printer) -> Result<Scenario, Box<dyn Failure>> {
    let has_own_cluster = !args.nodes.is_empty() || !args.files.is_empty();
    let mut scenario = if has_own_cluster {
        from_files(args)?
    } else {
        from_context(&client::connect_as(&args.cluster).await?).await?
    };
    for text in &args.nodes {
        let mut more = nodes(text).map_err(SimulateError::from)?;
        let is_known = |name: &str| scenario.nodes.iter().any(|node| node.name.as_str() == name);
        if let Some(twice) = more.iter().find(|node| is_known(node.name.as_str())) {
            let twice = format!("two nodes are called `{}`: name them, as in `gpu-b={text}`", twice.name);
            return Err(SimulateError::Input(InputError::Whole(twice)).into());
        }
        scenario.nodes.append(&mut more);
    }
    if scenario.nodes.is_empty() {
        return Err(SimulateError::NoNodes.into());
    }
    for text in &args.queues {
        let own = queue(text).map_err(SimulateError::from)?;
        scenario.queues.retain(|known| known.name != own.name);
        scenario.queues.push(own);
    }
    add_work(&mut scenario, args, printer)?;
    add_faults(&mut scenario, args)?;
    settle(&mut scenario, args);
    Ok(scenario)
}

fn from_files(args: &SimulateArgs) -> Result<Scenario, Box<dyn Failure>> {
    let mut found = Objects::default();
    let mut of_traces = Vec::new();
    for file in &args.files {
        if file.extension().is_some_and(|extension| extension == "csv") {
            let wrong = |source| SimulateError::File { file: file.clone(), source };
            let known = trace_nodes(&read_file(file)?).map_err(wrong)?;
            let unknown = || wrong(InputError::Whole("this is no list of nodes of Philly or Alibaba".to_owned()));
            of_traces.extend(known.ok_or_else(unknown)?);
        } else {
            for manifest in manifest::read(std::slice::from_ref(file))? {
                put(&mut found, manifest)?;
            }
        }
    }
    let begin = jiff::Timestamp::UNIX_EPOCH;
    let mut scenario = forecast::scenario(&found, &Scheduler::for_machine().schedulers, begin);
    scenario.nodes.extend(of_traces);
    Ok(scenario)
}

/// Keeps an object that matters; others are passed over, as `kubectl get all -o yaml` has many.
fn put(found: &mut Objects, manifest: Manifest) -> Result<(), SimulateError> {
    let Manifest { origin, kind, object, .. } = manifest;
    match kind.as_str() {
        "Node" => found.nodes.push(parsed(origin, kind, object)?),
        "Queue" => found.queues.push(parsed(origin, kind, object)?),
        "PriorityClass" => found.classes.push(parsed(origin, kind, object)?),
        "HyperNode" => found.parts.push(parsed(origin, kind, object)?),
        "PodGroup" => found.groups.push(parsed(origin, kind, object)?),
        "Pod" => found.pods.push(parsed(origin, kind, object)?),
        "Job" if object["apiVersion"] == "batch.volcano.sh/v1alpha1" => found.jobs.push(parsed(origin, kind, object)?),
        "TrainingJob" => found.training.push(parsed(origin, kind, object)?),
        _ => {}
    }
    Ok(())
}

fn parsed<T: DeserializeOwned>(origin: String, kind: String, object: Value) -> Result<T, SimulateError> {
    serde_json::from_value(object).map_err(|source| SimulateError::Object { origin, kind, source })
}

/// Asks the cluster for everything that decides who runs where.
pub async fn objects_of(client: &Client) -> Result<Objects, Box<dyn Failure>> {
    Ok(Objects {
        nodes: objects::list::<Node>(client, None, &[]).await?,
        queues: objects::list::<Queue>(client, None, &[]).await?,
        classes: objects::list::<PriorityClass>(client, None, &[]).await?,
        parts: if_served::<HyperNode>(client).await?,
        groups: objects::list::<PodGroup>(client, None, &[]).await?,
        pods: objects::list::<Pod>(client, None, &[]).await?,
        jobs: objects::list::<Job>(client, None, &[]).await?,
        training: if_served::<TrainingJob>(client).await?,
    })
}

async fn if_served<T: k8s_openapi::Resource + DeserializeOwned>(client: &Client) -> Result<Vec<T>, Box<dyn Failure>> {
    let watch = objects::watch_if_served::<T>(client, None).await?;
    Ok(watch.map(|watch| watch.all()).transpose()?.unwrap_or_default())
}

async fn from_context(client: &Client) -> Result<Scenario, Box<dyn Failure>> {
    let found = objects_of(client).await?;
    Ok(forecast::scenario(&found, &Scheduler::for_machine().schedulers, environment::now()))
}

fn read_file(file: &PathBuf) -> Result<String, SimulateError> {
    let size = fs::metadata(file).map_err(|source| SimulateError::Read { source })?.len();
    if size > FILE_BYTES_MAX {
        return Err(SimulateError::TooLarge { file: file.clone() });
    }
    fs::read_to_string(file).map_err(|source| SimulateError::Read { source })
}

/// Adds jobs of a file or of a seed to those that the cluster has.
fn add_work(scenario: &mut Scenario, args: &SimulateArgs, printer: Printer) -> Result<(), SimulateError> {
    let work = match (&args.jobs, args.generate) {
        (Some(file), _) => {
            jobs::read(&read_file(file)?).map_err(|source| SimulateError::File { file: file.clone(), source })?
        }
        (None, Some(jobs)) => {
            let load = f64::from(args.load) / 100.0;
            generate::jobs(Wish { jobs, over: args.over.0, load, seed: args.seed }, &scenario.nodes)?
        }
        (None, None) => Work::default(),
    };
    for (why, jobs) in &work.skipped {
        let jobs = if *jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
        printer.say(format!("left out {jobs} of {}: {why}", work.format));
    }
    scenario.jobs.extend(work.jobs.into_iter().map(|mut job| {
        job.arrival = job.arrival.saturating_add(scenario.begin);
        job
    }));
    if scenario.jobs.is_empty() { Err(SimulateError::NoWork) } else { Ok(()) }
}

fn add_faults(scenario: &mut Scenario, args: &SimulateArgs) -> Result<(), SimulateError> {
    let mut all = Vec::new();
    for text in &args.faults {
        all.extend(faults::faults(text, &scenario.nodes)?);
    }
    if let Some(mean) = args.mtbf {
        let last = scenario.jobs.iter().map(|job| job.arrival).max().unwrap_or(0) - scenario.begin;
        let over = args.until.unwrap_or(args.over.max(ronde_simulate::Span(last)));
        all.extend(faults::by_chance(&scenario.nodes, mean.0, args.repair.0, over.0, args.seed));
    }
    all.iter_mut().for_each(|fault| fault.at = fault.at.saturating_add(scenario.begin));
    scenario.faults = all;
    Ok(())
}

/// Sets what options say about all jobs.
fn settle(scenario: &mut Scenario, args: &SimulateArgs) {
    for job in &mut scenario.jobs {
        job.run = job.run.or(args.run_time.map(|run| run.0));
        job.checkpoint = job.checkpoint.or(args.checkpoint.map(|every| every.0));
    }
    (scenario.grace, scenario.pace) = (args.grace.0.max(0), args.pace.0.max(0));
    scenario.until = args.until.map(|until| scenario.begin.saturating_add(until.0));
}
