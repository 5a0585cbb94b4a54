//! Resources by number instead of by name, and rows of amounts indexed by it.

use std::collections::BTreeMap;

use crate::model::amounts::{Amounts, PODS, ResourceName};

/// The number of the resource that counts pods.
pub const PODS_ID: usize = 0;
/// The largest amount of anything, 64 Ti of bytes: larger ones count as this much, so that sums over 100 000 nodes or pods
/// stay exact. It also stands for no limit.
pub const AMOUNT_MAX: i64 = 1 << 46;

/// Amounts of a few resources by their number.
pub type Request = [(usize, i64)];

/// The resources that have been heard of.
#[derive(Debug, Clone)]
pub struct Resources {
    names: Vec<ResourceName>,
    ids: BTreeMap<ResourceName, usize>,
}

impl Resources {
    pub fn new() -> Self {
        let mut resources = Self { names: Vec::new(), ids: BTreeMap::new() };
        resources.id(&PODS.into());
        resources
    }

    /// Returns the number of a resource; gives it one if it is new.
    pub fn id(&mut self, name: &ResourceName) -> usize {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.names.push(name.clone());
        self.ids.insert(name.clone(), self.names.len() - 1);
        self.names.len() - 1
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.ids.get(name).copied()
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn name(&self, id: usize) -> &ResourceName {
        &self.names[id]
    }

    pub fn is_device(&self, id: usize) -> bool {
        self.names[id].contains('/')
    }

    pub fn row(&mut self, amounts: &Amounts) -> Row {
        let mut row = Row::default();
        amounts.iter().for_each(|(name, amount)| row.set(self.id(name), amount.clamp(0, AMOUNT_MAX)));
        row
    }

    /// Returns what a pod takes: what it asks for, and one of the pods of the node.
    pub fn request(&mut self, amounts: &Amounts) -> Box<Request> {
        let asked = amounts.iter().filter(|(name, amount)| *amount > 0 && &***name != PODS);
        let mut request: Vec<_> = asked.map(|(name, amount)| (self.id(name), amount.min(AMOUNT_MAX))).collect();
        request.insert(0, (PODS_ID, 1));
        request.into()
    }

    /// Returns the amounts of a row that are not zero, without the count of pods.
    pub fn amounts(&self, row: &Row) -> Amounts {
        let named = row.iter().filter(|(id, amount)| *id != PODS_ID && *amount != 0);
        named.map(|(id, amount)| (self.names[id].clone(), amount)).collect()
    }
}

/// Amounts by the number of the resource; those beyond the end are zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row(Vec<i64>);

impl Row {
    #[inline]
    pub fn get(&self, id: usize) -> i64 {
        self.0.get(id).copied().unwrap_or(0)
    }

    pub fn set(&mut self, id: usize, amount: i64) {
        if id >= self.0.len() {
            self.0.resize(id + 1, 0);
        }
        self.0[id] = amount;
    }

    #[inline]
    pub fn add(&mut self, id: usize, amount: i64) {
        self.set(id, self.get(id).saturating_add(amount));
    }

    /// Adds a request that many times; a negative number takes it away.
    #[inline]
    pub fn add_request(&mut self, request: &Request, times: i64) {
        request.iter().for_each(|(id, amount)| self.add(*id, amount.saturating_mul(times)));
    }

    pub fn add_row(&mut self, other: &Self, times: i64) {
        other.iter().for_each(|(id, amount)| self.add(id, amount.saturating_mul(times)));
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, i64)> {
        self.0.iter().copied().enumerate()
    }

    /// Returns the amounts that are more than nothing.
    pub fn positive(&self) -> Vec<(usize, i64)> {
        self.iter().filter(|(_, amount)| *amount > 0).collect()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}
