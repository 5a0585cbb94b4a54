//! The daemon's side of a supervisor: starting one, giving orders, hearing of changes.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::Path,
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    process::Command,
    time::{sleep, timeout},
};

use super::{
    control::{Order, SupervisorAnswer},
    folder::PodFolder,
    start::{self, Pod},
};

/// A supervisor answers at once; it is slow only when the machine is on its knees.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A supervisor that was told to quit kills what runs in it.
const QUIT_TIMEOUT: Duration = Duration::from_secs(30);
const QUIT_POLL: Duration = Duration::from_millis(2);

/// Starts a supervisor for the pod in a folder, in the network of its node if there is one. It is there when this returns.
pub async fn launch(program: &Path, folder: &PodFolder, pod: &Pod, node: Option<OwnedFd>) -> io::Result<()> {
    start::want(folder, pod)?;
    let mut command = Command::new(program);
    let stdin = node.map_or_else(Stdio::null, Stdio::from);
    command.arg("supervise").arg(folder.path()).stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped());
    command.env_clear().kill_on_drop(false);
    let output = timeout(ANSWER_TIMEOUT, command.output()).await.map_err(|_| io::ErrorKind::TimedOut)??;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Returns the process id of the pod's supervisor, if it lives.
pub fn living(folder: &PodFolder) -> io::Result<Option<u32>> {
    start::living(folder)
}

/// Ends the pod's supervisor with everything in it; also one that is about to start.
pub async fn retire(folder: &PodFolder) -> io::Result<()> {
    let gone = async {
        while !start::refuse(folder)? {
            // One that has just started may not listen yet, and another may have come after the one that was told.
            let _ = order(folder, &Order::Quit).await;
            sleep(QUIT_POLL).await;
        }
        Ok(())
    };
    let late = |_| io::Error::other(format!("the supervisor of {} did not exit in time", folder.path().display()));
    timeout(QUIT_TIMEOUT, gone).await.map_err(late)?
}

/// Gives one order and waits for its answer.
pub async fn order(folder: &PodFolder, order: &Order) -> io::Result<()> {
    let mut stream = BufReader::new(connect(folder).await?);
    timeout(ANSWER_TIMEOUT, ask(&mut stream, order)).await.map_err(|_| io::ErrorKind::TimedOut)?
}

/// Tells whether an order failed because the supervisor was ending.
pub fn has_hung_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionRefused | ConnectionReset | UnexpectedEof)
}

/// Connects to a container's streams; frames go both ways from now on.
pub async fn attach(folder: &PodFolder, container: &str) -> io::Result<BufReader<UnixStream>> {
    let mut stream = BufReader::new(connect(folder).await?);
    let order = Order::Attach { container: container.to_owned() };
    timeout(ANSWER_TIMEOUT, ask(&mut stream, &order)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    Ok(stream)
}

/// News of a pod: [`News::next`] returns after something has changed.
pub struct News(BufReader<UnixStream>);

impl News {
    pub async fn subscribe(folder: &PodFolder) -> io::Result<Self> {
        let mut stream = BufReader::new(connect(folder).await?);
        timeout(ANSWER_TIMEOUT, ask(&mut stream, &Order::Watch)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        Ok(Self(stream))
    }

    /// Waits for a change.
    ///
    /// # Errors
    /// If the supervisor has ended.
    pub async fn next(&mut self) -> io::Result<()> {
        let mut line = Vec::new();
        match self.0.read_until(b'\n', &mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

async fn connect(folder: &PodFolder) -> io::Result<UnixStream> {
    let place = rustix::fs::open(
        folder.path(),
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    // A socket's name may have 108 bytes; a folder's may be longer.
    UnixStream::connect(format!("/proc/self/fd/{}/{}", place.as_raw_fd(), PodFolder::SOCKET)).await
}

async fn ask(stream: &mut BufReader<UnixStream>, order: &Order) -> io::Result<()> {
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    stream.get_mut().write_all(&line).await?;
    let mut answer = Vec::new();
    stream.read_until(b'\n', &mut answer).await?;
    match serde_json::from_slice(&answer) {
        Ok(SupervisorAnswer::Done) => Ok(()),
        Ok(SupervisorAnswer::Failed { message }) => Err(io::Error::other(message)),
        Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
