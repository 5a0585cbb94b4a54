//! Brings an image from its registry into the store.
//!
//! First the manifest, then everything that it names, several parts at once; each layer is unpacked as soon as it is
//! here, while others are still on their way; at last the image gets its name. Dropping the future stops a pull, and
//! the next one goes on where it was. What is here already is not fetched again, except the manifest.
//!
//! Asking is asynchronous; files are written and layers unpacked by threads for blocking work.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use futures::{TryStreamExt as _, stream::FuturesUnordered};
use tokio::{
    sync::{Semaphore, mpsc},
    task::{self, JoinError},
};

use crate::{
    Descriptor, Digest, Manifest, Platform, Reference,
    manifest::Document,
    registry::{Fetched, Keyring, Piece, Registries, RegistryError, Repository, Sources, Wanted},
    store::{Adding, Download, Progress, Store, StoreError},
};

/// As Docker and containerd do it: more connections are not faster, and registries count them.
pub const DOWNLOADS_MAX: usize = 3;
/// Unpacking is bound by one processor for each layer, and by the disk for all.
pub const UNPACKS_MAX: usize = 2;
/// Between a connection and the disk. A piece has 400 kB at most, so that all downloads hold less than 10 MB.
const PIECES_MAX: usize = 8;

/// Why an image could not be pulled. The text names the image and says everything in one line.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error("{name}: {reason}")]
    Registry { name: String, reason: RegistryError },
    #[error("{name}: {reason}")]
    Store { name: String, reason: StoreError },
    #[error("{name}: the pull was interrupted: {reason}")]
    Interrupted { name: String, reason: JoinError },
}

impl PullError {
    /// Tells whether the registry could not be asked: no network, no such host, refused, no answer in time.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Registry { reason, .. } if reason.is_unreachable())
    }

    /// Tells whether the registry has no such image for us: unknown, or access denied.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Registry { reason, .. } if reason.is_missing())
    }

    /// Tells whether the disk was full.
    pub fn is_out_of_room(&self) -> bool {
        matches!(self, Self::Store { reason, .. } if reason.is_out_of_room())
    }
}

/// An image as its registry has it.
#[derive(Debug)]
pub struct Resolved {
    /// The manifest for this platform.
    pub digest: Digest,
    pub manifest: Manifest,
    bytes: Bytes,
    repository: Arc<Repository>,
}

/// An image that is here now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    /// The manifest for this platform.
    pub digest: Digest,
    /// How much of it was fetched now, without the manifest.
    pub bytes: u64,
}

/// Asks a registry which image a name is, for this machine's platform. Nothing is stored.
pub async fn resolve(registries: &Registries, keyring: &Keyring, name: &Reference) -> Result<Resolved, PullError> {
    let found = resolve_for(registries, keyring, name, &Platform::of_this_machine()).await;
    found.map_err(|reason| PullError::Registry { name: name.to_string(), reason })
}

/// Pulls an image: resolves its name, fetches what is missing, unpacks it, and gives it its name.
///
/// # Errors
///
/// What arrived until then stays, and the next pull goes on with it.
pub async fn pull(
    registries: &Registries,
    keyring: &Keyring,
    store: &Store,
    name: &Reference,
    progress: Arc<dyn Progress>,
) -> Result<Pulled, PullError> {
    let resolved = resolve(registries, keyring, name).await?;
    resolved.store(store, name, progress).await
}

async fn resolve_for(
    registries: &Registries,
    keyring: &Keyring,
    name: &Reference,
    platform: &Platform,
) -> Result<Resolved, RegistryError> {
    let repository = registries.repository(keyring, name).await?;
    let mut found = repository.document(&Wanted::of_name(name)).await?;
    if let Document::Index(index) = &found.document {
        let chosen = index.choose(platform)?.digest;
        found = repository.document(&Wanted::Digest(chosen)).await?;
    }
    let Fetched { digest, bytes, document } = found;
    match document {
        Document::Manifest(manifest) => Ok(Resolved { digest, manifest, bytes, repository: Arc::new(repository) }),
        Document::Index(_) => Err(RegistryError::Protocol {
            host: name.registry().to_owned(),
            what: "an entry of an image index is an index itself".to_owned(),
        }),
    }
}

