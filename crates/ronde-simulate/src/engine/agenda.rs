//! What is to come, in the order of time; what is noted for the same moment comes in the order in which it was noted.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Something that is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A job is submitted.
    Arrives(usize),
    /// A job has done its work, if it still is as it was when this was noted.
    Ends { job: usize, version: u32 },
    /// A pod that had to go is gone.
    Left { job: usize, pod: usize, version: u32 },
    /// A fault of the scenario.
    Fault(usize),
    /// The end of the notice of a node.
    Lost { fault: usize },
    /// A node comes back.
    Back { fault: usize },
    /// Jobs may change their size again.
    Rested,
}

/// The list of what is to come.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(i64, u64, Event)>>,
    serial: u64,
}

impl Agenda {
    pub fn note(&mut self, at: i64, event: Event) {
        self.serial += 1;
        self.heap.push(Reverse((at, self.serial, event)));
    }

    pub fn next_at(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event that is due.
    pub fn take_due(&mut self, now: i64) -> Option<Event> {
        self.next_at().filter(|at| *at <= now)?;
        self.heap.pop().map(|Reverse((.., event))| event)
    }
}
