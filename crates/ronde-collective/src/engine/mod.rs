//! The engine: what a training process holds.
//!
//! [`Engine::start`] forms the ring; [`Engine::run`] does an operation and waits, [`Engine::submit`] returns at once
//! with a [`Handle`]. Operations have names; ranks may ask in any order, and an operation begins when all members of
//! its process set have asked for it. An engine can be shut down and started again as often as wanted.

mod agree;
pub(crate) mod config;
mod device;
mod driver;
mod execute;
mod execute_inline;
mod group;
mod handle;
mod sets;
mod stall;
mod work;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use self::{
    agree::agree,
    config::{Config, Transport},
    driver::{Driver, Entry},
    execute::Executor,
    group::Group,
    handle::{Callback, Completion},
    sets::Registry,
};
use crate::{
    clock,
    comm::{self, Site},
    error::{Error, Result},
    metrics::{Counters, Metrics},
    negotiate::request::{Kind, Request},
    rendezvous::Meeting,
    timeline::Timeline,
    tune::Tuner,
    types::{Rank, SetId},
};

pub use self::{
    device::{Device, DeviceBatch, DeviceOperation},
    handle::Handle,
    work::{Done, Operation, Output, Reduction, Tensor, Work},
};

/// A rank's place in a ring.
#[derive(Debug)]
pub struct Engine {
    all: Arc<Group>,
    registry: Arc<Registry>,
    timeline: Arc<Timeline>,
    metrics: Arc<Metrics>,
    is_shut_down: AtomicBool,
}

impl Engine {
    /// Forms the ring with all other ranks.
    ///
    /// # Errors
    /// If not all ranks come in time, or they cannot reach each other, or know another secret.
    pub fn start(config: Config) -> Result<Self> {
        if config.rank.0 >= config.size {
            return Err(Error::Invalid(format!("rank {} is not below the size, {}", config.rank, config.size)));
        }
        // 1. meet, and agree on the first rank's settings
        let site = site(&config)?;
        let meeting = Meeting {
            place: &config.rendezvous,
            secret: &config.secret,
            scope: &config.scope,
            rank: config.rank,
            size: config.size,
            deadline: site.deadline,
        };
        let config = agree(&meeting, config.clone())?;
        // 2. connect
        let mut exchange = |step: &str, card: Vec<u8>| meeting.exchange(step, card);
        let comm = comm::form(&site, config.rank.0, &mut exchange)?;
        // 3. start
        let (metrics, timeline) = (Arc::new(Metrics::default()), Arc::new(Timeline::default()));
        if let Some(path) = config.timeline.as_deref().filter(|_| config.rank == Rank(0)) {
            timeline.start(path, config.mark_cycles).map_err(|error| Error::Bootstrap(error.to_string()))?;
        }
        let tuner = (config.autotune && config.rank == Rank(0)).then(|| Tuner::new(comm.fusion_max()));
        let registry = Arc::new(Registry::new(site, config, Arc::clone(&metrics), Arc::clone(&timeline)));
        let executor = Executor::with_registry(Arc::clone(&registry));
        let mut parts = registry.parts(executor);
        parts.tuner = tuner;
        let all = Group::new(Driver::new(comm, parts));
        all.start_helper(SetId::GLOBAL)?;
        Ok(Self { all, registry, timeline, metrics, is_shut_down: AtomicBool::new(false) })
    }

    pub fn rank(&self) -> Rank {
        self.registry.site.rank
    }

    pub fn size(&self) -> usize {
        self.all.ranks.len()
    }

    /// Puts work in and returns at once.
    ///
    /// # Errors
    /// If the work makes no sense on this rank alone, its name is in flight, or the engine is of no more use.
    pub fn submit(&self, work: Work) -> Result<Handle> {
        self.group_of(&work)?.submit(work, false)
    }

    /// Puts work in and returns at once; `callback` gets the result, or the refusal. The engine stands still while it
    /// runs, so it must not wait for anything.
    pub fn submit_with_callback(&self, work: Work, callback: impl FnOnce(Result<Done>) + Send + 'static) {
        match self.group_of(&work) {
            Ok(group) => group.submit_with_callback(work, Callback(Box::new(callback))),
            Err(error) => callback(Err(error)),
        }
    }

    /// As [`Engine::submit`], for a caller that will wait at once, and so do the work in its own thread where possible.
    pub fn begin(&self, work: Work) -> Result<Handle> {
        self.group_of(&work)?.submit(work, true)
    }

    /// Does work and waits for its result, in the caller's thread where possible.
    pub fn run(&self, work: Work) -> Result<Done> {
        self.begin(work)?.wait(None).unwrap_or(Err(Error::Shutdown(None)))
    }