impl Resolved {
    /// Returns how much of the disk the image takes, about: packed, and unpacked two or three times as much.
    pub fn bytes_needed(&self) -> u64 {
        self.manifest.descriptors().fold(0_u64, |sum, part| sum.saturating_add(part.size)).saturating_mul(4)
    }

    /// Fetches what is missing of the image, unpacks it, and gives it a name. May be repeated.
    ///
    /// # Errors
    /// As [`pull`].
    pub async fn store(
        &self,
        store: &Store,
        name: &Reference,
        progress: Arc<dyn Progress>,
    ) -> Result<Pulled, PullError> {
        let text = name.to_string();
        let stored = self.store_as(store, name, progress).await;
        stored.map_err(|fault| match fault {
            Fault::Registry(reason) => PullError::Registry { name: text, reason },
            Fault::Store(reason) => PullError::Store { name: text, reason },
            Fault::Interrupted(reason) => PullError::Interrupted { name: text, reason },
        })
    }

    async fn store_as(&self, store: &Store, name: &Reference, progress: Arc<dyn Progress>) -> Result<Pulled, Fault> {
        let digest = self.digest;
        // 1. take the right to add
        let store = store.clone();
        let adding = blocking(move || store.adding()).await?;
        // 2. the documents
        let pull = Pull::new(self.repository.clone(), adding, progress);
        pull.put_manifest(digest, self.bytes.clone()).await?;
        let config_bytes = pull.fetch(&self.manifest.config).await?;
        pull.progress.done(&self.manifest.config);
        let adding = pull.adding.clone();
        let (manifest, config) = blocking(move || adding.documents(digest)).await?;
        // 3. the layers, each unpacked when it is here
        let layers = manifest.layers.iter().zip(config.rootfs.diff_ids.iter().copied());
        let layer_bytes = pull.fetch_layers(layers).await?;
        // 4. the name
        let (adding, names) = (pull.adding.clone(), [name.clone()]);
        blocking(move || adding.name(digest, &names)).await?;
        Ok(Pulled { digest, bytes: config_bytes + layer_bytes })
    }
}

/// Why a step failed; the name of the image is added outside.
#[derive(Debug)]
enum Fault {
    Registry(RegistryError),
    Store(StoreError),
    Interrupted(JoinError),
}

impl Fault {
    fn is_wrong_content(&self) -> bool {
        match self {
            Self::Registry(error) => error.is_wrong_content(),
            Self::Store(error) => matches!(error, StoreError::Digest(_)),
            Self::Interrupted(_) => false,
        }
    }
}

impl From<RegistryError> for Fault {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Fault> {
    task::spawn_blocking(work).await.map_err(Fault::Interrupted)?.map_err(Fault::Store)
}

/// A pull under way.
struct Pull {
    repository: Arc<Repository>,
    adding: Adding,
    progress: Arc<dyn Progress>,
    downloads: Semaphore,
    unpacks: Semaphore,
}

impl Pull {
    fn new(repository: Arc<Repository>, adding: Adding, progress: Arc<dyn Progress>) -> Self {
        let (downloads, unpacks) = (Semaphore::new(DOWNLOADS_MAX), Semaphore::new(UNPACKS_MAX));
        Self { repository, adding, progress, downloads, unpacks }
    }

    async fn put_manifest(&self, digest: Digest, bytes: Bytes) -> Result<(), Fault> {
        if self.adding.has_blob(digest) {
            return Ok(());
        }
        let adding = self.adding.clone();
        blocking(move || adding.put_blob(&mut bytes.as_ref(), Some(digest))).await.map(drop)
    }

