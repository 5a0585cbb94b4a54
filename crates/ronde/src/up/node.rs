//! The part of `ronde up` that makes the machine a cluster: the node and the controllers behind the API.

use std::{
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ronde_apiserver::Server;
use ronde_control::{
    elastic::pod::AgentSettings, jobflow::probe::PodDialer, operator, scheduling::Scheduler, ssh_keys::KeySource,
};
use ronde_launch::agent::install;
use ronde_machine::{
    deployment::Deployments,
    job::{Jobs, ttl::TtlAfterFinished},
    replicaset::ReplicaSets,
    statefulset::StatefulSets,
    volumeclaims::VolumeClaims,
};
use ronde_node::{
    agent::NodeAgent,
    images::policy::Wanted,
    machine::{
        probe::{Isolation, Missing, Wish},
        rootless::{self, Home},
    },
    node::Node,
    objects::Division,
    start::{Options, Prepared, StartError, Started},
};
use ronde_process::Alone;
use ronde_runtime::{
    pods::orphans::Orphans,
    runner::{Clock, Runner},
    telemetry::Telemetry,
};
use rustix::process::Resource;
use tokio::{net::TcpStream, runtime::Runtime};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Context,
    args::{ImagesArg, IsolationArg, NodeArgs, PlacingArgs, UpArgs},
    data_dir::DataDir,
    failure::{Blame, Failure},
    printer::Printer,
    registries,
};

/// The name under which pods mount the program.
const PROGRAM_DRIVER: &str = "program.ronde.dev";
/// Controllers and workers finish what they are writing.
const DRAIN: Duration = Duration::from_secs(5);

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("cannot create the namespaces that pods need without root")]
    Home { source: io::Error },
    #[error("cannot make this machine a node")]
    Start { source: StartError },
    #[error("cannot start the controllers")]
    Controllers { source: Box<kube::Error> },
    #[error("cannot find the program itself")]
    Program { source: io::Error },
    #[error("cannot create the folder in which pods mount the program")]
    Share { source: io::Error },
}

impl Failure for NodeError {
    fn blame(&self) -> Blame {
        match self {
            Self::Start { source: StartError::Isolation { .. } | StartError::Registries { .. } } => Blame::User,
            _ => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Home { .. } => Some("run as root, or with `--isolation none`".to_owned()),
            Self::Start { source: StartError::Isolation { .. } } => {
                Some("`--isolation auto` uses what is available".to_owned())
            }
            _ => None,
        }
    }
}

/// What runs behind the API.
pub struct Cluster {
    started: Option<About>,
    tasks: TaskTracker,
}

struct About {
    names: Vec<String>,
    isolation: Isolation,
    missing: Vec<Missing>,
    node: Arc<Node>,
}

/// An ordinary user goes into a user namespace, in which he is root. This comes before the first thread.
pub fn enter_home(args: &UpArgs, context: &Context, data_dir: &DataDir) -> Result<Option<Home>, NodeError> {
    if context.environment.is_root || args.node.nodes == 0 || args.node.isolation == IsolationArg::None {
        return Ok(None);
    }
    let entered = Alone::check().and_then(|alone| rootless::enter(alone, &data_dir.path().join("node")));
    match entered {
        Ok(home) => Ok(Some(home)),
        Err(source) if args.node.isolation == IsolationArg::Full => Err(NodeError::Home { source }),
        // Then there are no namespaces either, which is found out and said next.
        Err(_) => Ok(None),
    }
}

/// Finds out what the machine allows.
pub fn prepare(
    runtime: &Runtime,
    args: &UpArgs,
    context: &Context,
    data_dir: &DataDir,
    home: Option<Home>,
) -> Result<Option<Prepared>, NodeError> {
    if args.node.nodes == 0 {
        return Ok(None);
    }
    raise_file_limit();
    let program = std::env::current_exe().map_err(|source| NodeError::Program { source })?;
    let shared = share(&data_dir.path().join("node")).map_err(|source| NodeError::Share { source })?;
    let options = Options {
        data_dir: data_dir.path().to_owned(),
        program,
        wish: wish(args.node.isolation),
        division: division(&args.node),
        pod_processes: args.node.pod_pids_limit,
        home,
        machine_env: context.environment.for_pods.clone(),
        images: images(args.node.images),
        registries: registries::folders(&args.node.registries, &context.environment),
        user_home: context.environment.home.clone(),
        shared: [(PROGRAM_DRIVER.to_owned(), shared)].into(),
    };
    runtime.block_on(Prepared::new(options)).map(Some).map_err(|source| NodeError::Start { source })
}

/// Makes the folder that pods mount the program in.
fn share(node: &Path) -> io::Result<PathBuf> {
    let folder = node.join("program");
    if install::folder_of(&folder.join("ronde")).is_none() {
        install::prepare(&folder)?;
        fs_err::set_permissions(&folder, Permissions::from_mode(0o755))?;
    }
    Ok(folder)
}

/// Every connection through a service takes two files; the usual limit of 1024 is for programs of another kind.
fn raise_file_limit() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

