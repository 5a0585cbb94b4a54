//! Which files each container of a pod sees, written into the pod's folder.
//!
//! Chosen once per container, so that a restarted container never sees other files than the first, and so that what a
//! pod was made from is not removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use ronde_images::{Digest, Reference};
use serde::{Deserialize, Serialize};

use crate::supervisor::{folder::PodFolder, spare};

/// What `imageID` says of a container with this machine's files.
const HOST_ID: &str = "host";

/// What was chosen for one container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    pub image: String,
    /// The manifest; nothing for this machine's files.
    pub digest: Option<Digest>,
    /// The signal by which the image wants to be stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
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

/// The choices of a pod, by container.
pub type Choices = BTreeMap<String, Chosen>;

fn path(folder: &PodFolder) -> PathBuf {
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

/// Writes down what was chosen for a container. Who calls this for one pod takes turns.
pub fn record(folder: &PodFolder, container: &str, chosen: Chosen) -> io::Result<()> {
    let mut choices = read(folder)?;
    choices.insert(container.to_owned(), chosen);
    spare::write(&path(folder), &choices)
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

    #[test]
    fn an_id_names_the_content() {
        let digest = Digest::of_bytes(b"");
        let chosen = Chosen { image: "busybox:1.36".to_owned(), digest: Some(digest), stop_signal: None };
        assert_eq!(chosen.id(), format!("docker.io/library/busybox@{digest}"));
        assert_eq!(Chosen { digest: None, ..chosen }.id(), "host");
    }

    #[test]
    fn what_a_pod_was_made_from_is_known_and_in_use() {
        let node = tempfile::tempdir().unwrap();
        let folder = PodFolder(node.path().join("pods/uid"));
        fs::create_dir_all(folder.path()).unwrap();
        let digest = Digest::of_bytes(b"");
        let chosen = |digest| Chosen { image: "a".to_owned(), digest, stop_signal: None };
        record(&folder, "one", chosen(Some(digest))).unwrap();
        record(&folder, "other", chosen(None)).unwrap();
        assert_eq!(read(&folder).unwrap().keys().collect::<Vec<_>>(), ["one", "other"]);
        assert_eq!(in_use(node.path()).unwrap(), BTreeSet::from([digest]));
    }

    #[test]
    fn the_choices_of_an_earlier_version_are_read() {
        let chosen: Chosen = serde_json::from_str(r#"{"image":"a","digest":null}"#).unwrap();
        assert_eq!(chosen, Chosen { image: "a".to_owned(), digest: None, stop_signal: None });
    }
}
