//! `ronde up`: the Kubernetes API of this machine, in the foreground or, with `--detach`, behind it.
//!
//! Refuses before it starts anything: when somebody else uses the data directory, and when the kubeconfig is
//! malformed or not ours to change. A graceful end takes the kubeconfig entries back; after `kill -9`
//! the next `ronde up` or `ronde down` does.

mod detach;
mod gone;
mod node;

use std::{
    io, panic,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use fs_err as fs;
use ronde_apiserver::{OpenError, Options, Server};
use ronde_machine::admission::OwnKinds;
use ronde_node::start::Prepared;
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    Context,
    args::UpArgs,
    data_dir::DataDir,
    environment,
    failure::{Answer, Blame, Failure, Outcome},
    kubeconfig::{self, Access, Added, KubeconfigError, Record, Removed},
    lock::{self, About, Lock},
    logging, printer, signals,
};

/// Open watches are told to end at once; this is for an answer that is being written.
const DRAIN: Duration = Duration::from_secs(5);

/// Why the API could not be started or kept running.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    #[error("cannot start the Kubernetes API on {listen}")]
    Open { listen: std::net::SocketAddr, source: Box<OpenError> },
    #[error("the Kubernetes API ended by itself")]
    Ended,
    #[error("cannot start the runtime")]
    Runtime { source: io::Error },
    #[error("cannot listen for signals")]
    Signals { source: io::Error },
    #[error("cannot write into the data directory")]
    Data { source: io::Error },
    #[error("the data directory {path} is gone: it was deleted or moved away while ronde was running")]
    Gone { path: PathBuf },
}

impl Failure for UpError {
    fn blame(&self) -> Blame {
        match self {
            Self::Open { source, .. } if is_address_in_use(&**source) => Blame::User,
            Self::Ended => Blame::Bug,
            _ => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Open { source, .. } if is_address_in_use(&**source) => {
                Some("choose another port, or let the system choose: `--listen 127.0.0.1:0`".to_owned())
            }
            Self::Gone { .. } => Some("all of its pods were stopped; start again with `ronde up`".to_owned()),
            _ => None,
        }
    }
}

