//! The images of a node: which files each container sees, and how images come from their registries.
//!
//! [`policy`] decides and is pure, [`choice`] is what was decided once and for all, [`puller`] pulls in tasks of the
//! node, [`credentials`] are what pods show to registries. [`Images::choose`] puts it together; the pod's worker runs it
//! in a task, so that it stays responsive. The store is only read in threads that may block.

pub mod choice;
pub mod credentials;
pub mod policy;
mod puller;
pub mod wording;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ronde_images::{
    Digest, Image, Reference, Store,
    pull::{self, PullError, Resolved},
    registry::{Keyring, Registries, RegistriesOptions, RegistryError},
    store::{Quiet, Removed, StoreError},
};
use ronde_runtime::{causes::Causes, runner::Clock};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    choice::Chosen,
    credentials::Credentials,
    policy::{Answer, Case, Name, Policy, Step, Wanted, WhyHost, cause},
    puller::Puller,
};
use crate::{
    disk::room::{Resource, Shortage},
    lifecycle::{Cause, PodEvent, Severity},
    machine::probe::Isolation,
    sandbox::layers::Manner,
    supervisor::folder::PodFolder,
};

/// Without a network pods start within seconds.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// A registry that has not said by then whether it has an image counts as unreachable, where that is no failure.
const ANSWER_MAX: Duration = Duration::from_secs(6);
/// For how long a registry that could not be reached is not asked again, where that is no failure.
const UNREACHABLE: SignedDuration = SignedDuration::from_secs(60);

/// What is pulled, and with which secrets: somebody else's failure may be for want of them.
type Key = (Reference, Vec<String>);

/// How the images of a node are used.
pub struct ImagesOptions {
    pub store: Store,
    /// The folder of the node, whose pods say what is in use.
    pub node: PathBuf,
    pub wanted: Wanted,
    pub isolation: Isolation,
    /// Folders with the settings of registries.
    pub registries: Vec<PathBuf>,
    /// The home directory of the user who runs the node, whose Docker credentials are used.
    pub user_home: Option<PathBuf>,
}

/// The images of a node.
pub struct Images {
    pub store: Store,
    node: PathBuf,
    wanted: Wanted,
    can_show: bool,
    has_to_copy: bool,
    registries: Registries,
    user_home: Option<PathBuf>,
    clock: Clock,
    asks: Puller<Key, Asked>,
    pulls: Puller<Key, Result<Pulled, String>>,
    /// Until when registries count as unreachable. Owned by those who ask them.
    unreachable: Mutex<BTreeMap<String, Timestamp>>,
}

/// What a registry answered, and the image if it has it.
type Asked = (Answer, Option<Arc<Resolved>>);

/// An image that has just come from its registry.
#[derive(Debug, Clone, Copy)]
struct Pulled {
    digest: Digest,
    took: Duration,
}

/// What a container sees: an image, or nothing for this machine's own files.
pub struct ContainerFiles {
    pub image: Option<Image>,
    /// `/etc/passwd` and `/etc/group` of them.
    pub passwd: String,
    pub group: String,
}

impl ContainerFiles {
    fn read(image: Option<Image>) -> Self {
        let file = |path: &str| match &image {
            Some(image) => image.read_file(path).unwrap_or_default(),
            None => fs_err::read_to_string(Path::new("/").join(path)).unwrap_or_default(),
        };
        let (passwd, group) = (file("etc/passwd"), file("etc/group"));
        Self { image, passwd, group }
    }
}

/// A container that needs files.
pub struct Request {
    pub folder: PodFolder,
    pub container: String,
    pub image: String,
    pub policy: Policy,
    pub credentials: Credentials,
    /// Why the registry is not asked yet again, if it is too early.
    pub backing_off: Option<Cause>,
    /// The names that the pod was told about. Who holds this may write the pod's choices.
    pub told: Arc<Mutex<BTreeSet<String>>>,
}

