//! What ranks write, line by line with their prefix: `[3]<stdout>:step 7`.
//!
//! A pump per stream makes blocks of whole lines; one thread writes them, to stdout, to stderr and to the files of
//! `--output-filename`. Between them is a short queue: when nobody reads our output the ranks wait, and nothing grows.
//! One thread for both streams, because they are often the same pipe or terminal and lines must not mix there.

mod lines;

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::mpsc::{self, error::TrySendError},
    task::JoinHandle,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

pub use self::lines::{Lines, Tail};
use crate::{clock, start::NOTICED_WITHIN};

/// Bytes that a pump takes at once.
const CHUNK: usize = 16 << 10;
/// Blocks that wait to be written: 1 MiB, or 15 times that if every line is empty but for its prefix.
const QUEUE: usize = 64;
/// When all ranks have ended, a stream has ended too if nothing came for so long: something may hold it open for ever.
const SILENCE: Duration = NOTICED_WITHIN;
/// After [`Output::end`] the last lines of a stream are known by then, unless nobody reads what we write.
pub const ENDED_WITHIN: Duration = SILENCE.saturating_mul(2);
/// More than any pipe or connection holds; who writes on after its rank is no part of the job.
const REST_MAX: usize = 64 << 20;

/// One of the two streams of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// How output is shown and kept.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// Put the time of day before each prefix.
    pub with_time: bool,
    /// The folder that gets a copy of all streams.
    pub folder: Option<PathBuf>,
}

/// Where the output goes in the end.
pub struct Sinks {
    pub stdout: Box<dyn Write + Send>,
    pub stderr: Box<dyn Write + Send>,
}

impl Default for Sinks {
    fn default() -> Self {
        Self { stdout: Box::new(io::stdout()), stderr: Box::new(io::stderr()) }
    }
}

/// The output of a job.
#[derive(Debug)]
pub struct Output {
    options: OutputOptions,
    queue: mpsc::Sender<Block>,
    writer: thread::JoinHandle<()>,
    /// All ranks have ended.
    ended: CancellationToken,
    /// The copies that were begun: a rank that takes the place of another goes on where that ended. Owned by `copy`.
    begun: Mutex<BTreeSet<PathBuf>>,
}

/// Whole lines.
#[derive(Debug)]
struct Block {
    stream: Stream,
    bytes: Vec<u8>,
    copy: Option<Arc<File>>,
}

impl Output {
    /// Begins to write. Makes the folder for copies if one is wanted.
    pub fn start(sinks: Sinks, options: OutputOptions) -> io::Result<Self> {
        if let Some(folder) = &options.folder {
            fs_err::create_dir_all(folder)?;
        }
        let (queue, blocks) = mpsc::channel(QUEUE);
        let writer = thread::Builder::new().name("output".to_owned()).spawn(move || write(sinks, blocks))?;
        Ok(Self { options, queue, writer, ended: CancellationToken::new(), begun: Mutex::default() })
    }

    /// Pumps a stream of a rank until its end; the task then gives the last lines.
    pub fn attach(
        &self,
        (rank, size): (usize, usize),
        stream: Stream,
        from: Box<dyn AsyncRead + Send + Unpin>,
    ) -> io::Result<JoinHandle<Tail>> {
        let copy = self.options.folder.as_deref().map(|folder| self.copy(folder, (rank, size), stream)).transpose()?;
        let lines = Lines::new(format!("[{rank}]<{}>:", stream.name()));
        let to = Pump { queue: self.queue.clone(), stream, copy, with_time: self.options.with_time };
        Ok(tokio::spawn(pump(from, lines, to, self.ended.clone())))
    }

    /// The file of a stream: ranks are padded so that names sort as numbers do. What another job has left is replaced.
    fn copy(&self, folder: &Path, (rank, size): (usize, usize), stream: Stream) -> io::Result<Arc<File>> {
        let width = size.saturating_sub(1).max(rank).to_string().len();
        let folder = folder.join(format!("rank.{rank:0width$}"));
        fs_err::create_dir_all(&folder)?;
        let path = folder.join(stream.name());
        let is_first = self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
        if is_first {
            fs_err::File::create(&path)?;
        }
        Ok(Arc::new(fs_err::OpenOptions::new().append(true).open(path)?.into_parts().0))
    }

    /// Says something of our own, as a line of stderr, when its turn comes: nobody waits for that.
    pub fn print_notice(&self, text: &str) {
        let block = Block { stream: Stream::Stderr, bytes: format!("{text}\n").into_bytes(), copy: None };
        // What follows from it comes after it, unless the ranks have filled the queue.
        if let Err(TrySendError::Full(block)) = self.queue.try_send(block) {
            let queue = self.queue.clone();
            tokio::spawn(async move { queue.send(block).await });
        }
    }

    /// All ranks have ended: what is still in their streams is the last of them.
    pub fn end(&self) {
        self.ended.cancel();
    }

    /// Waits until all is written that ranks have said.
    pub async fn close(self) {
        self.end();
        let Self { queue, writer, .. } = self;
        drop(queue);
        let _ = tokio::task::spawn_blocking(move || writer.join()).await;
    }
}

struct Pump {
    queue: mpsc::Sender<Block>,
    stream: Stream,
    copy: Option<Arc<File>>,
    with_time: bool,
}

impl Pump {
    async fn send(&self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let _ = self.queue.send(Block { stream: self.stream, bytes, copy: self.copy.clone() }).await;
        }
    }

    fn time(&self) -> String {
        if self.with_time { clock::time_of_day() } else { String::new() }
    }
}

async fn pump(
    mut from: Box<dyn AsyncRead + Send + Unpin>,
    mut lines: Lines,
    to: Pump,
    ended: CancellationToken,
) -> Tail {
    let (mut chunk, mut rest) = (vec![0; CHUNK], 0);
    while rest < REST_MAX {
        let silence = async {
            ended.cancelled().await;
            sleep(SILENCE).await;
        };
        let read = tokio::select! {
            biased;
            read = from.read(&mut chunk) => read,
            () = silence => break,
        };
        // A stream that breaks has ended: why is told by the end of its rank.
        let Ok(read @ 1..) = read else { break };
        to.send(lines.push(&chunk[..read], &to.time())).await;
        rest += if ended.is_cancelled() { read } else { 0 };
    }
    to.send(lines.finish(&to.time())).await;
    lines.into_tail()
}

fn write(mut sinks: Sinks, mut blocks: mpsc::Receiver<Block>) {
    let mut is_warned = false;
    while let Some(Block { stream, bytes, copy }) = blocks.blocking_recv() {
        let sink = match stream {
            Stream::Stdout => &mut sinks.stdout,
            Stream::Stderr => &mut sinks.stderr,
        };
        // Whoever read may have left, as `| head` does; the job goes on, and so do the copies.
        let _ = sink.write_all(&bytes).and_then(|()| sink.flush());
        if let Some(Err(error)) = copy.map(|copy| (&*copy).write_all(&bytes))
            && !std::mem::replace(&mut is_warned, true)
        {
            let _ = writeln!(sinks.stderr, "warning: cannot keep a copy of the output: {error}");
        }
    }
}
