//! The driver's state of a group, and one turn of its wheel.
//!
//! A turn: take what is new, say it, hear the others, decide together, execute. A member speaks if it has something new
//! or if others have begun a round while it has something in flight; so rounds happen when there is work, and cost
//! nothing when there is none.

use std::{
    collections::{HashMap, VecDeque},
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    device::{Asked, DeviceBatch, is_elsewhere},
    execute::Executor,
    execute_inline::execute_inline,
    group::Group,
    handle::Completion,
    stall::Watch,
    work::{Tensor, Work},
};
use crate::{
    clock,
    codec::Writer,
    comm::{Comm, ROUND_MESSAGE_MAX},
    error::{Error, Result},
    metrics::Metrics,
    negotiate::{
        Negotiator, Response,
        fuse::{Batch, Limits, fuse},
        request::Request,
        round_message::RoundMessage,
    },
    timeline::Timeline,
    tune::Tuner,
    types::Rank,
};

/// How often a wait is interrupted to look for stalls and for the end.
const TICK: Duration = Duration::from_millis(100);

/// The longest request: it must fit into a round.
pub(super) const REQUEST_MAX: usize = ROUND_MESSAGE_MAX - RoundMessage::HEAD_MAX;
/// Characters of a name in an error; a name may be all that is too long.
const NAME_SHOWN: usize = 100;

/// A request of this rank.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) request: Arc<Request>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) completion: Arc<Completion>,
    pub(super) since: Instant,
    /// By what the caller knows it, if it is done on a device.
    pub(super) ticket: Option<u64>,
}

impl Entry {
    pub(super) fn new(request: Arc<Request>, work: Work, completion: Arc<Completion>) -> Self {
        let ticket = work.device.map(|device| device.ticket);
        Self { request, tensors: work.tensors, completion, since: clock::now(), ticket }
    }

    /// Refuses what could never be said in one round, and so would wait in front of all others for ever.
    pub(super) fn check(&self) -> Result<()> {
        let Request { kind, name, tensors, .. } = &*self.request;
        let len = self.request.written_max();
        if len <= REQUEST_MAX {
            return Ok(());
        }
        let beginning: String = name.chars().take(NAME_SHOWN).collect();
        Err(Error::Invalid(format!(
            "{} `{beginning}` of {} tensors needs a request of {len} bytes, more than {REQUEST_MAX}: split it",
            kind.title(),
            tensors.len()
        )))
    }
}

/// A group's connections and what is known of its work.
#[derive(Debug)]
pub(super) struct Driver {
    /// Gone when the group has failed.
    comm: Option<Comm>,
    state: State,
}

#[derive(Debug)]
struct State {
    negotiator: Negotiator,
    entries: HashMap<Arc<str>, Entry>,
    /// What has been agreed and is done on devices; some of it may be over.
    elsewhere: Vec<Entry>,
    unsaid: VecDeque<Arc<Request>>,
    has_spoken: bool,
    limits: Limits,
    last_round: Option<Instant>,
    parts: Parts,
}

/// What a driver is made of besides its connections.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) cache_capacity: usize,
    pub(super) fusion_threshold: usize,
    pub(super) cycle_time: Duration,
    pub(super) watch: Watch,
    pub(super) executor: Executor,
    pub(super) metrics: Arc<Metrics>,
    pub(super) timeline: Arc<Timeline>,
    pub(super) tuner: Option<Tuner>,
    pub(super) tune_log: Option<PathBuf>,
}

impl Driver {
    pub(super) fn new(comm: Comm, parts: Parts) -> Self {
        comm.wait_context().oversee(parts.watch.midway());
        let state = State {
            negotiator: Negotiator::new(comm.ranks.clone(), parts.cache_capacity),
            entries: HashMap::new(),
            elsewhere: Vec::new(),
            unsaid: VecDeque::new(),
            has_spoken: false,
            limits: comm.fusion_limits(parts.fusion_threshold),
            last_round: None,
            parts,
        };
        Self { comm: Some(comm), state }
    }

