//! The Pod Security Standards: what pods of a level may not have. Pure.
//!
//! [`Labels`] are what a namespace asks for, [`Level::violations`] holds a pod against a level and tells everything at
//! once, in the words of a real server. The controls are those of Kubernetes 1.34, whatever version a label names; what
//! a real server takes easier for pods of Windows or with users of their own is not taken easier here.

mod baseline;
mod restricted;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

/// What the labels begin with.
pub const PREFIX: &str = "pod-security.kubernetes.io/";

/// How much pods are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Restricted,
    Baseline,
    Privileged,
}

/// A level, and the version that was asked for with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standard {
    pub level: Level,
    pub version: String,
}

/// What the labels of a namespace ask for. There is no audit log here, so that `audit` means nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    pub enforce: Option<Standard>,
    pub warn: Option<Standard>,
}

/// A control that a pod does not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub reason: &'static str,
    pub detail: String,
}

/// A control: says what is wrong with a pod.
type Check = fn(&Pod<'_>) -> Option<Violation>;

/// A pod, or the template of one.
pub struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

impl Level {
    pub const NAMES: [&'static str; 3] = ["privileged", "baseline", "restricted"];

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }

    /// Returns everything that a pod of this level may not have but has.
    pub fn violations(self, pod: &Pod<'_>) -> Vec<Violation> {
        let checks: &[&[Check]] = match self {
            Self::Privileged => &[],
            Self::Baseline => &[&baseline::CHECKS],
            Self::Restricted => &[&baseline::KEPT, &restricted::CHECKS],
        };
        checks.iter().flat_map(|checks| checks.iter()).filter_map(|check| check(pod)).collect()
    }
}

impl Standard {
    pub fn latest(level: Level) -> Self {
        Self { level, version: "latest".to_owned() }
    }

    /// Says how pods break the standard; none if they do not.
    pub fn complaint<'a>(&self, pods: impl Iterator<Item = Pod<'a>>) -> Option<String> {
        let mut told: Vec<String> = Vec::new();
        for violation in pods.flat_map(|pod| self.level.violations(&pod)) {
            let words = format!("{} ({})", violation.reason, violation.detail);
            if !told.contains(&words) {
                told.push(words);
            }
        }
        let (level, version) = (self.level.name(), &self.version);
        (!told.is_empty()).then(|| format!("violate PodSecurity \"{level}:{version}\": {}", told.join(", ")))
    }
}

impl Labels {
    /// Reads the labels of a namespace. A level that does not exist is the strictest.
    pub fn read(labels: &BTreeMap<String, String>) -> Self {
        let find = |mode: &str| {
            let level = labels.get(&format!("{PREFIX}{mode}"))?;
            let version = labels.get(&format!("{PREFIX}{mode}-version"));
            let version = version.cloned().unwrap_or_else(|| "latest".to_owned());
            Some(Standard { level: Level::parse(level).unwrap_or(Level::Restricted), version })
        };
        Self { enforce: find("enforce"), warn: find("warn") }
    }
}

impl<'a> Pod<'a> {
    /// A pod or a template: both have `metadata` and `spec`.
    pub fn of_object(object: &'a Value) -> Self {
        Self { metadata: &object["metadata"], spec: &object["spec"] }
    }

    fn context(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |list| spec[list].as_array().into_iter().flatten())
    }

    /// The containers for which something holds of their security context; none if there are none.
    fn containers_with(&self, holds: impl Fn(&Value) -> bool) -> Option<String> {
        let names: Vec<&str> =
            self.containers().filter(|one| holds(&one["securityContext"])).map(|one| text(&one["name"])).collect();
        containers(&names)
    }

    /// The pod and the containers for which something holds of their security context.
    fn setters(&self, holds: impl Fn(&Value) -> bool) -> Option<String> {
        let pod = holds(self.context()).then(|| "pod".to_owned());
        let setters: Vec<String> = pod.into_iter().chain(self.containers_with(holds)).collect();
        (!setters.is_empty()).then(|| setters.join(" and "))
    }
}

/// `container "a"`, or `containers "a", "b"`; none for none.
fn containers(names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{} {}", plural("container", names.len()), joined(names)))
}

fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// `"a", "b"`.
fn joined(values: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{:?}", value.as_ref())).collect();
    quoted.join(", ")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}