/// Looks for the system's own error among the causes.
fn is_address_in_use(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Everything decided before anything is started.
struct Plan {
    data_dir: DataDir,
    kubeconfig: PathBuf,
    lock: Lock,
    about: About,
}

/// Runs the verb.
pub fn run(args: &UpArgs, context: &Context) -> Outcome {
    if args.detach {
        return detach::run(args, context);
    }
    if args.detached {
        detach::leave_terminal();
    }
    let begun = environment::stopwatch();

    // 1. Nobody else uses the data directory, and the kubeconfig may be changed.
    let mut plan = plan(args, context)?;
    let log = if args.detached { Some(plan.data_dir.log_file()) } else { None };
    logging::start(&context.environment, log.as_deref()).map_err(|source| UpError::Data { source })?;

    // 2. The machine is known; then the API is open: store recovered, certificates there, address bound.
    let home = node::enter_home(args, context, &plan.data_dir)?;
    let runtime = Runtime::new().map_err(|source| UpError::Runtime { source })?;
    let prepared = node::prepare(&runtime, args, context, &plan.data_dir, home)?;
    let server = open(&runtime, args, &plan, prepared.as_ref())?;

    // 3. Clients can find it.
    let stop = {
        let _inside = runtime.enter();
        signals::stop_token(args.detached, context.printer).map_err(|source| UpError::Signals { source })?
    };
    let watch = gone::Watch::start(&runtime, &plan.data_dir, &stop).map_err(|source| UpError::Data { source })?;
    let cluster = node::start(&runtime, (prepared, &args.placing), &server, &stop)?;
    let access = access(&server, &plan);
    let added = publish(&mut plan, &server, &access)?;
    announce(args, context, &plan, &added, (&cluster, begun.elapsed()));
    let serving = runtime.spawn(server.serve(stop.clone()));
    if args.detached && detach::report_ready(&plan.data_dir.log_file()).is_err() {
        // Whoever waited for us gave up.
        stop.cancel();
    }

    // 4. It serves until somebody stops it; then the kubeconfig is as it was.
    let served = runtime.block_on(finish(serving, &stop));
    runtime.block_on(cluster.end(context.printer, args));
    withdraw(&plan.data_dir, added.record, context);
    let is_gone = watch.has_seen_it_go();
    if is_gone {
        gone::clean_up(&runtime, plan.data_dir.path(), context);
    }
    // Last, because a second Ctrl-C is noticed only while the runtime lives.
    runtime.shutdown_timeout(DRAIN);
    drop(plan.lock);
    if is_gone {
        return Err(UpError::Gone { path: plan.data_dir.path().to_owned() }.into());
    }
    served.map(|()| Answer::Done).map_err(Into::into)
}

fn plan(args: &UpArgs, context: &Context) -> Result<Plan, Box<dyn Failure>> {
    let mut data_dir = DataDir::resolve(args.data_dir.data_dir.as_deref(), &context.environment)?;
    let kubeconfig = find_kubeconfig(args.kubeconfig.as_deref(), context)?;
    kubeconfig::check(&kubeconfig, data_dir.path(), is_running(data_dir.path()))?;
    data_dir.prepare()?;
    let about = About {
        pid: std::process::id(),
        started: environment::now(),
        endpoint: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let lock = Lock::take(data_dir.path(), &about)?;
    Ok(Plan { data_dir, kubeconfig, lock, about })
}

pub fn find_kubeconfig(named: Option<&Path>, context: &Context) -> Result<PathBuf, KubeconfigError> {
    let environment = &context.environment;
    let path = kubeconfig::locate(named, environment.kubeconfig.as_deref(), environment.home.as_deref(), Path::exists)
        .ok_or(KubeconfigError::NoHome)?;
    Ok(environment::absolute(&path).unwrap_or(path))
}

/// Asks for other data directories than our own, whose lock file only [`Lock`] may open. An instance that cannot be
/// asked, say another user's, counts as running: its entries are not ours to remove.
fn is_running(own: &Path) -> impl Fn(&Path) -> bool + '_ {
    move |other| {
        let is_own = fs::canonicalize(other).is_ok_and(|other| other == own);
        !is_own && lock::holder(other).map_or(true, |holder| holder.is_some())
    }
}

fn open(runtime: &Runtime, args: &UpArgs, plan: &Plan, node: Option<&Prepared>) -> Result<Server, UpError> {
    let options = Options {
        data_dir: plan.data_dir.path().to_owned(),
        listen: args.listen,
        admission: vec![Arc::new(OwnKinds::default())],
        service_network: node.and_then(Prepared::service_network).unwrap_or_default(),
    };
    runtime
        .block_on(Server::open(options))
        .map_err(|source| UpError::Open { listen: args.listen, source: Box::new(source) })
}

fn access(server: &Server, plan: &Plan) -> Access {
    Access {
        server: format!("https://{}", server.endpoint()),
        certificate_authority: BASE64.encode(server.ca_pem()),
        credential: server.admin_credential().to_string_lossy().into_owned(),
        data_dir: plan.data_dir.path().to_string_lossy().into_owned(),
    }
}

/// Tells other processes how to reach the API: our lock file, our own kubeconfig, the user's kubeconfig.
fn publish(plan: &mut Plan, server: &Server, access: &Access) -> Result<Added, Box<dyn Failure>> {
    plan.about.endpoint = Some(server.endpoint());
    plan.lock.describe(&plan.about).map_err(|source| UpError::Data { source })?;
    kubeconfig::write_standalone(&plan.data_dir.kubeconfig(), access)?;
    Ok(kubeconfig::add(&plan.kubeconfig, plan.data_dir.path(), access, is_running(plan.data_dir.path()))?)
}

fn announce(args: &UpArgs, context: &Context, plan: &Plan, added: &Added, (cluster, took): (&node::Cluster, Duration)) {
    let printer = context.printer;
    let endpoint = plan.about.endpoint.map(|endpoint| format!(" on https://{endpoint}")).unwrap_or_default();
    printer.say(format_args!("ronde is ready{endpoint} after {:.2} s", took.as_secs_f64()));
    let file = plan.kubeconfig.display();
    let was = added.previous.as_ref().map(|name| format!(" (was `{name}`)")).unwrap_or_default();
    printer.say(format_args!("  context   `{}` in {file}, selected{was}", kubeconfig::NAME));
    printer.say(format_args!("  data      {}", plan.data_dir.path().display()));
    if let Some(mode) = added.tightened_from {
        printer.say(format_args!("  note      {file} is for you alone now: its mode went from {mode:03o} to 600"));
    }
    cluster.announce(printer);
    let stop = if args.detached { stop_command(args) } else { "Ctrl-C".to_owned() };
    let what = if args.node.nodes == 0 { "namespaces" } else { "nodes" };
    printer.say(format_args!("  try       kubectl get {what}   (or: ronde get {what})"));
    printer.say(format_args!("  stop      {stop}"));
}

fn stop_command(args: &UpArgs) -> String {
    match &args.data_dir.data_dir {
        Some(path) => format!("ronde down --data-dir {}", path.display()),
        None => "ronde down".to_owned(),
    }
}

/// Waits for the server to end by itself, or for the order to stop and then a bounded time for the last answers.
async fn finish(mut serving: JoinHandle<()>, stop: &CancellationToken) -> Result<(), UpError> {
    let ended = tokio::select! {
        ended = &mut serving => Some(ended),
        () = stop.cancelled() => tokio::time::timeout(DRAIN, serving).await.ok(),
    };
    match ended {
        // Connections that would not end are cut; everything acknowledged is on disk.
        None => Ok(()),
        Some(Ok(())) if stop.is_cancelled() => Ok(()),
        Some(Ok(())) => Err(UpError::Ended),
        Some(Err(panicked)) => panic::resume_unwind(panicked.into_panic()),
    }
}

fn withdraw(data_dir: &DataDir, record: Record, context: &Context) {
    match kubeconfig::remove(data_dir.path(), Some(record)) {
        Ok(Removed::Nothing) => {}
        Ok(Removed::Entries { kubeconfig }) => {
            context.printer.say(format_args!(
                "stopped; removed the context `{}` from {}",
                kubeconfig::NAME,
                kubeconfig.display()
            ));
        }
        Err(error) => context.printer.warn(printer::one_line(&error)),
    }
}
