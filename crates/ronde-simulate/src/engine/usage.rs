//! How much of the cluster is used, by whom, over time. Sums of amounts times milliseconds.

use std::collections::BTreeMap;

use ronde_scheduler::{Amounts, CPU, Node, PODS, Queue, QueueName, ResourceName};

use super::history::{Sample, Share};

/// What nobody has bounded; amounts from here on are not counted as something that could be used.
pub const BOUNDLESS: i64 = 1 << 50;
/// Samples that are kept; with more every second is dropped, and they are taken half as often.
const SAMPLES_MAX: usize = 2048;
const SAMPLE_EVERY: i64 = 60_000;

#[derive(Debug)]
pub struct Usage {
    pub names: Vec<ResourceName>,
    /// The number of the resource that matters most.
    pub main: usize,
    used: Vec<i64>,
    capacity: Vec<i64>,
    sums: Vec<(i128, i128)>,
    pub queues: Vec<QueueName>,
    numbers: BTreeMap<QueueName, usize>,
    by_queue: Vec<i64>,
    pub shares: Vec<Share>,
    since: i64,
    pub samples: Vec<Sample>,
    every: i64,
}

impl Usage {
    pub fn new<'a>(
        amounts: impl Iterator<Item = &'a Amounts>,
        queues: impl Iterator<Item = &'a Queue>,
        begin: i64,
    ) -> Self {
        let mut known: BTreeMap<ResourceName, i64> = BTreeMap::new();
        for (name, amount) in amounts.flat_map(Amounts::iter).filter(|(name, _)| &***name != PODS) {
            let most = known.entry(name.clone()).or_default();
            *most = amount.max(*most);
        }
        let names: Vec<ResourceName> = known.keys().cloned().collect();
        let is_bounded = |name: &ResourceName| known.get(name).is_some_and(|most| (1..BOUNDLESS).contains(most));
        let is_device = |name: &&ResourceName| name.contains('/') && is_bounded(name);
        let chosen = names.iter().find(is_device).map_or(CPU, |name| &**name);
        let main = names.iter().position(|name| &**name == chosen).unwrap_or(0);
        let queues: Vec<QueueName> = queues.map(|queue| queue.name.clone()).collect();
        let numbers = queues.iter().cloned().enumerate().map(|(number, name)| (name, number)).collect();
        let (resources, of_queues) = (names.len(), queues.len());
        Self {
            names,
            main,
            used: vec![0; resources],
            capacity: vec![0; resources],
            sums: vec![(0, 0); resources],
            queues,
            numbers,
            by_queue: vec![0; of_queues],
            shares: vec![Share::default(); of_queues],
            since: begin,
            samples: Vec::new(),
            every: SAMPLE_EVERY,
        }
    }

    pub fn number(&self, queue: &QueueName) -> Option<usize> {
        self.numbers.get(queue).copied()
    }

    /// Turns amounts into numbers in the order of the names.
    pub fn row(&self, amounts: &Amounts) -> Vec<i64> {
        self.names.iter().map(|name| amounts.get(name).unwrap_or(0)).collect()
    }

    /// Moves the clock.
    pub fn pass(&mut self, now: i64) {
        let time = i128::from(now - self.since);
        if time <= 0 {
            return;
        }
        self.since = now;
        for (sum, (used, capacity)) in self.sums.iter_mut().zip(self.used.iter().zip(&self.capacity)) {
            sum.0 += i128::from(*used) * time;
            sum.1 += i128::from(*capacity) * time;
        }
        for (share, used) in self.shares.iter_mut().zip(&self.by_queue) {
            share.used += i128::from(*used) * time;
        }
    }

    /// A pod takes room, or gives it up.
    pub fn take(&mut self, queue: Option<usize>, row: &[i64], times: i64) {
        self.used.iter_mut().zip(row).for_each(|(used, amount)| *used += amount * times);
        if let (Some(queue), Some(amount)) = (queue, row.get(self.main)) {
            self.by_queue[queue] += amount * times;
        }
    }

    /// A node comes or goes.
    pub fn offer(&mut self, node: &Node, times: i64) {
        let row = self.row(&node.allocatable);
        let bounded = row.into_iter().map(|amount| if amount < BOUNDLESS { amount } else { 0 });
        self.capacity.iter_mut().zip(bounded).for_each(|(all, amount)| *all += amount * times);
    }

    pub fn is_sample_due(&self, now: i64) -> bool {
        self.samples.last().is_none_or(|last| now >= last.at + self.every)
    }

    /// Notes how the cluster is; `deserved` is what each queue deserves and wants, if somebody waits.
    pub fn sample(&mut self, now: i64, waiting: usize, deserved: Option<&[i64]>) {
        if let Some(deserved) = deserved {
            let time = i128::from(self.samples.last().map_or(self.every, |last| now - last.at));
            for ((share, used), part) in self.shares.iter_mut().zip(&self.by_queue).zip(deserved) {
                share.had += i128::from(*used.min(part)) * time;
                share.entitled += i128::from(*part) * time;
            }
        }
        let capacity = self.capacity.get(self.main).copied().unwrap_or(0);
        self.samples.push(Sample { at: now, used: self.by_queue.clone(), capacity, waiting });
        if self.samples.len() > SAMPLES_MAX {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every *= 2;
        }
    }

    /// What each queue uses of the resource that matters most.
    pub fn of_queue(&self, queue: usize) -> i64 {
        self.by_queue.get(queue).copied().unwrap_or(0)
    }

    /// Returns the resources that have a bound, with what was used of them and what there was.
    pub fn totals(&self) -> Vec<(ResourceName, i128, i128)> {
        let all = self.names.iter().zip(&self.sums).map(|(name, (used, capacity))| (name.clone(), *used, *capacity));
        all.filter(|(_, _, capacity)| *capacity > 0).collect()
    }
}
