//! Runs an elastic job: carries out what the driver decides, and tells it what happens.
//!
//! One loop owns the driver and everything that runs; tasks and threads around it only bring events.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ronde_collective::{
    Secret, Server,
    control_channel::{FENCE, ToRank},
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{self, Instant},
};

use super::{
    control_channel::ControlChannel,
    discovery::{self, Source},
    driver::Driver,
    model::{Command, ElasticOutcome, Event, Settings, WorkerId, WorkerNumber},
};
use crate::{
    environment,
    output::{self, Output, Stream, Tail},
    start::{Order, Program, Started, Starter},
    threads,
};

/// Events that wait; a worker that says more waits itself.
const EVENTS_MAX: usize = 1024;
/// Between two looks for workers that are silent.
const BEAT: Duration = Duration::from_secs(1);
/// Workers whose last lines are kept after their end.
const TAILS_MAX: usize = 64;
const SIGTERM: i32 = 15;

/// What an elastic job needs.
pub struct ElasticJob {
    pub settings: Settings,
    pub source: Source,
    /// What each worker runs; its environment is what all have in common.
    pub program: Program,
    pub starter: Arc<dyn Starter>,
    /// Known to all workers and to nobody else.
    pub secret: String,
    /// How long starting a worker may take.
    pub start_timeout: Duration,
    /// After so long without a sign of life a worker counts as gone; longer than a worker goes on by itself.
    pub silence: Duration,
}

/// How it ended.
#[derive(Debug)]
pub struct ElasticEnd {
    pub outcome: ElasticOutcome,
    /// The last lines of the worker that is to be named.
    pub tail: Tail,
    /// The first signal that asked for the end.
    pub signal: Option<i32>,
}

/// Runs a job to its end. A signal from `quit` asks for the end, the second one for the end at once.
pub async fn run(job: ElasticJob, output: &Output, quit: &mut mpsc::Receiver<i32>) -> io::Result<ElasticEnd> {
    let (mut runner, mut events, mut starts) = Runner::open(job, output)?;
    let looking = tokio::spawn(discovery::watch(runner.job.source.clone(), runner.events.clone()));
    let mut driver = Driver::new(runner.job.settings.clone());
    let begun = Instant::now();
    let mut beat = time::interval(BEAT);
    let mut signal = None;
    let outcome = loop {
        let wake = driver.wake_at().map_or_else(|| begun + Duration::from_secs(86_400), |at| begun + at);
        let happened = tokio::select! {
            Some(event) = events.recv() => vec![event],
            Some((worker, started)) = starts.recv() => vec![runner.started(worker, started)],
            Some(number) = quit.recv() => {
                signal.get_or_insert(number);
                vec![Event::Quit]
            }
            () = time::sleep_until(wake) => vec![Event::Tick],
            _ = beat.tick() => runner.look_for_silent(),
        };
        let mut commands = Vec::new();
        for event in happened {
            runner.note(&event);
            commands.extend(driver.on(event, begun.elapsed()));
        }
        if let Some(outcome) = runner.carry_out(commands) {
            break outcome;
        }
    };
    looking.abort();
    Ok(ElasticEnd { tail: runner.last_words(&outcome).await, outcome, signal })
}

type StartResult = (WorkerId, Result<Started, String>);

/// Everything that the job has running.
struct Runner<'a> {
    job: ElasticJob,
    output: &'a Output,
    control: ControlChannel,
    rendezvous: Server,
    events: mpsc::Sender<Event>,
    starts: mpsc::Sender<StartResult>,
    workers: BTreeMap<WorkerId, Running>,
    /// The last lines of stderr of each worker, once they are known.
    tails: BTreeMap<WorkerId, JoinHandle<Tail>>,
    has_told_of_threads: bool,
}

struct Running {
    number: WorkerNumber,
    /// None until it is started.
    orders: Option<mpsc::Sender<Order>>,
    /// What it is to be told then.
    order: Option<Order>,
}

