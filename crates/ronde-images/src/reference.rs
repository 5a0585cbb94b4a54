//! Names of images, as people write them: `busybox`, `team/app:1.2`, `host:5000/a/b:tag@sha256:…`.
//!
//! A name is read once and is whole from then on: it has a registry, a repository, and a tag, a digest or both. What is
//! left out is filled in as Docker and Kubernetes do it: `busybox` is `docker.io/library/busybox:latest`.
//! [`Reference`] is shown in that long form; [`Reference::familiar`] is the short one.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::digest::{self, Digest};

/// The registry of names that have none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// An older name of the same registry, which is still written in credentials and manifests.
const LEGACY_REGISTRY: &str = "index.docker.io";
/// The folder of names on the default registry that have none.
const DEFAULT_FOLDER: &str = "library/";
const DEFAULT_TAG: &str = "latest";

/// The distribution specification allows 255 for registry and repository; the registry's port may come on top.
const NAME_LENGTH_MAX: usize = 255;
/// As in the distribution specification.
const TAG_LENGTH_MAX: usize = 128;
/// A name, a tag, a digest and what stands between them, rounded up.
const LENGTH_MAX: usize = 512;

/// The whole name of an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// What can be wrong with the name of an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("image name is empty")]
    Empty,
    #[error("image name is longer than {LENGTH_MAX} bytes")]
    TooLong,
    #[error("invalid registry `{registry}` in image name `{name}`")]
    Registry { name: String, registry: String },
    #[error("image name `{0}` has upper-case letters; repository names are lower-case")]
    UpperCase(String),
    #[error("invalid repository `{repository}` in image name `{name}`")]
    Repository { name: String, repository: String },
    #[error("invalid tag `{tag}` in image name `{name}`")]
    Tag { name: String, tag: String },
    #[error("invalid digest in image name `{name}`")]
    Digest { name: String, source: digest::Error },
}

impl Reference {
    /// Returns the registry as it is written in names, which is not always the host that answers for it.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the path of the image on its registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag. A name with a digest may have none.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest, which names the content beyond doubt; a tag beside it is only for people.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Returns registry and repository: the name without tag and digest.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// Returns the same image by its content.
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { tag: None, digest: Some(digest), ..self.clone() }
    }

    /// Returns the short form: without what would be filled in, except the tag.
    pub fn familiar(&self) -> String {
        let short = if self.registry == DEFAULT_REGISTRY {
            let path = self.repository.strip_prefix(DEFAULT_FOLDER).filter(|rest| !rest.contains('/'));
            path.unwrap_or(&self.repository).to_owned()
        } else {
            self.name()
        };
        short + &self.suffix()
    }

    /// Tells whether a name that was written without a tag means the newest image, which is then always pulled.
    pub fn is_latest(&self) -> bool {
        self.digest.is_none() && self.tag.as_deref() == Some(DEFAULT_TAG)
    }

    fn suffix(&self) -> String {
        let tag = self.tag.as_ref().map(|tag| format!(":{tag}")).unwrap_or_default();
        let digest = self.digest.map(|digest| format!("@{digest}")).unwrap_or_default();
        tag + &digest
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::Empty);
        }
        if text.len() > LENGTH_MAX {
            return Err(Error::TooLong);
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(parse_digest(text, digest)?)),
            None => (text, None),
        };
        let (name, tag) = split_tag(rest);
        let tag = tag.map(|tag| check_tag(text, tag)).transpose()?;
        let (registry, path) = split_registry(name);
        let registry = check_registry(text, registry)?;
        let repository = check_repository(text, &registry, path)?;
        let tag = tag.or_else(|| digest.is_none().then(|| DEFAULT_TAG.to_owned()));
        Ok(Self { registry, repository, tag, digest })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}{}", self.registry, self.repository, self.suffix())
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

fn parse_digest(name: &str, digest: &str) -> Result<Digest, Error> {
    digest.parse().map_err(|source| Error::Digest { name: name.to_owned(), source })
}

/// A colon after the last slash begins a tag; before it, a port.
fn split_tag(rest: &str) -> (&str, Option<&str>) {
    match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    }
}

/// The first part is a registry if it could not be a folder of the default registry.
fn split_registry(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((first, path)) if is_host_like(first) => (first, path),
        _ => (DEFAULT_REGISTRY, name),
    }
}

fn is_host_like(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn check_registry(name: &str, registry: &str) -> Result<String, Error> {
    if !is_registry(registry) {
        return Err(Error::Registry { name: name.to_owned(), registry: registry.to_owned() });
    }
    let registry = registry.to_ascii_lowercase();
    Ok(if registry == LEGACY_REGISTRY { DEFAULT_REGISTRY.to_owned() } else { registry })
}

/// Tells whether a text is a host with an optional port, as URLs and names of images have it.
pub(crate) fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if address.parse::<std::net::Ipv6Addr>().is_ok() => {
            return rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        }
        _ => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    port.is_none_or(is_port) && host.split('.').all(is_label)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_label(label: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
}

fn check_repository(name: &str, registry: &str, path: &str) -> Result<String, Error> {
    let is_short = registry == DEFAULT_REGISTRY && !path.contains('/');
    let repository = if is_short { format!("{DEFAULT_FOLDER}{path}") } else { path.to_owned() };
    if repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(Error::UpperCase(name.to_owned()));
    }
    let is_fitting = registry.len() + 1 + repository.len() <= NAME_LENGTH_MAX;
    if !is_fitting || !repository.split('/').all(is_component) {
        return Err(Error::Repository { name: name.to_owned(), repository: path.to_owned() });
    }
    Ok(repository)
}

