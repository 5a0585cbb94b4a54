//! Makes, corrects and deletes objects that jobs own beside their pods. What is somebody else's is never touched.
//!
//! They carry a label of ours, by which they are watched: who deletes one gets it back.

use std::{collections::BTreeSet, marker::PhantomData};

use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams, Preconditions},
    core::{Status, response::StatusSummary},
};
use ronde_api::names;
use ronde_runtime::{
    pods::apply::{self as write, Owner},
    runner::Ctx,
    watch::{Cached, Key, Owned},
};
use serde::Serialize;

/// The version of an object, as the server names it.
pub type Version = String;

/// Returns the API of the objects beside a job.
pub fn api<K: Owner, J: Owner>(ctx: &Ctx, job: &J) -> Api<K> {
    write::api(ctx, &job.namespace().unwrap_or_default())
}

/// Tells whether an object is a job's.
pub fn is_owned<K: Owner, J: Owner>(job: &J, object: &K) -> bool {
    object.owner_references().iter().any(|owner| job.meta().uid.as_ref() == Some(&owner.uid))
}

/// Makes an object, or corrects the one that is there if it is the job's; returns its version. One that nobody has seen yet
/// is made without a look first.
///
/// # Errors
/// If a write fails, or the name is taken by an object that is not the job's.
pub async fn ensure<K, J>(
    ctx: &Ctx,
    job: &J,
    wanted: &K,
    correct: impl Fn(&K) -> Option<K>,
) -> Result<Version, kube::Error>
where
    K: Owner + Serialize,
    Owned<K>: Cached,
    J: Owner,
{
    let objects: Api<K> = api(ctx, job);
    if version_of::<K, J>(ctx, job, &wanted.name_any()).is_none() {
        match objects.create(&PostParams::default(), wanted).await {
            Err(error) if write::is_taken(&error) => {}
            made => return Ok(note(ctx, &made?)),
        }
    }
    let there = match objects.get_opt(&wanted.name_any()).await? {
        None => objects.create(&PostParams::default(), wanted).await?,
        Some(found) if !is_owned(job, &found) => return Err(taken::<K>(&found.name_any())),
        Some(found) => match with_mark(&found, correct(&found)) {
            Some(corrected) => objects.replace(&found.name_any(), &PostParams::default(), &corrected).await?,
            None => found,
        },
    };
    Ok(note(ctx, &there))
}

/// Returns an object with our mark, if it is to be written: it is corrected, or has no mark yet.
pub fn with_mark<K: Owner>(found: &K, corrected: Option<K>) -> Option<K> {
    let is_marked = found.labels().get(names::MANAGED_BY).is_some_and(|by| by == names::MANAGER);
    let mut object = corrected.or_else(|| (!is_marked).then(|| found.clone()))?;
    object.labels_mut().insert(names::MANAGED_BY.to_owned(), names::MANAGER.to_owned());
    Some(object)
}

/// Lets the caches know at once that an object is there; returns its version.
pub fn note<K: Owner>(ctx: &Ctx, object: &K) -> Version
where
    Owned<K>: Cached,
{
    ctx.caches.assume(Owned::<K> { types: None, metadata: object.meta().clone(), _phantom: PhantomData });
    object.resource_version().unwrap_or_default()
}

/// Returns the names of the objects of a kind that a job has, as far as they carry our mark.
pub fn names_of<K: Owner>(ctx: &Ctx, job_uid: &str) -> BTreeSet<String>
where
    Owned<K>: Cached,
{
    ctx.caches.controlled_by::<Owned<K>>(job_uid).iter().map(|object| object.name_any()).collect()
}

/// Returns the version of an object that a job has, as last seen; none if it is not there or does not carry our mark.
pub fn version_of<K: Owner, J: Owner>(ctx: &Ctx, job: &J, name: &str) -> Option<Version>
where
    Owned<K>: Cached,
{
    let found = ctx.caches.get::<Owned<K>>(&Key::new(job.namespace().unwrap_or_default(), name));
    let found =
        found.filter(|found| found.owner_references().iter().any(|owner| job.uid().as_ref() == Some(&owner.uid)));
    Some(found?.resource_version().unwrap_or_default())
}

/// Deletes the object of a name if it is the job's.
///
/// # Errors
/// If a write fails.
pub async fn delete<K: Owner, J: Owner>(ctx: &Ctx, job: &J, name: &str) -> Result<(), kube::Error> {
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
