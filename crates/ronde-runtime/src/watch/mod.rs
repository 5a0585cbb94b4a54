//! One watch per kind for all controllers of the process, and what they have seen.
//!
//! The runner starts the watches; controllers read through [`Caches`] and hear of changes as [`Change`]s, which are
//! only marks: the newest state is always in the cache. What a controller has written it may put there itself with
//! [`Caches::assume`], so that its next look is not at a state from before its own write.
//! Nothing here writes to the cluster, and nothing knows what a kind means.

mod cache;
mod list_watch;

use std::{
    any::{Any, TypeId, type_name},
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::future::BoxFuture;
use kube::{Client, Resource, core::PartialObjectMeta};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use self::{
    cache::{Cache, Trim},
    list_watch::list_watch,
};
use crate::telemetry::Telemetry;

/// What a kind must be to be watched; every built-in and derived custom kind is.
pub trait Cached: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static {}

impl<K> Cached for K where K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static {}

/// The namespace and name of an object; the namespace of a cluster-wide one is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// The part of an object that says whom its change concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// The owner that controls the object.
    pub owner: Option<Owner>,
}

/// A controlling owner, in the namespace of what it owns or cluster-wide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

/// That an object has come, changed or gone.
#[derive(Debug, Clone)]
pub struct Change {
    kind: TypeId,
    pub key: Key,
    /// How it was; none if it is new.
    pub old: Option<Mark>,
    /// How it is; none if it is gone.
    pub new: Option<Mark>,
}

impl Change {
    /// Tells whether an object of this kind has changed.
    pub fn is<K: Cached>(&self) -> bool {
        self.kind == TypeId::of::<K>()
    }

    /// Returns the marks before and after, those that exist.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.old.iter().chain(&self.new)
    }

    /// Returns the keys of the owners of one kind, before and after.
    pub fn owners(&self, kind: &str) -> Vec<Key> {
        let owners = self.marks().filter_map(|mark| mark.owner.as_ref());
        let named = owners.filter(|owner| owner.kind == kind);
        let mut keys: Vec<Key> = named.map(|owner| Key::new(&self.key.namespace, &owner.name)).collect();
        keys.dedup();
        keys
    }
}

/// Read access to everything that is watched. Cheap to clone.
#[derive(Clone)]
pub struct Caches {
    shared: Arc<Shared>,
}

type Listener = Box<dyn Fn(&Change, &Caches) + Send + Sync>;

/// The caches are written by the watch task of their kind, and by [`Caches::assume`].
struct Shared {
    caches: BTreeMap<TypeId, Box<dyn Any + Send + Sync>>,
    listeners: OnceLock<Vec<Listener>>,
    /// Set once every kind has been listed: before it, listeners would look into half of a world.
    live: AtomicBool,
}

impl Caches {
    /// Returns an object.
    pub fn get<K: Cached>(&self, key: &Key) -> Option<Arc<K>> {
        self.cache::<K>().read().get(key)
    }

    /// Returns the objects of one namespace, or of all of them, in the order of their keys.
    pub fn list<K: Cached>(&self, namespace: Option<&str>) -> Vec<Arc<K>> {
        self.cache::<K>().read().list(namespace)
    }

    /// Returns the objects that the owner with this uid controls.
    pub fn controlled_by<K: Cached>(&self, uid: &str) -> Vec<Arc<K>> {
        self.cache::<K>().read().controlled_by(uid)
    }

    /// Returns the objects of a namespace that nothing controls.
    pub fn uncontrolled<K: Cached>(&self, namespace: &str) -> Vec<Arc<K>> {
        let mut objects = self.cache::<K>().read().controlled_by("");
        objects.retain(|object| object.meta().namespace.as_deref().unwrap_or_default() == namespace);
        objects
    }

    /// Puts the answer of one's own write into the cache, unless the watch is further already.
    pub fn assume<K: Cached>(&self, object: K) {
        let change = self.cache::<K>().write().assume(object);
        self.tell(change);
    }

    /// Takes out what one's own delete has removed at once.
    pub fn assume_gone<K: Cached>(&self, object: &K) {
        let change = self.cache::<K>().write().assume_gone(object);
        self.tell(change);
    }

    /// Tells whether the cluster serves a kind that it need not have.
    pub fn is_served<K: Cached>(&self) -> bool {
        self.cache::<K>().read().is_served
    }

    fn cache<K: Cached>(&self) -> &RwLock<Cache<K>> {
        let found = self.shared.caches.get(&TypeId::of::<K>());
        found
            .and_then(|cache| cache.downcast_ref())
            .unwrap_or_else(|| panic!("no controller has named {} among its kinds", type_name::<K>()))
    }

    fn tell(&self, changes: impl IntoIterator<Item = Change>) {
        let Some(listeners) = self.shared.listeners.get() else { return };
        if !self.shared.live.load(Ordering::Acquire) {
            return;
        }
        for change in changes {
            listeners.iter().for_each(|listener| listener(&change, self));
        }
    }
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").finish_non_exhaustive()
    }
}

