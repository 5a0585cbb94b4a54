//! `kubectl exec`: one more program in a container, with its streams at the client's.

use std::{
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    process::{Child, Command},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::terminal::{self, Master};
use crate::{
    streams::{Ended, Terminal},
    supervisor::folder::PodFolder,
    worker::exec::Exec,
};

/// What is in the pipes when the program ends is passed on, however slow the client is; a process that it left behind
/// may hold them open for ever, and is not waited for longer than this.
const REST: Duration = Duration::from_secs(1);
const CHUNK: usize = 64 << 10;
/// Clients say the size of their window at once; a program that asks for it at its start is to get that one.
const FIRST_SIZE: Duration = Duration::from_millis(200);

/// What to run where.
pub struct Request {
    pub program: PathBuf,
    pub folder: PodFolder,
    pub container: String,
    pub command: Vec<String>,
}

/// Runs the program with the client's streams to its end.
pub async fn run(request: Request, terminal: Terminal) -> Ended {
    let exec = Exec {
        program: &request.program,
        folder: &request.folder,
        container: &request.container,
        argv: request.command,
        tty: terminal.tty,
    };
    let started = exec.command().map_err(|error| error.to_string());
    let done = match started {
        Ok((command, pid)) if terminal.tty => with_terminal(command, pid, terminal).await,
        Ok((command, _)) => with_pipes(command, terminal).await,
        Err(why) => return Ended::Failed(why),
    };
    match done {
        Ok(status) => Ended::Exit(status.code().unwrap_or(137)),
        Err(error) => Ended::Failed(error.to_string()),
    }
}

async fn with_pipes(mut command: Command, terminal: Terminal) -> std::io::Result<ExitStatus> {
    let Terminal { stdin, stdout, stderr, .. } = terminal;
    let pipe = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
    command.stdin(pipe(stdin.is_some())).stdout(pipe(stdout.is_some())).stderr(pipe(stderr.is_some()));
    let mut child: Child = command.spawn()?;
    let input = child.stdin.take();
    let feed = async {
        if let (Some(mut from), Some(mut to)) = (stdin, input) {
            let _ = tokio::io::copy(&mut from, &mut to).await;
            let _ = to.shutdown().await;
        }
        // The end of the input is not the end of the program.
        std::future::pending::<()>().await;
    };
    let outputs = (child.stdout.take(), child.stderr.take());
    let ended = CancellationToken::new();
    let drain = async {
        let out = async {
            if let (Some(from), Some(to)) = (outputs.0, stdout) {
                pass_output(from, to, &ended).await;
            }
        };
        let err = async {
            if let (Some(from), Some(to)) = (outputs.1, stderr) {
                pass_output(from, to, &ended).await;
            }
        };
        tokio::join!(out, err);
    };
    to_the_end(child, &ended, drain, feed).await
}

async fn with_terminal(mut command: Command, pid: u32, terminal: Terminal) -> std::io::Result<ExitStatus> {
    let Terminal { stdin, stdout, mut resize, .. } = terminal;
    let (ours, theirs) = terminal::open(pid)?;
    if let Some(sizes) = &mut resize
        && let Ok(Ok(())) = timeout(FIRST_SIZE, sizes.changed()).await
    {
        ours.resize(*sizes.borrow_and_update());
    }
    let resizes = async {
        if let Some(mut sizes) = resize {
            while sizes.changed().await.is_ok() {
                ours.resize(*sizes.borrow_and_update());
            }
        }
        std::future::pending::<()>().await;
    };
    command.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs);
    let child = command.spawn()?;
    // The command holds the other end of the terminal until it is gone.
    drop(command);
    let feed = async {
        if let Some(stdin) = stdin {
            pass_input(stdin, &ours).await;
        }
        std::future::pending::<()>().await;
    };
    let ended = CancellationToken::new();
    let drain = async {
        if let Some(stdout) = stdout {
            pass_output(&ours, stdout, &ended).await;
        }
    };
    to_the_end(child, &ended, drain, async { tokio::join!(feed, resizes).0 }).await
}

async fn pass_input(mut from: crate::streams::Inlet, to: &Master) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Waits for the program while its streams are passed on, and then for the rest of its output.
async fn to_the_end(
    mut child: Child,
    ended: &CancellationToken,
    output: impl Future<Output = ()>,
    input: impl Future<Output = ()>,
) -> std::io::Result<ExitStatus> {
    let (mut output, mut input) = (std::pin::pin!(output), std::pin::pin!(input));
    let mut is_drained = false;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            () = &mut output, if !is_drained => is_drained = true,
            () = &mut input => {}
        }
    };
    if !is_drained {
        ended.cancel();
        output.await;
    }
    Ok(status)
}

/// Passes output on until there can be no more, or, once the program has ended, none came for a while.
async fn pass_output(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, ended: &CancellationToken) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let silence = async {
            ended.cancelled().await;
            sleep(REST).await;
        };
        let count = tokio::select! {
            biased;
            count = from.read(&mut buffer) => count,
            () = silence => return,
        };
        let Ok(count @ 1..) = count else { return };
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that was left behind holds the output open, and the client takes its time.
    #[tokio::test(start_paused = true)]
    async fn a_slow_client_gets_all_of_the_output() {
        let (mut left_behind, from) = tokio::io::duplex(CHUNK);
        left_behind.write_all(&[7; 1000]).await.unwrap();
        let (to, mut client) = tokio::io::duplex(16);
        let ended = CancellationToken::new();
        ended.cancel();
        let read = async {
            let mut got = Vec::new();
            sleep(10 * REST).await;
            client.read_to_end(&mut got).await.unwrap();
            got.len()
        };
        let ((), got) = tokio::join!(pass_output(from, to, &ended), read);
        assert_eq!(got, 1000);
    }
}