    pub(super) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.state.parts.metrics)
    }

    pub(super) fn comm(&self) -> &Comm {
        self.comm.as_ref().expect("a new driver has its connections")
    }

    /// Turns the wheel until `is_enough`, or until nothing can be done any more.
    pub(super) fn drive(&mut self, group: &Group, deadline: Option<Instant>, is_enough: impl Fn() -> bool) {
        while !is_enough() && self.comm.is_some() {
            let broken = if group.is_closing() { Some(Error::Shutdown(None)) } else { group.broken() };
            let done = broken.map_or_else(|| self.turn(group, deadline), Err);
            if let Err(error) = done {
                return self.fail(group, &error);
            }
        }
    }

    fn turn(&mut self, group: &Group, deadline: Option<Instant>) -> Result<()> {
        let Some(comm) = &mut self.comm else { return Err(Error::Shutdown(None)) };
        let state = &mut self.state;
        // 1. take what is new
        state.enqueue(group.take_new());
        // 2. say it, or answer those who have begun
        if !state.has_spoken {
            if state.unsaid.is_empty() && !comm.is_awaited() {
                comm.listen(Some(next_tick(deadline)), || group.has_new())?;
                return state.look_for_stalls(&[]);
            }
            state.speak(comm);
        }
        // 3. hear the others
        if !state.hear(comm, deadline)? {
            return Ok(());
        }
        // 4. decide together
        let (messages, mut data) = read_messages(comm)?;
        let is_in_step = state.negotiator.is_in_step(&messages);
        let responses = state.decide(comm, &messages);
        // 5. execute
        if is_in_step {
            state.execute_inline(comm.me, group, responses, &mut data)
        } else {
            state.execute(comm, group, responses)
        }
    }

    /// Ends the group: everything in flight fails, the peers are told, and nothing new is taken.
    pub(super) fn fail(&mut self, group: &Group, error: &Error) {
        let unseen = group.refuse(error);
        if let Some(comm) = self.comm.take() {
            comm.part(Some(error));
        }
        self.state.unsaid.clear();
        for entry in unseen.into_iter().chain(self.state.entries.drain().map(|(_, entry)| entry)) {
            group.finished(&entry.request.name, &entry.completion, Err(error.clone()));
        }
        // A peer that leaves is done with what it has agreed to.
        if !matches!(error, Error::Shutdown(Some(_))) {
            for entry in self.state.elsewhere.drain(..) {
                group.finished(&entry.request.name, &entry.completion, Err(error.clone()));
            }
        }
    }
}

impl State {
    fn enqueue(&mut self, new: Vec<Entry>) {
        for entry in new {
            self.parts.timeline.negotiation_begins(&entry.request, entry.since);
            self.unsaid.push_back(Arc::clone(&entry.request));
            self.entries.insert(Arc::clone(&entry.request.name), entry);
        }
    }

    /// Says what is new, as much as fits into a round, with the tensors if they are small.
    fn speak(&mut self, comm: &mut Comm) {
        self.collect_for_a_while();
        let mut room = REQUEST_MAX;
        let mut said: Vec<Arc<Request>> = Vec::new();
        while let Some(request) = self.unsaid.pop_front_if(|request| request.written_max() <= room) {
            room -= request.written_max();
            said.push(request);
        }
        let bytes: usize = said.iter().map(|request| request.bytes()).sum();
        let can_carry = |request: &Arc<Request>| request.can_be_inline();
        let message = RoundMessage {
            has_data: self.unsaid.is_empty() && bytes <= comm.data_max().min(room) && said.iter().all(can_carry),
            items: said.iter().map(|request| self.negotiator.item(comm.me, request)).collect(),
            threshold: self.parts.tuner.as_ref().map_or(0, |tuner| tuner.threshold() as u64),
        };
        let mut head = Writer::default();
        message.write(&mut head);
        let carried = if message.has_data { said.as_slice() } else { &[] };
        let tensors = carried.iter().flat_map(|request| self.entries[&request.name].tensors.iter());
        comm.send_round([head.0.as_slice()].into_iter().chain(tensors.map(|tensor| tensor.input.as_slice())));
        self.has_spoken = true;
    }

    /// Where a cycle time is set, rounds are not closer than that.
    fn collect_for_a_while(&mut self) {
        if !self.parts.cycle_time.is_zero() {
            let next = self.last_round.map(|last| last + self.parts.cycle_time);
            std::thread::sleep(next.map_or(Duration::ZERO, |next| next.saturating_duration_since(clock::now())));
            self.last_round = Some(clock::now());
        }
        self.parts.timeline.cycle_starts();
    }

    fn hear(&mut self, comm: &mut Comm, deadline: Option<Instant>) -> Result<bool> {
        let has_heard = comm.hear(Some(next_tick(deadline)))?;
        self.has_spoken = !has_heard;
        if !has_heard {
            self.look_for_stalls(&comm.silent())?;
        }
        Ok(has_heard)
    }

    fn look_for_stalls(&mut self, silent: &[Rank]) -> Result<()> {
        self.parts.watch.look(&self.entries, &self.negotiator, silent)
    }

    fn decide(&mut self, comm: &Comm, messages: &[RoundMessage]) -> Vec<Response> {
        self.parts.metrics.round(messages);
        self.parts.timeline.heard(&self.negotiator, messages, &comm.ranks);
        let responses = self.negotiator.round(messages);
        // The first member's wishes are everybody's.
        let wished = messages.first().and_then(|message| usize::try_from(message.threshold).ok());
        if let Some(threshold) = wished.filter(|threshold| *threshold > 0) {
            self.limits = comm.fusion_limits(threshold);
        }
        responses
    }

