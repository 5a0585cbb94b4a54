//! The state that all handlers and loops share: the store, what is served, the time, the keys.

use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    admission::Admission,
    auth::{Account, ISSUER, Keys, User},
    clock_and_ids::ClockAndIds,
    error::ApiError,
    kinds::pod_admission::{self, Priority},
    metrics::Requests,
    nodes::NodeApi,
    rbac::{self, Attributes, Policy, Verdict, follow::Followed},
    registry::{Registry, Resource},
    store::{Key, Range, Store},
    verbs::ServiceNetwork,
};

/// The collection that CRDs are stored in; a write to it changes what is served.
pub const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Writes metrics, in the format of Prometheus.
pub type MoreMetrics = Box<dyn Fn() -> String + Send + Sync>;

/// A handle on the server's state; clones share it.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    store: Store,
    clock_and_ids: ClockAndIds,
    keys: Keys,
    /// The certificate that clients check the server by; none in process.
    ca_pem: Option<String>,
    admission: Vec<Arc<dyn Admission>>,
    stopping: CancellationToken,
    /// Replaced as a whole by [`Api::refresh`], and only there.
    registry: RwLock<Arc<Registry>>,
    /// Held while a service's addresses are chosen and stored.
    addresses: Arc<Mutex<()>>,
    /// Where cluster IPs come from.
    service_network: ServiceNetwork,
    /// Who may do what.
    policy: Followed,
    requests: Requests,
    /// None until a node is connected.
    nodes: RwLock<Option<Arc<dyn NodeApi>>>,
    /// Writes the metrics of what runs beside the server.
    more_metrics: OnceLock<MoreMetrics>,
}

impl Api {
    pub fn new(
        store: Store,
        clock_and_ids: ClockAndIds,
        keys: Keys,
        ca_pem: Option<String>,
        admission: Vec<Arc<dyn Admission>>,
        service_network: ServiceNetwork,
    ) -> Self {
        let registry = RwLock::new(Arc::new(Registry::builtin()));
        let inner = Inner {
            store,
            clock_and_ids,
            keys,
            ca_pem,
            admission,
            stopping: CancellationToken::new(),
            registry,
            addresses: Arc::default(),
            service_network,
            policy: Followed::default(),
            requests: Requests::default(),
            nodes: RwLock::default(),
            more_metrics: OnceLock::new(),
        };
        let api = Self(Arc::new(inner));
        api.refresh();
        api
    }

    pub fn store(&self) -> &Store {
        &self.0.store
    }

    pub fn clock_and_ids(&self) -> &ClockAndIds {
        &self.0.clock_and_ids
    }

    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub fn ca_pem(&self) -> Option<&str> {
        self.0.ca_pem.as_deref()
    }

    /// Cancelled when the server is to stop: open watches end.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    pub fn registry(&self) -> Arc<Registry> {
        self.0.registry.read().clone()
    }

    pub fn addresses(&self) -> &Arc<Mutex<()>> {
        &self.0.addresses
    }

    pub fn service_network(&self) -> ServiceNetwork {
        self.0.service_network
    }

    /// How requests were answered, for the metrics.
    pub fn requests(&self) -> &Requests {
        &self.0.requests
    }

    pub fn nodes(&self) -> Option<Arc<dyn NodeApi>> {
        self.0.nodes.read().clone()
    }

    /// Lets `/metrics` also tell what somebody else has counted; the first who asks for it.
    pub fn add_metrics(&self, more: MoreMetrics) {
        let _ = self.0.more_metrics.set(more);
    }

    pub fn more_metrics(&self) -> String {
        self.0.more_metrics.get().map(|more| more()).unwrap_or_default()
    }

    pub fn set_nodes(&self, node_api: Option<Arc<dyn NodeApi>>) {
        *self.0.nodes.write() = node_api;
    }

    /// Called after every write: what is served follows the stored CRDs before the write is answered.
    pub fn written(&self, resource: &Resource) {
        if *resource.collection == *CRDS {
            self.refresh();
        }
    }

    /// Builds what is served anew from the stored CRDs.
    pub fn refresh(&self) {
        // The lock is held from reading the CRDs to putting the result in place: the last one in has the newest.
        let mut registry = self.0.registry.write();
        let page = self.store().list(CRDS, &Range::default()).expect("the newest revision is always there");
        let crds: Vec<_> = page.objects.iter().map(|object| (object.value(), object.revision)).collect();
        *registry = Arc::new(registry.next(&crds));
    }

    /// The rules of kinds that the server does not know.
    pub fn admission(&self) -> &[Arc<dyn Admission>] {
        &self.0.admission
    }

    /// Decides whether a user may do something.
    pub fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Verdict {
        self.0.policy.decide(self.store(), user, attributes)
    }

    /// # Errors
    /// If the user may not do that.
    pub fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let verdict = self.decide(user, attributes);
        if verdict.allowed { Ok(()) } else { Err(rbac::forbidden(user, attributes, &verdict.reason)) }
    }

    /// Asks the roles and bindings that are stored now.
    pub fn ask_policy<T>(&self, question: impl FnOnce(&Policy) -> T) -> T {
        self.0.policy.ask(self.store(), question)
    }

    /// Returns who holds a bearer token; none if nobody does.
    pub fn user_of(&self, token: &str) -> Option<User> {
        self.user_for(token, ISSUER)
    }

    /// Returns who holds a token that is shown to `audience`: this server or, where it is asked about tokens, another.
    pub fn user_for(&self, token: &str, audience: &str) -> Option<User> {
        if self.keys().is_admin(token) {
            return Some(User::admin());
        }
        let account = self.keys().verify(token, audience, self.clock_and_ids().now())?;
        self.is_current(&account).then(|| User::service_account(&account))
    }

    /// A token ends with its account, also if another of the same name follows.
    fn is_current(&self, account: &Account) -> bool {
        let stored = self.store().get(&Key::new(&"serviceaccounts".into(), &account.namespace, &account.name));
        stored.is_some_and(|object| object.value()["metadata"]["uid"] == account.uid.as_str())
    }

    /// Returns the priority of a new pod, from the class it names or the default one.
    ///
    /// # Errors
    /// If the class does not exist.
    pub fn pod_priority(&self, pod: &Value) -> Result<PodPriority, ApiError> {
        let named = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
        let class = if named.is_empty() {
            self.default_priority_class()
        } else {
            let key = Key::new(&"priorityclasses.scheduling.k8s.io".into(), "", named);
            let found = self.store().get(&key).map(|object| object.value());
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            Some(found.ok_or_else(|| pod_admission::no_priority_class(name, named))?)
        };
        Ok(PodPriority(class))
    }

    fn default_priority_class(&self) -> Option<Value> {
        let page = self.store().list("priorityclasses.scheduling.k8s.io", &Range::default()).ok()?;
        page.objects.iter().map(|object| object.value()).find(|class| class["globalDefault"] == true)
    }
}

/// The class that a pod gets its priority from, if any.
pub struct PodPriority(Option<Value>);

impl PodPriority {
    pub fn as_priority(&self) -> Priority<'_> {
        let Some(class) = &self.0 else { return pod_admission::NO_PRIORITY };
        Priority {
            class: class["metadata"]["name"].as_str().unwrap_or_default(),
            value: class["value"].as_i64().unwrap_or_default(),
            preemption_policy: class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority"),
        }
    }
}