/// Something for the pod's events.
pub struct Telling {
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

/// Takes what is worth telling.
pub type Tell<'a> = &'a (dyn Fn(Telling) + Send + Sync);

impl Images {
    /// # Errors
    /// If the settings of registries cannot be read.
    pub fn new(
        options: ImagesOptions,
        clock: Clock,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, RegistryError> {
        let registries =
            RegistriesOptions { connect_timeout: CONNECT_MAX, ..RegistriesOptions::new(options.registries) };
        Ok(Self {
            store: options.store,
            node: options.node,
            wanted: options.wanted,
            can_show: can_show(options.isolation),
            has_to_copy: has_to_copy(options.isolation),
            registries: Registries::new(registries)?,
            user_home: options.user_home,
            clock,
            asks: Puller::new(tasks.clone(), stop.clone()),
            pulls: Puller::new(tasks.clone(), stop.clone()),
            unreachable: Mutex::default(),
        })
    }

    /// What image names mean here.
    pub fn wanted(&self) -> Wanted {
        if self.can_show { self.wanted } else { Wanted::Host }
    }

    /// Chooses the files of a container and writes the choice down.
    ///
    /// # Errors
    /// Why it has to wait, with the reason that the status shows.
    pub async fn choose(self: &Arc<Self>, request: &Arc<Request>, tell: Tell<'_>) -> Result<(), Cause> {
        // 1. What there is.
        let name = Name::parse(&request.image);
        let is_stored = self.is_stored(&name).await?;
        // 2. What follows, perhaps by what the registry says.
        let (text, wanted, policy) = (request.image.as_str(), self.wanted, request.policy);
        let step = policy::first(&Case { text, name: &name, wanted, policy, is_stored, can_show: self.can_show });
        let (step, resolved) = match (step, &request.backing_off, &name) {
            (Step::Ask | Step::Pull, Some(cause), _) => return Err(cause.clone()),
            (Step::Ask, None, Name::Image(name)) => {
                let (answer, resolved) = self.ask(request, name).await;
                (policy::after(is_stored, &answer), resolved)
            }
            (step, ..) => (step, None),
        };
        // 3. Do it.
        match (step, &name) {
            (Step::Host(why), _) => self.choose_host(request, why, tell).await,
            (Step::Stored, Name::Image(name)) => self.choose_stored(request, name, tell).await,
            (Step::Ask | Step::Pull, Name::Image(name)) => self.pull(request, name, resolved, tell).await,
            (Step::Fail(why), _) => Err(cause(wording::PULL_FAILED, why)),
            (Step::Refuse(cause), _) => Err(cause),
            (Step::Stored | Step::Ask | Step::Pull, _) => Err(cause("InvalidImageName", request.image.clone())),
        }
    }

    /// Returns the files that were chosen for a container, if they were.
    ///
    /// # Errors
    /// If they cannot be read any more.
    pub async fn chosen(&self, folder: &PodFolder, container: &str) -> Result<Option<ContainerFiles>, Cause> {
        let (folder, container, store) = (folder.clone(), container.to_owned(), self.store.clone());
        blocking(move || {
            let Some(chosen) = choice::read(&folder).map_err(internal)?.remove(&container) else { return Ok(None) };
            let image = chosen.digest.map(|digest| store.get(digest)).transpose().map_err(internal)?;
            Ok(Some(ContainerFiles::read(image)))
        })
        .await
    }

    /// Removes images that no pod of the node was made from, the least recently used first. Blocks, also while others
    /// pull.
    pub fn collect(&self, shortage: &Shortage) {
        self.collect_bytes(match shortage.resource {
            Resource::Bytes => shortage.missing(),
            // How many an image takes nobody has counted.
            Resource::Inodes => u64::MAX,
        });
    }

    fn collect_bytes(&self, bytes: u64) {
        match self.store.collect_oldest(bytes, &|| choice::in_use(&self.node)) {
            Ok(Removed { bytes: 0, .. }) => {}
            Ok(Removed { names, bytes }) => {
                tracing::info!(images = names.len(), bytes, "removed packed layers and images that no pod uses");
            }
            Err(error) => tracing::warn!(%error, "cannot remove images"),
        }
    }

    async fn is_stored(&self, name: &Name) -> Result<bool, Cause> {
        let Name::Image(name) = name.clone() else { return Ok(false) };
        if self.wanted == Wanted::Host {
            return Ok(false);
        }
        let store = self.store.clone();
        blocking(move || store.find(&name).map(|found| found.is_some()).map_err(not_inspected)).await
    }

    /// Asks a registry whether it has an image, unless it could not be reached a moment ago.
    async fn ask(self: &Arc<Self>, request: &Arc<Request>, name: &Reference) -> Asked {
        let key = (name.clone(), request.credentials.id.clone());
        let (images, request, name) = (self.clone(), request.clone(), name.clone());
        let ended = self.asks.pull(&key, async move {
            if images.is_unreachable(name.registry()) {
                return (Answer::Unreachable(String::new()), None);
            }
            let asked = tokio::time::timeout(ANSWER_MAX, images.try_resolve(&request, &name)).await;
            let (answer, resolved) = asked.unwrap_or_else(|_| (Answer::Unreachable("no answer".to_owned()), None));
            if matches!(answer, Answer::Unreachable(_)) {
                let until = images.clock.now().saturating_add(UNREACHABLE).unwrap_or(Timestamp::MAX);
                images.unreachable.lock().insert(name.registry().to_owned(), until);
            }
            if let Answer::Unreachable(why) | Answer::Missing(why) = &answer {
                tracing::info!(image = %name, why, "the registry does not give an image");
            }
            (answer, resolved)
        });
        ended.await.unwrap_or_else(|| (Answer::Failed(wording::INTERRUPTED.to_owned()), None))
    }

    fn is_unreachable(&self, registry: &str) -> bool {
        let now = self.clock.now();
        let mut unreachable = self.unreachable.lock();
        unreachable.retain(|_, until| *until > now);
        unreachable.contains_key(registry)
    }

    async fn try_resolve(&self, request: &Arc<Request>, name: &Reference) -> Asked {
        let keyring = match self.keyring(request).await {
            Ok(keyring) => keyring,
            Err(cause) => return (Answer::Failed(cause.message), None),
        };
        match pull::resolve(&self.registries, &keyring, name).await {
            Ok(resolved) => (Answer::Has, Some(Arc::new(resolved))),
            Err(error) => (answer_of(&error), None),
        }
    }

    async fn keyring(&self, request: &Arc<Request>) -> Result<Keyring, Cause> {
        let (request, home) = (request.clone(), self.user_home.clone());
        blocking(move || Ok(request.credentials.with_user(home.as_deref()))).await
    }

    /// Pulls an image, or waits for somebody else's pull of it, and chooses it.
    async fn pull(
        self: &Arc<Self>,
        request: &Arc<Request>,
        name: &Reference,
        resolved: Option<Arc<Resolved>>,
        tell: Tell<'_>,
    ) -> Result<(), Cause> {
        tell(Telling::normal("Pulling", wording::pulling(&request.image)));
        let asked_at = self.clock.now();
        let key = (name.clone(), request.credentials.id.clone());
        let (images, fetched, name) = (self.clone(), request.clone(), name.clone());
        let ended = self.pulls.pull(&key, async move { images.fetch(&fetched, &name, resolved).await }).await;
        let pulled = ended.unwrap_or_else(|| Err(wording::INTERRUPTED.to_owned()));
        let pulled = pulled.map_err(|why| cause(wording::PULL_FAILED, why))?;
        let size = self.choose_image(request, pulled.digest).await?;
        let waited = self.since(asked_at);
        tell(Telling::normal("Pulled", wording::pulled(&request.image, pulled.took, waited, size)));
        self.tell_copy(request, tell);
        Ok(())
    }

    fn tell_copy(&self, request: &Request, tell: Tell<'_>) {
        if self.has_to_copy {
            let message = wording::copied(&request.image);
            tell(Telling { severity: Severity::Warning, reason: "ImageCopied", message });
        }
    }

    /// Fetches an image, whose manifest may be known already: registries count how often they are asked.
    async fn fetch(
        self: &Arc<Self>,
        request: &Arc<Request>,
        name: &Reference,
        resolved: Option<Arc<Resolved>>,
    ) -> Result<Pulled, String> {
        let begun_at = self.clock.now();
        let say = |error: PullError| Causes(&error).to_string();
        let resolved = match resolved {
            Some(resolved) => resolved,
            None => {
                let keyring = self.keyring(request).await.map_err(|cause| cause.message)?;
                Arc::new(pull::resolve(&self.registries, &keyring, name).await.map_err(say)?)
            }
        };
        let mut pulled = resolved.store(&self.store, name, Arc::new(Quiet)).await;
        if pulled.as_ref().is_err_and(PullError::is_out_of_room) {
            let (images, bytes) = (self.clone(), resolved.bytes_needed());
            tracing::info!(image = %name, bytes, "no room for an image: removing others");
            let _ = tokio::task::spawn_blocking(move || images.collect_bytes(bytes)).await;
            pulled = resolved.store(&self.store, name, Arc::new(Quiet)).await;
        }
        let pulled = pulled.map_err(say)?;
        tracing::info!(image = %name, digest = %pulled.digest, bytes = pulled.bytes, "pulled an image");
        Ok(Pulled { digest: pulled.digest, took: self.since(begun_at) })
    }

    fn since(&self, at: Timestamp) -> Duration {
        Duration::try_from(self.clock.now().duration_since(at)).unwrap_or_default()
    }

    async fn choose_host(&self, request: &Arc<Request>, why: WhyHost, tell: Tell<'_>) -> Result<(), Cause> {
        let recorded = request.clone();
        let is_new = blocking(move || {
            let mut told = recorded.told.lock();
            let chosen = Chosen { image: recorded.image.clone(), digest: None, stop_signal: None };
            choice::record(&recorded.folder, &recorded.container, chosen).map_err(internal)?;
            Ok(told.insert(recorded.image.clone()))
        });
        if is_new.await? && why != WhyHost::Named {
            tell(Telling::normal("ImageNotPulled", wording::not_pulled(&request.image, why)));
        }
        Ok(())
    }

    async fn choose_stored(&self, request: &Arc<Request>, name: &Reference, tell: Tell<'_>) -> Result<(), Cause> {
        let (store, name) = (self.store.clone(), name.clone());
        let digest =
            blocking(move || store.find(&name).map(|found| found.map(|image| image.digest)).map_err(not_inspected));
        let digest = digest.await?.ok_or_else(|| cause("ImageInspectError", "the image was removed".to_owned()))?;
        self.choose_image(request, digest).await?;
        tell(Telling::normal("Pulled", wording::present(&request.image)));
        self.tell_copy(request, tell);
        Ok(())
    }

    /// Writes down that a container is made from an image. Returns the size of the image.
    async fn choose_image(&self, request: &Arc<Request>, digest: Digest) -> Result<u64, Cause> {
        let (request, store) = (request.clone(), self.store.clone());
        blocking(move || {
            // Until the choice is written down nothing may be removed.
            let _use = store.hold().map_err(not_inspected)?;
            let image = store.get(digest).map_err(not_inspected)?;
            let signal = Some(image.config.config.stop_signal.clone()).filter(|signal| !signal.is_empty());
            let _turn = request.told.lock();
            let chosen = Chosen { image: request.image.clone(), digest: Some(digest), stop_signal: signal };
            choice::record(&request.folder, &request.container, chosen).map_err(internal)?;
            // A full disk keeps nobody from starting.
            if let Err(error) = store.touch(digest) {
                tracing::debug!(%error, "cannot note that an image is used");
            }
            Ok(image.size())
        })
        .await
    }
}

impl Telling {
    fn normal(reason: &'static str, message: String) -> Self {
        Self { severity: Severity::Normal, reason, message }
    }

