//! `ronde agent`: starts ranks on this host for a launcher that knows the job's secret.
//!
//! Stays in the foreground, as the first process of a pod does. Also the way into the pod's folder: `agent install`.

use std::{io, path::Path};

use ronde_launch::{
    agent::{
        init, install,
        mirror::Mirror,
        programs::{self, Programs},
        secret::SecretError,
        server::{Agent, AgentError, Options},
    },
    start::local::Local,
    surroundings,
};
use tokio::runtime::Runtime;

use crate::{
    Context,
    args::{AgentArgs, AgentVerb},
    environment::{self, Environment},
    failure::{Answer, Blame, Failure, Outcome},
    logging,
};

/// Our own program, whatever has become of its file.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Why there is no agent, or no longer one.
#[derive(Debug, thiserror::Error)]
enum AgentFailure {
    #[error("cannot install this program in `{folder}`")]
    Install { folder: String, source: io::Error },
    #[error("cannot use the job's secret")]
    Secret { source: SecretError },
    #[error("RONDE_AGENT_PORT is `{0}`, which is not a port")]
    Port(String),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("cannot run an agent")]
    Process(#[from] io::Error),
}

impl Failure for AgentFailure {
    fn blame(&self) -> Blame {
        match self {
            Self::Secret { .. } | Self::Port(_) | Self::Agent(AgentError::Hosts { .. }) => Blame::User,
            Self::Install { .. } | Self::Agent(_) | Self::Process(_) => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Secret { source } => Some(source.hint()),
            Self::Agent(AgentError::Listen { .. }) => Some("choose another address with --listen".to_owned()),
            _ => None,
        }
    }
}

/// Runs the verb.
pub fn run(args: &AgentArgs, context: &Context) -> Outcome {
    if let Some(AgentVerb::Install { folder }) = &args.verb {
        let wrong = |source| AgentFailure::Install { folder: folder.display().to_string(), source };
        install::install(Path::new(OWN_PROGRAM), folder).map_err(wrong)?;
        return Ok(Answer::Done);
    }
    let code = init::under_init(|| serve(args, context))?;
    Ok(Answer::Code(u8::try_from(code & 0xff).unwrap_or(u8::MAX)))
}

/// Returns the port that the environment names.
pub fn port(environment: &Environment) -> Result<Option<u16>, String> {
    let port = environment.agent_port.as_ref();
    port.map(|port| port.parse().map_err(|_| port.clone())).transpose()
}

fn serve(args: &AgentArgs, context: &Context) -> Result<i32, AgentFailure> {
    logging::start(&context.environment, None)?;
    let port = port(&context.environment).map_err(AgentFailure::Port)?;
    let mut secret = context.environment.secret.clone();
    secret.file = args.secret_file.clone().or(secret.file);
    let mut variables = surroundings::variables();
    if let Some(file) = &args.secret_file {
        // Programs that start others through agents need it too.
        let file = environment::absolute(file)?.display().to_string();
        variables.insert(ronde_launch::agent::secret::SECRET_FILE_VARIABLE.to_owned(), file);
    }
    let options = Options {
        listen: args.listen(port),
        secret: secret.read().map_err(|source| AgentFailure::Secret { source })?,
        command: args.command.clone(),
        mirror: mirror(args),
        port,
    };
    Runtime::new()?.block_on(async {
        let agent = Agent::bind(options).await?;
        // Beside a command it would be the first line of that command's log.
        if args.command.is_empty() {
            context.printer.say(format_args!("listens on {}", agent.address()));
        }
        let folder = std::env::current_exe().ok().and_then(|program| install::folder_of(&program));
        let hosts_file = args.hosts_to.first().map(std::path::PathBuf::as_path);
        let environment = programs::wiring(variables, folder.as_deref(), agent.port(), hosts_file);
        let directory = std::env::current_dir()?;
        Ok(agent.run(Programs { local: Local::default(), environment, directory }).await?)
    })
}

fn mirror(args: &AgentArgs) -> Option<Mirror> {
    args.hosts_from.clone().map(|from| Mirror {
        from,
        to: args.hosts_to.clone(),
        deepspeed_to: args.deepspeed_hosts_to.clone(),
    })
}