    /// Returns how many bytes came over the network.
    async fn fetch_layers<'a>(&self, layers: impl Iterator<Item = (&'a Descriptor, Digest)>) -> Result<u64, Fault> {
        let mut seen = BTreeSet::new();
        // An image may have the same layer twice.
        let layers = layers.filter(|(layer, diff_id)| seen.insert((layer.digest, *diff_id)));
        let steps: FuturesUnordered<_> = layers.map(|(layer, diff_id)| self.fetch_layer(layer, diff_id)).collect();
        steps.try_fold(0, async |sum, bytes| Ok(sum + bytes)).await
    }

    async fn fetch_layer(&self, layer: &Descriptor, diff_id: Digest) -> Result<u64, Fault> {
        let adding = self.adding.clone();
        // Who is short of room has only the unpacked half of it, and that is enough.
        if blocking(move || Ok(adding.has_layer(diff_id))).await? {
            self.progress.begun(layer, layer.size);
            self.progress.done(layer);
            return Ok(0);
        }
        let bytes = self.fetch(layer).await?;
        let _permit = self.unpacks.acquire().await;
        let (adding, layer, progress) = (self.adding.clone(), layer.clone(), Arc::clone(&self.progress));
        blocking(move || adding.unpack(&layer, diff_id, progress.as_ref())).await?;
        Ok(bytes)
    }

    /// Fetches one part, unless it is here, and returns how many bytes came over the network.
    async fn fetch(&self, part: &Descriptor) -> Result<u64, Fault> {
        let _permit = self.downloads.acquire().await;
        let first = self.fetch_from(part, Sources::All).await;
        match first {
            // An old beginning may have been wrong, or a mirror; the registry itself has the last word.
            Err(Fetching { fault, may_be_ours }) if fault.is_wrong_content() && may_be_ours => {
                tracing::debug!(digest = %part.digest, "pull: wrong content, fetching it again");
                self.fetch_from(part, Sources::ServerOnly).await.map_err(|second| second.fault)
            }
            other => other.map_err(|first| first.fault),
        }
    }

    async fn fetch_from(&self, part: &Descriptor, sources: Sources) -> Result<u64, Fetching> {
        let (adding, wanted) = (self.adding.clone(), part.clone());
        let opened = blocking(move || adding.download(&wanted)).await;
        let Some(download) = opened.map_err(|fault| Fetching { fault, may_be_ours: false })? else {
            self.progress.begun(part, part.size);
            return Ok(0);
        };
        let may_be_ours = download.offset() > 0 || self.repository.has_mirrors();
        self.transfer(part, download, sources).await.map_err(|fault| Fetching { fault, may_be_ours })
    }

    async fn transfer(&self, part: &Descriptor, download: Download, sources: Sources) -> Result<u64, Fault> {
        let offset = download.offset();
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        let writer = Writer { download, part: part.clone(), progress: Arc::clone(&self.progress), size: 0 };
        let writing = task::spawn_blocking(move || writer.run(receiver));
        let sent = self.repository.blob(part, offset, &sender, sources).await;
        // The end of the pieces is what the writer waits for, also if this future is dropped.
        drop(sender);
        let size = writing.await.map_err(Fault::Interrupted)?.map_err(Fault::Store)?;
        sent?;
        Ok(size)
    }
}

/// A part that did not come.
struct Fetching {
    fault: Fault,
    /// Wrong content may come from an earlier pull or from a mirror.
    may_be_ours: bool,
}

/// Writes what comes to disk, in a thread of its own.
struct Writer {
    download: Download,
    part: Descriptor,
    progress: Arc<dyn Progress>,
    /// How much came.
    size: u64,
}

impl Writer {
    fn run(mut self, mut pieces: mpsc::Receiver<Piece>) -> Result<u64, StoreError> {
        self.progress.begun(&self.part, self.download.offset());
        while let Some(piece) = pieces.blocking_recv() {
            match piece {
                Piece::Bytes(bytes) => self.add(&bytes)?,
                Piece::Restart => {
                    self.download.restart()?;
                    self.progress.begun(&self.part, 0);
                }
            }
        }
        // Otherwise the rest comes another time.
        if self.download.offset() == self.part.size {
            self.download.finish()?;
        }
        Ok(self.size)
    }

    fn add(&mut self, bytes: &Bytes) -> Result<(), StoreError> {
        self.download.write(bytes)?;
        self.size += bytes.len() as u64;
        self.progress.downloaded(&self.part, bytes.len() as u64);
        Ok(())
    }
}
