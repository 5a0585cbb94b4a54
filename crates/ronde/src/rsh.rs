//! `ronde rsh`, and `ssh` where this program goes by that name: a command on another host, through its agent.
//!
//! As `ssh` and without a secret it is not meant: then the real ssh, further along the `PATH`, takes over.

use std::{io, path::Path};

use ronde_launch::{
    agent::{
        names::Names,
        reach::{Caller, PORT_DEFAULT},
        rsh::{self, NO_CONNECTION, RshError},
        secret::SecretError,
        shim::{self, CallError},
    },
    start::Ended,
    surroundings,
};
use ronde_process::{Program, become_program};
use tokio::runtime::Runtime;

use crate::{
    Context, agent,
    args::{Args, RshArgs, Verb},
    failure::{Answer, Blame, Failure, Outcome},
};

/// The name of the shim.
const SSH: &str = "ssh";

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
enum RshFailure {
    #[error("{0}")]
    Call(CallError),
    #[error("cannot use the job's secret")]
    Secret { source: SecretError },
    #[error("RONDE_AGENT_PORT is `{0}`, which is not a port")]
    Port(String),
    #[error("{0}")]
    Rsh(RshError),
    #[error("lost host `{host}`: {why}")]
    Lost { host: String, why: String },
    #[error("cannot start the runtime")]
    Runtime { source: io::Error },
    #[error("cannot run the real ssh")]
    RealSsh { source: io::Error },
}

impl Failure for RshFailure {
    fn blame(&self) -> Blame {
        match self {
            Self::Call(_) | Self::Secret { .. } | Self::Port(_) => Blame::User,
            _ => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Call(_) => Some("`ronde rsh [USER@]HOST COMMAND...`".to_owned()),
            Self::Secret { source } => Some(source.hint()),
            Self::Rsh(RshError::Reach(error)) => error.hint().map(str::to_owned),
            _ => None,
        }
    }
}

/// Returns the arguments if this program was called as `ssh`.
pub fn as_ssh(words: &[String]) -> Option<Args> {
    let (name, words) = words.split_first()?;
    let args = || RshArgs { words: words.to_vec(), is_ssh: true };
    (Path::new(name).file_name()? == SSH).then(|| Args { quiet: false, verb: Verb::Rsh(args()) })
}

/// Runs the verb. Whatever goes wrong has the exit code that ssh has for it.
pub fn run(args: &RshArgs, context: &Context) -> Outcome {
    let is_ours = !args.is_ssh || context.environment.secret.is_given();
    let done = if is_ours { call(args, context) } else { real_ssh(args, context) };
    Ok(Answer::Code(done.unwrap_or_else(|failure| {
        context.printer.failure(&failure);
        NO_CONNECTION
    })))
}

/// Becomes the real ssh; where there is none, says what is missing to be one.
fn real_ssh(args: &RshArgs, context: &Context) -> Result<u8, RshFailure> {
    let env = surroundings::variables();
    let around = env.get("PATH").zip(std::env::current_exe().ok());
    match around.and_then(|(path, own)| rsh::real_ssh(path.as_ref(), &own)) {
        Some(program) => Err(RshFailure::RealSsh { source: become_ssh(&program, args, env) }),
        None => call(args, context),
    }
}

fn become_ssh(program: &Path, args: &RshArgs, env: std::collections::BTreeMap<String, String>) -> io::Error {
    let argv = std::iter::once(program.display().to_string()).chain(args.words.iter().cloned()).collect();
    become_program(&Program { argv, env: env.into_iter().collect(), folder: ".".to_owned() })
}

fn call(args: &RshArgs, context: &Context) -> Result<u8, RshFailure> {
    let call = shim::parse(&args.words).map_err(RshFailure::Call)?;
    let secret = context.environment.secret.read().map_err(|source| RshFailure::Secret { source })?;
    let port = agent::port(&context.environment).map_err(RshFailure::Port)?.unwrap_or(PORT_DEFAULT);
    let caller = Caller { names: Names::default(), port, secret };
    let host = call.host.clone();
    let runtime = Runtime::new().map_err(|source| RshFailure::Runtime { source })?;
    let ended = runtime.block_on(rsh::run(&caller, call)).map_err(RshFailure::Rsh);
    // A reader of our stdin may be waiting for ever: nobody waits for it.
    runtime.shutdown_background();
    match ended? {
        Ended::Lost(why) => Err(RshFailure::Lost { host, why }),
        ended => Ok(u8::try_from(ended.exit_code() & 0xff).unwrap_or(u8::MAX)),
    }
}
