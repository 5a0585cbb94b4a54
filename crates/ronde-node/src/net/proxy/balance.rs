//! Which backend serves a client: one after the other, or always the same for the same client. Pure; time is an argument.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use tokio::time::Instant;

use super::plan::{Backend, Target};

/// Clients that are remembered for a service with affinity; the one seen longest ago makes room.
const CLIENTS_MAX: usize = 4096;
/// Backends that are tried for one client.
const TRIES_MAX: usize = 3;

/// Spreads the clients of one front.
pub struct Balancer {
    backends: Vec<Backend>,
    affinity: Option<Duration>,
    next: usize,
    clients: BTreeMap<IpAddr, (Backend, Instant)>,
}

impl Balancer {
    pub fn new(target: &Target) -> Self {
        Self { backends: target.backends.clone(), affinity: target.affinity, next: 0, clients: BTreeMap::new() }
    }

    /// Takes over what is behind the front now; clients keep their backends where these are still there.
    pub fn set_target(&mut self, target: &Target) {
        self.backends.clone_from(&target.backends);
        self.affinity = target.affinity;
        self.clients.retain(|_, (backend, _)| target.affinity.is_some() && target.backends.contains(backend));
    }

    pub fn has(&self, backend: Backend) -> bool {
        self.backends.contains(&backend)
    }

    /// Lists the backends to try for a client, the best first.
    pub fn choose(&mut self, client: IpAddr, now: Instant) -> Vec<Backend> {
        let count = self.backends.len();
        let mut chosen: Vec<Backend> =
            (0..count.min(TRIES_MAX)).map(|step| self.backends[(self.next + step) % count]).collect();
        self.next = (self.next + 1) % count.max(1);
        if let Some(usual) = self.usual(client, now) {
            chosen.retain(|backend| *backend != usual);
            chosen.insert(0, usual);
            chosen.truncate(TRIES_MAX);
        }
        chosen
    }

    /// Remembers who served a client.
    pub fn served(&mut self, client: IpAddr, backend: Backend, now: Instant) {
        if self.affinity.is_none() {
            return;
        }
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&client) {
            let oldest = self.clients.iter().min_by_key(|(_, (_, seen))| *seen).map(|(client, _)| *client);
            oldest.and_then(|oldest| self.clients.remove(&oldest));
        }
        self.clients.insert(client, (backend, now));
    }

    fn usual(&self, client: IpAddr, now: Instant) -> Option<Backend> {
        let (backend, seen) = self.clients.get(&client)?;
        (now.saturating_duration_since(*seen) < self.affinity?).then_some(*backend)
    }
}
