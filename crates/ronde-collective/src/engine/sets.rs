//! The process sets of a job: which there are, made and removed by all ranks together.
//!
//! Every rank knows every set, also those that it is no member of, so that all give the same number to a new one.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use super::{
    driver::{Driver, Parts},
    execute::Executor,
    group::{Group, lock},
    stall::Watch,
    work::Done,
};
use crate::{
    clock,
    comm::{self, Comm, Site},
    engine::config::Config,
    error::{Error, Result},
    metrics::Metrics,
    timeline::Timeline,
    types::{Rank, SetId},
};

/// Exchanges of cards that forming a group takes; ranks outside take part in them with nothing to say.
const EXCHANGES: usize = 3;

/// All sets but that of all ranks. Owned by the engine; the driver of the group of all ranks changes it.
#[derive(Debug)]
pub(super) struct Registry {
    pub(super) site: Site,
    pub(super) config: Config,
    pub(super) metrics: Arc<Metrics>,
    timeline: Arc<Timeline>,
    sets: Mutex<Sets>,
}

#[derive(Debug, Default)]
struct Sets {
    known: BTreeMap<SetId, Set>,
    /// Numbers of removed sets, the oldest first.
    free: VecDeque<SetId>,
}

#[derive(Debug)]
struct Set {
    ranks: Vec<Rank>,
    /// None on ranks that are no members.
    group: Option<Arc<Group>>,
}

impl Registry {
    pub(super) fn new(site: Site, config: Config, metrics: Arc<Metrics>, timeline: Arc<Timeline>) -> Self {
        Self { site, config, metrics, timeline, sets: Mutex::default() }
    }

    /// The group of a set, for an operation that is named in the error.
    pub(super) fn group(&self, set: SetId, operation: &str) -> Result<Arc<Group>> {
        let sets = lock(&self.sets);
        let known = sets.known.get(&set).ok_or_else(|| {
            let text = format!("{operation}: Process set provided does not exist, or has not been registered.");
            Error::Invalid(text)
        })?;
        let rank = self.site.rank;
        let foreign =
            || Error::Invalid(format!("{operation}: Rank {rank} is not a member of the provided process set."));
        known.group.clone().ok_or_else(foreign)
    }

    /// All sets with their ranks.
    pub(super) fn list(&self) -> BTreeMap<SetId, Vec<Rank>> {
        lock(&self.sets).known.iter().map(|(id, set)| (*id, set.ranks.clone())).collect()
    }

    /// Makes a set; all ranks do this at once, over the group of all.
    pub(super) fn add(&self, comm: &Comm, ranks: &[Rank]) -> Result<Result<Done>> {
        if ranks == comm.ranks || lock(&self.sets).known.values().any(|set| set.ranks == ranks) {
            return Ok(Err(Error::Invalid("A process set with the same ranks exists already.".to_owned())));
        }
        let formed = self.form(comm, ranks)?;
        // 2. all or none: whoever could not form it says so
        let note = formed.as_ref().map_or_else(ToString::to_string, |_| String::new());
        let notes = comm.gather_notes(note.as_bytes())?;
        if let Some(failed) = notes.iter().find(|note| !note.is_empty()) {
            return Ok(Err(Error::Mismatch(String::from_utf8_lossy(failed).into_owned())));
        }
        let mut sets = lock(&self.sets);
        let next = SetId(u32::try_from(sets.known.len() + 1).unwrap_or(u32::MAX));
        let id = sets.free.pop_front().unwrap_or(next);
        let group = formed.ok().flatten().map(|comm| self.start_group(id, comm)).transpose()?;
        sets.known.insert(id, Set { ranks: ranks.to_vec(), group });
        Ok(Ok(Done { set: Some(id), ..Done::default() }))
    }

    /// Forms the group of a set. An error outside means that the group of all has failed.
    fn form(&self, comm: &Comm, ranks: &[Rank]) -> Result<Result<Option<Comm>>> {
        let position = |rank: &Rank| comm.ranks.iter().position(|each| each == rank);
        let members: Vec<usize> = ranks.iter().filter_map(position).collect();
        let mut exchanges = 0;
        let formed = match members.iter().position(|member| *member == comm.me) {
            None => Ok(None),
            Some(me) => {
                let mut exchange = |_: &str, card: Vec<u8>| {
                    exchanges += 1;
                    let notes = comm.gather_notes(&card)?;
                    Ok(members.iter().map(|member| notes[*member].clone()).collect())
                };
                let site = Site { deadline: clock::now() + self.config.start_timeout, ..self.site.clone() };
                comm::form(&site, me, &mut exchange).map(Some)
            }
        };
        if let Err(error @ (Error::Lost { .. } | Error::Shutdown(_))) = formed {
            return Err(error);
        }
        for _ in exchanges..EXCHANGES {
            comm.gather_notes(&[])?;
        }
        Ok(formed)
    }

    fn start_group(&self, id: SetId, comm: Comm) -> Result<Arc<Group>> {
        let parts = Parts { timeline: Arc::new(self.timeline.of_set(id)), ..self.parts(Executor::default()) };
        let group = Group::new(Driver::new(comm, parts));
        group.start_helper(id)?;
        Ok(group)
    }

    /// For the group of all ranks.
    pub(super) fn parts(&self, executor: Executor) -> Parts {
        Parts {
            cache_capacity: self.config.cache_capacity,
            fusion_threshold: self.config.fusion_threshold,
            cycle_time: self.config.cycle_time,
            watch: Watch::new(self.config.stall, Arc::clone(&self.metrics), self.site.rank),
            executor,
            metrics: Arc::clone(&self.metrics),
            timeline: Arc::clone(&self.timeline),
            tuner: None,
            tune_log: self.config.autotune_log.clone(),
        }
    }

    /// Removes a set; all ranks do this at once.
    pub(super) fn remove(&self, set: SetId) -> Result<Done> {
        let removed = {
            let mut sets = lock(&self.sets);
            let removed = sets.known.remove(&set);
            if removed.is_some() {
                sets.free.push_back(set);
            }
            removed
        };
        let Some(Set { group, .. }) = removed else {
            return Err(Error::Invalid(format!("process set {} does not exist", set.0)));
        };
        if let Some(group) = group {
            group.close(&Error::Shutdown(None));
        }
        Ok(Done::default())
    }

    /// Ends all groups.
    pub(super) fn close(&self) {
        let sets = std::mem::take(&mut lock(&self.sets).known);
        for group in sets.into_values().filter_map(|set| set.group) {
            group.close(&Error::Shutdown(None));
        }
    }
}
