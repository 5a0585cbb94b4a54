//! `ronde attach`, also `ronde exec`: a shell or a command in a pod of a job, through the API.
//!
//! With a terminal on both sides, ours is raw while it lasts, and its size goes along. Without one, what comes in on stdin
//! goes to the command, and its output is split as it is. The exit code is the command's.

use std::io::{self, IsTerminal as _};

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Status};
use kube::{
    Api, Client,
    api::{AttachParams, AttachedProcess, TerminalSize},
};
use rustix::termios::{self, OptionalActions, Termios};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    signal::unix::{SignalKind, signal},
};

use crate::{
    Context,
    args::AttachArgs,
    client::{self, ClientError, explain},
    failure::{Answer, Blame, Failure, Outcome},
    jobs::{
        any,
        instances::{self, Instance},
        trouble::Warnings,
    },
};

/// Why there is nothing to attach to.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("the job {job} has no instance `{instance}`")]
    Instance { job: String, instance: String, instances: Vec<String> },
    #[error("cannot exec into a container in a completed Instance; the current status of {instance} is {status}")]
    Completed { instance: String, status: String },
    #[error("cannot switch the terminal to raw mode")]
    Terminal { source: io::Error },
    #[error("the connection to instance `{instance}` broke")]
    Broken { instance: String, source: io::Error },
    #[error("{message}")]
    Refused { message: String },
}

impl Failure for AttachError {
    fn blame(&self) -> Blame {
        match self {
            Self::Instance { .. } | Self::Completed { .. } | Self::Refused { .. } => Blame::User,
            Self::Terminal { .. } | Self::Broken { .. } => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Instance { instances, .. } if instances.is_empty() => Some("it has no pods yet".to_owned()),
            Self::Instance { instances, .. } => Some(format!("its instances are `{}`", instances.join("`, `"))),
            _ => None,
        }
    }
}

/// Runs the verb.
pub fn run(args: &AttachArgs, context: &Context) -> Outcome {
    let runtime = client::runtime()?;
    let outcome = runtime.block_on(attach(args, context));
    // A thread may still wait for the user's next key.
    runtime.shutdown_background();
    outcome
}

async fn attach(args: &AttachArgs, context: &Context) -> Outcome {
    let client = client::connect_as(&args.cluster).await?;
    let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
    let job = any::fetch(&client, &namespace, &args.job, args.job_type).await?;
    let instances = instances::fetch(&client, &job, &Warnings::default()).await?;
    let wanted = args.instance.clone().unwrap_or_else(|| job.chief());
    let instance = choose(&args.job, &wanted, &instances)?.name.clone();
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if has_terminal {
        let container = args.container.as_deref().map(|name| format!("the container {name} of ")).unwrap_or_default();
        context.printer.say(format_args!("Hello! Arena attach {container}instance {instance}"));
    }
    let process = start(&client, &namespace, &instance, (args, has_terminal)).await?;
    let _raw = if has_terminal { Some(Raw::enter()?) } else { None };
    serve(process, &instance, has_terminal).await
}

fn choose<'a>(job: &str, wanted: &str, instances: &'a [Instance]) -> Result<&'a Instance, AttachError> {
    let names = || instances.iter().map(|one| one.name.clone()).collect();
    let missing = || AttachError::Instance { job: job.to_owned(), instance: wanted.to_owned(), instances: names() };
    let found = instances.iter().find(|one| one.name == wanted).ok_or_else(missing)?;
    if found.is_live {
        return Ok(found);
    }
    Err(AttachError::Completed { instance: found.name.clone(), status: found.status.clone() })
}

async fn start(
    client: &Client,
    namespace: &str,
    instance: &str,
    (args, has_terminal): (&AttachArgs, bool),
) -> Result<AttachedProcess, ClientError> {
    let command = if args.command.is_empty() { vec!["sh".to_owned()] } else { args.command.clone() };
    let how = AttachParams {
        container: args.container.clone(),
        stdin: true,
        stdout: true,
        stderr: !has_terminal,
        tty: has_terminal,
        ..AttachParams::default()
    };
    Api::<Pod>::namespaced(client.clone(), namespace).exec(instance, command, &how).await.map_err(explain)
}

