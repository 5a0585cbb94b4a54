//! Makes, corrects and deletes the objects that plugins ask for.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{ConfigMap, Secret, Service},
        networking::v1::NetworkPolicy,
    },
};
use kube::{Api, ResourceExt as _, api::PostParams};
use parking_lot::Mutex;
use ronde_api::Job;
use ronde_runtime::{pods::apply::is_taken, runner::Ctx, watch::Key};

use super::plugins::{KeySecret, Object, Plugins, owned_meta, ssh};
use crate::{
    reconcile::objects::{Version, api, delete, ensure, is_owned, note, taken, version_of, with_mark},
    ssh_keys::{KeyPair, KeySource},
};

/// How many objects of one job are made at once: as many as `svc` and `ssh` ask for.
const AT_ONCE: usize = 4;

/// The objects that this process has seen to be as they should: whoever sees the same versions again need not look into
/// them. A faster way only; a process that knows of none looks once more.
#[derive(Debug, Default)]
pub struct InPlace(Mutex<BTreeMap<Key, Seen>>);

/// What stands for the contents of the objects of a job, and their versions.
#[derive(Debug)]
struct Seen {
    fingerprint: String,
    versions: Vec<Version>,
}

impl InPlace {
    /// Remembers that the objects of a job are as they should.
    pub fn note(&self, job: &Job, versions: Vec<Version>) {
        let fingerprint = Plugins::of_job(job).fingerprint();
        self.0.lock().insert(Key::of(job), Seen { fingerprint, versions });
    }

    /// Forgets the objects of a job.
    pub fn forget(&self, job: &Key) {
        self.0.lock().remove(job);
    }

    /// Returns what stands for the contents of the objects of a job, if they are as they should.
    pub fn fingerprint(&self, job: &Job, versions: &[Version]) -> Option<String> {
        let all = self.0.lock();
        all.get(&Key::of(job)).filter(|seen| seen.versions == versions).map(|seen| seen.fingerprint.clone())
    }
}

/// Makes or corrects objects; returns their versions.
///
/// # Errors
/// If a write fails, or a name is taken by an object that is not the job's.
pub async fn ensure_all(ctx: &Ctx, keys: &KeySource, job: &Job) -> Result<Vec<Version>, kube::Error> {
    let objects = stream::iter(Plugins::of_job(job).objects());
    objects.map(async |object| ensure_one(ctx, keys, job, object).await).buffered(AT_ONCE).try_collect().await
}

async fn ensure_one(ctx: &Ctx, keys: &KeySource, job: &Job, object: Object) -> Result<Version, kube::Error> {
    match object {
        Object::ConfigMap(wanted) => {
            let correct = |found: &ConfigMap| {
                (found.data != wanted.data).then(|| ConfigMap { data: wanted.data.clone(), ..found.clone() })
            };
            ensure(ctx, job, &*wanted, correct).await
        }
        Object::Service(wanted) => ensure(ctx, job, &*wanted, |_: &Service| None).await,
        Object::NetworkPolicy(wanted) => ensure(ctx, job, &*wanted, |_: &NetworkPolicy| None).await,
        Object::Keys(wanted) => ensure_keys(ctx, keys, job, &wanted).await,
    }
}

/// Deletes objects that are the job's.
///
/// # Errors
/// If a write fails.
pub async fn delete_all(ctx: &Ctx, job: &Job, objects: Vec<Object>) -> Result<(), kube::Error> {
    for object in objects {
        match object {
            Object::ConfigMap(object) => delete::<ConfigMap, _>(ctx, job, &object.name_any()).await?,
            Object::Service(object) => delete::<Service, _>(ctx, job, &object.name_any()).await?,
            Object::NetworkPolicy(object) => delete::<NetworkPolicy, _>(ctx, job, &object.name_any()).await?,
            Object::Keys(keys) => delete::<Secret, _>(ctx, job, &keys.name).await?,
        }
    }
    Ok(())
}

/// Returns the versions of the objects that plugins ask for; none if one of them is not there.
pub fn versions(ctx: &Ctx, job: &Job) -> Option<Vec<Version>> {
    let objects = Plugins::of_job(job).objects();
    let version = |object: &Object| match object {
        Object::ConfigMap(object) => version_of::<ConfigMap, _>(ctx, job, &object.name_any()),
        Object::Service(object) => version_of::<Service, _>(ctx, job, &object.name_any()),
        Object::NetworkPolicy(object) => version_of::<NetworkPolicy, _>(ctx, job, &object.name_any()),
        Object::Keys(keys) => version_of::<Secret, _>(ctx, job, &keys.name),
    };
    objects.iter().map(version).collect()
}

/// The key of a Secret that is there is kept: pods that run have it.
async fn ensure_keys(ctx: &Ctx, keys: &KeySource, job: &Job, wanted: &KeySecret) -> Result<Version, kube::Error> {
    let secrets: Api<Secret> = api(ctx, job);
    let is_seen = version_of::<Secret, _>(ctx, job, &wanted.name).is_some();
    if !is_seen {
        let pair = match wanted.given.clone() {
            Some((private, public)) => KeyPair { private, public },
            None => keys.make().await?,
        };
        match secrets.create(&PostParams::default(), &secret(job, wanted, pair)).await {
            Err(error) if is_taken(&error) => {}
            made => return Ok(note(ctx, &made?)),
        }
    }
    // Gone in this very moment: the next look makes it.
    let found = secrets.get(&wanted.name).await?;
    if !is_owned(job, &found) {
        return Err(taken::<Secret>(&wanted.name));
    }
    let there = match with_mark(&found, with_config(&found, &wanted.config)) {
        Some(corrected) => secrets.replace(&wanted.name, &PostParams::default(), &corrected).await?,
        None => found,
    };
    Ok(note(ctx, &there))
}

/// Returns a Secret with another configuration, if it has not the right one.
fn with_config(found: &Secret, config: &str) -> Option<Secret> {
    let config = ByteString(config.as_bytes().to_vec());
    let is_right = found.data.as_ref().and_then(|data| data.get(ssh::CONFIG)) == Some(&config);
    (!is_right).then(|| {
        let mut corrected = found.clone();
        corrected.data.get_or_insert_default().insert(ssh::CONFIG.to_owned(), config);
        corrected
    })
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
