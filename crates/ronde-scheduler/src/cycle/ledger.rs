//! The tree of queues with what each has, may have and deserves, for one cycle.
//!
//! Deserved amounts: a queue gets what its `deserved` names; what siblings leave of their parent's part is shared by weight,
//! nobody getting more than it asks for. Limits: `capability` of the queue and of all above it, and what is guaranteed to
//! siblings. A broken hierarchy only moves the broken queue under the root, and only resources that a group asks for are
//! looked at, so that one lost device or one wrong queue stops nobody else. Cost: queues × resources.

use std::collections::BTreeMap;

use crate::{
    cluster::{
        Cluster,
        table::{AMOUNT_MAX, Request, Row},
    },
    model::{
        amounts::Amounts,
        ids::{GroupId, QueueName},
        queue::{Queue, QueueUsage},
    },
};

/// How deep a tree of queues may be below the root.
const DEPTH_MAX: usize = 5;
const ROOT: &str = "root";
/// A share of everything that is deserved.
pub const WHOLE: i64 = 1_000_000;

/// A queue in the tree.
#[derive(Debug)]
pub struct Account {
    pub queue: Queue,
    parent: Option<usize>,
    pub children: Vec<usize>,
    pub allocated: Row,
    /// The part of `allocated` that is leaving.
    pub leaving: Row,
    /// What is allocated and asked for together.
    wanted: Row,
    pub deserved: Row,
    guarantee: Row,
    /// By resource; a resource without an entry is not limited.
    limits: BTreeMap<usize, i64>,
}

impl Account {
    pub fn guarantee(&self, id: usize) -> i64 {
        self.guarantee.get(id)
    }
}

/// Part of a queue's limit that is held for a group that has waited too long.
#[derive(Debug)]
struct Hold {
    group: GroupId,
    priority: i32,
    account: usize,
    row: Row,
}

/// Who asks for room in a queue.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    pub group: &'a GroupId,
    pub priority: i32,
    /// Whether pods that are leaving count as being there.
    pub counts_leaving: bool,
}

/// A limit that a request does not fit into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    pub queue: QueueName,
    pub resource: usize,
    pub limit: i64,
    pub allocated: i64,
    pub wanted: i64,
    /// It would fit but for what is held for others.
    pub is_held: bool,
}

#[derive(Debug)]
pub struct Ledger {
    pub accounts: Vec<Account>,
    by_name: BTreeMap<QueueName, usize>,
    holds: Vec<Hold>,
    pub warnings: Vec<String>,
}

impl Ledger {
    pub fn new(cluster: &Cluster) -> Self {
        let mut root = cluster.queues.get(&ROOT.into()).cloned().unwrap_or_else(|| Queue::new(ROOT));
        root.parent = None;
        let mut ledger =
            Self { accounts: Vec::new(), by_name: BTreeMap::new(), holds: Vec::new(), warnings: Vec::new() };
        ledger.open(root, cluster);
        for queue in cluster.queues.values().filter(|queue| queue.name.as_str() != ROOT) {
            ledger.open(queue.clone(), cluster);
        }
        ledger.link(cluster);
        ledger.sum_up();
        ledger.divide(cluster);
        ledger
    }

    fn open(&mut self, queue: Queue, cluster: &Cluster) {
        // Not all of it: it lists the groups of the queue, too many to be copied in every cycle.
        let demand = cluster.demand.get(&queue.name);
        let (allocated, leaving) =
            demand.map(|demand| (demand.allocated.clone(), demand.leaving.clone())).unwrap_or_default();
        let mut wanted = allocated.clone();
        demand.into_iter().for_each(|demand| wanted.add_row(&demand.asked, 1));
        self.by_name.insert(queue.name.clone(), self.accounts.len());
        self.accounts.push(Account {
            guarantee: row(&queue.guarantee, cluster),
            queue,
            parent: None,
            children: Vec::new(),
            allocated,
            leaving,
            wanted,
            deserved: Row::default(),
            limits: BTreeMap::new(),
        });
    }

    fn link(&mut self, cluster: &Cluster) {
        for index in 1..self.accounts.len() {
            let queue = &self.accounts[index].queue;
            let parent = match queue.parent.as_ref().filter(|parent| parent.as_str() != ROOT) {
                None => 0,
                Some(parent) if !self.by_name.contains_key(parent) => {
                    let name = &queue.name;
                    self.warnings.push(format!(
                        "queue `{name}` names the parent `{parent}`, which does not exist; it counts as under the root"
                    ));
                    0
                }
                Some(_) if depth(queue, cluster) > DEPTH_MAX => {
                    let name = &queue.name;
                    self.warnings.push(format!(
                        "queue `{name}` is more than {DEPTH_MAX} levels deep or above itself; it counts as under the root"
                    ));
                    0
                }
                Some(parent) => self.by_name[parent],
            };
            self.accounts[index].parent = Some(parent);
            self.accounts[parent].children.push(index);
        }
    }

    /// Returns the accounts with those above before those below.
    fn top_down(&self) -> Vec<usize> {
        let mut order = vec![0];
        let mut next = 0;
        while next < order.len() {
            order.extend(&self.accounts[order[next]].children);
            next += 1;
        }
        order
    }

