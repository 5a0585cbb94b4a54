//! What an agent runs at the moment, and whether it may run more. The owner of that state; everybody else asks.

use std::sync::Arc;

use tokio::sync::{broadcast, watch};

use crate::start::Order;

/// One agent's programs: more than any host has slots.
const PROGRAMS_MAX: usize = 1024;
/// Orders to all that a program's task may be behind with: SIGTERM, SIGKILL, and a few signals of an impatient user.
const ORDERS: usize = 16;

#[derive(Debug, Default)]
struct State {
    running: usize,
    is_released: bool,
}

/// The programs of an agent.
#[derive(Debug, Clone)]
pub struct Roster {
    state: Arc<watch::Sender<State>>,
    orders: broadcast::Sender<Order>,
}

/// A program's place in the roster; given back when it is dropped.
#[derive(Debug)]
pub struct Admission {
    roster: Roster,
    /// What all programs are told.
    pub orders: broadcast::Receiver<Order>,
}

impl Roster {
    pub fn new() -> Self {
        Self { state: Arc::default(), orders: broadcast::Sender::new(ORDERS) }
    }

    /// Gives a program its place, or says why there is none.
    pub fn admit(&self) -> Result<Admission, &'static str> {
        let mut refusal = None;
        self.state.send_if_modified(|state| {
            refusal = match state {
                State { is_released: true, .. } => Some("this host has been released by the job"),
                State { running: PROGRAMS_MAX.., .. } => Some("too many programs run here already"),
                State { running, .. } => {
                    *running += 1;
                    None
                }
            };
            refusal.is_none()
        });
        refusal.map_or_else(|| Ok(Admission { roster: self.clone(), orders: self.orders.subscribe() }), Err)
    }

    /// Takes no more programs.
    pub fn release(&self) {
        self.state.send_modify(|state| state.is_released = true);
    }

    /// Tells all programs something.
    pub fn order(&self, order: Order) {
        // No program, nobody to tell.
        let _ = self.orders.send(order);
    }

    /// Waits until nothing runs.
    pub async fn idle(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.running == 0).await;
    }

    /// Waits until nothing runs and nothing will.
    pub async fn released_and_idle(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.is_released && state.running == 0).await;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.roster.state.send_modify(|state| state.running -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_release_waits_for_the_programs_and_lets_no_other_in() {
        let roster = Roster::new();
        let place = roster.admit().unwrap();
        assert!(roster.released_and_idle().now_or_never().is_none());
        roster.release();
        assert!(roster.admit().is_err());
        assert!(roster.released_and_idle().now_or_never().is_none(), "one still runs");
        drop(place);
        assert!(roster.released_and_idle().now_or_never().is_some());
    }

    #[test]
    fn there_is_a_last_place() {
        let roster = Roster::new();
        let places: Vec<Admission> = (0..PROGRAMS_MAX).map(|_| roster.admit().unwrap()).collect();
        assert!(roster.admit().is_err());
        drop(places);
        assert!(roster.admit().is_ok());
    }
}
