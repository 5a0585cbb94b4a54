//! `kubectl exec`: one more program in a container, with its streams at the client's.

use std::{
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    time::timeout,
};

use super::terminal::{self, Master};
use crate::{
    streams::{Ended, Terminal},
    supervisor::folder::PodFolder,
    worker::exec::Exec,
};

/// What is in the pipes when the program ends is read; a process that it left behind may hold them open for ever.
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
    let drain = async {
        let out = async {
            if let (Some(mut from), Some(mut to)) = (outputs.0, stdout) {
                let _ = tokio::io::copy(&mut from, &mut to).await;
            }
        };
        let err = async {
            if let (Some(mut from), Some(mut to)) = (outputs.1, stderr) {
                let _ = tokio::io::copy(&mut from, &mut to).await;
            }
        };
        tokio::join!(out, err);
    };
    let mut drain = std::pin::pin!(drain);
    let mut is_drained = false;
    let mut feed = std::pin::pin!(feed);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            () = &mut drain, if !is_drained => is_drained = true,
            () = &mut feed => {}
        }
    };
    if !is_drained {
        let _ = timeout(REST, drain).await;
    }
    Ok(status)
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
    let mut child = command.spawn()?;
    // The command holds the other end of the terminal until it is gone.
    drop(command);
    let feed = async {
        if let Some(stdin) = stdin {
            pass_input(stdin, &ours).await;
        }
        std::future::pending::<()>().await;
    };
    let mut drain = std::pin::pin!(async {
        if let Some(stdout) = stdout {
            pass_output(&ours, stdout).await;
        }
    });
    let mut is_drained = false;
    let (mut feed, mut resizes) = (std::pin::pin!(feed), std::pin::pin!(resizes));
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            () = &mut drain, if !is_drained => is_drained = true,
            () = &mut feed => {}
            () = &mut resizes => {}
        }
    };
    if !is_drained {
        let _ = timeout(REST, drain).await;
    }
    Ok(status)
}

async fn pass_input(mut from: crate::streams::Inlet, to: &Master) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

async fn pass_output(from: &Master, mut to: crate::streams::Outlet) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