    /// Adds what the queues below have to those above.
    fn sum_up(&mut self) {
        for index in self.top_down().into_iter().rev() {
            if let Some(parent) = self.accounts[index].parent {
                let account = &self.accounts[index];
                let (allocated, leaving) = (account.allocated.clone(), account.leaving.clone());
                let wanted = account.wanted.clone();
                let above = &mut self.accounts[parent];
                above.allocated.add_row(&allocated, 1);
                above.leaving.add_row(&leaving, 1);
                above.wanted.add_row(&wanted, 1);
            }
        }
    }

    /// Sets limits and deserved amounts from the root down.
    fn divide(&mut self, cluster: &Cluster) {
        let total = &cluster.nodes.total;
        let width = self.accounts[0].wanted.len().max(total.len());
        for index in self.top_down() {
            self.limit_by_capability(index, cluster);
        }
        for id in 0..width {
            let offered = self.accounts[0].limits.get(&id).map_or(total.get(id), |limit| total.get(id).min(*limit));
            self.accounts[0].deserved.set(id, offered);
        }
        for index in self.top_down() {
            for id in 0..width {
                self.keep_guarantees(index, id, total.get(id));
                self.share_out(index, id, cluster);
            }
        }
    }

    fn limit_by_capability(&mut self, index: usize, cluster: &Cluster) {
        let account = &mut self.accounts[index];
        let capability = row_entries(&account.queue.capability, cluster);
        account.limits = capability.collect();
    }

    /// Takes what is guaranteed to each child off the limits of the others.
    fn keep_guarantees(&mut self, index: usize, id: usize, total: i64) {
        let children = self.accounts[index].children.clone();
        let guaranteed: i64 = children.iter().map(|child| self.accounts[*child].guarantee.get(id)).sum();
        if guaranteed == 0 {
            return;
        }
        let available = self.accounts[index].limits.get(&id).map_or(total, |limit| total.min(*limit));
        for child in children {
            let account = &mut self.accounts[child];
            // More is promised than there is: everybody's promise shrinks.
            let own = portion(account.guarantee.get(id), available.min(guaranteed), guaranteed);
            let others = available.min(guaranteed) - own;
            let limit = (available - others).max(0);
            let entry = account.limits.entry(id).or_insert(limit);
            *entry = (*entry).min(limit);
        }
    }

    /// Divides what a queue deserves of a resource among its children.
    fn share_out(&mut self, index: usize, id: usize, cluster: &Cluster) {
        let name = if id < cluster.resources.len() { cluster.resources.name(id).clone() } else { return };
        let mut left = self.accounts[index].deserved.get(id);
        let mut sharing = Vec::new();
        for child in self.accounts[index].children.clone() {
            let account = &mut self.accounts[child];
            let limit = account.limits.get(&id).copied().unwrap_or(i64::MAX);
            if let Some(deserved) = account.queue.deserved.get(&name) {
                let deserved = deserved.clamp(0, AMOUNT_MAX).min(limit).max(account.guarantee.get(id));
                account.deserved.set(id, deserved);
                left = left.saturating_sub(deserved);
            } else {
                let most = account.wanted.get(id).min(limit).max(account.guarantee.get(id));
                sharing.push((child, most));
            }
        }
        self.fill(id, left.max(0), sharing);
    }

    /// Gives everybody their weight's part until they have what they want.
    fn fill(&mut self, id: usize, mut left: i64, mut sharing: Vec<(usize, i64)>) {
        while left > 0 && !sharing.is_empty() {
            let weights: i64 = sharing.iter().map(|(child, _)| self.weight(*child)).sum();
            let round = left;
            let is_content = |(child, most): &(usize, i64)| {
                self.accounts[*child].deserved.get(id) + portion(round, self.weight(*child), weights) >= *most
            };
            let (content, hungry): (Vec<_>, Vec<_>) = sharing.iter().copied().partition(is_content);
            let takers = if content.is_empty() { &hungry } else { &content };
            for (child, most) in takers.clone() {
                let part = if content.is_empty() { portion(round, self.weight(child), weights) } else { i64::MAX };
                let account = &mut self.accounts[child];
                let given = part.min(most - account.deserved.get(id)).min(left).max(0);
                account.deserved.add(id, given);
                left -= given;
            }
            if content.is_empty() {
                return;
            }
            sharing = hungry;
        }
    }

    fn weight(&self, account: usize) -> i64 {
        i64::from(self.accounts[account].queue.weight.max(1))
    }

    pub fn find(&self, name: &QueueName) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Returns a queue and those above it.
    pub fn path(&self, account: usize) -> Vec<usize> {
        std::iter::successors(Some(account), |index| self.accounts[*index].parent).collect()
    }