    /// Takes the next operations that a set has agreed upon on tensors of a device; none if there are none in time.
    ///
    /// # Errors
    /// If the set has ended.
    pub fn take_device_batch(&self, set: SetId, timeout: Duration) -> Result<Option<DeviceBatch>> {
        self.group(set, "Device")?.take_device_batch(timeout)
    }

    /// Whether the ring has ended in the middle of something, and not because ranks left.
    pub fn is_broken(&self) -> bool {
        self.all.is_broken()
    }

    fn group_of(&self, work: &Work) -> Result<Arc<Group>> {
        self.group(work.set, &work.operation.kind().title())
    }

    fn group(&self, set: SetId, purpose: &str) -> Result<Arc<Group>> {
        match set {
            SetId::GLOBAL => Ok(Arc::clone(&self.all)),
            set => self.registry.group(set, purpose),
        }
    }

    /// Makes a process set; all ranks must ask for the same.
    pub fn add_process_set(&self, ranks: &[Rank]) -> Result<SetId> {
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable();
        ranks.dedup();
        if let Some(rank) = ranks.iter().find(|rank| rank.0 >= self.size()) {
            return Err(Error::Invalid(format!(
                "a process set cannot have rank {rank}: the last rank is {}",
                self.size() - 1
            )));
        }
        if ranks.is_empty() {
            return Err(Error::Invalid("a process set needs at least one rank".to_owned()));
        }
        let mut request = Request::new(Kind::AddSet, "process_set.add");
        request.ranks = ranks;
        let done = self.run_request(request)?;
        done.set.ok_or_else(|| Error::Invalid("the process set was not created".to_owned()))
    }

    /// Removes a process set; all ranks must ask for the same.
    pub fn remove_process_set(&self, set: SetId) -> Result<()> {
        if set == SetId::GLOBAL {
            return Err(Error::Invalid("the set of all ranks cannot be removed".to_owned()));
        }
        let mut request = Request::new(Kind::RemoveSet, "process_set.remove");
        request.set = set;
        self.run_request(request).map(|_| ())
    }

    fn run_request(&self, request: Request) -> Result<Done> {
        let completion = Arc::new(Completion::default());
        let name = Arc::clone(&request.name);
        let entry = Entry {
            request: Arc::new(request),
            tensors: Vec::new(),
            completion: Arc::clone(&completion),
            since: clock::now(),
            ticket: None,
        };
        self.all.put(entry)?;
        self.all.call_helper();
        let handle = Handle { name, completion, group: Arc::clone(&self.all) };
        handle.wait(None).unwrap_or(Err(Error::Shutdown(None)))
    }

    /// All process sets with their ranks.
    pub fn process_sets(&self) -> BTreeMap<SetId, Vec<Rank>> {
        let mut sets = self.registry.list();
        sets.insert(SetId::GLOBAL, self.all.ranks.clone());
        sets
    }

    /// Begins a timeline; other ranks than the first have none.
    pub fn start_timeline(&self, path: &Path, mark_cycles: bool) -> Result<()> {
        if self.rank() == Rank(0) {
            self.timeline.start(path, mark_cycles).map_err(|error| Error::Invalid(error.to_string()))?;
        }
        Ok(())
    }

    pub fn stop_timeline(&self) {
        self.timeline.stop();
    }

    pub fn counters(&self) -> Counters {
        self.metrics.counters()
    }

    /// Leaves the ring: what is in flight fails, peers that wait for this rank hear that it left.
    pub fn shutdown(&self) {
        if !self.is_shut_down.swap(true, Ordering::SeqCst) {
            self.registry.close();
            self.all.close(&Error::Shutdown(None));
            self.timeline.stop();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// What this rank knows of itself: the machine it is on, and who it is there.
fn site(config: &Config) -> Result<Site> {
    let failed = |error: std::io::Error| Error::Bootstrap(error.to_string());
    let boot = fs_err::read_to_string("/proc/sys/kernel/random/boot_id").map_err(failed)?;
    // Memory is shared through /proc, so by processes of one user in one pid namespace.
    let space = fs_err::read_link("/proc/self/ns/pid").map_err(failed)?;
    let user = rustix::process::geteuid().as_raw();
    let alone = if config.transport == Transport::Tcp { format!("rank {}", config.rank) } else { String::new() };
    Ok(Site {
        rank: config.rank,
        host: format!("{} {} {user} {} {alone}", boot.trim(), space.display(), config.host),
        boot: boot.trim().to_owned(),
        addresses: config.addresses.clone(),
        secret: config.secret.clone(),
        deadline: clock::now() + config.start_timeout,
        is_given_up: Arc::clone(&config.is_given_up),
    })
}
