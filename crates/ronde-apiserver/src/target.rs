//! What a request is about: which resource, which object, which subresource; and the path that says so. Pure.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::rbac::ResourceAttributes;

/// The resource part of a request path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    pub group: String,
    pub version: String,
    /// Empty outside a namespace.
    pub namespace: String,
    pub plural: String,
    /// Empty for the whole collection.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// The older form of a watch, by path.
    pub watch: bool,
}

/// Subresources of a namespace; any other word in that place is a resource inside the namespace.
const OF_NAMESPACE: [&str; 2] = ["status", "finalize"];

impl Target {
    /// Reads `/api/v1/…` or `/apis/GROUP/VERSION/…`; none if the path is no resource path.
    pub fn parse(path: &str) -> Option<Self> {
        let parts = path.split('/').filter(|part| !part.is_empty()).map(decode).collect::<Option<Vec<_>>>()?;
        let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let target = |namespace: &str, plural: &str, name: &str, subresource: &str| Self {
            group: group.into(),
            version: version.into(),
            namespace: namespace.into(),
            plural: plural.into(),
            name: name.into(),
            subresource: subresource.into(),
            watch,
        };
        match rest {
            ["namespaces"] => Some(target("", "namespaces", "", "")),
            ["namespaces", name] => Some(target("", "namespaces", name, "")),
            ["namespaces", name, sub] if OF_NAMESPACE.contains(sub) => Some(target("", "namespaces", name, sub)),
            ["namespaces", namespace, plural] => Some(target(namespace, plural, "", "")),
            ["namespaces", namespace, plural, name] => Some(target(namespace, plural, name, "")),
            ["namespaces", namespace, plural, name, sub] => Some(target(namespace, plural, name, sub)),
            [plural] => Some(target("", plural, "", "")),
            [plural, name] => Some(target("", plural, name, "")),
            [plural, name, sub] => Some(target("", plural, name, sub)),
            _ => None,
        }
    }

    /// The resource as rights see it: a namespace is inside of itself.
    pub fn attributes(&self) -> ResourceAttributes<'_> {
        let is_namespace = self.group.is_empty() && self.plural == "namespaces";
        ResourceAttributes {
            group: &self.group,
            resource: &self.plural,
            subresource: &self.subresource,
            namespace: if is_namespace { &self.name } else { &self.namespace },
            name: &self.name,
        }
    }
}

fn decode(part: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(part).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Option<[&str; 6]>) {
        let found = Target::parse(path);
        let expected = expected.map(|[group, version, namespace, plural, name, subresource]| Target {
            group: group.into(),
            version: version.into(),
            namespace: namespace.into(),
            plural: plural.into(),
            name: name.into(),
            subresource: subresource.into(),
            watch: path.contains("/watch/"),
        });
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn paths_name_resources() {
        check("/api/v1/pods", Some(["", "v1", "", "pods", "", ""]));
        check("/api/v1/namespaces", Some(["", "v1", "", "namespaces", "", ""]));
        check("/api/v1/namespaces/a", Some(["", "v1", "", "namespaces", "a", ""]));
        check("/api/v1/namespaces/a/status", Some(["", "v1", "", "namespaces", "a", "status"]));
        check("/api/v1/namespaces/a/pods", Some(["", "v1", "a", "pods", "", ""]));
        check("/api/v1/namespaces/a/pods/b/log", Some(["", "v1", "a", "pods", "b", "log"]));
        check("/apis/apps/v1/namespaces/a/deployments/b", Some(["apps", "v1", "a", "deployments", "b", ""]));
        check("/apis/a.b/v1/things/x%3Ay", Some(["a.b", "v1", "", "things", "x:y", ""]));
        check("/api/v1/watch/namespaces/a/pods/b", Some(["", "v1", "a", "pods", "b", ""]));
        check("/apis/apps/v1", None);
        check("/apis/apps/v1/a/b/c/d", None);
        check("/api/v1/pods/%ff", None);
        check("/healthz", None);
    }
}
