//! `ronde operator`: batch work on a cluster that is there already.
//!
//! Runs in the foreground until Ctrl-C, outside of the cluster with a kubeconfig or inside of it with the pod's own
//! account. Several may run: one works, the others wait for it to go.

use http::StatusCode;
use ronde_control::{
    elastic::pod::AgentSettings,
    install::Definitions,
    operator::{self, MACHINE, OperatorError, OperatorEvent, Options},
    scheduling::Scheduler,
    ssh_keys::KeySource,
};
use ronde_runtime::runner::Clock;
use tokio::runtime::Runtime;

use crate::{
    Context,
    args::{DefinitionsArg, OperatorArgs},
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
    #[error("another operator has taken over")]
    Lost,
}

impl From<OperatorError> for Ended {
    fn from(error: OperatorError) -> Self {
        match error {
            OperatorError::Lease { source } => Self::Lease { source: client::explain(*source) },
            OperatorError::Install { source } => Self::Install { source: client::explain(*source) },
            OperatorError::Machine => Self::Machine,
            OperatorError::Lost => Self::Lost,
        }
    }
}

impl Failure for Ended {
    fn blame(&self) -> Blame {
        match self {
            Self::Lease { source } | Self::Install { source } => source.blame(),
            Self::Machine => Blame::User,
            Self::Lost => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        let source = match self {
            Self::Lease { source } | Self::Install { source } => source,
            Self::Machine => {
                return Some("`ronde up --nodes 0` serves an API that leaves them to an operator".to_owned());
            }
            Self::Lost => return None,
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
    logging::start(&context.environment, None).map_err(wrap)?;
    let runtime = Runtime::new().map_err(wrap)?;
    let printer = context.printer;
    let ended = runtime.block_on(async {
        let stop = signals::stop_token(false, printer).map_err(wrap)?;
        let cluster = &args.cluster;
        let client = client::connect_from_anywhere(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await?;
        let options = Options {
            client,
            clock: Clock::real(),
            keys: KeySource::real(),
            agent: AgentSettings { program: args.agent_program.clone(), image: args.agent_image.clone(), driver: None },
            scheduler: scheduler(args),
            definitions: match args.definitions {
                DefinitionsArg::Install => Definitions::Install,
                DefinitionsArg::Check => Definitions::Check,
            },
            identity: environment::identity(),
        };
        let names = args.scheduler_names.join("`, `");
        operator::run(options, stop, |news| say(printer, &names, &news)).await.map_err(Ended::from)?;
        Ok::<_, Box<dyn Failure>>(())
    });
    ended.map(|()| Answer::Done)
}

fn scheduler(args: &OperatorArgs) -> Scheduler {
    let schedulers = args.scheduler_names.iter().cloned().collect();
    args.placing.tell(Scheduler { schedulers, ..Scheduler::for_cluster() })
}

fn say(printer: Printer, names: &str, news: &OperatorEvent<'_>) {
    match news {
        OperatorEvent::Waits { holder } => printer.say(format_args!("on standby: `{holder}` is active")),
        OperatorEvent::Lacks { kinds } => {
            printer.say(format_args!("waiting for custom resource definitions: {}", kinds.join(", ")));
        }
        OperatorEvent::Works => printer.say(format_args!("active; places the pods of the schedulers `{names}`")),
    }
}
