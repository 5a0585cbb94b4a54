//! Counters of an engine: what it has done, and how well it went together.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use crate::negotiate::{
    Response,
    request::Spec,
    round_message::{Item, RoundMessage},
};

/// Counters, counted up for the life of an engine.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    operations: AtomicU64,
    bytes: AtomicU64,
    rounds: AtomicU64,
    requests: AtomicU64,
    cache_hits: AtomicU64,
    fused: AtomicU64,
    on_devices: AtomicU64,
    wait_ns: AtomicU64,
    stalls: AtomicU64,
    last_stall: Mutex<Option<String>>,
}

/// The counters at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Operations that are done.
    pub operations: u64,
    /// Bytes of their tensors on this rank.
    pub bytes: u64,
    pub rounds: u64,
    /// What all ranks asked for in those rounds, and how much of it was known already.
    pub requests: u64,
    pub cache_hits: u64,
    /// Operations that were done together with others.
    pub fused: u64,
    /// Operations that were given to the backend of a device.
    pub on_devices: u64,
    /// Time that callers waited for results.
    pub wait_ns: u64,
    pub stalls: u64,
    pub last_stall: Option<String>,
}

fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

impl Metrics {
    pub(crate) fn round(&self, messages: &[RoundMessage]) {
        add(&self.rounds, 1);
        let items = messages.iter().flat_map(|message| &message.items);
        add(&self.requests, messages.iter().map(|message| message.items.len() as u64).sum());
        add(&self.cache_hits, items.filter(|item| matches!(item, Item::Known(_))).count() as u64);
    }

    /// Counts an operation that was done together with so many; returns its bytes.
    pub(crate) fn done(&self, response: &Response, together: usize) -> usize {
        let is_elsewhere = response.request().is_some_and(|request| request.device.is_some());
        let bytes = response.specs().iter().map(Spec::bytes).sum();
        add(&self.operations, 1);
        add(&self.bytes, bytes as u64);
        add(&self.fused, u64::from(together > 1));
        add(&self.on_devices, u64::from(is_elsewhere));
        bytes
    }

    pub(crate) fn waited(&self, nanoseconds: u64) {
        add(&self.wait_ns, nanoseconds);
    }

    pub(crate) fn stalled(&self, report: &str) {
        add(&self.stalls, 1);
        *self.last_stall.lock().unwrap_or_else(PoisonError::into_inner) = Some(report.to_owned());
    }

    pub(crate) fn counters(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            operations: get(&self.operations),
            bytes: get(&self.bytes),
            rounds: get(&self.rounds),
            requests: get(&self.requests),
            cache_hits: get(&self.cache_hits),
            fused: get(&self.fused),
            on_devices: get(&self.on_devices),
            wait_ns: get(&self.wait_ns),
            stalls: get(&self.stalls),
            last_stall: self.last_stall.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
