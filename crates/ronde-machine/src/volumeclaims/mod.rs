//! Volumes on one machine: claims get a volume that exists, or a directory of their own.
//!
//! [`claim`] and [`volume`] decide, one write at a time; every write marks its object again, so that the next step
//! follows at once. Directories are made by the node when a pod mounts them; they are removed by a function
//! that the caller gives, and only if they are where this controller puts them.

pub mod claim;
#[cfg(test)]
mod tests;
pub mod volume;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::SignedDuration;
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus, Pod},
    storage::v1::StorageClass,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use ronde_runtime::{
    pods::{apply, is_finished},
    podstatus::node_of,
    runner::{Controller, Ctx},
    watch::{Cached, Caches, Change, Key, Kinds},
};
use serde_json::json;

use self::claim::{ClaimEvent, Observed};

/// The provisioner of directories on this machine.
pub const PROVISIONER: &str = "ronde.dev/directory";
/// The class of the claims that name none.
pub const CLASS: &str = "ronde";

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// A directory that cannot be removed now is tried again.
const REMOVAL_RETRY: SignedDuration = SignedDuration::from_secs(10);

/// Removes the directory of a volume; one that is not there is removed already. May block.
pub type RemoveDirectory = Arc<dyn Fn(&Path) -> io::Result<()> + Send + Sync>;

/// The controller of claims and volumes; keys without a namespace are those of volumes.
#[derive(Clone)]
pub struct VolumeClaims {
    /// Where the directories of volumes are; absolute.
    pub root: PathBuf,
    pub remove: RemoveDirectory,
}

impl fmt::Debug for VolumeClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeClaims").field("root", &self.root).finish_non_exhaustive()
    }
}

/// Makes the default class, if there is none at all.
///
/// # Errors
/// If the server refuses.
pub async fn ensure_class(client: &Client) -> Result<(), kube::Error> {
    let classes: Api<StorageClass> = Api::all(client.clone());
    if !classes.list(&ListParams::default()).await?.items.is_empty() {
        return Ok(());
    }
    let class = StorageClass {
        metadata: kube::core::ObjectMeta {
            name: Some(CLASS.to_owned()),
            annotations: Some([("storageclass.kubernetes.io/is-default-class".to_owned(), "true".to_owned())].into()),
            ..kube::core::ObjectMeta::default()
        },
        provisioner: PROVISIONER.to_owned(),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some("Immediate".to_owned()),
        ..StorageClass::default()
    };
    match classes.create(&PostParams::default(), &class).await {
        Err(error) if apply::is_taken(&error) => Ok(()),
        other => other.map(drop),
    }
}

impl Controller for VolumeClaims {
    const NAME: &'static str = "persistentvolume-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<PersistentVolumeClaim>().add::<PersistentVolume>().add::<StorageClass>().add::<Pod>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        let claims = |namespace, wanted: &dyn Fn(&PersistentVolumeClaim) -> bool| {
            let claims = caches.list::<PersistentVolumeClaim>(namespace);
            claims.iter().filter(|claim| wanted(claim)).map(|claim| Key::of(&**claim)).collect::<Vec<_>>()
        };
        let mut keys = Vec::new();
        if change.is::<PersistentVolumeClaim>() {
            keys.push(change.key.clone());
            let named = (change.key.namespace.as_str(), change.key.name.as_str());
            let volumes = caches.list::<PersistentVolume>(None);
            let its = volumes.iter().filter(|volume| volume::claim_key(volume) == Some(named));
            keys.extend(its.map(|volume| Key::of(&**volume)));
        } else if change.is::<PersistentVolume>() {
            keys.push(change.key.clone());
            keys.extend(claims(None, &|claim| !is_bound(claim) || volume_of(claim) == change.key.name));
        } else if change.is::<StorageClass>() {
            keys.extend(claims(None, &|claim| !is_bound(claim)));
        } else if change.is::<Pod>() {
            let namespace = Some(change.key.namespace.as_str());
            keys.extend(claims(namespace, &|claim| claim.metadata.deletion_timestamp.is_some()));
        }
        keys
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        if key.namespace.is_empty() {
            return self.step_volume(ctx, key).await;
        }
        self.step_claim(ctx, key).await.map(|()| None)
    }
}

