//! What an engine did and when, as a trace that Chrome's viewer shows: one line for each tensor.
//!
//! The first rank writes it. The file is a complete JSON array after every round: new records replace the closing
//! bracket. Without a file nothing is recorded, and a look at one flag is all it costs.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use serde_json::json;

use crate::{
    clock,
    negotiate::{Negotiator, Response, request::Request, round_message::RoundMessage},
    types::{Rank, SetId},
};

/// A timeline that can be started and stopped at any time, as one process set sees it.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    shared: Arc<Shared>,
    /// What the names of lines begin with: sets may have tensors of the same name.
    prefix: String,
}

/// What all process sets have in common.
#[derive(Debug, Default)]
struct Shared {
    is_on: AtomicBool,
    /// Owned by whoever has something to record, for a moment.
    trace: Mutex<Option<Trace>>,
}

#[derive(Debug)]
struct Trace {
    file: File,
    /// Where the closing bracket is.
    end: u64,
    pending: String,
    begun: Instant,
    lines: BTreeMap<String, usize>,
    mark_cycles: bool,
}

impl Timeline {
    /// The same file, for a process set.
    pub(crate) fn of_set(&self, set: SetId) -> Self {
        Self { shared: Arc::clone(&self.shared), prefix: format!("process_set.{}.", set.0) }
    }

    /// Begins a new file.
    pub(crate) fn start(&self, path: &Path, mark_cycles: bool) -> io::Result<()> {
        let file: File = fs_err::File::create(path)?.into();
        file.write_all_at(b"[\n]", 0)?;
        let begun = clock::now();
        let mut trace = Trace { file, end: 1, pending: String::new(), begun, lines: BTreeMap::new(), mark_cycles };
        let start = u64::try_from(clock::since_epoch_us()).unwrap_or(u64::MAX);
        trace.record(&json!({"name": "process_name", "ph": "M", "pid": 0,
            "args": {"name": "", "start_time_since_epoch_in_micros": start}}));
        trace.record(&json!({"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}}));
        trace.flush();
        *self.lock() = Some(trace);
        self.shared.is_on.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Ends the file.
    pub(crate) fn stop(&self) {
        self.shared.is_on.store(false, Ordering::SeqCst);
        if let Some(mut trace) = self.lock().take() {
            trace.flush();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Trace>> {
        self.shared.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, record: impl FnOnce(&mut Trace)) {
        if self.shared.is_on.load(Ordering::Relaxed)
            && let Some(trace) = self.lock().as_mut()
        {
            record(trace);
        }
    }

    pub(crate) fn cycle_starts(&self) {
        self.with(|trace| {
            if trace.mark_cycles {
                let ts = trace.time(clock::now());
                trace.record(&json!({"ph": "i", "name": "CYCLE_START", "ts": ts, "pid": 0, "s": "g"}));
            }
        });
    }

    pub(crate) fn negotiation_begins(&self, request: &Request, since: Instant) {
        self.with(|trace| trace.begin(&self.line(&request.name), &format!("NEGOTIATE_{}", request.kind), since));
    }

    /// Marks when each rank was ready.
    pub(crate) fn heard(&self, negotiator: &Negotiator, messages: &[RoundMessage], ranks: &[Rank]) {
        self.with(|trace| {
            for (member, message) in messages.iter().enumerate() {
                for name in negotiator.names(member, message).flatten() {
                    let (pid, ts) = (trace.line(&self.line(name)), trace.time(clock::now()));
                    let rank = ranks[member].to_string();
                    trace.record(&json!({"ph": "X", "name": rank, "ts": ts, "pid": pid, "dur": 0}));
                }
            }
        });
    }

    pub(crate) fn operation_begins(&self, response: &Response) {
        self.with(|trace| {
            let line = self.line(&response.name);
            trace.end(&line, &json!({}));
            trace.begin(&line, &response.kind.to_string(), clock::now());
        });
    }

    pub(crate) fn operation_ends(&self, response: &Response) {
        self.with(|trace| {
            let first = response.specs().first();
            let args = first.map(|spec| json!({"dtype": spec.dtype.to_string(), "shape": spec.shape.to_string()}));
            trace.end(&self.line(&response.name), &args.unwrap_or_default());
        });
    }

    /// A part of all these operations begins, within them.
    pub(crate) fn activity_begins(&self, responses: &[Response], what: &str) {
        self.with(|trace| {
            let now = clock::now();
            responses.iter().for_each(|response| trace.begin(&self.line(&response.name), what, now));
        });
    }

    pub(crate) fn activity_ends(&self, responses: &[Response]) {
        self.with(|trace| responses.iter().for_each(|response| trace.end(&self.line(&response.name), &json!({}))));
    }

    pub(crate) fn flush(&self) {
        self.with(Trace::flush);
    }

    /// The name of a tensor's line.
    fn line(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl Trace {
    fn time(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.begun).as_micros()).unwrap_or(u64::MAX)
    }

    /// The number of a tensor's line; a new one is introduced.
    fn line(&mut self, name: &str) -> usize {
        if let Some(line) = self.lines.get(name) {
            return *line;
        }
        let line = self.lines.len() + 1;
        self.lines.insert(name.to_owned(), line);
        self.record(&json!({"name": "process_name", "ph": "M", "pid": line, "args": {"name": name}}));
        self.record(&json!({"name": "process_sort_index", "ph": "M", "pid": line, "args": {"sort_index": line}}));
        line
    }

    fn begin(&mut self, tensor: &str, what: &str, at: Instant) {
        let (pid, ts) = (self.line(tensor), self.time(at));
        self.record(&json!({"ph": "B", "name": what, "ts": ts, "pid": pid}));
    }

    fn end(&mut self, tensor: &str, args: &serde_json::Value) {
        let (pid, ts) = (self.line(tensor), self.time(clock::now()));
        self.record(&json!({"ph": "E", "ts": ts, "pid": pid, "args": args}));
    }

    fn record(&mut self, value: &serde_json::Value) {
        let comma = if self.end == 1 && self.pending.is_empty() { "" } else { "," };
        // Writing to a text cannot fail.
        let _ = write!(self.pending, "{comma}\n{value}");
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            // A full disk costs records, not the training.
            if self.file.write_all_at(format!("{}\n]", self.pending).as_bytes(), self.end).is_ok() {
                self.end += self.pending.len() as u64;
            }
            self.pending.clear();
        }
    }
}
