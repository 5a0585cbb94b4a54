//! A disk of a few megabytes, to be filled: a tmpfs that is mounted for a test. Needs root.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use fs_err::{self as fs, File};

use crate::skip::skip;

const CHUNK: usize = 64 << 10;
/// Names of the files that take the last inodes.
const FILLER: &str = "filler";

/// Mounted until dropped.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk at `path`, which is made; or skips the test. The options are those of a tmpfs: `size=60m`.
    pub fn mount(path: &Path, options: &str) -> Option<Self> {
        let mounted = Self::mount_where_allowed(path, options);
        if mounted.is_none() {
            skip("a small disk cannot be mounted: that needs root");
        }
        mounted
    }

    /// The same for a test that can do without.
    pub fn mount_where_allowed(path: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(path).expect("a folder can be made");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "small-disk"]).arg(path).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self { path: path.to_owned() })
    }

    /// Writes until nothing more goes on the disk.
    pub fn fill(&self) {
        let mut file = File::create(self.path.join(FILLER)).expect("a file can be made");
        for size in [CHUNK, 1] {
            while file.write(&vec![b'x'; size]).is_ok() {}
        }
    }

    /// Makes empty files until there is no inode left.
    pub fn fill_inodes(&self) {
        let more = |number: &u32| File::create(self.path.join(format!("{FILLER}-{number}"))).is_ok();
        assert!((0..1_000_000).any(|number| !more(&number)), "inodes without end");
    }

    /// Removes what was filled in.
    pub fn relieve(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(FILLER) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What a test leaves running may still use it.
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
    }
}
