//! What kinds of objects an API serves, and which one a user means by a word such as `deploy` or `jobs.batch`.

use kube::{
    Client,
    core::discovery::v2::{ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscovery, APIGroupDiscoveryList},
};

use crate::{
    client::{self, ClientError, encode},
    failure::{Blame, Failure},
};

/// One kind of objects, in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub namespaced: bool,
}

/// All kinds of an API, the preferred version of each first.
#[derive(Debug, Default)]
pub struct Catalogue {
    resources: Vec<Resource>,
}

/// There is no such kind.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    #[error("the server has no kind `{word}`")]
    Word { word: String },
    #[error("the server has no kind `{kind}` in `{api_version}`")]
    Kind { kind: String, api_version: String },
}

impl Failure for ResourceError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Word { .. } => Some("`kubectl api-resources` lists the kinds".to_owned()),
            Self::Kind { api_version, .. }
                if api_version.contains(".volcano.sh/") || api_version.starts_with("kai.alibabacloud.com/") =>
            {
                Some("`ronde up` with nodes installs it; on another cluster, `ronde operator` does".to_owned())
            }
            Self::Kind { .. } => Some("apply its CustomResourceDefinition first".to_owned()),
        }
    }
}

impl Resource {
    /// Returns `deployments.apps`, or `pods` for the core group.
    pub fn full_name(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// Returns `deployment.apps`, as in the lines that `apply` prints.
    pub fn singular_name(&self) -> String {
        qualified(&self.kind.to_lowercase(), &self.group)
    }

    /// Returns the path of one object, or of all in a namespace, or of all.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path.push_str(&format!("/namespaces/{}", encode(namespace)));
        }
        path.push_str(&format!("/{}", self.plural));
        if let Some(name) = name {
            path.push_str(&format!("/{}", encode(name)));
        }
        path
    }

    fn is_called(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        word == self.plural
            || word == self.singular
            || word == self.kind.to_lowercase()
            || self.short_names.contains(&word)
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

impl Catalogue {
    /// Asks the API what it serves: two requests.
    pub async fn fetch(client: &Client) -> Result<Self, ClientError> {
        let mut resources = Vec::new();
        for path in ["/api", "/apis"] {
            let request = client::get(path, ACCEPT_AGGREGATED_DISCOVERY_V2);
            let answer = client::send(client, request, Vec::new()).await?;
            let list: APIGroupDiscoveryList =
                serde_json::from_slice(&answer.body).map_err(|source| ClientError::NotJson { source })?;
            resources.extend(list.items.into_iter().flat_map(resources_of));
        }
        Ok(Self { resources })
    }

    /// Finds what a user calls by plural, singular, kind or short name, with or without `.group`.
    pub fn find_word(&self, word: &str) -> Result<&Resource, ResourceError> {
        let find = |name: &str, group: Option<&str>| {
            self.resources.iter().find(|resource| {
                resource.is_called(name) && group.is_none_or(|group| resource.group.starts_with(group))
            })
        };
        let qualified = word.split_once('.').and_then(|(name, group)| find(name, Some(group)));
        qualified.or_else(|| find(word, None)).ok_or_else(|| ResourceError::Word { word: word.to_owned() })
    }

    /// Finds the kind of a manifest.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Result<&Resource, ResourceError> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = self
            .resources
            .iter()
            .find(|resource| resource.group == group && resource.version == version && resource.kind == kind);
        let missing = || ResourceError::Kind { kind: kind.to_owned(), api_version: api_version.to_owned() };
        found.ok_or_else(missing)
    }
}

fn resources_of(group: APIGroupDiscovery) -> Vec<Resource> {
    let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
    let mut resources = Vec::new();
    for version in group.versions {
        for resource in version.resources {
            let kind = resource.response_kind.unwrap_or_default().kind.unwrap_or_default();
            resources.push(Resource {
                group: name.clone(),
                version: version.version.clone().unwrap_or_default(),
                kind,
                plural: resource.resource.unwrap_or_default(),
                singular: resource.singular_resource.unwrap_or_default(),
                short_names: resource.short_names,
                namespaced: resource.scope.as_deref() == Some("Namespaced"),
            });
        }
    }
    resources
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, version: &str, kind: &str, plural: &str, short: &str) -> Resource {
        Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: short.split_whitespace().map(str::to_owned).collect(),
            namespaced: kind != "Namespace",
        }
    }

    fn catalogue() -> Catalogue {
        let resources = vec![
            resource("", "v1", "Namespace", "namespaces", "ns"),
            resource("", "v1", "Event", "events", "ev"),
            resource("apps", "v1", "Deployment", "deployments", "deploy"),
            resource("batch", "v1", "Job", "jobs", ""),
            resource("events.k8s.io", "v1", "Event", "events", "ev"),
            resource("batch.volcano.sh", "v1alpha1", "Job", "jobs", "vcjob vj"),
        ];
        Catalogue { resources }
    }

    fn check(word: &str, expected: Option<&str>) {
        let found = catalogue().find_word(word).ok().map(|resource| resource.path(Some("n"), None));
        assert_eq!(found.as_deref(), expected, "{word}");
    }

    #[test]
    fn users_may_say_what_kubectl_understands() {
        check("deployments", Some("/apis/apps/v1/namespaces/n/deployments"));
        check("deployment", Some("/apis/apps/v1/namespaces/n/deployments"));
        check("Deployment", Some("/apis/apps/v1/namespaces/n/deployments"));
        check("deploy", Some("/apis/apps/v1/namespaces/n/deployments"));
        check("deployments.apps", Some("/apis/apps/v1/namespaces/n/deployments"));
        check("ns", Some("/api/v1/namespaces"));
        check("events", Some("/api/v1/namespaces/n/events"));
        check("events.events.k8s.io", Some("/apis/events.k8s.io/v1/namespaces/n/events"));
        check("jobs", Some("/apis/batch/v1/namespaces/n/jobs"));
        check("jobs.batch.volcano.sh", Some("/apis/batch.volcano.sh/v1alpha1/namespaces/n/jobs"));
        check("vj", Some("/apis/batch.volcano.sh/v1alpha1/namespaces/n/jobs"));
        check("unicorns", None);
        check("deployments.example.com", None);
    }

    #[test]
    fn a_manifest_names_its_kind_exactly() {
        let catalogue = catalogue();
        assert_eq!(catalogue.find_kind("apps/v1", "Deployment").unwrap().full_name(), "deployments.apps");
        assert_eq!(catalogue.find_kind("v1", "Namespace").unwrap().singular_name(), "namespace");
        assert!(catalogue.find_kind("apps/v1beta1", "Deployment").is_err());
        assert!(catalogue.find_kind("apps/v1", "deployment").is_err());
    }
}