impl<'a> Runner<'a> {
    fn open(
        job: ElasticJob,
        output: &'a Output,
    ) -> io::Result<(Self, mpsc::Receiver<Event>, mpsc::Receiver<StartResult>)> {
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let (starts, started) = mpsc::channel(EVENTS_MAX);
        let secret = Secret::new(job.secret.as_bytes());
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let any_v4 = SocketAddr::from(([0, 0, 0, 0], 0));
        let control = ControlChannel::start(any, secret.clone(), events.clone())
            .or_else(|_| ControlChannel::start(any_v4, secret.clone(), events.clone()))?;
        let rendezvous = Server::start(any, secret.clone()).or_else(|_| Server::start(any_v4, secret))?;
        let (workers, tails) = (BTreeMap::new(), BTreeMap::new());
        let has_told_of_threads = false;
        let runner = Self { job, output, control, rendezvous, events, starts, workers, tails, has_told_of_threads };
        Ok((runner, heard, started))
    }

    fn note(&mut self, event: &Event) {
        if let Event::Ended(worker, _) | Event::StartFailed(worker, _) = event {
            self.workers.remove(worker);
            self.control.forget(*worker);
        }
    }

    fn look_for_silent(&mut self) -> Vec<Event> {
        let look = self.control.look(self.job.silence, Instant::now());
        if let Some(away) = look.away {
            let (away, fence) = (away.as_secs(), FENCE.as_secs());
            self.output.print_notice(&format!(
                "ronde: this launcher stood still for {away} s; workers give up after {fence} s"
            ));
        }
        look.silent.into_iter().map(Event::Silent).collect()
    }

    fn carry_out(&mut self, commands: Vec<Command>) -> Option<ElasticOutcome> {
        let new = commands.iter().filter(|command| matches!(command, Command::Start { .. })).count();
        let size = self.workers.len() + new;
        for command in commands {
            match command {
                Command::Start { worker, host, slot, number, local_size } => {
                    self.workers.insert(worker, Running { number, orders: None, order: None });
                    self.tell_of_threads(local_size);
                    let place = first_place(number, size, slot, local_size);
                    self.start(worker, host, place);
                }
                Command::Assign(worker, place) => self.control.send(worker, &ToRank::Assign(place)),
                Command::Leave(worker) => self.control.send(worker, &ToRank::Leave),
                Command::Notice { worker, generation, change } => {
                    self.control.send(worker, &ToRank::Notice { generation, change });
                }
                Command::Interrupt { worker, generation, at } => {
                    self.control.send(worker, &ToRank::Interrupt { generation, at });
                }
                Command::GiveUp(generation) => self.rendezvous.give_up(&format!("{SCOPE}.{generation}")),
                Command::Stop(worker) => self.order(worker, Order::Signal(SIGTERM)),
                Command::Kill(worker) => {
                    self.control.forget(worker);
                    self.order(worker, Order::Kill);
                }
                Command::Say(text) => self.output.print_notice(&format!("ronde: {text}")),
                Command::Finish(outcome) => return Some(outcome),
            }
        }
        None
    }

    /// Starts a worker in a task of its own; the result comes back through `starts`.
    fn start(&mut self, worker: WorkerId, host: String, place: [(String, String); 4]) {
        self.control.expect(worker);
        let (starter, starts, limit) = (Arc::clone(&self.job.starter), self.starts.clone(), self.job.start_timeout);
        let mut program = self.job.program.clone();
        program.environment.extend(place);
        let secret = self.job.secret.clone();
        let ports = (self.control.address().port(), self.rendezvous.address().port());
        tokio::spawn(async move {
            let own = environment::own_address(&host).await;
            program.environment.extend(environment(worker, &host, secret));
            program.environment.extend(addresses(own, ports));
            let started = match time::timeout(limit, starter.start(&host, &program)).await {
                Ok(started) => started.map_err(|error| error.to_string()),
                Err(_) => Err(format!("not started within {} s", limit.as_secs())),
            };
            let _ = starts.send((worker, started)).await;
        });
    }

