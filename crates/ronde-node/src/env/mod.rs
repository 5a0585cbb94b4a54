//! The environment of a container, and the values that pods may ask for (downward API, `$(VAR)`).
//!
//! Pure. Called by the pod's worker when it starts a container; `volumes` uses the same facts and fields. Fetches
//! nothing: what a pod refers to is given, and what is not given is missing.

mod expand;
mod fields;
mod resources;
mod services;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use k8s_openapi::{
    api::core::v1::{
        ConfigMap, ConfigMapEnvSource, ConfigMapKeySelector, Container, EnvVar, EnvVarSource, Pod, Secret,
        SecretEnvSource, SecretKeySelector, Service,
    },
    apimachinery::pkg::api::resource::Quantity,
};

pub use self::{
    expand::expand,
    fields::{FieldError, metadata_field, pod_field},
    resources::{ResourceError, resource_value},
};

/// What the values of a pod are taken from.
#[derive(Debug, Clone, Copy)]
pub struct PodFacts<'a> {
    pub pod: &'a Pod,
    pub host_ip: IpAddr,
    /// The address of the sandbox.
    pub pod_ip: Option<IpAddr>,
    /// What the node can give: the limits of containers without limits.
    pub allocatable: &'a BTreeMap<String, Quantity>,
    /// Those of the pod's namespace that exist, by name.
    pub config_maps: &'a BTreeMap<String, Arc<ConfigMap>>,
    pub secrets: &'a BTreeMap<String, Arc<Secret>>,
}

/// Why a container cannot be given its environment; the texts are those that users know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    #[error("configmap \"{0}\" not found")]
    NoConfigMap(String),
    #[error("secret \"{0}\" not found")]
    NoSecret(String),
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey { kind: &'static str, namespace: String, name: String, key: String },
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

impl EnvError {
    /// The reason for which the container waits.
    pub const REASON: &'static str = "CreateContainerConfigError";
}

/// Returns the environment of a container: envFrom, env, then the services; the last value of a name counts.
///
/// `services` are all services of the cluster that the caller knows; those that do not concern the pod are left out.
///
/// # Errors
/// If something that is not optional is missing.
pub fn build<'a>(
    facts: &PodFacts<'_>,
    container: &Container,
    services: impl IntoIterator<Item = &'a Service>,
) -> Result<Vec<(String, String)>, EnvError> {
    let services = services::variables(facts.pod, services);
    let mut variables = Variables::default();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(source) = &source.config_map_ref {
            for (key, value) in config_map_of(facts, source)?.iter().flat_map(|map| map.data.iter().flatten()) {
                variables.set(format!("{prefix}{key}"), value.clone());
            }
        } else if let Some(source) = &source.secret_ref {
            for (key, value) in secret_of(facts, source)?.iter().flat_map(|secret| secret.data.iter().flatten()) {
                variables.set(format!("{prefix}{key}"), text(&value.0));
            }
        }
    }
    for variable in container.env.iter().flatten() {
        let known = |name: &str| variables.get(name).or_else(|| services.get(name)).cloned();
        if let Some(value) = value_of(facts, container, variable, known)? {
            variables.set(variable.name.clone(), value);
        }
    }
    for (name, value) in services {
        if variables.get(&name).is_none() {
            variables.set(name, value);
        }
    }
    Ok(variables.list)
}

/// Returns the words of a command with `$(VAR)` replaced from an environment.
pub fn expand_command(words: &[String], environment: &[(String, String)]) -> Vec<String> {
    let find = |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    words.iter().map(|word| expand(word, find)).collect()
}

/// Variables in the order of their first appearance.
#[derive(Default)]
struct Variables {
    list: Vec<(String, String)>,
    places: BTreeMap<String, usize>,
}

impl Variables {
    fn get(&self, name: &str) -> Option<&String> {
        self.places.get(name).map(|place| &self.list[*place].1)
    }

    fn set(&mut self, name: String, value: String) {
        if let Some(place) = self.places.get(&name) {
            self.list[*place].1 = value;
        } else {
            self.places.insert(name.clone(), self.list.len());
            self.list.push((name, value));
        }
    }
}

/// The value of a variable; None if it comes from something optional that is not there.
fn value_of(
    facts: &PodFacts<'_>,
    container: &Container,
    variable: &EnvVar,
    known: impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, EnvError> {
    let literal = variable.value.as_deref().unwrap_or_default();
    match &variable.value_from {
        Some(source) if literal.is_empty() => sourced(facts, container, source),
        _ => Ok(Some(expand(literal, known))),
    }
}

fn sourced(facts: &PodFacts<'_>, container: &Container, source: &EnvVarSource) -> Result<Option<String>, EnvError> {
    if let Some(field) = &source.field_ref {
        return Ok(Some(pod_field(facts, &field.field_path)?));
    }
    if let Some(resource) = &source.resource_field_ref {
        return Ok(Some(resource_value(facts, resource, Some(container))?));
    }
    if let Some(key) = &source.config_map_key_ref {
        return config_map_key(facts, key);
    }
    match &source.secret_key_ref {
        Some(key) => secret_key(facts, key),
        None => Ok(Some(String::new())),
    }
}

fn config_map_of<'a>(facts: &PodFacts<'a>, source: &ConfigMapEnvSource) -> Result<Option<&'a ConfigMap>, EnvError> {
    match facts.config_maps.get(&source.name) {
        Some(map) => Ok(Some(map)),
        None if source.optional == Some(true) => Ok(None),
        None => Err(EnvError::NoConfigMap(source.name.clone())),
    }
}

fn secret_of<'a>(facts: &PodFacts<'a>, source: &SecretEnvSource) -> Result<Option<&'a Secret>, EnvError> {
    match facts.secrets.get(&source.name) {
        Some(secret) => Ok(Some(secret)),
        None if source.optional == Some(true) => Ok(None),
        None => Err(EnvError::NoSecret(source.name.clone())),
    }
}

fn config_map_key(facts: &PodFacts<'_>, source: &ConfigMapKeySelector) -> Result<Option<String>, EnvError> {
    let ConfigMapKeySelector { name, key, optional } = source;
    let map = config_map_of(facts, &ConfigMapEnvSource { name: name.clone(), optional: *optional })?;
    let value = map.and_then(|map| map.data.as_ref()?.get(key).cloned());
    if value.is_none() && *optional != Some(true) {
        return Err(no_key(facts, "ConfigMap", name, key));
    }
    Ok(value)
}

fn secret_key(facts: &PodFacts<'_>, source: &SecretKeySelector) -> Result<Option<String>, EnvError> {
    let SecretKeySelector { name, key, optional } = source;
    let secret = secret_of(facts, &SecretEnvSource { name: name.clone(), optional: *optional })?;
    let value = secret.and_then(|secret| secret.data.as_ref()?.get(key).map(|value| text(&value.0)));
    if value.is_none() && *optional != Some(true) {
        return Err(no_key(facts, "Secret", name, key));
    }
    Ok(value)
}

fn no_key(facts: &PodFacts<'_>, kind: &'static str, name: &str, key: &str) -> EnvError {
    let namespace = facts.pod.metadata.namespace.clone().unwrap_or_default();
    EnvError::NoKey { kind, namespace, name: name.to_owned(), key: key.to_owned() }
}

/// Environments are text; bytes that are none become replacement characters.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
