//! Which files a container sees: those of a stored image, or this machine's own.
//!
//! Chosen once per container and written into the pod's folder, so that a restarted container never sees other files than
//! the first, and so that what a pod was made from is not removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
};

use fs_err as fs;
use k8s_openapi::api::core::v1::Container;
use ronde_images::{Digest, Image, Reference, Store};
use serde::{Deserialize, Serialize};

use crate::{
    lifecycle::Cause,
    machine::probe::Isolation,
    sandbox::layers::Manner,
    supervisor::{folder::PodFolder, spare},
};

/// Names that mean this machine's own files, whatever is stored.
const HOST: [&str; 2] = ["host", "this-machine"];
/// What `imageID` says of a container with this machine's files.
pub const HOST_ID: &str = "host";

/// What an image name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A stored image, and nothing else.
    Stored,
    /// This machine's files.
    Host,
    /// A stored image if there is one, else this machine's files.
    Auto,
}

/// What was chosen for one container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    pub image: String,
    /// The manifest; nothing for this machine's files.
    pub digest: Option<Digest>,
}

impl Chosen {
    /// Returns what the status shows as `imageID`.
    pub fn id(&self) -> String {
        let named = |digest: Digest| match self.image.parse::<Reference>() {
            Ok(name) => format!("{}@{digest}", name.name()),
            Err(_) => digest.to_string(),
        };
        self.digest.map_or_else(|| HOST_ID.to_owned(), named)
    }
}

type Choices = BTreeMap<String, Chosen>;

fn path(folder: &PodFolder) -> std::path::PathBuf {
    folder.path().join("images.json")
}

/// Reads what was chosen for the containers of a pod.
pub fn read(folder: &PodFolder) -> io::Result<Choices> {
    match fs::read(path(folder)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Choices::new()),
        Err(error) => Err(error),
    }
}

/// What a choice is made from.
pub struct Choice<'a> {
    pub store: &'a Store,
    pub wanted: Wanted,
    pub isolation: Isolation,
    pub folder: &'a PodFolder,
    pub container: &'a Container,
}

impl Choice<'_> {
    /// Returns the image of a container, or nothing if it sees this machine's files.
    ///
    /// # Errors
    /// Why it has to wait, with the reason that the status shows.
    pub fn make(&self) -> Result<Option<Image>, Cause> {
        let internal = |error: &dyn std::fmt::Display| cause("CreateContainerError", error.to_string());
        let mut choices = read(self.folder).map_err(|error| internal(&error))?;
        if let Some(chosen) = choices.get(&self.container.name) {
            let Some(digest) = chosen.digest else { return Ok(None) };
            return self.store.get(digest).map(Some).map_err(|error| internal(&error));
        }
        // Until the choice is written down nothing may be removed.
        let _use = self.store.hold().map_err(|error| internal(&error))?;
        let image = self.find()?;
        let name = self.container.image.clone().unwrap_or_default();
        let chosen = Chosen { image: name, digest: image.as_ref().map(|image| image.digest) };
        choices.insert(self.container.name.clone(), chosen);
        spare::write(&path(self.folder), &choices).map_err(|error| internal(&error))?;
        Ok(image)
    }

    fn find(&self) -> Result<Option<Image>, Cause> {
        let name = self.container.image.as_deref().unwrap_or_default();
        let can_show = matches!(self.isolation, Isolation::Namespaces { files: Manner::CopyOnWrite, .. });
        if HOST.contains(&name) || self.wanted == Wanted::Host {
            return Ok(None);
        }
        let stored = match name.parse::<Reference>() {
            Ok(name) if can_show => {
                self.store.find(&name).map_err(|error| cause("ImageInspectError", error.to_string()))?
            }
            Ok(_) => None,
            Err(error) if self.wanted == Wanted::Stored => return Err(cause("InvalidImageName", error.to_string())),
            Err(_) => None,
        };
        match (stored, self.wanted) {
            (Some(image), _) => Ok(Some(image)),
            (None, Wanted::Stored) if !can_show => Err(cause(
                "CreateContainerError",
                "this machine has no overlay file system, which images need".to_owned(),
            )),
            (None, Wanted::Stored) => Err(self.missing(name)),
            (None, _) => Ok(None),
        }
    }

    fn missing(&self, name: &str) -> Cause {
        if self.container.image_pull_policy.as_deref() == Some("Never") {
            let message = format!("Container image \"{name}\" is not present with pull policy of Never");
            return cause("ErrImageNeverPull", message);
        }
        let message = format!(
            "image \"{name}\" is not stored on this machine, and this version does not pull images; load it with `ronde image load`"
        );
        cause("ErrImagePull", message)
    }
}

fn cause(reason: &str, message: String) -> Cause {
    Cause { reason: reason.to_owned(), message }
}

/// Returns the manifests that the pods of a node were made from.
///
/// # Errors
/// If that cannot be read: then nothing may be removed.
pub fn in_use(node: &Path) -> io::Result<BTreeSet<Digest>> {
    let pods = match fs::read_dir(node.join("pods")) {
        Ok(pods) => pods,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let mut used = BTreeSet::new();
    for pod in pods {
        let choices = read(&PodFolder(pod?.path()))?;
        used.extend(choices.values().filter_map(|chosen| chosen.digest));
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(what: &str, image: &str, wanted: Wanted, policy: Option<&str>, expected: &str) {
        let place = tempfile::tempdir().unwrap();
        let folder = PodFolder(place.path().join("pods/uid"));
        fs::create_dir_all(folder.path()).unwrap();
        let container = Container {
            name: "c".to_owned(),
            image: Some(image.to_owned()),
            image_pull_policy: policy.map(str::to_owned),
            ..Container::default()
        };
        let choice = Choice {
            store: &Store::new(place.path().join("images")),
            wanted,
            isolation: Isolation::Namespaces { files: Manner::CopyOnWrite, user_attributes: false },
            folder: &folder,
            container: &container,
        };
        let shown = match choice.make() {
            Ok(_) => read(&folder).unwrap()["c"].id(),
            Err(cause) => cause.reason,
        };
        assert_eq!(shown, expected, "{what}");
    }

    #[test]
    fn a_name_means_what_is_stored_or_this_machine() {
        check("nothing is stored", "busybox", Wanted::Auto, None, "host");
        check("this machine by name", "host", Wanted::Stored, None, "host");
        check("the older word for it", "this-machine", Wanted::Stored, None, "host");
        check("images are not wanted", "busybox", Wanted::Host, None, "host");
        check("an image is wanted", "busybox", Wanted::Stored, None, "ErrImagePull");
        check("and never pulled", "busybox", Wanted::Stored, Some("Never"), "ErrImageNeverPull");
        check("no name at all", "Not A Name", Wanted::Stored, None, "InvalidImageName");
        check("no name at all, and it does not matter", "Not A Name", Wanted::Auto, None, "host");
    }

    #[test]
    fn an_id_names_the_content() {
        let digest = Digest::of_bytes(b"");
        let chosen = Chosen { image: "busybox:1.36".to_owned(), digest: Some(digest) };
        assert_eq!(chosen.id(), format!("docker.io/library/busybox@{digest}"));
    }
}