    /// Everybody brought its data along: the results are made from that.
    fn execute_inline(&mut self, me: usize, group: &Group, responses: Vec<Response>, data: &mut [&[u8]]) -> Result<()> {
        for response in responses {
            self.parts.timeline.operation_begins(&response);
            let entry = self.entries.remove(&response.name);
            let (tensors, completion) = entry.map(|entry| (entry.tensors, entry.completion)).unzip();
            let result = execute_inline(&response, me, tensors.unwrap_or_default(), data)?;
            self.parts.metrics.done(&response, 1);
            self.parts.timeline.operation_ends(&response);
            if let Some(completion) = completion {
                group.finished(&response.name, &completion, result);
            }
        }
        self.parts.timeline.flush();
        Ok(())
    }

    fn execute(&mut self, comm: &mut Comm, group: &Group, responses: Vec<Response>) -> Result<()> {
        for Batch(responses) in fuse(responses, self.limits) {
            if responses.first().is_some_and(is_elsewhere) {
                self.hand_over(comm.me, group, responses);
                continue;
            }
            let begun = clock::now();
            responses.iter().for_each(|response| self.parts.timeline.operation_begins(response));
            let (mut tensors, mut completions) = (Vec::new(), Vec::new());
            for response in &responses {
                let entry = self.entries.remove(&response.name).map(|entry| (entry.tensors, entry.completion));
                let (of_entry, completion) = entry.unzip();
                tensors.push(of_entry);
                completions.push(completion);
            }
            self.parts.watch.begins(&responses);
            let results = self.parts.executor.execute((comm, &self.parts.timeline), &responses, tensors).inspect_err(
                |error| {
                    finish_all(group, &responses, &completions, error);
                },
            )?;
            self.account(&responses, begun);
            for ((response, completion), result) in responses.iter().zip(completions).zip(results) {
                self.parts.timeline.operation_ends(response);
                if let Some(completion) = completion {
                    group.finished(&response.name, &completion, result);
                }
            }
        }
        self.parts.timeline.flush();
        Ok(())
    }

    /// Gives operations to whoever can reach their tensors.
    fn hand_over(&mut self, me: usize, group: &Group, responses: Vec<Response>) {
        self.elsewhere.retain(|entry| !entry.completion.is_done());
        let mut asked = Vec::with_capacity(responses.len());
        for response in &responses {
            self.parts.timeline.operation_begins(response);
            self.parts.metrics.done(response, responses.len());
            let Some(entry) = self.entries.remove(&response.name) else {
                asked.push(Asked::default());
                continue;
            };
            entry.completion.goes_elsewhere();
            asked.push(Asked { ticket: entry.ticket, completion: Some(Arc::clone(&entry.completion)) });
            self.elsewhere.push(entry);
        }
        let timeline = Arc::clone(&self.parts.timeline);
        group.put_device_batch(DeviceBatch::new(responses, asked, me, group.this(), timeline));
    }

    fn account(&mut self, responses: &[Response], begun: Instant) {
        let bytes: usize = responses.iter().map(|response| self.parts.metrics.done(response, responses.len())).sum();
        if let Some(tuner) = &mut self.parts.tuner {
            tuner.record(bytes, begun.elapsed());
            for row in tuner.take_log() {
                tracing::info!(row, "autotune");
                append(self.parts.tune_log.as_deref(), &row);
            }
        }
    }
}

/// Adds a row to the autotuner's log; a log that cannot be written is missed by nobody but its reader.
fn append(path: Option<&Path>, row: &str) {
    let file = path.map(|path| OpenOptions::new().append(true).create(true).open(path));
    if let Some(Ok(mut file)) = file {
        let _ = writeln!(file, "{row}");
    }
}

fn finish_all(group: &Group, responses: &[Response], completions: &[Option<Arc<Completion>>], error: &Error) {
    for (response, completion) in responses.iter().zip(completions) {
        if let Some(completion) = completion {
            group.finished(&response.name, completion, Err(error.clone()));
        }
    }
}

/// What everybody said, and the data that came along.
fn read_messages(comm: &Comm) -> Result<(Vec<RoundMessage>, Vec<&[u8]>)> {
    let read = |member: usize| {
        let nonsense = || Error::Lost { rank: comm.ranks[member], reason: "it sent a malformed message".to_owned() };
        RoundMessage::read(comm.said(member)).ok_or_else(nonsense)
    };
    let (mut messages, mut data) = (Vec::with_capacity(comm.size()), Vec::with_capacity(comm.size()));
    for member in 0..comm.size() {
        let (message, rest) = read(member)?;
        messages.push(message);
        data.push(rest);
    }
    Ok((messages, data))
}

fn next_tick(deadline: Option<Instant>) -> Instant {
    let tick = clock::now() + TICK;
    deadline.map_or(tick, |deadline| deadline.min(tick))
}
