//! What a pod refers to: so that the worker can fetch and watch it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume};

/// Names in the pod's namespace, and tokens that it wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    pub config_maps: BTreeSet<String>,
    pub secrets: BTreeSet<String>,
    pub claims: BTreeSet<String>,
    pub tokens: Vec<TokenWanted>,
}

/// A token of the pod's service account, for one file of a projected volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenWanted {
    pub volume: String,
    pub path: String,
    pub audience: Option<String>,
    pub expiration_seconds: Option<i64>,
}

/// Returns all that the volumes and the environments of a pod refer to.
pub fn references(pod: &Pod) -> References {
    let mut found = References::default();
    if let Some(spec) = &pod.spec {
        containers(spec).for_each(|container| environment(container, &mut found));
        spec.volumes.iter().flatten().for_each(|volume| add_volume(volume, pod, &mut found));
    }
    found
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

fn environment(container: &Container, found: &mut References) {
    for source in container.env_from.iter().flatten() {
        found.config_maps.extend(source.config_map_ref.as_ref().map(|source| source.name.clone()));
        found.secrets.extend(source.secret_ref.as_ref().map(|source| source.name.clone()));
    }
    for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        found.config_maps.extend(source.config_map_key_ref.as_ref().map(|source| source.name.clone()));
        found.secrets.extend(source.secret_key_ref.as_ref().map(|source| source.name.clone()));
    }
}

fn add_volume(volume: &Volume, pod: &Pod, found: &mut References) {
    found.config_maps.extend(volume.config_map.as_ref().map(|source| source.name.clone()));
    found.secrets.extend(volume.secret.as_ref().and_then(|source| source.secret_name.clone()));
    found.claims.extend(volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone()));
    if volume.ephemeral.is_some() {
        let pod = pod.metadata.name.as_deref().unwrap_or_default();
        found.claims.insert(format!("{pod}-{}", volume.name));
    }
    let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    for source in sources {
        found.config_maps.extend(source.config_map.as_ref().map(|source| source.name.clone()));
        found.secrets.extend(source.secret.as_ref().map(|source| source.name.clone()));
        found.tokens.extend(source.service_account_token.as_ref().map(|token| TokenWanted {
            volume: volume.name.clone(),
            path: token.path.clone(),
            audience: token.audience.clone().filter(|audience| !audience.is_empty()),
            expiration_seconds: token.expiration_seconds,
        }));
    }
}
