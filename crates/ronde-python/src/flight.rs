//! An operation that an executor of a framework has begun, and hears the end of later.
//!
//! TensorFlow and XLA have few threads, and ranks may come to the operations of a graph in different orders: none may
//! hold a thread while it waits for another. An operation that is alone, though, is mostly done before another thread
//! were awake: for a moment the thread that begins it does the work itself.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Sender},
    },
    time::Duration,
};

use ronde_collective::{Done, Engine, Error, Work};

/// How long an operation that is alone holds the thread that begins it, beside the time for its bytes: of ranks that
/// come together it takes less, and other threads would take several times as long to wake up.
const ALONE: Duration = Duration::from_micros(50);
/// What a rank moves in a microsecond, 4 GB in a second.
const BYTES_PER_MICROSECOND: usize = 4096;
/// Bytes of an operation that may hold the thread, 0.3 ms in all. Of a larger one the threads' waking up is a small
/// part, and the framework has other work for its thread.
const SMALL: usize = 1 << 20;

/// Operations that have begun and not ended.
static FLIGHTS: AtomicUsize = AtomicUsize::new(0);

/// Begins an operation; `land` is told how it ended, in this thread or in one of ours. Frameworks go on with whatever
/// comes next in the thread that tells them, so that it is never the engine's own.
pub(crate) fn begin(engine: &Engine, work: Work, land: impl FnOnce(Result<Done, Error>) + Send + 'static) {
    let is_alone = FLIGHTS.fetch_add(1, Ordering::SeqCst) == 0;
    let land = move |result| {
        // Before the framework goes on: what comes next may be alone again.
        FLIGHTS.fetch_sub(1, Ordering::SeqCst);
        land(result);
    };
    let bytes = work.tensors.iter().map(|tensor| tensor.input.len()).sum::<usize>();
    if !is_alone || bytes > SMALL {
        engine.submit_with_callback(work, move |result| apart(&ENDINGS, Box::new(move || land(result))));
        return;
    }
    let alone = ALONE + Duration::from_micros((bytes / BYTES_PER_MICROSECOND) as u64);
    let handle = match engine.begin(work) {
        Ok(handle) => handle,
        Err(error) => return land(Err(error)),
    };
    match handle.wait(Some(alone)) {
        Some(result) => land(result),
        // One at a time: until it is done, no other is alone.
        None => apart(&WAITS, Box::new(move || land(handle.wait(None).unwrap_or(Err(Error::Shutdown(None)))))),
    }
}

type Task = Box<dyn FnOnce() + Send>;
type Thread = OnceLock<Option<Sender<Task>>>;

static ENDINGS: Thread = OnceLock::new();
static WAITS: Thread = OnceLock::new();

/// Does something in a thread of ours, which never ends.
fn apart(thread: &'static Thread, task: Task) {
    let sender = thread.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Task>();
        let run = move || receiver.into_iter().for_each(|task| task());
        std::thread::Builder::new().name("ronde-flights".to_owned()).spawn(run).ok().map(|_| sender)
    });
    match sender {
        Some(sender) => drop(sender.send(task)),
        None => task(),
    }
}
