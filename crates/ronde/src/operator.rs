//! `ronde operator`: batch work on a cluster that is there already.
//!
//! Runs in the foreground until Ctrl-C, outside of the cluster with a kubeconfig or inside of it with the pod's own
//! account. Several may run: one works, the others wait for it to go.

pub mod config;
mod serve;

use std::{future::pending, io, net::SocketAddr, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use http::StatusCode;
use ronde_control::{
    elastic::pod::AgentSettings,
    install::Definitions,
    operator::{self, MACHINE, OperatorError, OperatorEvent, Options},
    scheduling::Scheduler,
    ssh_keys::KeySource,
};
use ronde_runtime::{runner::Clock, telemetry::Telemetry};
use tokio::runtime::Runtime;

use crate::{
    Context,
    args::{DefinitionsArg, LogFormat, OperatorArgs},
    client::{self, ClientError},
    environment,
    failure::{Answer, Blame, Failure, Outcome},
    logging,
    printer::Printer,
    signals,
};

/// Why the operator ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("cannot check for another operator")]
    Lease { source: ClientError },
    #[error("cannot install the custom resource definitions")]
    Install { source: ClientError },
    #[error("this cluster needs no operator: `{MACHINE}` runs jobs and schedules here")]
    Machine,
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
}

impl From<OperatorError> for Ended {
    fn from(error: OperatorError) -> Self {
        match error {
            OperatorError::Lease { source } => Self::Lease { source: client::explain(*source) },
            OperatorError::Install { source } => Self::Install { source: client::explain(*source) },
            OperatorError::Machine => Self::Machine,
        }
    }
}

impl Failure for Ended {
    fn blame(&self) -> Blame {
        match self {
            Self::Lease { source } | Self::Install { source } => source.blame(),
            Self::Machine => Blame::User,
            Self::Listen { .. } => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        let source = match self {
            Self::Lease { source } | Self::Install { source } => source,
            Self::Machine => {
                return Some("`ronde up --nodes 0` serves an API that leaves them to an operator".to_owned());
            }
            Self::Listen { .. } => return Some("choose another address with `--listen`".to_owned()),
        };
        match source {
            ClientError::Refused { code: StatusCode::FORBIDDEN, .. } => {
                Some("the operator needs cluster administrator rights, or those of the chart's role".to_owned())
            }
            other => other.hint(),
        }
    }
}

/// Runs the verb.
pub fn run(args: &OperatorArgs, context: &Context) -> Outcome {
    let wrap = |source| ClientError::Runtime { source };
    logging::start_in(&context.environment, args.log_format).map_err(wrap)?;
    let runtime = Runtime::new().map_err(wrap)?;
    let printer = context.printer;
    let ended = runtime.block_on(async {
        let stop = signals::stop_token(false, printer).map_err(wrap)?;
        let (options, names) = (options(args).await?, args.scheduler_names.join("`, `"));
        let answers = answers(args, &options.telemetry).await?;
        tokio::select! {
            ended = operator::run(options, stop, |news| say(args.log_format, printer, &names, &news)) => ended.map_err(Ended::from)?,
            () = answers => {}
        }
        Ok::<_, Box<dyn Failure>>(())
    });
    ended.map(|()| Answer::Done)
}

async fn options(args: &OperatorArgs) -> Result<Options, ClientError> {
    let cluster = &args.cluster;
    let config = client::config_from_anywhere(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await?;
    Ok(Options {
        client: client::connect_with(config.clone())?,
        connect: Arc::new(move |term| client::connect_for(config.clone(), term)),
        telemetry: Telemetry::default(),
        lease_duration: Duration::from_secs(args.lease_duration),
        clock: Clock::real(),
        keys: KeySource::real(),
        agent: AgentSettings { program: args.agent_program.clone(), image: args.agent_image.clone(), driver: None },
        scheduler: scheduler(args),
        definitions: match args.definitions {
            DefinitionsArg::Install => Definitions::Install,
            DefinitionsArg::Check => Definitions::Check,
        },
        identity: environment::identity(),
    })
}

/// Returns what answers about the health of this process, if that is wanted.
async fn answers(args: &OperatorArgs, telemetry: &Telemetry) -> Result<BoxFuture<'static, ()>, Ended> {
    let Some(address) = args.listen else { return Ok(pending().boxed()) };
    let answers = serve::listen(address, telemetry.clone()).await;
    answers.map(FutureExt::boxed).map_err(|source| Ended::Listen { address, source })
}

fn scheduler(args: &OperatorArgs) -> Scheduler {
    let schedulers = args.scheduler_names.iter().cloned().collect();
    args.placing.tell(Scheduler { schedulers, ..Scheduler::for_cluster() })
}

/// Tells a person what the operator is at, or whoever reads its log.
fn say(format: LogFormat, printer: Printer, names: &str, news: &OperatorEvent<'_>) {
    match (format, news) {
        (LogFormat::Json, OperatorEvent::Waits { holder }) => tracing::info!(holder, "on standby"),
        (LogFormat::Json, OperatorEvent::Lacks { kinds }) => {
            tracing::info!(kinds = kinds.join(", "), "waiting for custom resource definitions");
        }
        (LogFormat::Json, OperatorEvent::Works) => tracing::info!(schedulers = names, "active"),
        (LogFormat::Json, OperatorEvent::Lost) => tracing::warn!("no longer active"),
        (LogFormat::Text, OperatorEvent::Waits { holder }) => {
            printer.say(format_args!("on standby: `{holder}` is active"));
        }
        (LogFormat::Text, OperatorEvent::Lacks { kinds }) => {
            printer.say(format_args!("waiting for custom resource definitions: {}", kinds.join(", ")));
        }
        (LogFormat::Text, OperatorEvent::Works) => {
            printer.say(format_args!("active; places the pods of the schedulers `{names}`"));
        }
        (LogFormat::Text, OperatorEvent::Lost) => {
            printer.say("no longer active: the lease was not renewed in time, or taken by another");
        }
    }
}