impl VolumeClaims {
    async fn step_claim(&self, ctx: &Ctx, key: &Key) -> Result<(), kube::Error> {
        let Some(claim) = ctx.caches.get::<PersistentVolumeClaim>(key) else { return Ok(()) };
        let pods = ctx.caches.list::<Pod>(Some(&key.namespace));
        let observed = Observed {
            claim: &claim,
            volumes: &ctx.caches.list(None),
            classes: &ctx.caches.list(None),
            is_used: pods.iter().any(|pod| uses(pod, &key.name)),
            root: &self.root,
        };
        match claim::next(&observed) {
            claim::Step::Nothing => Ok(()),
            claim::Step::Update(wanted) => write_claim(ctx, &wanted).await,
            claim::Step::Status(status, why) => {
                write_claim_status(ctx, &claim, *status).await?;
                tell(ctx, &*claim, why);
                Ok(())
            }
            claim::Step::Wait(why) => wait(ctx, &claim, why).await,
            claim::Step::BindVolume(volume) => write_volume(ctx, &volume).await,
            claim::Step::Provision(volume) => provision(ctx, &claim, &volume).await,
        }
    }

    async fn step_volume(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(volume) = ctx.caches.get::<PersistentVolume>(key) else { return Ok(None) };
        let claim = find_claim(ctx, &volume).await?;
        match volume::next(&volume, claim.as_deref(), &self.root) {
            volume::Step::Nothing => Ok(None),
            volume::Step::Update(wanted) => write_volume(ctx, &wanted).await.map(|()| None),
            volume::Step::Phase(phase, why) => {
                write_phase(ctx, &volume, phase, why.as_ref()).await?;
                tell(ctx, &*volume, why);
                Ok(None)
            }
            volume::Step::Delete(directory) => self.delete(ctx, &volume, directory).await,
        }
    }

    async fn delete(
        &self,
        ctx: &Ctx,
        volume: &PersistentVolume,
        directory: PathBuf,
    ) -> Result<Option<SignedDuration>, kube::Error> {
        let remove = self.remove.clone();
        let removed = tokio::task::spawn_blocking(move || remove(&directory)).await;
        let why = match removed {
            Ok(Ok(())) => return delete_volume(ctx, volume).await.map(|()| None),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let why = ClaimEvent { is_warning: true, reason: "VolumeFailedDelete", message: why };
        write_phase(ctx, volume, "Failed", Some(&why)).await?;
        tell(ctx, volume, Some(why));
        Ok(Some(REMOVAL_RETRY))
    }
}

/// Tells whether a pod that may still run uses a claim.
fn uses(pod: &Pod, claim: &str) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    !node_of(pod).is_empty() && !is_finished(pod) && claims.any(|named| named.claim_name == claim)
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.annotations().contains_key(BIND_COMPLETED)
}

fn volume_of(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

/// Finds the claim that a volume names. That it is gone is believed only of the server itself: the volume may be deleted for it.
async fn find_claim(ctx: &Ctx, volume: &PersistentVolume) -> Result<Option<Arc<PersistentVolumeClaim>>, kube::Error> {
    let Some((namespace, name)) = volume::claim_key(volume) else { return Ok(None) };
    let uid = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()?.uid.clone());
    let cached = ctx.caches.get::<PersistentVolumeClaim>(&Key::new(namespace, name));
    if cached.as_ref().is_some_and(|claim| uid.is_none() || claim.uid() == uid) {
        return Ok(cached);
    }
    let claims = apply::api::<PersistentVolumeClaim>(ctx, namespace);
    Ok(claims.get_opt(name).await?.map(Arc::new))
}