fn wish(isolation: IsolationArg) -> Wish {
    match isolation {
        IsolationArg::Auto => Wish::Auto,
        IsolationArg::Full => Wish::Full,
        IsolationArg::None => Wish::None,
    }
}

fn images(images: ImagesArg) -> Wanted {
    match images {
        ImagesArg::Auto => Wanted::Auto,
        ImagesArg::Host => Wanted::Host,
        ImagesArg::Pull => Wanted::Pull,
    }
}

fn division(args: &NodeArgs) -> Division {
    Division {
        nodes: args.nodes,
        cpu_milli: args.cpus.and_then(|cpus| u64::try_from(cpus.milli()).ok()),
        memory_bytes: args.memory.and_then(|memory| u64::try_from(memory.value()).ok()),
        gpus: args.gpus,
    }
}

/// Starts the node and the controllers.
pub fn start(
    runtime: &Runtime,
    (prepared, placing): (Option<Prepared>, &PlacingArgs),
    server: &Server,
    stop: &CancellationToken,
) -> Result<Cluster, NodeError> {
    let tasks = TaskTracker::new();
    let _inside = runtime.enter();
    let client = kube::Client::new(server.router(), "default");
    let Some(prepared) = prepared else {
        runtime.block_on(operator::let_in(&client, &Clock::real()));
        return Ok(Cluster { started: None, tasks });
    };
    let start = prepared.start(client.clone(), server.endpoint(), &tasks, stop);
    let started = runtime.block_on(start).map_err(|source| NodeError::Start { source })?;
    let Started { names, isolation, missing, kubelet_api, node, agent } = started;
    server.connect_nodes(kubelet_api);
    let scheduler = placing.tell(Scheduler::for_machine());
    let telemetry = Telemetry::default();
    let metrics = telemetry.metrics.clone();
    server.add_metrics(Box::new(move || metrics.render(ronde_control::metrics::of_controllers())));
    let runner = runtime.block_on(controllers(client, &node, agent, (scheduler, telemetry)));
    let runner = runner.map_err(|source| NodeError::Controllers { source: Box::new(source) })?;
    tasks.spawn(runner.run(stop.clone()));
    Ok(Cluster { started: Some(About { names, isolation, missing, node }), tasks })
}

async fn controllers(
    client: kube::Client,
    node: &Arc<Node>,
    agent: NodeAgent,
    (scheduler, telemetry): (Scheduler, Telemetry),
) -> Result<Runner, kube::Error> {
    let options = ronde_machine::Options {
        client,
        clock: Clock::real(),
        volumes: VolumeClaims { root: node.folder.join("volumes"), remove: Arc::new(remove_directory) },
        keys: KeySource::real(),
        // The program in pods is this one, also where pods do not see it: in /tmp, for example.
        agent: AgentSettings { driver: Some(PROGRAM_DRIVER.to_owned()), ..AgentSettings::default() },
        dialer: dialer(node.clone()),
        scheduler,
        telemetry,
    };
    let mut runner = ronde_machine::runner(options).await?;
    runner.add(ReplicaSets).add(Deployments).add(StatefulSets);
    runner.add(Jobs).add(Orphans::<Jobs>::default()).add(TtlAfterFinished).add(agent);
    Ok(runner)
}

/// The addresses of pods are behind a bridge that may be in a namespace of its own.
fn dialer(node: Arc<Node>) -> PodDialer {
    PodDialer::new(move |address| {
        let node = node.clone();
        let dial = async move {
            match &node.network {
                Some(network) => network.connect(None, address).await,
                None => TcpStream::connect(address).await,
            }
        };
        Box::pin(dial)
    })
}

fn remove_directory(path: &Path) -> io::Result<()> {
    match fs_err::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Cluster {
    /// Says what the machine is now, and what it lacks.
    pub fn announce(&self, printer: Printer) {
        let Some(about) = &self.started else { return };
        let nodes = match about.names.as_slice() {
            [one] => format!("`{one}`"),
            [first, .., last] => format!("{} nodes, `{first}` to `{last}`", about.names.len()),
            [] => String::new(),
        };
        let pods = match about.isolation {
            Isolation::Namespaces { .. } => "pods are isolated processes",
            Isolation::None => "pods are plain processes",
        };
        let files = match about.node.images.wanted() {
            Wanted::Pull => "in their images",
            Wanted::Host => "on this machine's own files",
            Wanted::Auto => "in their images, or else on this machine's own files",
        };
        printer.say(format_args!("  node      {nodes}: {pods} {files}"));
        for Missing { what, consequence } in &about.missing {
            printer.say(format_args!("  note      {what}: {consequence}"));
        }
    }

    /// Waits for the controllers to end. Pods go on.
    pub async fn end(self, printer: Printer, args: &UpArgs) {
        self.tasks.close();
        let _ = tokio::time::timeout(DRAIN, self.tasks.wait()).await;
        let Some(about) = &self.started else { return };
        let running = ronde_node::sweep::running_pods(&about.node.folder);
        if running > 0 {
            let (pods, they) = if running == 1 { ("pod goes", "it") } else { ("pods go", "them") };
            printer.say(format_args!("{running} {pods} on running; `{}` stops {they}", super::stop_command(args)));
        }
    }
}