/// Returns what a kind is called in metrics and checks: `Pod`, `Job.batch.volcano.sh`.
fn kind_name<K: Cached>() -> String {
    let (kind, group) = (K::kind(&()), K::group(&()));
    if group.is_empty() { kind.into_owned() } else { format!("{kind}.{group}") }
}

/// The kinds that the controllers of a process read, each once.
#[derive(Default)]
pub struct Kinds {
    caches: BTreeMap<TypeId, Box<dyn Any + Send + Sync>>,
    watches: BTreeMap<TypeId, Watch>,
}

struct Watch {
    kind: String,
    run: Box<dyn FnOnce(Client, Caches, ListNotes) -> BoxFuture<'static, ()> + Send>,
    all: fn(&Caches) -> Vec<Change>,
}

/// Which objects of a kind are watched.
#[derive(Debug, Clone, Copy, Default)]
struct Selection {
    /// Those with these labels; empty for all.
    labels: &'static str,
    /// None, as long as the cluster does not serve the kind.
    may_be_absent: bool,
}

/// Where the watch of a kind notes how it fares.
struct ListNotes {
    /// Counts the kinds that have been listed.
    listed: watch::Sender<usize>,
    telemetry: Telemetry,
}

/// What is kept of an object that was made for another one: enough to see whose it is, and that it is there.
pub type Owned<K> = PartialObjectMeta<K>;

impl Kinds {
    /// Adds a kind, if it is not there yet.
    pub fn add<K: Cached>(&mut self) -> &mut Self {
        self.add_selected::<K>(Selection::default())
    }

    /// Adds a kind that some clusters do not serve: it has no objects there, until it is served.
    pub fn add_optional<K: Cached>(&mut self) -> &mut Self {
        self.add_selected::<K>(Selection { may_be_absent: true, ..Selection::default() })
    }

    /// Adds the objects of a kind that controllers have made for others: those that these labels select, and of these the
    /// metadata alone. A cluster may be full of Secrets and ConfigMaps that are none of our business.
    pub fn add_owned<K: Cached>(&mut self, labels: &'static str) -> &mut Self
    where
        Owned<K>: Cached,
    {
        self.add_selected::<Owned<K>>(Selection { labels, ..Selection::default() })
    }

    /// Keeps less of the objects of a kind that is there: what is taken out is seen by none of the controllers.
    pub fn trim<K: Cached>(&mut self, trim: Trim<K>) -> &mut Self {
        let cache = self.caches.get_mut(&TypeId::of::<K>()).and_then(|cache| cache.downcast_mut::<RwLock<Cache<K>>>());
        if let Some(cache) = cache {
            cache.get_mut().trim = trim;
        }
        self
    }

    fn add_selected<K: Cached>(&mut self, selection: Selection) -> &mut Self {
        let id = TypeId::of::<K>();
        self.caches.entry(id).or_insert_with(|| Box::new(RwLock::new(Cache::<K>::default())));
        self.watches.entry(id).or_insert_with(|| Watch {
            kind: kind_name::<K>(),
            run: Box::new(move |client, caches, notes| Box::pin(list_watch::<K>(client, caches, notes, selection))),
            all: |caches| caches.cache::<K>().read().all(),
        });
        self
    }

    /// Makes caches that nobody watches for: what is put there stays.
    pub fn into_caches(self) -> Caches {
        let shared = Shared { caches: self.caches, listeners: OnceLock::new(), live: AtomicBool::new(false) };
        Caches { shared: Arc::new(shared) }
    }

    pub fn start(self, client: &Client, listeners: Vec<Listener>, telemetry: &Telemetry) -> Started {
        let shared = Shared { caches: self.caches, listeners: OnceLock::from(listeners), live: AtomicBool::new(false) };
        let caches = Caches { shared: Arc::new(shared) };
        let (sender, ready) = watch::channel(0);
        let mut started = Started { caches, ready, watches: Vec::new(), all: Vec::new() };
        telemetry.health.begin(self.watches.values().map(|watch| watch.kind.clone()));
        for watch in self.watches.into_values() {
            let notes = ListNotes { listed: sender.clone(), telemetry: telemetry.clone() };
            started.watches.push((watch.run)(client.clone(), started.caches.clone(), notes));
            started.all.push(watch.all);
        }
        started
    }
}

/// The watches of a process, to be spawned by the runner.
pub struct Started {
    pub caches: Caches,
    pub watches: Vec<BoxFuture<'static, ()>>,
    ready: watch::Receiver<usize>,
    all: Vec<fn(&Caches) -> Vec<Change>>,
}

impl Started {
    /// Waits until everything has been listed once, then tells the listeners of all of it.
    pub async fn ready(mut self) {
        let kinds = self.all.len();
        if self.ready.wait_for(|listed| *listed == kinds).await.is_err() {
            return;
        }
        // First live, then all: a change in between is told twice rather than never.
        self.caches.shared.live.store(true, Ordering::Release);
        for all in self.all {
            self.caches.tell(all(&self.caches));
        }
    }
}
