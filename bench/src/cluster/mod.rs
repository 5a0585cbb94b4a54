//! Jobs end to end on a real API server with simulated nodes: from the first request until every pod has a node.
//!
//! In turn: the floor, a bare loop that creates and binds the same pods; our operator; and whoever else is named, by the
//! same program. Everybody begins with an empty namespace and is stopped before the next one. What they ask of the API
//! server is counted by its audit log, so that it is the same count for all, and does not depend on how busy the machine is.

mod audit;
pub mod contender;
pub mod load;
mod report;
mod shape;
pub mod surroundings;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::Context as _;
use clap::Args;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use self::{
    contender::Contender,
    load::Work,
    report::{Row, head},
    shape::Shape,
};
use crate::node::{cluster::Cluster, usage::Group};

/// Whose requests are counted: an account of the control plane that nobody else uses.
const USER: &str = "system:kube-scheduler";
/// Its kubeconfig, in the folder of the control plane.
const KUBECONFIG: &str = "scheduler.kubeconfig";
/// What is asked of whoever has its turn before it is measured, so that it has begun for sure.
const FIRST: Shape = Shape { jobs: 1, pods: 1, queues: 1 };

#[derive(Args)]
pub struct Options {
    /// The script that starts the real control plane.
    #[arg(long, required_unless_present = "kubeconfig")]
    kubernetes: Option<PathBuf>,
    /// A cluster that runs already, instead; nobody counts the calls there.
    #[arg(long, conflicts_with = "kubernetes")]
    kubeconfig: Option<PathBuf>,
    /// The ronde program to measure; without it, whoever is installed on the cluster.
    #[arg(long)]
    ronde: Option<PathBuf>,
    /// Another one to measure beside it: its name, and the shell command that starts it with KUBECONFIG.
    #[arg(long = "peer", value_name = "NAME=COMMAND")]
    peers: Vec<Contender>,
    /// The scheduler that pods name.
    #[arg(long, default_value = "volcano")]
    scheduler: String,
    /// Let the benchmark make groups and pods instead of jobs, for schedulers without controllers.
    #[arg(long)]
    groups: bool,
    /// Simulated nodes; each number is a turn for all shapes.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000])]
    nodes: Vec<usize>,
    /// Jobs × pods of each, and @ how many queues.
    #[arg(long, value_delimiter = ',', default_values_t = default_shapes())]
    shapes: Vec<Shape>,
    /// The program kwok and its configuration; without them pods get a node and nothing more.
    #[arg(long, num_args = 2, value_names = ["KWOK", "CONFIG"])]
    kwok: Option<Vec<PathBuf>>,
    /// Rounds of everything; each is shown.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
}

fn default_shapes() -> Vec<Shape> {
    let shape = |jobs, pods| Shape { jobs, pods, queues: 1 };
    vec![shape(10, 100), shape(100, 10), shape(1000, 1), shape(20, 500)]
}

/// Where all of them are measured.
struct Ground {
    client: Client,
    /// What contenders are started with.
    kubeconfig: PathBuf,
    /// The log in which calls are counted.
    audit: Option<PathBuf>,
    /// What programs say.
    log: PathBuf,
    turns: usize,
}

pub async fn run(options: &Options) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    if let Some(kubeconfig) = &options.kubeconfig {
        let client = client_of(kubeconfig).await?;
        let (kubeconfig, log) = (kubeconfig.clone(), folder.path().join("contenders.log"));
        return measure(options, Ground { client, kubeconfig, audit: None, log, turns: 0 }).await;
    }
    let script = options.kubernetes.as_ref().context("no control plane")?;
    let cluster = start(script, folder).await?;
    let measured = measure_on(options, &cluster).await;
    cluster.stop().await?;
    measured
}

/// Starts the control plane, with a log of what the contenders ask for.
async fn start(script: &Path, folder: TempDir) -> anyhow::Result<Cluster> {
    let policy = folder.path().join("policy.json");
    fs_err::write(&policy, audit::policy(USER))?;
    let options = audit::options(&policy, &folder.path().join("audit.log"));
    Cluster::kubernetes_in(script, folder, &options).await
}

