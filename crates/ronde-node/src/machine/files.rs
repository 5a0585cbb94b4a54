//! What pods see of this machine's files. Nodes say it in an annotation, so that who submits a job from this machine can
//! be told beforehand what its pods will not find.
//!
//! It is about files, not about who runs the node: a node whose pods have files of their own does not have it.

use std::{collections::BTreeMap, io, path::Path};

use rustix::fs::stat;
use serde::{Deserialize, Serialize};

use super::probe::Isolation;
use crate::{
    images::{can_show, policy::Wanted},
    sandbox::layers::OWN,
};

/// The annotation of nodes.
pub const ANNOTATION: &str = "ronde.dev/machine-files";
/// The variables that decide what programs find.
const ENV: [&str; 2] = ["PATH", "PYTHONPATH"];

/// What pods see of the files of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineFiles {
    /// Which root folder it is about, as device and inode.
    pub root: String,
    /// Folders that every pod has for itself.
    pub own: Vec<String>,
    /// Folders that no pod sees.
    pub hidden: Vec<String>,
    /// What pods inherit of the variables that decide what programs find.
    pub env: BTreeMap<String, String>,
    /// When pods see these files, and not those of an image.
    #[serde(default)]
    pub images: Wanted,
}

impl MachineFiles {
    /// # Errors
    /// If the root folder cannot be looked at.
    pub fn new(isolation: Isolation, hidden: &[String], env: &[(String, String)], images: Wanted) -> io::Result<Self> {
        let is_apart = isolation != Isolation::None;
        let env = env.iter().filter(|(name, _)| ENV.contains(&name.as_str())).cloned().collect();
        Ok(Self {
            root: root()?,
            own: OWN.iter().filter(|_| is_apart).map(|path| (*path).to_owned()).collect(),
            hidden: hidden.iter().filter(|_| is_apart).cloned().collect(),
            env,
            images: if can_show(isolation) { images } else { Wanted::Host },
        })
    }

    /// Returns the folder of which pods have another one, or none, if a path is in such a folder.
    pub fn private_folder_of(&self, path: &Path) -> Option<&str> {
        let own = self.own.iter().find(|folder| path.starts_with(folder) && path != Path::new(folder.as_str()));
        own.or_else(|| self.hidden.iter().find(|folder| path.starts_with(folder))).map(String::as_str)
    }
}

/// Tells root folders apart: who has another one sees other files.
///
/// # Errors
/// If it cannot be looked at.
pub fn root() -> io::Result<String> {
    let stat = stat("/")?;
    Ok(format!("{}:{}", stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::layers::Manner;

    const FULL: Isolation = Isolation::Namespaces { files: Manner::CopyOnWrite, user_attributes: false };

    #[test]
    fn pods_have_folders_of_their_own_where_they_are_kept_apart() {
        let env = [("PATH", "/bin"), ("LANG", "C")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let hidden = ["/var/lib/ronde".to_owned()];
        let files = MachineFiles::new(FULL, &hidden, &env, Wanted::Auto).unwrap();
        assert_eq!(files.images, Wanted::Auto);
        let private = |path: &str| files.private_folder_of(Path::new(path));
        assert_eq!(private("/tmp/train.py"), Some("/tmp"));
        assert_eq!(private("/var/lib/ronde/node"), Some("/var/lib/ronde"));
        assert_eq!(private("/tmp"), None, "there is one");
        assert_eq!(private("/tmpfiles/a"), None);
        assert_eq!(files.env.keys().collect::<Vec<_>>(), ["PATH"]);
        let plain = MachineFiles::new(Isolation::None, &hidden, &env, Wanted::Auto).unwrap();
        assert_eq!(plain.images, Wanted::Host, "there are no others");
        assert_eq!(plain.private_folder_of(Path::new("/tmp/train.py")), None);
    }
}