    /// Returns the first limit on the way to the root that a request exceeds.
    pub fn exceeded(&self, account: usize, request: &Request, asker: &Asker<'_>) -> Option<Exceeded> {
        for index in self.path(account) {
            let owner = &self.accounts[index];
            for (id, amount) in request {
                let Some(limit) = owner.limits.get(id) else { continue };
                let leaving = if asker.counts_leaving { 0 } else { owner.leaving.get(*id) };
                let allocated = owner.allocated.get(*id) - leaving;
                let is_over = allocated + amount > *limit;
                let is_held = !is_over && allocated + amount + self.held(index, *id, asker) > *limit;
                if is_over || is_held {
                    let queue = owner.queue.name.clone();
                    let (resource, limit, wanted) = (*id, *limit, *amount);
                    return Some(Exceeded { queue, resource, limit, allocated, wanted, is_held });
                }
            }
        }
        None
    }

    /// Returns how much of a queue is held for others that the asker may not push aside.
    pub fn held(&self, account: usize, id: usize, asker: &Asker<'_>) -> i64 {
        let heeded = self.holds.iter().filter(|hold| hold.group != *asker.group && hold.priority >= asker.priority);
        heeded.map(|hold| self.held_for(hold, account, id, asker.counts_leaving)).sum()
    }

    /// Returns how much of a queue is held for a group: what it asks, less what those give back here who have to end below
    /// a limit further down before it can start.
    fn held_for(&self, hold: &Hold, account: usize, id: usize, counts_leaving: bool) -> i64 {
        let path = self.path(hold.account);
        let Some(depth) = path.iter().position(|level| *level == account) else { return 0 };
        let asked = hold.row.get(id);
        let over = |level: &usize| {
            let account = &self.accounts[*level];
            let leaving = if counts_leaving { 0 } else { account.leaving.get(id) };
            account.limits.get(&id).map_or(0, |limit| account.allocated.get(id) - leaving + asked - limit)
        };
        let over_below = path[..depth].iter().map(over).max().unwrap_or(0);
        asked - over_below.clamp(0, asked)
    }

    /// Holds part of the limits for a group, instead of what was held for it before.
    pub fn hold(&mut self, account: usize, group: GroupId, priority: i32, row: Row) {
        self.release(&group);
        self.holds.push(Hold { group, priority, account, row });
    }

    /// Holds nothing for a group any more.
    pub fn release(&mut self, group: &GroupId) {
        self.holds.retain(|hold| hold.group != *group);
    }

    /// Tells whether a request would fit into the limits if nobody else were there.
    pub fn could_hold(&self, account: usize, request: &Request) -> bool {
        let fits = |index: &usize| {
            let limits = &self.accounts[*index].limits;
            request.iter().all(|(id, amount)| limits.get(id).is_none_or(|limit| amount <= limit))
        };
        self.path(account).iter().all(fits)
    }

    pub fn allocate(&mut self, account: usize, request: &Request, times: i64) {
        for index in self.path(account) {
            self.accounts[index].allocated.add_request(request, times);
        }
    }

    /// Counts pods of a queue as leaving, or no longer.
    pub fn leave(&mut self, account: usize, request: &Request, times: i64) {
        for index in self.path(account) {
            self.accounts[index].leaving.add_request(request, times);
        }
    }

    /// Returns how much of what it deserves a queue has, in millionths, by its scarcest resource.
    pub fn share(&self, account: usize) -> i64 {
        let account = &self.accounts[account];
        let ratio = |(id, used): (usize, i64)| match account.deserved.get(id) {
            _ if used <= 0 || id == 0 => 0,
            deserved if deserved <= 0 => i64::MAX,
            deserved => portion(WHOLE, used, deserved),
        };
        account.allocated.iter().map(ratio).max().unwrap_or(0)
    }

    /// Returns what each queue but the root uses and deserves.
    pub fn usage(&self, cluster: &Cluster) -> Vec<(QueueName, QueueUsage)> {
        let usage = |account: &Account| QueueUsage {
            allocated: cluster.resources.amounts(&account.allocated),
            deserved: cluster.resources.amounts(&account.deserved),
        };
        self.by_name.iter().map(|(name, index)| (name.clone(), usage(&self.accounts[*index]))).collect()
    }
}

/// Returns `amount * part / whole` without overflow.
pub fn portion(amount: i64, part: i64, whole: i64) -> i64 {
    let product = i128::from(amount) * i128::from(part) / i128::from(whole.max(1));
    i64::try_from(product).unwrap_or(i64::MAX)
}

fn depth(queue: &Queue, cluster: &Cluster) -> usize {
    let above = |name: &QueueName| cluster.queues.get(name).and_then(|queue| queue.parent.clone());
    let is_above = |name: &QueueName| name.as_str() != ROOT;
    let path = std::iter::successors(queue.parent.clone().filter(is_above), |name| above(name).filter(is_above));
    1 + path.take(DEPTH_MAX + 1).count()
}

fn row_entries<'a>(amounts: &'a Amounts, cluster: &'a Cluster) -> impl Iterator<Item = (usize, i64)> + 'a {
    let known = |name: &str| cluster.resources.find(name);
    amounts.iter().filter_map(move |(name, amount)| Some((known(name)?, amount.clamp(0, AMOUNT_MAX))))
}

fn row(amounts: &Amounts, cluster: &Cluster) -> Row {
    let mut row = Row::default();
    row_entries(amounts, cluster).for_each(|(id, amount)| row.add(id, amount));
    row
}
