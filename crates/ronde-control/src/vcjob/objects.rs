//! Makes, corrects and deletes the objects that plugins ask for. What is somebody else's is never touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    marker::PhantomData,
    sync::Arc,
};

use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{ConfigMap, Secret, Service},
        networking::v1::NetworkPolicy,
    },
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams, Preconditions},
    core::{Status, response::StatusSummary},
};
use rand::{rand_core::UnwrapErr, rngs::SysRng};
use ronde_api::{Job, names};
use ronde_runtime::{
    pods::act::{self as write, Owner},
    runner::Ctx,
    watch::{Cached, Owned},
};
use serde::Serialize;

use super::plugins::{
    KeySecret, Object, Plugins,
    keys::{self, KeyError, KeyPair},
    owned_meta, ssh,
};

/// Where the keys of the `ssh` plugin come from.
#[derive(Clone)]
pub struct KeySource(Arc<dyn Fn() -> Result<KeyPair, KeyError> + Send + Sync>);

impl KeySource {
    pub fn new(make: impl Fn() -> Result<KeyPair, KeyError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// Returns the source that makes keys from the machine's randomness.
    pub fn real() -> Self {
        Self::new(|| keys::generate(&mut UnwrapErr(SysRng)))
    }

    /// Makes a key where it holds nobody up.
    pub async fn make(&self) -> Result<KeyPair, kube::Error> {
        let make = self.0.clone();
        let made = tokio::task::spawn_blocking(move || make()).await;
        made.map_err(|error| kube::Error::Service(error.into()))?.map_err(|error| kube::Error::Service(error.into()))
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySource")
    }
}

/// Makes or corrects objects.
///
/// # Errors
/// If a write fails, or a name is taken by an object that is not the job's.
pub async fn ensure_all(ctx: &Ctx, keys: &KeySource, job: &Job, objects: Vec<Object>) -> Result<(), kube::Error> {
    for object in objects {
        match object {
            Object::ConfigMap(wanted) => {
                let correct = |found: &ConfigMap| {
                    (found.data != wanted.data).then(|| ConfigMap { data: wanted.data.clone(), ..found.clone() })
                };
                ensure(ctx, job, &*wanted, correct).await?;
            }
            Object::Service(wanted) => ensure(ctx, job, &*wanted, |_: &Service| None).await?,
            Object::NetworkPolicy(wanted) => ensure(ctx, job, &*wanted, |_: &NetworkPolicy| None).await?,
            Object::Keys(wanted) => ensure_keys(ctx, keys, job, &wanted).await?,
        }
    }
    Ok(())
}

/// Deletes objects that are the job's.
///
/// # Errors
/// If a write fails.
pub async fn delete_all(ctx: &Ctx, job: &Job, objects: Vec<Object>) -> Result<(), kube::Error> {
    for object in objects {
        match object {
            Object::ConfigMap(object) => delete::<ConfigMap>(ctx, job, &object.name_any()).await?,
            Object::Service(object) => delete::<Service>(ctx, job, &object.name_any()).await?,
            Object::NetworkPolicy(object) => delete::<NetworkPolicy>(ctx, job, &object.name_any()).await?,
            Object::Keys(keys) => delete::<Secret>(ctx, job, &keys.name).await?,
        }
    }
    Ok(())
}

/// Returns the API of the objects beside a job.
pub fn api<K: Owner, J: Owner>(ctx: &Ctx, job: &J) -> Api<K> {
    write::api(ctx, &job.namespace().unwrap_or_default())
}

/// Tells whether an object is a job's.
pub fn is_owned<K: Owner, J: Owner>(job: &J, object: &K) -> bool {
    object.owner_references().iter().any(|owner| job.meta().uid.as_ref() == Some(&owner.uid))
}

/// Makes an object, or corrects the one that is there if it is the job's.
///
/// # Errors
/// If a write fails, or the name is taken by an object that is not the job's.
pub async fn ensure<K, J>(ctx: &Ctx, job: &J, wanted: &K, correct: impl Fn(&K) -> Option<K>) -> Result<(), kube::Error>
where
    K: Owner + Serialize,
    Owned<K>: Cached,
    J: Owner,
{
    let objects: Api<K> = api(ctx, job);
    let there = match objects.get_opt(&wanted.name_any()).await? {
        None => objects.create(&PostParams::default(), wanted).await?,
        Some(found) if !is_owned(job, &found) => return Err(taken::<K>(&found.name_any())),
        Some(found) => match marked(&found, correct(&found)) {
            Some(corrected) => objects.replace(&found.name_any(), &PostParams::default(), &corrected).await?,
            None => found,
        },
    };
    note(ctx, &there);
    Ok(())
}

/// Returns an object with our mark, if it is to be written: it is corrected, or has no mark yet.
fn marked<K: Owner>(found: &K, corrected: Option<K>) -> Option<K> {
    let is_marked = found.labels().get(names::MANAGED_BY).is_some_and(|by| by == names::MANAGER);
    let mut object = corrected.or_else(|| (!is_marked).then(|| found.clone()))?;
    object.labels_mut().insert(names::MANAGED_BY.to_owned(), names::MANAGER.to_owned());
    Some(object)
}

/// Lets the caches know at once that an object is there.
pub fn note<K: Owner>(ctx: &Ctx, object: &K)
where
    Owned<K>: Cached,
{
    ctx.caches.assume(Owned::<K> { types: None, metadata: object.meta().clone(), _phantom: PhantomData });
}

/// Returns the names of the objects of a kind that a job has, as far as they carry our mark.
pub fn names_of<K: Owner>(ctx: &Ctx, job_uid: &str) -> BTreeSet<String>
where
    Owned<K>: Cached,
{
    ctx.caches.controlled_by::<Owned<K>>(job_uid).iter().map(|object| object.name_any()).collect()
}

/// Tells whether one of the objects that plugins ask for is not there.
pub fn is_one_missing(ctx: &Ctx, job: &Job) -> bool {
    let uid = job.uid().unwrap_or_default();
    Plugins::of(job).objects().iter().any(|object| match object {
        Object::ConfigMap(object) => !names_of::<ConfigMap>(ctx, &uid).contains(&object.name_any()),
        Object::Service(object) => !names_of::<Service>(ctx, &uid).contains(&object.name_any()),
        Object::NetworkPolicy(object) => !names_of::<NetworkPolicy>(ctx, &uid).contains(&object.name_any()),
        Object::Keys(keys) => !names_of::<Secret>(ctx, &uid).contains(&keys.name),
    })
}

/// The key of a Secret that is there is kept: pods that run have it.
async fn ensure_keys(ctx: &Ctx, keys: &KeySource, job: &Job, wanted: &KeySecret) -> Result<(), kube::Error> {
    let secrets: Api<Secret> = api(ctx, job);
    let found = secrets.get_opt(&wanted.name).await?;
    if let Some(found) = found {
        if !is_owned(job, &found) {
            return Err(taken::<Secret>(&wanted.name));
        }
        let config = ByteString(wanted.config.clone().into_bytes());
        let is_right = found.data.as_ref().and_then(|data| data.get(ssh::CONFIG)) == Some(&config);
        let corrected = (!is_right).then(|| {
            let mut corrected = found.clone();
            corrected.data.get_or_insert_default().insert(ssh::CONFIG.to_owned(), config);
            corrected
        });
        let there = match marked(&found, corrected) {
            Some(corrected) => secrets.replace(&wanted.name, &PostParams::default(), &corrected).await?,
            None => found,
        };
        note(ctx, &there);
        return Ok(());
    }
    let pair = match wanted.given.clone() {
        Some((private, public)) => KeyPair { private, public },
        None => keys.make().await?,
    };
    note(ctx, &secrets.create(&PostParams::default(), &secret(job, wanted, pair)).await?);
    Ok(())
}

fn secret(job: &Job, wanted: &KeySecret, pair: KeyPair) -> Secret {
    let files = [
        (ssh::PRIVATE, pair.private),
        (ssh::PUBLIC, pair.public.clone()),
        (ssh::AUTHORIZED, pair.public),
        (ssh::CONFIG, wanted.config.clone()),
    ];
    let data: BTreeMap<String, ByteString> =
        files.into_iter().map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes()))).collect();
    Secret {
        metadata: owned_meta(job, wanted.name.clone()),
        data: Some(data),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

async fn delete<K: Owner>(ctx: &Ctx, job: &Job, name: &str) -> Result<(), kube::Error> {
    let objects: Api<K> = api(ctx, job);
    let Some(found) = objects.get_opt(name).await?.filter(|found| is_owned(job, found)) else { return Ok(()) };
    delete_only(&objects, &found).await
}

/// Deletes this very object, of a kind that is not watched.
///
/// # Errors
/// If the API refuses, or another one has the name by now.
pub async fn delete_only<K: Owner>(objects: &Api<K>, found: &K) -> Result<(), kube::Error> {
    let only = Preconditions { uid: found.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
    match objects.delete(&found.name_any(), &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

/// Says that a name is taken; it may be free later, when an earlier job of the same name is all gone.
pub fn taken<K: Owner>(name: &str) -> kube::Error {
    let message = format!("{} {name} exists and does not belong to this job", K::kind(&()));
    kube::Error::Api(Box::new(Status {
        status: Some(StatusSummary::Failure),
        message,
        reason: "NameTaken".to_owned(),
        code: 422,
        ..Status::default()
    }))
}