async fn client_of(kubeconfig: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn measure_on(options: &Options, cluster: &Cluster) -> anyhow::Result<()> {
    let file = |name: &str| cluster.folder().join(name);
    let kwok = options.kwok.as_deref().map(|kwok| start_kwok(kwok, cluster)).transpose()?;
    let client = cluster.client().await?;
    let (kubeconfig, audit, log) = (file(KUBECONFIG), Some(file("audit.log")), file("contenders.log"));
    let measured = measure(options, Ground { client, kubeconfig, audit, log, turns: 0 }).await;
    if let Some(mut kwok) = kwok {
        kwok.kill().await?;
    }
    measured
}

fn start_kwok(kwok: &[PathBuf], cluster: &Cluster) -> anyhow::Result<Child> {
    let [program, config] = kwok else { anyhow::bail!("kwok needs its program and its configuration") };
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(cluster.kubeconfig()).arg("--config").arg(config);
    command.args(["--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake", "--server-address", ""]);
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn()?)
}

async fn measure(options: &Options, mut ground: Ground) -> anyhow::Result<()> {
    let mut contenders: Vec<Contender> = options.ronde.iter().map(|program| Contender::ronde(program)).collect();
    contenders.extend(options.peers.iter().cloned());
    if contenders.is_empty() {
        contenders.push(Contender::installed(&options.scheduler));
    }
    println!("{}", head());
    for wanted in &options.nodes {
        let nodes = surroundings::make_nodes(&ground.client, *wanted).await?;
        for shape in options.shapes.iter().cycle().take(options.rounds * options.shapes.len()) {
            let floor = ground.floor(*shape, &nodes).await?;
            println!("{}", floor.line(nodes.len(), *shape, floor.timing.seconds));
            for contender in &contenders {
                let row = ground.turn(options, contender, *shape).await;
                // Whoever fails is said to have failed, and does not end the others' turns.
                match row {
                    Ok(row) => {
                        println!("{}", row.line(nodes.len(), *shape, floor.timing.seconds));
                        row.calls_line(*shape).into_iter().for_each(|line| println!("{line}"));
                    }
                    Err(error) => println!("{:>6} {:>10} {error:#}", nodes.len(), shape.to_string()),
                }
            }
        }
    }
    Ok(())
}

impl Ground {
    async fn namespace(&mut self) -> anyhow::Result<String> {
        self.turns += 1;
        let name = format!("bench-{}-{}", std::process::id(), self.turns);
        surroundings::make_namespace(&self.client, &name).await?;
        Ok(name)
    }

    async fn floor(&mut self, shape: Shape, nodes: &[String]) -> anyhow::Result<Row> {
        let namespace = self.namespace().await?;
        let timing = load::run(&self.client, &namespace, shape, Work::Floor { nodes }).await;
        surroundings::clear(&self.client, &namespace).await?;
        Ok(Row { name: "floor".to_owned(), timing: timing?, ..Row::default() })
    }

    /// Gives a contender its turn.
    async fn turn(&mut self, options: &Options, contender: &Contender, shape: Shape) -> anyhow::Result<Row> {
        let scheduler = options.scheduler.as_str();
        let work = if options.groups { Work::Groups { scheduler } } else { Work::Jobs { scheduler } };
        let playing = contender.start(&self.kubeconfig, &self.log)?;
        let row = self.play(contender, &playing, (shape, work)).await;
        playing.stop().await?;
        row.with_context(|| format!("{} failed; its last words: {}", contender.name, last_words(&self.log)))
    }

    async fn play(
        &mut self,
        contender: &Contender,
        playing: &contender::Playing,
        (shape, work): (Shape, Work<'_>),
    ) -> anyhow::Result<Row> {
        // 1. it has begun when it has done something
        let first = self.namespace().await?;
        surroundings::until_it_works(&self.client, &first, FIRST, work).await?;
        surroundings::make_queues(&self.client, shape).await?;
        surroundings::clear(&self.client, &first).await?;
        // 2. its turn
        let namespace = self.namespace().await?;
        let log = match &self.audit {
            Some(path) => Some(audit::Log::begin(path).await),
            None => None,
        };
        let before = playing.usage();
        let timing = load::run(&self.client, &namespace, shape, work).await?;
        let used = playing.usage().zip(before).map(|(after, before)| Group {
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            memory_mb: after.memory_mb,
        });
        let calls = match log {
            Some(log) => Some(log.calls().await?),
            None => None,
        };
        // 3. while it is there it lets its pods go
        surroundings::clear(&self.client, &namespace).await?;
        Ok(Row { name: contender.name.clone(), timing, calls, used })
    }
}

fn last_words(log: &Path) -> String {
    let text = fs_err::read_to_string(log).unwrap_or_default();
    text.lines().rev().take(3).collect::<Vec<_>>().join(" / ")
}