/// Carries what is typed and written until the command ends.
async fn serve(mut process: AttachedProcess, instance: &str, has_terminal: bool) -> Outcome {
    let broken = |source| AttachError::Broken { instance: instance.to_owned(), source };
    let sizes = process.terminal_size().filter(|_| has_terminal);
    let resized = tokio::spawn(follow_size(sizes));
    let typed = tokio::spawn(copy(tokio::io::stdin(), process.stdin(), true));
    let status = process.take_status();
    let (out, err) =
        tokio::join!(copy_out(process.stdout(), tokio::io::stdout()), copy_out(process.stderr(), tokio::io::stderr()),);
    out.and(err).map_err(broken)?;
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    typed.abort();
    resized.abort();
    let status = status.ok_or_else(|| broken(io::ErrorKind::UnexpectedEof.into()))?;
    Ok(ended(&status)?)
}

async fn copy_out(from: Option<impl AsyncRead + Unpin>, to: impl AsyncWrite + Unpin) -> io::Result<()> {
    match from {
        Some(from) => copy(from, Some(to), false).await,
        None => Ok(()),
    }
}

/// Copies all there is; at its end the other side is told, if it is to be.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    to: Option<impl AsyncWrite + Unpin>,
    tells_end: bool,
) -> io::Result<()> {
    let Some(mut to) = to else { return Ok(()) };
    tokio::io::copy(&mut from, &mut to).await?;
    if tells_end { to.shutdown().await } else { to.flush().await }
}

/// Tells the other side how large the terminal is, now and whenever it changes.
async fn follow_size(sizes: Option<futures::channel::mpsc::Sender<TerminalSize>>) -> io::Result<()> {
    use futures::SinkExt as _;
    let Some(mut sizes) = sizes else { return Ok(()) };
    let mut changes = signal(SignalKind::window_change())?;
    loop {
        let size = termios::tcgetwinsize(rustix::stdio::stdout())?;
        let size = TerminalSize { width: size.ws_col, height: size.ws_row };
        if sizes.send(size).await.is_err() || changes.recv().await.is_none() {
            return Ok(());
        }
    }
}

/// Returns how a command ended.
fn ended(status: &Status) -> Result<Answer, AttachError> {
    if status.status.as_deref() == Some("Success") {
        return Ok(Answer::Done);
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let code = causes
        .filter(|cause| cause.reason.as_deref() == Some("ExitCode"))
        .find_map(|cause| cause.message.as_deref().and_then(|code| code.parse::<u8>().ok()));
    let message = status.message.clone().unwrap_or_else(|| "the command could not be run".to_owned());
    code.map(Answer::Code).ok_or(AttachError::Refused { message })
}

/// The terminal while its keys go to the pod.
struct Raw(Termios);

impl Raw {
    fn enter() -> Result<Self, AttachError> {
        let terminal = |source: rustix::io::Errno| AttachError::Terminal { source: source.into() };
        let before = termios::tcgetattr(rustix::stdio::stdin()).map_err(terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw).map_err(terminal)?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // There is nothing better to do for a terminal that has gone.
        let _ = termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_exit_code_is_that_of_the_command() {
        let status =
            |value: serde_json::Value| ended(&serde_json::from_value(value).unwrap()).map_err(|e| e.to_string());
        assert_eq!(status(json!({"status": "Success"})), Ok(Answer::Done));
        let causes = json!([{"reason": "ExitCode", "message": "7"}]);
        let failed = json!({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}});
        assert_eq!(status(failed), Ok(Answer::Code(7)));
        let refused = json!({"status": "Failure", "message": "no such file"});
        assert_eq!(status(refused), Err("no such file".to_owned()));
    }
}
