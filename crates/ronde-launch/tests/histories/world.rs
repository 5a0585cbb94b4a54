//! A model of the world around the driver: hosts, processes, their connections, their ring and their training.
//!
//! A training is a number of steps. A step needs all members of the ring (a barrier); after it each commits for itself
//! and checks whether it is to leave the ring. Messages take time, and keep their order.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use ronde_collective::control_channel::{Assignment, Join};
use ronde_launch::{
    elastic::{Command, Driver, ElasticOutcome, Event, HostSlots, Settings, WorkerId},
    start::Ended,
};

use crate::random::Random;

/// Faults happen before this, in milliseconds.
const FAULTS_UNTIL: u64 = 20_000;
/// Commits of a whole training.
const COMMITS: u64 = 200;
/// After so long without a word from it, a worker counts as silent.
const SILENCE: u64 = 6_000;
/// After so long without the launcher, a worker gives up.
const FENCE: u64 = 4_000;
/// A history that is longer hangs.
const END: u64 = 600_000;

/// How many of each kind happen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub kills: u64,
    pub exits: u64,
    pub silences: u64,
    pub cuts: u64,
    /// Changes of the list of hosts.
    pub lists: u64,
    /// Hosts that die with all that runs there.
    pub deaths: u64,
    /// Times when a host starts nothing.
    pub refusals: u64,
    /// Times when the discovery fails or finds nothing.
    pub lies: u64,
    /// Times when a worker is stopped for a while, and goes on where it was.
    pub stops: u64,
    /// Times when the discovery takes its time.
    pub delays: u64,
    /// In the end there is room for one, and two are needed.
    pub has_famine: bool,
}

#[derive(Debug, Clone)]
enum Happening {
    Event(Event),
    ToWorker(WorkerId, Heard),
    Boot(WorkerId),
    /// A worker comes to its next barrier.
    Arrive(WorkerId, u64),
    /// A barrier let it pass.
    Pass(WorkerId, u64),
    /// It notices that its ring is broken.
    Break(WorkerId, u64),
    Fault(Fault),
    Poll,
    Exit(WorkerId, Ended),
    Fence(WorkerId),
    /// The launcher looks whether it has heard of a worker that was stopped.
    Look(WorkerId),
    Wake,
}

#[derive(Debug, Clone)]
enum Heard {
    Place(Assignment),
    Leave,
    Notice(u64),
    Interrupt(u64, u64),
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    Exit,
    Silence,
    Cut,
    List,
    Death,
    Refusal,
    Lie,
    Stop,
    Delay,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Starting,
    Booting,
    Waiting,
    /// In a ring, on its way to a barrier or in it.
    Training,
    /// At a check, until the interrupt is named.
    Held,
    Leaving,
}

#[derive(Debug)]
struct Process {
    host: String,
    slot: usize,
    doing: Doing,
    place: Assignment,
    commits: Option<u64>,
    /// It has taken the first rank's state over, or need not.
    is_synced: bool,
    checks: u64,
    is_noticed: bool,
    at: Option<u64>,
    is_silent: bool,
    is_cut: bool,
    /// Until then it does nothing, and what happens to it waits.
    stopped_until: u64,
    /// Messages to it and from it keep their order.
    last_in: u64,
    last_out: u64,
}

#[derive(Debug, Default)]
struct Barrier {
    members: BTreeSet<WorkerId>,
    arrived: BTreeSet<WorkerId>,
    is_broken: bool,
}