    /// Says once what becomes of the cores that workers share. Hosts come and go: nobody knows them all.
    fn tell_of_threads(&mut self, local_size: usize) {
        if !self.has_told_of_threads
            && let Some(notice) = threads::notice(&self.job.program.environment, local_size, None)
        {
            self.has_told_of_threads = true;
            self.output.print_notice(&notice);
        }
    }

    /// Takes a worker that was started into the runner.
    fn started(&mut self, worker: WorkerId, started: Result<Started, String>) -> Event {
        let started = match started {
            Ok(started) => started,
            Err(why) => return Event::StartFailed(worker, why),
        };
        let Some(running) = self.workers.get_mut(&worker) else {
            // Given up meanwhile; dropping the orders ends it.
            return Event::Tick;
        };
        if let Some(order) = running.order {
            let _ = started.orders.try_send(order);
        }
        running.orders = Some(started.orders);
        let place = (running.number.0, self.job.settings.max.min(1000));
        let attach = |stream, from| self.output.attach(place, stream, from);
        match (attach(Stream::Stdout, started.stdout), attach(Stream::Stderr, started.stderr)) {
            (Ok(_), Ok(stderr)) => drop(self.tails.insert(worker, stderr)),
            (Err(error), _) | (_, Err(error)) => tracing::warn!(%error, "cannot read the output of a worker"),
        }
        if self.tails.len() > TAILS_MAX {
            self.tails.retain(|worker, tail| self.workers.contains_key(worker) || !tail.is_finished());
        }
        let events = self.events.clone();
        tokio::spawn(async move {
            let ended = started.ended.await;
            let ended = ended.unwrap_or_else(|_| crate::start::Ended::Lost("its keeper is gone".to_owned()));
            let _ = events.send(Event::Ended(worker, ended)).await;
        });
        Event::Started(worker)
    }

    fn order(&mut self, worker: WorkerId, order: Order) {
        let Some(running) = self.workers.get_mut(&worker) else { return };
        match &running.orders {
            // A queue that is full holds such an order already.
            Some(orders) => {
                let _ = orders.try_send(order);
            }
            None => running.order = Some(order),
        }
    }

    /// Returns the last lines of the worker that is to be named; what all of them have written is on its way.
    async fn last_words(&mut self, outcome: &ElasticOutcome) -> Tail {
        self.output.end();
        if let ElasticOutcome::Failed(failure) = outcome
            && let Some(tail) = self.tails.remove(&failure.worker)
        {
            return time::timeout(output::ENDED_WITHIN, tail).await.ok().and_then(Result::ok).unwrap_or_default();
        }
        Tail::new()
    }
}

/// Rings are known at the rendezvous by this and their number.
const SCOPE: &str = "ring";

/// Where the control channel and the rendezvous are, seen from a host.
fn addresses(own: IpAddr, (control, rendezvous): (u16, u16)) -> [(String, String); 3] {
    [
        ("RONDE_DRIVER", SocketAddr::new(own, control).to_string()),
        ("HOROVOD_GLOO_RENDEZVOUS_ADDR", own.to_string()),
        ("HOROVOD_GLOO_RENDEZVOUS_PORT", rendezvous.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// What scripts may read before they have a place.
fn first_place(
    WorkerNumber(number): WorkerNumber,
    workers: usize,
    slot: usize,
    local_size: usize,
) -> [(String, String); 4] {
    [
        ("HOROVOD_RANK", number),
        ("HOROVOD_SIZE", workers.max(number + 1)),
        ("HOROVOD_LOCAL_RANK", slot),
        ("HOROVOD_LOCAL_SIZE", local_size),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_string()))
}

fn environment(worker: WorkerId, host: &str, secret: String) -> [(String, String); 5] {
    [
        ("HOROVOD_ELASTIC", "1".to_owned()),
        ("HOROVOD_HOSTNAME", host.to_owned()),
        ("RONDE_SCOPE", SCOPE.to_owned()),
        ("RONDE_SECRET", secret),
        ("RONDE_WORKER", worker.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}
