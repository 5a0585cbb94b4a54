//! `ronde up --detach`: starts the same program again in the background and waits until it is ready.
//!
//! The child talks to our terminal until then: failures and the announcement reach the user as in the foreground.
//! It says "ready" by a line on its stdout, which is a pipe to us, and moves its output to the log.

use std::{
    io::{self, Read as _, Write as _},
    os::fd::AsFd as _,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use fs_err as fs;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    stdio::{dup2_stderr, dup2_stdout},
};

use crate::{
    Context,
    args::{ImagesArg, IsolationArg, NodeArgs, PlacingArgs, UpArgs},
    failure::{Answer, Blame, Failure, Outcome},
};

/// Recovery of a large store after a crash reads all of it.
const READY_SECONDS: i64 = 60;
const READY_LINE: &[u8] = b"ready\n";

/// Why there is no background process.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    #[error("cannot start the background process")]
    Spawn { source: io::Error },
    #[error("the background process was not ready after {READY_SECONDS} s and was stopped")]
    Late,
    #[error("the background process ended: {status}")]
    Ended { status: std::process::ExitStatus },
}

impl Failure for DetachError {
    fn blame(&self) -> Blame {
        Blame::Environment
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Spawn { .. } => None,
            _ => Some("its log is `ronde.log` in the data directory".to_owned()),
        }
    }
}

/// Starts the background process and waits for it.
pub fn run(args: &UpArgs, context: &Context) -> Outcome {
    let mut child = spawn(args, context).map_err(|source| DetachError::Spawn { source })?;
    let mut pipe = child.stdout.take().expect("stdout was asked to be a pipe");
    match wait_for_ready(&mut pipe) {
        Ok(Ready::Yes) => Ok(Answer::Done),
        Ok(Ready::Ended) => pass_on(&mut child),
        Ok(Ready::Late) | Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(DetachError::Late.into())
        }
    }
}

/// In the child: a session of our own, so that the terminal's signals and its end do not reach us.
pub fn leave_terminal() {
    // It fails only for a leader of a process group, which a spawned child is not.
    let _ = rustix::process::setsid();
}

/// In the child: says that we are ready and moves to the background.
pub fn report_ready(log: &Path) -> io::Result<()> {
    let log = fs::OpenOptions::new().append(true).create(true).open(log)?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(READY_LINE).and_then(|()| stdout.flush())?;
    dup2_stdout(&log)?;
    dup2_stderr(&log)?;
    // Keep no directory busy that somebody may want to unmount.
    std::env::set_current_dir("/")
}

fn spawn(args: &UpArgs, context: &Context) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("up").arg("--detached").arg("--listen").arg(args.listen.to_string());
    if let Some(data_dir) = &args.data_dir.data_dir {
        command.arg("--data-dir").arg(data_dir);
    }
    if let Some(kubeconfig) = &args.kubeconfig {
        command.arg("--kubeconfig").arg(kubeconfig);
    }
    command.args(node_args(&args.node)).args(placing_args(&args.placing));
    if context.printer.quiet {
        command.arg("--quiet");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()
}

/// Says the same to the child that was said to us.
fn node_args(node: &NodeArgs) -> Vec<String> {
    let isolation = match node.isolation {
        IsolationArg::Auto => "auto",
        IsolationArg::Full => "full",
        IsolationArg::None => "none",
    };
    let mut args = vec!["--nodes".to_owned(), node.nodes.to_string(), "--isolation".to_owned(), isolation.to_owned()];
    let images = match node.images {
        ImagesArg::Auto => "auto",
        ImagesArg::Host => "host",
        ImagesArg::Pull => "pull",
    };
    args.extend(["--images".to_owned(), images.to_owned()]);
    let mut optional = |name: &str, value: Option<String>| {
        args.extend(value.map(|value| [name.to_owned(), value]).into_iter().flatten());
    };
    optional("--registries", node.registries.registries.as_ref().map(|path| path.display().to_string()));
    optional("--cpus", node.cpus.map(|cpus| cpus.to_string()));
    optional("--memory", node.memory.map(|memory| memory.to_string()));
    optional("--gpus", node.gpus.map(|gpus| gpus.to_string()));
    optional("--pod-pids-limit", node.pod_pids_limit.map(|limit| limit.to_string()));
    args
}

fn placing_args(placing: &PlacingArgs) -> Vec<String> {
    let labels = placing.topology_labels.iter().map(|label| format!("--topology-label={label}"));
    labels.chain(placing.pack.then(|| "--pack".to_owned())).collect()
}

enum Ready {
    Yes,
    Ended,
    Late,
}

fn wait_for_ready(pipe: &mut ChildStdout) -> io::Result<Ready> {
    let limit = Timespec { tv_sec: READY_SECONDS, tv_nsec: 0 };
    let mut line = [0; READY_LINE.len()];
    if poll(&mut [PollFd::new(&pipe.as_fd(), PollFlags::IN)], Some(&limit))? == 0 {
        return Ok(Ready::Late);
    }
    Ok(match pipe.read_exact(&mut line) {
        Ok(()) => Ready::Yes,
        Err(_) => Ready::Ended,
    })
}

/// The child has printed why; its exit code becomes ours.
fn pass_on(child: &mut Child) -> Outcome {
    let status = child.wait().map_err(|source| DetachError::Spawn { source })?;
    match status.code() {
        Some(code @ 1..=255) => exit(code),
        _ => Err(DetachError::Ended { status }.into()),
    }
}

#[expect(clippy::exit, reason = "the child's failure is already on the terminal, only its code is left to pass on")]
fn exit(code: i32) -> ! {
    std::process::exit(code)
}
