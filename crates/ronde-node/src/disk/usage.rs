//! What pods have written, counted a few thousand files at a time.
//!
//! Counted are the copies of the machine's files that containers have changed, their logs, and the pod's volumes that are
//! on the disk. Volumes in memory are mounted for the pod alone and look empty from here. A file that was deleted
//! while it is open is not seen.

use std::{collections::BTreeMap, io, os::unix::fs::MetadataExt as _, path::PathBuf};

use fs_err as fs;

use crate::supervisor::folder::PodFolder;

/// Files of one pod; what goes beyond is not counted, which is to its advantage.
const ENTRIES_MAX: usize = 1_000_000;
/// The unit of what a file takes.
const BLOCK: u64 = 512;

/// What is used of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    pub bytes: u64,
    pub inodes: u64,
}

/// What a pod uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Files and logs of each container.
    pub containers: BTreeMap<String, Used>,
    pub volumes: BTreeMap<String, Used>,
}

impl Used {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.inodes += other.inodes;
    }
}

impl Usage {
    pub fn total(&self) -> Used {
        let mut total = Used::default();
        self.containers.values().chain(self.volumes.values()).for_each(|used| total.add(*used));
        total
    }
}

/// A count that is under way.
pub struct Scan {
    usage: Usage,
    /// Folders that have not been looked into.
    ahead: Vec<(Part, PathBuf)>,
    open: Option<(Part, fs::ReadDir)>,
    seen: usize,
}

/// To whom a file is counted.
#[derive(Debug, Clone)]
enum Part {
    Container(String),
    Volume(String),
}

impl Scan {
    /// Begins with the folders of a pod.
    pub fn new(folder: &PodFolder) -> Self {
        let mut scan = Self { usage: Usage::default(), ahead: Vec::new(), open: None, seen: 0 };
        let containers = folder.containers();
        for (place, part) in [
            (containers.clone(), Part::Container as fn(String) -> Part),
            (folder.logs("").clone(), Part::Container),
            (folder.volumes(), Part::Volume),
        ] {
            for name in names(place.clone()) {
                scan.ahead.push((part(name.clone()), place.join(name)));
            }
        }
        scan
    }

    /// Looks at up to `entries` more files, and takes them off that number; returns the usage when all are counted.
    pub fn advance(&mut self, entries: &mut usize) -> Option<Usage> {
        while *entries > 0 {
            let Some((part, folder)) = &mut self.open else {
                match self.ahead.pop() {
                    // What is gone by now uses nothing.
                    Some((part, path)) => self.open = fs::read_dir(path).ok().map(|folder| (part, folder)),
                    None => return Some(std::mem::take(&mut self.usage)),
                }
                *entries -= 1;
                continue;
            };
            let Some(entry) = folder.next() else {
                self.open = None;
                continue;
            };
            *entries -= 1;
            self.seen += 1;
            if self.seen > ENTRIES_MAX {
                return Some(std::mem::take(&mut self.usage));
            }
            let part = part.clone();
            if let Ok(entry) = entry {
                let _ = self.count(part, &entry);
            }
        }
        None
    }

    fn count(&mut self, part: Part, entry: &fs::DirEntry) -> io::Result<()> {
        let meta = entry.metadata()?;
        // A file with several names is shared among them.
        let used = Used { bytes: meta.blocks() * BLOCK / meta.nlink().max(1), inodes: 1 };
        let counted = match &part {
            Part::Container(name) => self.usage.containers.entry(name.clone()).or_default(),
            Part::Volume(name) => self.usage.volumes.entry(name.clone()).or_default(),
        };
        // The links of a folder are those of the folders in it.
        counted.add(if meta.is_dir() { Used { bytes: meta.blocks() * BLOCK, ..used } } else { used });
        if meta.is_dir() {
            self.ahead.push((part, entry.path()));
        }
        Ok(())
    }
}

fn names(folder: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_logs_and_volumes_are_counted_in_small_steps() {
        let place = tempfile::tempdir().unwrap();
        let folder = PodFolder(place.path().to_owned());
        let put = |path: PathBuf, kibibytes: usize| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![1; kibibytes << 10]).unwrap();
        };
        put(folder.attempt("a", 0).join("layers/0/up/x"), 64);
        put(folder.attempt("a", 1).join("layers/0/up/y"), 32);
        put(folder.logs("a").join("0.log"), 16);
        put(folder.volumes().join("data/deep/z"), 128);
        std::os::unix::fs::symlink("/", folder.volumes().join("data/out")).unwrap();
        fs::hard_link(folder.volumes().join("data/deep/z"), folder.volumes().join("data/again")).unwrap();

        let mut scan = Scan::new(&folder);
        let (mut usage, mut steps) = (None, 0);
        while usage.is_none() {
            usage = scan.advance(&mut 2);
            steps += 1;
        }
        let usage = usage.unwrap();
        let kibibytes = |used: &Used| used.bytes / 1024;
        // The folders themselves take some blocks on most file systems.
        assert!((112..200).contains(&kibibytes(&usage.containers["a"])), "{usage:?}");
        assert!((128..200).contains(&kibibytes(&usage.volumes["data"])), "{usage:?}");
        assert_eq!((usage.containers["a"].inodes, usage.volumes["data"].inodes), (11, 4), "{usage:?}");
        assert!(steps > 5, "it was to be done in steps, not in {steps}");
    }
}
