//! Starts and stops the API server, in process or on the network.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    admission::Admission,
    api::{Api, MoreMetrics},
    auth::Keys,
    certificates::{ADMIN_CREDENTIAL, Identity, IdentityError},
    clock_and_ids::ClockAndIds,
    crds,
    error::ApiError,
    gc, http, namespaces,
    nodes::NodeApi,
    rbac,
    store::{self, Store},
    tls,
    verbs::ServiceNetwork,
};

/// The API server in this process.
pub struct Apiserver {
    api: Api,
    router: Router,
    loops: TaskTracker,
}

/// How a server on the network is to run.
pub struct Options {
    /// Where the store, keys and tokens are; must exist and belong to us alone.
    pub data_dir: PathBuf,
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// In-process admission of our own kinds.
    pub admission: Vec<Arc<dyn Admission>>,
    /// Where cluster IPs come from.
    pub service_network: ServiceNetwork,
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open the store")]
    Store(#[source] store::OpenError),
    #[error("cannot set up keys and certificates")]
    Identity(#[source] IdentityError),
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot create the initial objects")]
    Seed(#[source] ApiError),
}

/// The API server on the network.
pub struct Server {
    inner: Apiserver,
    listener: TcpListener,
    endpoint: SocketAddr,
    tls: Arc<rustls::ServerConfig>,
    admin_credential: PathBuf,
}

impl Apiserver {
    /// Starts the API over a store, with its loops.
    ///
    /// # Errors
    /// If the objects that every cluster has cannot be made.
    async fn start(api: Api) -> Result<Self, OpenError> {
        namespaces::ensure_present(&api).await.map_err(OpenError::Seed)?;
        let loops = TaskTracker::new();
        loops.spawn(namespaces::run(api.clone()));
        loops.spawn(crds::run(api.clone()));
        loops.spawn(gc::run(api.clone()));
        loops.spawn(rbac::aggregate::run(api.clone()));
        loops.close();
        Ok(Self { router: http::router(api.clone()), api, loops })
    }

    /// Starts the API over a store that forgets everything, for tests and trials.
    ///
    /// # Errors
    /// As [`Apiserver::start`].
    pub async fn in_memory(clock_and_ids: ClockAndIds) -> Result<Self, OpenError> {
        Self::in_memory_with(clock_and_ids, Vec::new()).await
    }

    /// The same with rules of kinds that the server does not know.
    ///
    /// # Errors
    /// As [`Apiserver::start`].
    pub async fn in_memory_with(
        clock_and_ids: ClockAndIds,
        admission: Vec<Arc<dyn Admission>>,
    ) -> Result<Self, OpenError> {
        let store = Store::in_memory().map_err(OpenError::Store)?;
        let damaged = |_| OpenError::Identity(IdentityError::Randomness);
        let signing = Keys::generate().map_err(damaged)?;
        let keys = Keys::new(clock_and_ids.uid(), &signing).map_err(damaged)?;
        Self::start(Api::new(store, clock_and_ids, keys, None, admission, ServiceNetwork::default())).await
    }

    /// Returns the service that answers requests; whoever calls it is trusted.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Lets pods be asked for logs, terminals and ports; a node starts after the server that it is a client of.
    pub fn connect_nodes(&self, node_api: Arc<dyn NodeApi>) {
        self.api.set_nodes(Some(node_api));
    }

    /// Lets `/metrics` also tell what runs beside the server.
    pub fn add_metrics(&self, more: MoreMetrics) {
        self.api.add_metrics(more);
    }

    /// Ends watches and loops.
    pub async fn stop(self) {
        self.api.stopping().cancel();
        self.loops.wait().await;
        // The node holds a client of this server: without this, each would keep the other.
        self.api.set_nodes(None);
    }
}

impl Server {
    /// Opens the store and the papers, and binds the address.
    ///
    /// # Errors
    /// If any of it cannot be had.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let address = options.listen;
        let listening = |source| OpenError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listening)?;
        let endpoint = listener.local_addr().map_err(listening)?;
        let names = [endpoint.ip(), options.service_network.api().into()];
        let identity = Identity::open(&options.data_dir, &names).map_err(OpenError::Identity)?;
        let store = Store::open(&options.data_dir.join(crate::STORE_FILE)).map_err(OpenError::Store)?;
        let (admission, network) = (options.admission, options.service_network);
        let api = Api::new(store, ClockAndIds::real(), identity.keys, Some(identity.ca_pem), admission, network);
        let inner = Apiserver::start(api).await?;
        let admin_credential = options.data_dir.join(ADMIN_CREDENTIAL);
        Ok(Self { inner, listener, endpoint, tls: identity.tls, admin_credential })
    }

    pub fn endpoint(&self) -> SocketAddr {
        self.endpoint
    }

    /// Returns the certificate that clients check the server by.
    pub fn ca_pem(&self) -> &str {
        self.inner.api.ca_pem().unwrap_or_default()
    }

    pub fn admin_token(&self) -> &str {
        self.inner.api.keys().admin_token()
    }

    /// Returns the file with the administrator's token as clients take it from a credential plugin.
    pub fn admin_credential(&self) -> &Path {
        &self.admin_credential
    }

    pub fn router(&self) -> Router {
        self.inner.router()
    }

    /// As [`Apiserver::add_metrics`].
    pub fn add_metrics(&self, more: MoreMetrics) {
        self.inner.add_metrics(more);
    }

    /// As [`Apiserver::connect_nodes`].
    pub fn connect_nodes(&self, node_api: Arc<dyn NodeApi>) {
        self.inner.connect_nodes(node_api);
    }

    /// Serves until `stop`, then ends open requests and the loops.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { inner, listener, tls, .. } = self;
        let stopping = inner.api.stopping().clone();
        let end = async {
            stop.cancelled().await;
            stopping.cancel();
        };
        let serving = tls::serve(listener, tls, inner.api.clone(), inner.router.clone(), stop.clone());
        tokio::join!(end, serving);
        inner.stop().await;
    }
}