pub struct World {
    random: Random,
    now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    driver: Driver,
    settings: Settings,
    processes: BTreeMap<WorkerId, Process>,
    rings: BTreeMap<u64, Barrier>,
    listed: Vec<HostSlots>,
    /// What the driver has heard of that.
    told: Vec<HostSlots>,
    all: Vec<HostSlots>,
    refusing: BTreeMap<String, u64>,
    lying_until: u64,
    slow_until: u64,
    has_famine: bool,
    /// Somebody was lost after the last end that was a good one.
    had_late_loss: bool,
    /// They have done the whole training.
    finished: BTreeSet<WorkerId>,
    had_exit: bool,
    is_ended_well: bool,
    outcome: Option<ElasticOutcome>,
    trace: String,
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut random = Random(seed);
        let all: Vec<HostSlots> = (0..random.range(2, 6))
            .map(|number| HostSlots { host: format!("h{number}"), slots: usize::try_from(random.range(1, 4)).unwrap() })
            .collect();
        let room: usize = all.iter().map(|host| host.slots).sum();
        let min = if faults.has_famine { 2 } else { usize::try_from(random.range(1, 3)).unwrap() };
        let max = min.max(usize::try_from(random.range(1, u64::try_from(room).unwrap() + 2)).unwrap());
        let mut settings = Settings::new(min, max);
        settings.elastic_timeout = Duration::from_secs(120);
        settings.cooldown = (Duration::from_millis(500), Duration::from_secs(4));
        settings.leave_grace = Duration::from_secs(5);
        settings.stop_grace = Duration::from_secs(1);
        settings.fence = Duration::from_millis(FENCE + 100);
        settings.gather = Duration::from_secs(1);
        let mut world = Self {
            random,
            now: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            driver: Driver::new(settings.clone()),
            settings,
            processes: BTreeMap::new(),
            rings: BTreeMap::new(),
            listed: all.clone(),
            told: Vec::new(),
            all,
            refusing: BTreeMap::new(),
            lying_until: 0,
            slow_until: 0,
            has_famine: faults.has_famine,
            had_late_loss: false,
            finished: BTreeSet::new(),
            had_exit: false,
            is_ended_well: false,
            outcome: None,
            trace: String::new(),
        };
        world.plan(faults);
        world
    }

    fn plan(&mut self, faults: Faults) {
        self.schedule(0, Happening::Poll);
        let kinds = [
            (Fault::Kill, faults.kills),
            (Fault::Exit, faults.exits),
            (Fault::Silence, faults.silences),
            (Fault::Cut, faults.cuts),
            (Fault::List, faults.lists),
            (Fault::Death, faults.deaths),
            (Fault::Refusal, faults.refusals),
            (Fault::Lie, faults.lies),
            (Fault::Stop, faults.stops),
            (Fault::Delay, faults.delays),
        ];
        for (fault, count) in kinds {
            for _ in 0..count {
                // Troubles like company: most come close to others.
                let around = self.random.range(0, 8) * FAULTS_UNTIL / 8;
                let at = around + self.random.range(0, 300);
                self.schedule(at, Happening::Fault(fault));
            }
        }
    }

    fn schedule(&mut self, at: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), happening);
    }

    fn soon(&mut self, from: u64, to: u64, happening: Happening) {
        let at = self.now + self.random.range(from, to);
        self.schedule(at, happening);
    }

    /// Runs to the end and returns all that happened.
    pub fn run(mut self) -> String {
        while self.outcome.is_none() {
            let Some(((at, _), happening)) = self.queue.pop_first() else { panic!("nothing happens any more") };
            assert!(at < END, "it hangs: {:?}\n{}", self.processes, tail(&self.trace));
            self.now = at;
            self.happen(happening);
        }
        self.check_outcome();
        self.trace
    }

    fn happen(&mut self, happening: Happening) {
        if let Some(until) = self.waits_until(&happening) {
            return self.schedule(until, happening);
        }
        match happening {
            Happening::Event(event) => self.tell(event),
            Happening::Wake => {
                let now = Duration::from_millis(self.now);
                if self.driver.wake_at().is_some_and(|at| at <= now) {
                    self.tell(Event::Tick);
                }
            }
            Happening::ToWorker(id, heard) => self.hear(id, &heard),
            Happening::Boot(id) => self.boot(id),
            Happening::Arrive(id, ring) => self.arrive(id, ring),
            Happening::Pass(id, ring) => self.pass(id, ring),
            Happening::Break(id, ring) => self.leave_broken(id, ring),
            Happening::Fault(fault) => self.fault(fault),
            Happening::Poll => self.poll(),
            Happening::Exit(id, ended) => self.exit(id, ended),
            Happening::Fence(id) => self.fence(id),
            Happening::Look(id) => {
                if self.processes.get(&id).is_some_and(|it| self.now < it.stopped_until) {
                    self.tell(Event::Silent(id));
                }
            }
        }
    }

    /// What happens to a process that is stopped happens when it goes on.
    fn waits_until(&self, happening: &Happening) -> Option<u64> {
        let (Happening::ToWorker(id, _)
        | Happening::Boot(id)
        | Happening::Arrive(id, _)
        | Happening::Pass(id, _)
        | Happening::Break(id, _)) = happening
        else {
            return None;
        };
        self.processes.get(id).map(|it| it.stopped_until).filter(|until| self.now < *until)
    }

    // --- the driver ----------------------------------------------------------------------------------------------

    fn tell(&mut self, event: Event) {
        writeln!(self.trace, "{} {event:?}", self.now).unwrap();
        match &event {
            Event::Hosts(hosts) => self.told.clone_from(hosts),
            Event::Ended(id, Ended::Code(0)) if self.finished.contains(id) => self.had_late_loss = false,
            Event::Ended(_, ended) if *ended != Ended::Code(0) => self.had_late_loss = true,
            Event::Silent(_) => self.had_late_loss = true,
            _ => {}
        }
        for command in self.driver.on(event, Duration::from_millis(self.now)) {
            writeln!(self.trace, "{}   {command:?}", self.now).unwrap();
            self.carry_out(command);
        }
        if let Some(at) = self.driver.wake_at() {
            let at = u64::try_from(at.as_millis()).unwrap();
            self.schedule(at, Happening::Wake);
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Start { worker, host, slot, .. } => self.start(worker, host, slot),
            Command::Assign(worker, place) => {
                self.check_place(worker, &place);
                self.send(worker, Heard::Place(place));
            }
            Command::Leave(worker) => self.send(worker, Heard::Leave),
            Command::Notice { worker, generation, .. } => self.send(worker, Heard::Notice(generation)),
            Command::Interrupt { worker, generation, at } => self.send(worker, Heard::Interrupt(generation, at)),
            Command::GiveUp(_) | Command::Say(_) => {}
            Command::Stop(worker) | Command::Kill(worker) => {
                self.check_stop(worker);
                if let Some(process) = self.processes.get(&worker).filter(|it| !it.is_cut) {
                    let is_request = matches!(command, Command::Stop(_));
                    let until = if is_request { process.stopped_until } else { 0 };
                    if !(is_request && process.is_silent) {
                        let at = until.max(self.now) + self.random.range(1, 50);
                        self.schedule(at, Happening::Exit(worker, Ended::Signal(15)));
                    }
                }
            }
            Command::Finish(outcome) => self.outcome = Some(outcome),
        }
    }

    fn start(&mut self, id: WorkerId, host: String, slot: usize) {
        let is_taken = self.processes.values().any(|it| it.host == host && it.slot == slot && !it.is_cut);
        assert!(!is_taken, "two processes in slot {slot} of {host}");
        if self.refusing.get(&host).is_some_and(|until| self.now < *until) {
            self.soon(1, 200, Happening::Event(Event::StartFailed(id, "refused".to_owned())));
            return;
        }
        let process = Process {
            host,
            slot,
            doing: Doing::Starting,
            place: Assignment::default(),
            commits: None,
            is_synced: false,
            checks: 0,
            is_noticed: false,
            at: None,
            is_silent: false,
            is_cut: false,
            stopped_until: 0,
            last_in: 0,
            last_out: 0,
        };
        self.processes.insert(id, process);
        self.soon(1, 100, Happening::Boot(id));
    }

    // --- messages ------------------------------------------------------------------------------------------------

    fn send(&mut self, id: WorkerId, heard: Heard) {
        let at = self.now + self.random.range(1, 20);
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.last_in = at.max(process.last_in);
        let at = process.last_in;
        self.schedule(at, Happening::ToWorker(id, heard));
    }

    fn send_event(&mut self, id: WorkerId, event: Event) {
        let at = self.now + self.random.range(1, 20);
        let process = self.processes.get_mut(&id).unwrap();
        if process.is_cut {
            return;
        }
        process.last_out = at.max(process.last_out);
        let at = process.last_out;
        self.schedule(at, Happening::Event(event));
    }

    fn alive(&mut self, id: WorkerId) -> Option<&mut Process> {
        self.processes.get_mut(&id).filter(|process| !process.is_silent)
    }

    fn hear(&mut self, id: WorkerId, heard: &Heard) {
        let Some(process) = self.alive(id).filter(|process| !process.is_cut) else { return };
        match *heard {
            Heard::Place(place) => {
                (process.place, process.doing) = (place, Doing::Training);
                (process.checks, process.is_noticed, process.at) = (0, false, None);
                process.is_synced = place.is_in_step;
                assert!(!place.is_in_step || process.commits == Some(place.commits), "not in step");
                self.soon(1, 30, Happening::Arrive(id, place.generation));
            }
            Heard::Leave => {
                process.doing = Doing::Leaving;
                self.soon(1, 300, Happening::Exit(id, Ended::Code(0)));
            }
            Heard::Notice(generation) if generation == process.place.generation && process.doing != Doing::Waiting => {
                process.is_noticed = true;
                let checks = process.checks;
                self.send_event(id, Event::Checked { worker: id, generation, checks });
            }
            Heard::Interrupt(generation, at) if generation == process.place.generation => {
                process.is_noticed = true;
                process.at = Some(process.at.map_or(at, |before| before.min(at)));
                match process.doing {
                    Doing::Held => self.go_on(id),
                    // The engine lets nobody wait in a ring that was given up.
                    Doing::Training if at == 0 => self.soon(1, 20, Happening::Break(id, generation)),
                    _ => {}
                }
            }
            Heard::Notice(_) | Heard::Interrupt(..) => {}
        }
    }

    // --- workers -------------------------------------------------------------------------------------------------

    fn boot(&mut self, id: WorkerId) {
        let Some(process) = self.alive(id) else { return };
        if process.doing == Doing::Starting {
            process.doing = Doing::Booting;
            self.send_event(id, Event::Started(id));
            self.soon(100, 1500, Happening::Boot(id));
        } else {
            process.doing = Doing::Waiting;
            self.send_event(id, Event::Connected(id));
            self.send_event(id, Event::Joined(id, Join::default()));
        }
    }

    fn join(&mut self, id: WorkerId, is_interrupted: bool) {
        let process = self.processes.get_mut(&id).unwrap();
        process.doing = Doing::Waiting;
        let (seen, commits) = (process.place.generation, process.commits);
        let why = if is_interrupted { "" } else { "the ring broke" }.to_owned();
        if let Some(ring) = self.rings.get_mut(&seen) {
            ring.is_broken = true;
        }
        self.break_ring(seen);
        self.send_event(id, Event::Joined(id, Join { seen, commits, is_interrupted, why }));
    }

    /// Whoever waits in a broken ring notices after a while; others when they come to the next barrier.
    fn break_ring(&mut self, number: u64) {
        let Some(ring) = self.rings.get_mut(&number) else { return };
        ring.is_broken = true;
        let waiting: Vec<WorkerId> = std::mem::take(&mut ring.arrived).into_iter().collect();
        waiting.into_iter().for_each(|id| self.soon(1, 60, Happening::Break(id, number)));
    }

    fn arrive(&mut self, id: WorkerId, number: u64) {
        let Some(process) = self.alive(id) else { return };
        if process.doing != Doing::Training || process.place.generation != number {
            return;
        }
        let ring = self.rings.get_mut(&number).unwrap();
        if ring.is_broken {
            return self.soon(1, 60, Happening::Break(id, number));
        }
        ring.arrived.insert(id);
        if ring.arrived == ring.members {
            for member in std::mem::take(&mut ring.arrived) {
                self.soon(0, 40, Happening::Pass(member, number));
            }
        }
    }

    fn pass(&mut self, id: WorkerId, number: u64) {
        let Some(process) = self.alive(id) else { return };
        if process.doing != Doing::Training || process.place.generation != number {
            return;
        }
        if process.is_synced {
            process.commits = process.commits.map(|commits| commits + 1);
            process.checks += 1;
            if process.checks == 1 {
                self.send_event(id, Event::Committed { worker: id, generation: number });
            }
            self.check(id);
        } else {
            // The first barrier: everybody takes the first rank's state.
            let own = process.commits.unwrap_or(0);
            assert!(process.place.rank > 0 || own == process.place.commits, "rank 0 is not the one");
            process.commits = Some(process.place.commits);
            process.is_synced = true;
            self.soon(5, 40, Happening::Arrive(id, number));
        }
    }

    fn check(&mut self, id: WorkerId) {
        let process = &self.processes[&id];
        if process.is_noticed && process.at.is_none() {
            self.processes.get_mut(&id).unwrap().doing = Doing::Held;
        } else {
            self.go_on(id);
        }
    }

    fn go_on(&mut self, id: WorkerId) {
        let process = self.processes.get_mut(&id).unwrap();
        process.doing = Doing::Training;
        let number = process.place.generation;
        if process.at.is_some_and(|at| process.checks >= at) {
            let (at, checks) = (process.at.unwrap(), process.checks);
            assert!(at == 0 || at == checks, "the interrupt at {at} came after check {checks}");
            self.join(id, true);
        } else if process.commits >= Some(COMMITS) {
            process.doing = Doing::Leaving;
            self.is_ended_well = true;
            self.finished.insert(id);
            self.soon(1, 200, Happening::Exit(id, Ended::Code(0)));
        } else {
            self.soon(5, 100, Happening::Arrive(id, number));
        }
    }

    fn leave_broken(&mut self, id: WorkerId, number: u64) {
        let Some(process) = self.alive(id) else { return };
        if process.doing == Doing::Training && process.place.generation == number {
            self.join(id, false);
        }
    }

    /// The process is gone.
    fn exit(&mut self, id: WorkerId, ended: Ended) {
        let Some(process) = self.processes.remove(&id) else { return };
        let number = process.place.generation;
        let has_finished = process.doing == Doing::Leaving && process.commits >= Some(COMMITS);
        if has_finished || matches!(process.doing, Doing::Training | Doing::Held) {
            self.break_ring(number);
        }
        if !process.is_cut {
            let at = process.last_out.max(self.now + self.random.range(1, 30));
            self.schedule(at, Happening::Event(Event::Ended(id, ended)));
        }
    }

    fn fence(&mut self, id: WorkerId) {
        if self.processes.get(&id).is_some_and(|it| it.is_cut) {
            self.exit(id, Ended::Code(1));
        }
    }

    // --- faults --------------------------------------------------------------------------------------------------

    fn fault(&mut self, fault: Fault) {
        writeln!(self.trace, "{} fault {fault:?}", self.now).unwrap();
        let ids: Vec<WorkerId> = self.processes.keys().copied().collect();
        let one = self.random.pick(&ids).copied();
        // Who is stopped and cut off leaves its ring as soon as it goes on: it has not heard a word for too long.
        let is_taken = |id: &WorkerId| self.processes[id].is_cut || self.now < self.processes[id].stopped_until;
        if matches!(fault, Fault::Stop | Fault::Cut) && one.as_ref().is_some_and(is_taken) {
            return;
        }
        match (fault, one) {
            (Fault::Kill, Some(id)) => self.exit(id, Ended::Signal(9)),
            (Fault::Exit, Some(id)) => {
                self.had_exit = true;
                let is_crash = self.random.one_in(2);
                self.exit(id, if is_crash { Ended::Signal(11) } else { Ended::Code(1) });
            }
            (Fault::Silence, Some(id)) => {
                self.processes.get_mut(&id).unwrap().is_silent = true;
                self.schedule(self.now + SILENCE, Happening::Event(Event::Silent(id)));
            }
            (Fault::Stop, Some(id)) => {
                let process = self.processes.get_mut(&id).unwrap();
                process.stopped_until = self.now + self.random.range(100, 3 * SILENCE);
                self.schedule(self.now + SILENCE, Happening::Look(id));
            }
            (Fault::Delay, _) => self.slow_until = self.now + self.random.range(1000, 8000),
            (Fault::Cut, Some(id)) => {
                self.processes.get_mut(&id).unwrap().is_cut = true;
                self.schedule(self.now + FENCE, Happening::Fence(id));
                self.schedule(self.now + SILENCE, Happening::Event(Event::Silent(id)));
            }
            (Fault::List, _) => self.change_list(),
            (Fault::Death, _) => self.kill_host(),
            (Fault::Refusal, _) => {
                let until = self.now + self.random.range(100, 3000);
                let host = self.random.pick(&self.all).unwrap().host.clone();
                self.refusing.insert(host, until);
            }
            (Fault::Lie, _) => self.lying_until = self.now + self.random.range(500, 3000),
            (Fault::Kill | Fault::Exit | Fault::Silence | Fault::Cut | Fault::Stop, None) => {}
        }
    }

    fn change_list(&mut self) {
        self.listed = self.all.clone();
        let random = &mut self.random;
        self.listed.retain(|_| !random.one_in(3));
        for host in &mut self.listed {
            if random.one_in(4) {
                host.slots = usize::try_from(random.range(1, 4)).unwrap();
            }
        }
        if random.one_in(2) {
            self.listed.reverse();
        }
        if random.one_in(2) {
            // By file rather than by script: the driver hears at once.
            let listed = self.listed.clone();
            self.tell(Event::Hosts(listed));
        }
    }

    fn kill_host(&mut self) {
        let host = self.random.pick(&self.all).unwrap().host.clone();
        let there: Vec<WorkerId> = self.processes.iter().filter(|(_, it)| it.host == host).map(|(id, _)| *id).collect();
        there.into_iter().for_each(|id| self.exit(id, Ended::Lost("the host is gone".to_owned())));
    }

    fn poll(&mut self) {
        let is_first = self.now == 0;
        if self.now < self.slow_until && !is_first {
            return self.schedule(self.slow_until, Happening::Poll);
        }
        self.schedule(self.now + 1000, Happening::Poll);
        if self.now > FAULTS_UNTIL {
            self.listed = self.all.clone();
        }
        if self.has_famine && self.now > FAULTS_UNTIL / 4 {
            self.listed.truncate(1);
            self.listed.iter_mut().for_each(|host| host.slots = 1);
        }
        if self.now < self.lying_until && !is_first {
            let event = if self.random.one_in(2) {
                Event::DiscoveryFailed("the script failed".to_owned())
            } else {
                Event::Hosts(Vec::new())
            };
            return self.tell(event);
        }
        let listed = self.listed.clone();
        self.tell(Event::Hosts(listed));
    }

    // --- what must hold ------------------------------------------------------------------------------------------

    fn check_place(&mut self, id: WorkerId, place: &Assignment) {
        let ring = self.rings.entry(place.generation).or_default();
        let is_new = ring.members.is_empty();
        ring.members.insert(id);
        assert!(place.size <= self.settings.max, "{} ranks are too many", place.size);
        assert!(place.size >= self.settings.min || self.is_ended_well, "{} ranks are too few", place.size);
        assert!(place.rank < place.size && place.local_rank < place.local_size && place.cross_rank < place.cross_size);
        if is_new {
            let inside = self.processes.iter().find(|(_, it)| {
                let is_inside = matches!(it.doing, Doing::Training | Doing::Held) && !it.is_silent;
                is_inside && it.place.generation < place.generation
            });
            assert!(inside.is_none(), "{inside:?} still trains when ring {} begins", place.generation);
            let known = self.processes.values().filter(|it| it.doing == Doing::Waiting && !it.is_silent && !it.is_cut);
            let newest = known.filter_map(|it| it.commits).max().unwrap_or(0);
            assert!(place.commits >= newest, "commit {newest} is forgotten for {}", place.commits);
        }
        if !self.processes.contains_key(&id) {
            // It died while the answer was on its way to it.
            self.break_ring(place.generation);
        }
    }

    /// A survivor is never stopped: only who does not answer, or whose host is gone, or who is not needed.
    fn check_stop(&self, id: WorkerId) {
        let Some(process) = self.processes.get(&id) else { return };
        let has_waited =
            self.now > FAULTS_UNTIL / 4 + u64::try_from(self.settings.elastic_timeout.as_millis()).unwrap();
        let is_over = self.is_ended_well || self.had_exit || self.has_famine && has_waited;
        let has_never_trained = process.place.generation == 0;
        let is_stopped = self.now < process.stopped_until;
        let is_answering = !process.is_silent && !process.is_cut && !is_stopped && process.doing != Doing::Leaving;
        let is_at_home = self.told.iter().any(|it| it.host == process.host && process.slot < it.slots);
        let is_lying = self.now < self.lying_until.max(self.slow_until) + 2000;
        let is_survivor = is_answering && is_at_home && !has_never_trained && !is_over && !is_lying;
        assert!(!is_survivor, "worker {id} is stopped, and it had done nothing wrong\n{}", tail(&self.trace));
    }

    fn check_outcome(&self) {
        match self.outcome.as_ref() {
            Some(ElasticOutcome::Done) => assert!(self.is_ended_well, "it is done, and nobody has finished"),
            Some(ElasticOutcome::Failed(_)) => {
                let is_late = self.is_ended_well && self.had_late_loss;
                assert!(self.had_exit || is_late, "it failed, and no program did\n{}", tail(&self.trace));
            }
            Some(ElasticOutcome::Short { ready, min, .. }) => {
                assert!(ready < min && self.has_famine && !self.is_ended_well, "it was short of nothing");
            }
            other => panic!("it ended as {other:?}\n{}", tail(&self.trace)),
        }
    }
}

fn tail(trace: &str) -> String {
    let lines: Vec<&str> = trace.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