/// Tells whether a text is words of letters and digits, joined by `.`, `_`, `__` or any number of `-`.
fn is_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut rest = text.as_bytes();
    loop {
        let word = rest.iter().take_while(|byte| is_word(**byte)).count();
        if word == 0 {
            return false;
        }
        rest = &rest[word..];
        let joint = rest.iter().take_while(|byte| !is_word(**byte)).count();
        let (joint, after) = rest.split_at(joint);
        match joint {
            [] => return true,
            b"." | b"_" | b"__" => rest = after,
            _ if joint.iter().all(|byte| *byte == b'-') => rest = after,
            _ => return false,
        }
    }
}

fn check_tag(name: &str, tag: &str) -> Result<String, Error> {
    let is_first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_other = |byte: u8| is_first(byte) || byte == b'.' || byte == b'-';
    let is_valid = tag.len() <= TAG_LENGTH_MAX && tag.bytes().next().is_some_and(is_first) && tag.bytes().all(is_other);
    if is_valid { Ok(tag.to_owned()) } else { Err(Error::Tag { name: name.to_owned(), tag: tag.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn check(written: &str, canonical: &str, familiar: &str) {
        let reference: Reference = written.parse().unwrap();
        assert_eq!((reference.to_string().as_str(), reference.familiar().as_str()), (canonical, familiar), "{written}");
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        check("busybox", "docker.io/library/busybox:latest", "busybox:latest");
        check("busybox:1.36", "docker.io/library/busybox:1.36", "busybox:1.36");
        check(
            "volcanosh/horovod-tf-mnist:0.5",
            "docker.io/volcanosh/horovod-tf-mnist:0.5",
            "volcanosh/horovod-tf-mnist:0.5",
        );
        check("docker.io/busybox", "docker.io/library/busybox:latest", "busybox:latest");
        check("index.docker.io/a/b:c", "docker.io/a/b:c", "a/b:c");
        check("docker.io/library/a/b", "docker.io/library/a/b:latest", "library/a/b:latest");
        check("localhost/app", "localhost/app:latest", "localhost/app:latest");
        check("host:5000/a/b:tag", "host:5000/a/b:tag", "host:5000/a/b:tag");
        check("Host.Example/app", "host.example/app:latest", "host.example/app:latest");
        check("[::1]:5000/app:1", "[::1]:5000/app:1", "[::1]:5000/app:1");
        check("a__b/c-d.e--f_g", "docker.io/a__b/c-d.e--f_g:latest", "a__b/c-d.e--f_g:latest");
    }

    #[test]
    fn a_digest_needs_no_tag_and_may_have_one() {
        let (long, both) = (format!("docker.io/library/a@{DIGEST}"), format!("h:5/a/b:t@{DIGEST}"));
        check(&format!("a@{DIGEST}"), &long, &format!("a@{DIGEST}"));
        check(&both, &both, &both);
        let reference: Reference = both.parse().unwrap();
        assert_eq!((reference.registry(), reference.repository(), reference.tag()), ("h:5", "a/b", Some("t")));
        assert_eq!(reference.digest().map(|digest| digest.to_string()).as_deref(), Some(DIGEST));
        assert!(!reference.is_latest() && "a".parse::<Reference>().unwrap().is_latest());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = |text: &str| text.parse::<Reference>().unwrap_err().to_string();
        assert_eq!(fault(""), "image name is empty");
        assert_eq!(fault("Busybox"), "image name `Busybox` has upper-case letters; repository names are lower-case");
        assert_eq!(fault("a b"), "invalid repository `a b` in image name `a b`");
        assert_eq!(fault("a:b c"), "invalid tag `b c` in image name `a:b c`");
        assert_eq!(fault("h:70000/a"), "invalid registry `h:70000` in image name `h:70000/a`");
        assert_eq!(fault("a@sha256:12"), "invalid digest in image name `a@sha256:12`");
        assert_eq!(fault(&"a".repeat(600)), "image name is longer than 512 bytes");
    }

    #[test]
    fn paths_and_urls_are_no_names() {
        let names =
            ["/a", "a/", "a//b", "../a", "a/../b", ".a", "a.", "a..b", "a___b", "a._b", "-a", "a-", "http://a/b"];
        for name in names.into_iter().chain(["a:", "a:.b", "a@", "h:/a", "-h.x/a", "h..x/a", "[::1/a", "a?b", "a%2fb"])
        {
            assert!(name.parse::<Reference>().is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Reference>();
        }

        #[test]
        fn both_forms_mean_the_same(
            host in "(([a-z][a-z0-9]{0,5}\\.){1,2}[a-z]{2,3}(:[1-9][0-9]{0,3})?/)?",
            path in "[a-z0-9]{1,5}((_|__|-{1,3})[a-z0-9]{1,4}){0,2}(/[a-z0-9]{1,5}(\\.[a-z0-9]{1,3})?){0,3}",
            tag in "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,20})?",
            has_digest: bool,
        ) {
            let digest = if has_digest { format!("@{DIGEST}") } else { String::new() };
            let reference: Reference = format!("{host}{path}{tag}{digest}").parse().unwrap();
            prop_assert_eq!(&reference.to_string().parse::<Reference>().unwrap(), &reference);
            prop_assert_eq!(&reference.familiar().parse::<Reference>().unwrap(), &reference);
        }

        #[test]
        fn what_is_accepted_is_safe_in_a_path(text in "[a-zA-Z0-9:/@._\\[\\]-]{0,24}") {
            if let Ok(reference) = text.parse::<Reference>() {
                prop_assert!(reference.repository().split('/').all(|part| !part.is_empty() && part != "." && part != ".."));
            }
        }
    }
}
