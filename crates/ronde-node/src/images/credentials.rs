//! What a pod shows to registries: its `imagePullSecrets`, and behind them what the user has who runs the node.
//!
//! Nothing of it is written anywhere: not into logs, events or errors.

use std::{path::Path, sync::Arc};

use k8s_openapi::api::core::v1::{Pod, Secret};
use ronde_images::registry::Keyring;
use ronde_runtime::watch::{Caches, Key};

/// The two forms of Docker's configuration, as types of secrets and as keys in them.
const DOCKER_CONFIG: (&str, &str) = ("kubernetes.io/dockerconfigjson", ".dockerconfigjson");
const LEGACY_CONFIG: (&str, &str) = ("kubernetes.io/dockercfg", ".dockercfg");

/// The credentials of a pod.
#[derive(Clone, Default)]
pub struct Credentials {
    keyring: Keyring,
    /// Which secrets they are from, and which versions of them: who has the same sees the same images.
    pub id: Vec<String>,
    /// Secrets that are not there, or that nobody can read.
    pub missing: Vec<String>,
}

impl Credentials {
    /// Collects what a pod names. The service account's secrets are among them: the API server has put them there.
    pub fn of_pod(pod: &Pod, caches: &Caches) -> Self {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let find = |name: &str| caches.get::<Secret>(&Key::new(namespace, name));
        Self::collect(namespace, names(pod), &find)
    }

    fn collect<'a>(
        namespace: &str,
        names: impl Iterator<Item = &'a str>,
        find: &dyn Fn(&str) -> Option<Arc<Secret>>,
    ) -> Self {
        let mut all = Self::default();
        for name in names {
            match find(name).and_then(|secret| Some((keyring(&secret)?, secret))) {
                Some((keyring, secret)) => {
                    all.keyring.extend(keyring);
                    let version = secret.metadata.resource_version.as_deref().unwrap_or_default();
                    all.id.push(format!("{namespace}/{name}@{version}"));
                }
                None => all.missing.push(name.to_owned()),
            }
        }
        all
    }

    /// Returns them with those of a user behind them. Reads files.
    pub fn with_user(&self, home: Option<&Path>) -> Keyring {
        let mut keyring = self.keyring.clone();
        match home.map(Keyring::of_user) {
            Some(Ok(user)) => keyring.extend(user),
            Some(Err(error)) => tracing::warn!(%error, "cannot read the user's registry credentials"),
            None => {}
        }
        keyring
    }
}

/// Returns the names of the secrets that a pod shows to registries.
pub fn names(pod: &Pod) -> impl Iterator<Item = &str> {
    let references = pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
    references.map(|reference| reference.name.as_str()).filter(|name| !name.is_empty())
}

/// Reads the credentials of a secret; nothing if it has none.
fn keyring(secret: &Secret) -> Option<Keyring> {
    let text = |(kind, key): (&str, &str)| {
        let data = secret.data.as_ref().filter(|_| secret.type_.as_deref() == Some(kind))?;
        Some(&data.get(key)?.0)
    };
    match (text(DOCKER_CONFIG), text(LEGACY_CONFIG)) {
        (Some(text), _) => Keyring::from_docker_config(text).ok(),
        (_, Some(text)) => Keyring::from_legacy_config(text).ok(),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::{ByteString, apimachinery::pkg::apis::meta::v1::ObjectMeta};

    use super::*;

    const CONFIG: &str = r#"{"auths":{"registry.test":{"auth":"dXNlcjpzZWNyZXQ="}}}"#;

    fn secret(kind: &str, key: &str, text: &str) -> Arc<Secret> {
        Arc::new(Secret {
            metadata: ObjectMeta { resource_version: Some("7".to_owned()), ..ObjectMeta::default() },
            type_: Some(kind.to_owned()),
            data: Some(BTreeMap::from([(key.to_owned(), ByteString(text.as_bytes().to_vec()))])),
            ..Secret::default()
        })
    }

    #[test]
    fn what_is_no_credential_is_told_and_the_others_stay() {
        let find = |name: &str| match name {
            "new" => Some(secret(DOCKER_CONFIG.0, DOCKER_CONFIG.1, CONFIG)),
            "old" => Some(secret(LEGACY_CONFIG.0, LEGACY_CONFIG.1, r#"{"registry.test":{"auth":"dXNlcjpzZWNyZXQ="}}"#)),
            "other-type" => Some(secret("Opaque", DOCKER_CONFIG.1, CONFIG)),
            "other-key" => Some(secret(DOCKER_CONFIG.0, "config.json", CONFIG)),
            "no-json" => Some(secret(DOCKER_CONFIG.0, DOCKER_CONFIG.1, "{")),
            _ => None,
        };
        let names = ["new", "absent", "old", "other-type", "other-key", "no-json"];
        let all = Credentials::collect("team", names.into_iter(), &find);
        assert_eq!(all.id, ["team/new@7", "team/old@7"]);
        assert_eq!(all.missing, ["absent", "other-type", "other-key", "no-json"]);
    }
}
