//! The nodes as one class of pods sees them: how many fit where, and the best node first.
//!
//! A view follows the log of changed nodes, so keeping it up costs what changed. The heap holds old entries too; an entry
//! counts only while the version of its node is the one it was made for.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use super::{
    classes::Class,
    nodes::{Mode, NodeState, Nodes},
};

/// Old entries that a heap keeps for every node before it is made anew.
const HEAP_PER_NODE: usize = 4;
/// Changes for every node that a view follows; to look at all nodes anew is cheaper than to follow more.
const CHANGES_PER_NODE: usize = 2;
const MISMATCH: i64 = i64::MIN;

/// A set of nodes that are near each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    pub name: String,
    pub tier: u32,
    /// Slots of nodes, in ascending order.
    pub nodes: Vec<usize>,
}

impl Domain {
    pub fn contains(&self, node: usize) -> bool {
        self.nodes.binary_search(&node).is_ok()
    }

    pub fn is_within(&self, other: &Self) -> bool {
        self.nodes.len() <= other.nodes.len() && self.nodes.iter().all(|node| other.contains(*node))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    score: i64,
    rank: Reverse<u32>,
    pub node: usize,
    version: u32,
}

impl Entry {
    pub fn plus(self, points: i64) -> Self {
        Self { score: self.score + points, ..self }
    }

    pub fn is_current(&self, nodes: &Nodes) -> bool {
        nodes.slots[self.node].version == self.version
    }
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    spec_version: u32,
    fits: u32,
    /// Of the node itself, or that it is out of the question.
    preference: i64,
}

const UNSEEN: Cell = Cell { spec_version: u32::MAX, fits: 0, preference: MISMATCH };

#[derive(Debug, Clone)]
pub struct View {
    pub class: usize,
    mode: Mode,
    scope: Option<Arc<Domain>>,
    seen: u64,
    cells: Vec<Cell>,
    /// How many pods fit on all nodes together.
    pub total: u64,
    heap: Option<BinaryHeap<Entry>>,
    /// When it was last asked for.
    pub used_at: u64,
}

impl View {
    pub fn new(class: usize, mode: Mode, scope: Option<Arc<Domain>>) -> Self {
        Self { class, mode, scope, seen: u64::MAX, cells: Vec::new(), total: 0, heap: None, used_at: 0 }
    }

    /// Takes note of all nodes that changed.
    pub fn sync(&mut self, class: &Class, nodes: &Nodes) {
        let end = nodes.log_end();
        if self.seen == end {
            return;
        }
        let changed = if self.seen == u64::MAX { None } else { nodes.changed_since(self.seen) };
        match changed {
            Some(changed) if changed.len() <= CHANGES_PER_NODE * self.cells.len() => {
                changed.iter().for_each(|node| self.look_at(*node as usize, class, nodes));
            }
            _ => self.rebuild(class, nodes),
        }
        self.seen = end;
    }

    fn rebuild(&mut self, class: &Class, nodes: &Nodes) {
        self.total = 0;
        self.heap = None;
        self.cells.clear();
        match self.scope.clone() {
            None => {
                self.cells.resize(nodes.slots.len(), UNSEEN);
                (0..nodes.slots.len()).for_each(|node| self.look_at(node, class, nodes));
            }
            Some(scope) => {
                self.cells.resize(scope.nodes.len(), UNSEEN);
                scope.nodes.iter().for_each(|node| self.look_at(*node, class, nodes));
            }
        }
    }

    fn position(&self, node: usize) -> Option<usize> {
        match &self.scope {
            None => Some(node),
            Some(scope) => scope.nodes.binary_search(&node).ok(),
        }
    }

    fn look_at(&mut self, node: usize, class: &Class, nodes: &Nodes) {
        let Some(position) = self.position(node) else { return };
        let state = &nodes.slots[node];
        let cell = &mut self.cells[position];
        if cell.spec_version != state.spec_version {
            cell.spec_version = state.spec_version;
            cell.preference = if class.mismatch(state).is_some() { MISMATCH } else { class.preference(state) };
        }
        let fits = if cell.preference == MISMATCH { 0 } else { state.fits(class, self.mode) };
        self.total = self.total + u64::from(fits) - u64::from(cell.fits);
        cell.fits = fits;
        if let Some(heap) = &mut self.heap
            && fits > 0
        {
            let entry = entry(node, state, class, self.mode, cell.preference);
            heap.push(entry);
        }
    }

    /// Returns the heap of nodes with room, the best on top; [`Entry::is_current`] tells which entries count.
    pub fn heap(&mut self, class: &Class, nodes: &Nodes) -> &mut BinaryHeap<Entry> {
        let is_crowded = |heap: &BinaryHeap<Entry>| heap.len() > HEAP_PER_NODE * self.cells.len() + 64;
        if self.heap.as_ref().is_none_or(is_crowded) {
            self.heap = Some(self.entries(class, nodes).collect());
        }
        self.heap.get_or_insert_default()
    }

    /// Returns every node with room.
    pub fn entries<'a>(&'a self, class: &'a Class, nodes: &'a Nodes) -> impl Iterator<Item = Entry> + 'a {
        let with_room = self.cells.iter().enumerate().filter(|(_, cell)| cell.fits > 0);
        with_room.map(move |(position, cell)| {
            let node = self.scope.as_ref().map_or(position, |scope| scope.nodes[position]);
            entry(node, &nodes.slots[node], class, self.mode, cell.preference)
        })
    }

    pub fn drop_heap(&mut self) {
        self.heap = None;
    }
}

fn entry(node: usize, state: &NodeState, class: &Class, mode: Mode, preference: i64) -> Entry {
    let score = preference + class.load_score(state, mode);
    Entry { score, rank: Reverse(state.rank), node, version: state.version }
}
