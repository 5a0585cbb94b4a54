//! Makes, corrects and deletes the objects that plugins ask for.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{ConfigMap, Secret, Service},
        networking::v1::NetworkPolicy,
    },
};
use kube::{Api, ResourceExt as _, api::PostParams};
use ronde_api::Job;
use ronde_runtime::runner::Ctx;

use super::plugins::{KeySecret, Object, Plugins, owned_meta, ssh};
use crate::{
    reconcile::objects::{api, delete, ensure, is_owned, names_of, note, taken, with_mark},
    ssh_keys::{KeyPair, KeySource},
};

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
            Object::ConfigMap(object) => delete::<ConfigMap, _>(ctx, job, &object.name_any()).await?,
            Object::Service(object) => delete::<Service, _>(ctx, job, &object.name_any()).await?,
            Object::NetworkPolicy(object) => delete::<NetworkPolicy, _>(ctx, job, &object.name_any()).await?,
            Object::Keys(keys) => delete::<Secret, _>(ctx, job, &keys.name).await?,
        }
    }
    Ok(())
}

/// Tells whether one of the objects that plugins ask for is not there.
pub fn is_one_missing(ctx: &Ctx, job: &Job) -> bool {
    let uid = job.uid().unwrap_or_default();
    Plugins::of_job(job).objects().iter().any(|object| match object {
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
        let there = match with_mark(&found, corrected) {
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