fn tell<K: Resource<DynamicType = ()>>(ctx: &Ctx, about: &K, what: Option<ClaimEvent>) {
    match what {
        Some(tell) if tell.is_warning => ctx.events.warning(about, tell.reason, tell.message),
        Some(tell) => ctx.events.normal(about, tell.reason, tell.message),
        None => {}
    }
}

async fn wait(ctx: &Ctx, claim: &PersistentVolumeClaim, why: Option<ClaimEvent>) -> Result<(), kube::Error> {
    tell(ctx, claim, why);
    let status = PersistentVolumeClaimStatus { phase: Some("Pending".to_owned()), ..Default::default() };
    if claim.status.as_ref() == Some(&status) { Ok(()) } else { write_claim_status(ctx, claim, status).await }
}

/// Remembers what was written; without its last finalizer an object that is being deleted is gone.
fn assume<K: Cached>(ctx: &Ctx, written: K) {
    if written.meta().deletion_timestamp.is_some() && written.finalizers().is_empty() {
        ctx.caches.assume_gone(&written);
    } else {
        ctx.caches.assume(written);
    }
}

async fn write_claim(ctx: &Ctx, claim: &PersistentVolumeClaim) -> Result<(), kube::Error> {
    let claims = apply::api::<PersistentVolumeClaim>(ctx, &claim.namespace().unwrap_or_default());
    let written = claims.replace(&claim.name_any(), &PostParams::default(), claim).await?;
    assume(ctx, written);
    Ok(())
}

async fn write_claim_status(
    ctx: &Ctx,
    claim: &PersistentVolumeClaim,
    status: PersistentVolumeClaimStatus,
) -> Result<(), kube::Error> {
    let claims = apply::api::<PersistentVolumeClaim>(ctx, &claim.namespace().unwrap_or_default());
    let claim = PersistentVolumeClaim { status: Some(status), ..claim.clone() };
    ctx.caches.assume(claims.replace_status(&claim.name_any(), &PostParams::default(), &claim).await?);
    Ok(())
}

async fn provision(ctx: &Ctx, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<(), kube::Error> {
    let volumes: Api<PersistentVolume> = Api::all(ctx.client.clone());
    match volumes.create(&PostParams::default(), volume).await {
        Ok(made) => {
            let message = format!("Successfully provisioned volume {}", made.name_any());
            ctx.caches.assume(made);
            ctx.events.normal(claim, "ProvisioningSucceeded", message);
            Ok(())
        }
        // It was made before a restart; the watch brings it.
        Err(error) if apply::is_taken(&error) => Ok(()),
        Err(error) => {
            let why =
                format!("Error creating provisioned PV object for claim {}: {}", Key::of(claim), apply::text(&error));
            ctx.events.warning(claim, "ProvisioningFailed", why);
            Err(error)
        }
    }
}

async fn write_volume(ctx: &Ctx, volume: &PersistentVolume) -> Result<(), kube::Error> {
    let volumes: Api<PersistentVolume> = Api::all(ctx.client.clone());
    let written = volumes.replace(&volume.name_any(), &PostParams::default(), volume).await?;
    assume(ctx, written);
    Ok(())
}

async fn write_phase(
    ctx: &Ctx,
    volume: &PersistentVolume,
    phase: &str,
    why: Option<&ClaimEvent>,
) -> Result<(), kube::Error> {
    let status = json!({"phase": phase, "message": why.map(|why| &why.message)});
    let patch = json!({"metadata": {"uid": volume.metadata.uid}, "status": status});
    let volumes: Api<PersistentVolume> = Api::all(ctx.client.clone());
    let written = volumes.patch_status(&volume.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    ctx.caches.assume(written);
    Ok(())
}

async fn delete_volume(ctx: &Ctx, volume: &PersistentVolume) -> Result<(), kube::Error> {
    let only = Preconditions { uid: volume.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
    let volumes: Api<PersistentVolume> = Api::all(ctx.client.clone());
    match volumes.delete(&volume.name_any(), &params).await {
        Ok(answer) => {
            if let Some(left) = answer.left().filter(|left| left.metadata.deletion_timestamp.is_some()) {
                ctx.caches.assume(left);
            }
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}
