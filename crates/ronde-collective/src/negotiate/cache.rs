//! What was agreed before, so that it need not be said again.
//!
//! All ranks have the same cache: it changes only by what all of them heard, in the same order. An entry holds the
//! requests of all ranks, since those may differ (rows of an allgather, splits of an alltoall).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::request::Request;

/// A number of an entry, the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CacheId(pub(crate) u32);

/// The requests of all members for one name.
pub(crate) type Agreed = Arc<[Option<Arc<Request>>]>;

#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    agreed: Agreed,
    used: u64,
}

/// The least recently used entry makes room.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    capacity: usize,
    entries: BTreeMap<u32, Entry>,
    by_name: HashMap<Arc<str>, u32>,
    by_use: BTreeMap<u64, u32>,
    clock: u64,
    free: Vec<u32>,
}

impl Cache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// The number of a request, if this member asked for exactly the same before.
    pub(crate) fn find(&self, member: usize, request: &Request) -> Option<CacheId> {
        let number = *self.by_name.get(&request.name)?;
        let same = self.entries[&number].agreed[member].as_deref() == Some(request);
        same.then_some(CacheId(number))
    }

    pub(crate) fn get(&self, CacheId(number): CacheId) -> Option<&Agreed> {
        self.entries.get(&number).map(|entry| &entry.agreed)
    }

    /// Notes that an entry was of use.
    pub(crate) fn touch(&mut self, CacheId(number): CacheId) {
        if let Some(entry) = self.entries.get_mut(&number) {
            self.by_use.remove(&entry.used);
            self.clock += 1;
            entry.used = self.clock;
            self.by_use.insert(self.clock, number);
        }
    }

    /// Keeps what was agreed for a name, instead of what was agreed before.
    pub(crate) fn put(&mut self, name: &Arc<str>, agreed: Agreed) {
        if self.capacity == 0 {
            return;
        }
        let number = match self.by_name.get(name) {
            Some(number) => *number,
            None => self.new_number(name),
        };
        self.clock += 1;
        let entry = Entry { name: Arc::clone(name), agreed, used: self.clock };
        if let Some(old) = self.entries.insert(number, entry) {
            self.by_use.remove(&old.used);
        }
        self.by_use.insert(self.clock, number);
    }

    fn new_number(&mut self, name: &Arc<str>) -> u32 {
        if self.entries.len() >= self.capacity
            && let Some((_, number)) = self.by_use.pop_first()
            && let Some(old) = self.entries.remove(&number)
        {
            self.by_name.remove(&old.name);
            self.free.push(number);
        }
        let next = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let number = self.free.pop().unwrap_or(next);
        self.by_name.insert(Arc::clone(name), number);
        number
    }

    /// Forgets what was agreed for a name.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(number) = self.by_name.remove(name) {
            if let Some(old) = self.entries.remove(&number) {
                self.by_use.remove(&old.used);
            }
            self.free.push(number);
        }
    }
}