    /// Returns the event of a container.
    pub fn about(self, field_path: &str) -> PodEvent {
        let Self { severity, reason, message } = self;
        PodEvent { severity, reason: reason.to_owned(), message, field_path: field_path.to_owned() }
    }
}

/// Tells what a failure to ask means. Whoever answers in a registry's place, as networks with a login page do, is none.
fn answer_of(error: &PullError) -> Answer {
    let why = Causes(error).to_string();
    match error {
        PullError::Registry { reason, .. } if reason.is_missing() => Answer::Missing(why),
        PullError::Registry {
            reason:
                RegistryError::Unreachable { .. }
                | RegistryError::Tls { .. }
                | RegistryError::Broken { .. }
                | RegistryError::Protocol { .. }
                | RegistryError::NoHost(_),
            ..
        } => Answer::Unreachable(why),
        _ => Answer::Failed(why),
    }
}

/// Whether containers can see an image at all.
pub fn can_show(isolation: Isolation) -> bool {
    matches!(isolation, Isolation::Namespaces { .. })
}

/// Whether that needs a copy.
fn has_to_copy(isolation: Isolation) -> bool {
    matches!(isolation, Isolation::Namespaces { files: Manner::ReadOnly, .. })
}

/// Runs what reads files or waits for locks in a thread that may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Cause> + Send + 'static) -> Result<T, Cause> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(internal(error)))
}

fn internal(error: impl std::fmt::Display) -> Cause {
    cause("CreateContainerError", error.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of a chain of results")]
fn not_inspected(error: StoreError) -> Cause {
    cause("ImageInspectError", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_no_registry_counts_as_none() {
        let (host, text) = (|| "registry.test".to_owned(), || "why".to_owned());
        let check = |reason: RegistryError, expected: fn(String) -> Answer| {
            let error = PullError::Registry { name: "a".to_owned(), reason };
            assert_eq!(answer_of(&error), expected(Causes(&error).to_string()));
        };
        check(RegistryError::Unreachable { host: host(), cause: text() }, Answer::Unreachable);
        check(RegistryError::Tls { host: host(), cause: text() }, Answer::Unreachable);
        check(RegistryError::Broken { host: host(), cause: text() }, Answer::Unreachable);
        check(RegistryError::Protocol { host: host(), what: text() }, Answer::Unreachable);
        check(RegistryError::NotFound, Answer::Missing);
        check(RegistryError::Denied { reason: text() }, Answer::Missing);
        let busy = http::StatusCode::TOO_MANY_REQUESTS;
        check(RegistryError::Status { status: busy, reason: text() }, Answer::Failed);
    }
}
