//! What of the machine's file tree a container sees, and how. Pure: folders and mounts in, a list of layers out.
//!
//! The kernel makes no overlay of a folder with mounts below it in a user namespace, and never shows those mounts in
//! one. So the tree is split at every folder that leads to a mount: such a folder is made anew, and what is in it
//! is layered one by one. For the root folder that is always so: `/proc` is a mount.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One piece of a container's root, in the order in which they are put in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layer {
    /// A new folder with the mode of the machine's.
    Folder { path: String, mode: u32 },
    /// A symbolic link.
    Link { path: String, to: String },
    /// A folder of the machine, copy on write.
    Overlay { path: String },
    /// The whole root from the layers of an image, the lowest first; then it is the only one.
    Image {
        lowers: Vec<String>,
        /// Whether they are copied, where the kernel has no overlay for us.
        #[serde(default)]
        is_copied: bool,
    },
    /// A file or folder of the machine as it is, read-only.
    Bind { path: String },
}

/// What is at a path of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Folder { mode: u32 },
    Link { to: String },
    File,
}

/// How the machine's files are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    CopyOnWrite,
    /// Where the kernel has no overlay for us.
    ReadOnly,
}

/// Folders that every container has for itself; nothing of the machine's shows in them.
pub const OWN: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/tmp"];

/// Decides the layers. `list` returns what is in a folder of the machine, by name.
pub fn plan(mounts: &[String], manner: Manner, list: &dyn Fn(&str) -> BTreeMap<String, Entry>) -> Vec<Layer> {
    let mut layers = Vec::new();
    split("/", mounts, manner, list, &mut layers);
    layers
}

fn split(
    folder: &str,
    mounts: &[String],
    manner: Manner,
    list: &dyn Fn(&str) -> BTreeMap<String, Entry>,
    layers: &mut Vec<Layer>,
) {
    for (name, entry) in list(folder) {
        let path = if folder == "/" { format!("/{name}") } else { format!("{folder}/{name}") };
        match entry {
            Entry::Folder { mode } if OWN.contains(&path.as_str()) => layers.push(Layer::Folder { path, mode }),
            Entry::Folder { mode } if manner == Manner::CopyOnWrite && leads_to_mount(&path, mounts) => {
                layers.push(Layer::Folder { path: path.clone(), mode });
                split(&path, mounts, manner, list, layers);
            }
            Entry::Folder { .. } if manner == Manner::CopyOnWrite => layers.push(Layer::Overlay { path }),
            Entry::Folder { .. } | Entry::File => layers.push(Layer::Bind { path }),
            Entry::Link { to } => layers.push(Layer::Link { path, to }),
        }
    }
}

fn leads_to_mount(path: &str, mounts: &[String]) -> bool {
    mounts.iter().any(|mount| mount.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
}

/// Returns the mount points of `/proc/self/mountinfo`.
pub fn mount_points(mountinfo: &str) -> Vec<String> {
    mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape).collect()
}

/// The kernel writes a blank, a tab, a line feed and a backslash as octal numbers.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Entry, Layer, Manner, mount_points, plan};

    fn machine(folder: &str) -> BTreeMap<String, Entry> {
        let folder_entry = || Entry::Folder { mode: 0o755 };
        let entries = match folder {
            "/" => vec![
                ("bin", Entry::Link { to: "usr/bin".to_owned() }),
                ("home", folder_entry()),
                ("proc", folder_entry()),
                ("swapfile", Entry::File),
                ("usr", folder_entry()),
            ],
            "/home" => vec![("ann", folder_entry()), ("bob", folder_entry())],
            _ => Vec::new(),
        };
        entries.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect()
    }

    fn check(what: &str, mounts: &[&str], manner: Manner, expected: &[&str]) {
        let mounts: Vec<String> = mounts.iter().map(|mount| (*mount).to_owned()).collect();
        let layers: Vec<String> = plan(&mounts, manner, &machine)
            .into_iter()
            .map(|layer| match layer {
                Layer::Folder { path, .. } => format!("new {path}"),
                Layer::Link { path, to } => format!("{path} -> {to}"),
                Layer::Overlay { path } => format!("over {path}"),
                Layer::Image { lowers, .. } => format!("image {}", lowers.len()),
                Layer::Bind { path } => format!("bind {path}"),
            })
            .collect();
        assert_eq!(layers, expected, "{what}");
    }

    #[test]
    fn the_tree_is_split_where_mounts_are() {
        let plain = ["/bin -> usr/bin", "over /home", "new /proc", "bind /swapfile", "over /usr"];
        check("mounts only in folders of one's own", &["/", "/proc", "/proc/sys"], Manner::CopyOnWrite, &plain);
        check("a mount at the top is one layer", &["/", "/home"], Manner::CopyOnWrite, &plain);
        let deeper =
            ["/bin -> usr/bin", "new /home", "over /home/ann", "over /home/bob", "new /proc", "bind /swapfile"];
        check("a mount further down", &["/home/bob"], Manner::CopyOnWrite, &[&deeper[..], &["over /usr"]].concat());
        let read_only = ["/bin -> usr/bin", "bind /home", "new /proc", "bind /swapfile", "bind /usr"];
        check("no overlay at all", &["/home/bob"], Manner::ReadOnly, &read_only);
        check("a name that begins alike", &["/home2/x"], Manner::CopyOnWrite, &plain);
    }

    #[test]
    fn mount_points_are_read_as_the_kernel_writes_them() {
        let text = "22 1 254:0 / / rw - ext4 /dev/vda rw\n40 22 0:40 / /mnt/a\\040b rw - tmpfs none rw\nnonsense\n";
        assert_eq!(mount_points(text), ["/", "/mnt/a b"]);
    }
}
