//! One rule of a role: what it allows, and whether it covers another. Pure.
//!
//! The matching is that of a real server: `*` for everything, `*/scale` for a subresource of every resource, a `*` at
//! the end of a path for all that begins like it, and names that narrow a rule down.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

const ALL: &str = "*";

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub requested: Requested<'a>,
}

/// What it is to be done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested<'a> {
    Resource(ResourceAttributes<'a>),
    /// A path that names no resource, such as `/version`.
    Path(&'a str),
}

/// A resource, or one object of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceAttributes<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty at the cluster scope.
    pub namespace: &'a str,
    /// Empty for the whole collection.
    pub name: &'a str,
}

/// A rule as roles hold it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    #[serde(deserialize_with = "nullable")]
    pub verbs: Vec<String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// Clients in Go write an absent list as null.
fn nullable<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl<'a> Attributes<'a> {
    pub fn namespace(&self) -> &'a str {
        match self.requested {
            Requested::Resource(resource) => resource.namespace,
            Requested::Path(_) => "",
        }
    }
}

impl PolicyRule {
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        has(&self.verbs, attributes.verb)
            && match attributes.requested {
                Requested::Path(path) => self.non_resource_urls.iter().any(|url| url_covers(url, path)),
                Requested::Resource(of) => {
                    has(&self.api_groups, of.group)
                        && self.has_resource(of.resource, of.subresource)
                        && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == of.name))
                }
            }
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|allowed| match (allowed.as_str(), subresource) {
            (ALL, _) => true,
            (allowed, "") => allowed == resource,
            (allowed, subresource) => {
                allowed.split_once('/').is_some_and(|(of, part)| part == subresource && (of == ALL || of == resource))
            }
        })
    }

    /// Whether everything that `part`, one of [`PolicyRule::parts`], allows is allowed here.
    fn covers(&self, part: &Self) -> bool {
        let resource = |asked: &String| {
            let (resource, subresource) = asked.split_once('/').unwrap_or((asked, ""));
            self.has_resource(resource, subresource)
        };
        let names = self.resource_names.is_empty()
            || (!part.resource_names.is_empty() && part.resource_names.iter().all(|n| self.resource_names.contains(n)));
        part.verbs.iter().all(|verb| has(&self.verbs, verb))
            && part.api_groups.iter().all(|group| has(&self.api_groups, group))
            && part.resources.iter().all(resource)
            && part.non_resource_urls.iter().all(|path| self.non_resource_urls.iter().any(|url| url_covers(url, path)))
            && names
    }

    /// Takes the rule apart into rules of one verb on one thing each.
    fn parts(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for (group, resource) in product(&self.api_groups, &self.resources) {
                let part =
                    Self { verbs: one(verb), api_groups: one(group), resources: one(resource), ..Self::default() };
                match self.resource_names.as_slice() {
                    [] => parts.push(part),
                    names => parts.extend(names.iter().map(|name| Self { resource_names: one(name), ..part.clone() })),
                }
            }
            for url in &self.non_resource_urls {
                parts.push(Self { verbs: one(verb), non_resource_urls: one(url), ..Self::default() });
            }
        }
        parts
    }

    /// The rule in the words of errors.
    fn describe(&self) -> String {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = fields
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| format!("{name}:{}", quoted(values)))
            .collect();
        format!("{{{}}}", shown.join(", "))
    }
}

/// Returns what `wanted` allows beyond `held`, in the words of errors; empty if it is all covered.
pub fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<String> {
    let parts = wanted.iter().flat_map(PolicyRule::parts).filter(|part| !held.iter().any(|rule| rule.covers(part)));
    // Verbs on the same thing are told together.
    let mut verbs_of: BTreeMap<PolicyRule, Vec<String>> = BTreeMap::new();
    for mut part in parts {
        let verbs = std::mem::take(&mut part.verbs);
        verbs_of.entry(part).or_default().extend(verbs);
    }
    let described: BTreeSet<String> =
        verbs_of.into_iter().map(|(rule, verbs)| PolicyRule { verbs, ..rule }.describe()).collect();
    described.into_iter().collect()
}

/// A list as Go's `%q` shows it.
pub fn quoted(values: &[String]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

fn has(allowed: &[String], asked: &str) -> bool {
    allowed.iter().any(|allowed| allowed == ALL || allowed == asked)
}

fn url_covers(allowed: &str, path: &str) -> bool {
    allowed == path || allowed.strip_suffix(ALL).is_some_and(|start| path.starts_with(start))
}

fn product<'a>(left: &'a [String], right: &'a [String]) -> impl Iterator<Item = (&'a String, &'a String)> {
    left.iter().flat_map(move |one| right.iter().map(move |other| (one, other)))
}
