//! Small files that can always be replaced, also on a full disk: each has a spare of the same size beside it.
//!
//! A new content is written over the spare, then the two change places in one step. So a reader sees the old content or
//! the new one, and neither a block nor an inode is needed. Whoever makes such a file has made its spare: nothing is
//! begun whose end could not be written down.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;

/// What a file and its spare take from the beginning: one block nearly everywhere. Blanks at the end mean nothing.
const BYTES: usize = 4096;

/// Makes a file that must not be there yet.
pub fn create(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let bytes = padded(content)?;
    write_over(&spare_path(path), &bytes)?;
    // It gets its name when it is whole: a record that cannot be read would keep its attempt from ever being made.
    let fresh = path.with_extension("new");
    let made = write_over(&fresh, &bytes).and_then(|()| fs::hard_link(&fresh, path));
    let _ = fs::remove_file(&fresh);
    made
}

/// Replaces a file, or makes it.
pub fn write(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let (spare, bytes) = (spare_path(path), padded(content)?);
    write_over(&spare, &bytes)?;
    if renameat_with(CWD, &spare, CWD, path, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    // It is not there yet, or this file system cannot exchange.
    fs::rename(&spare, path)?;
    write_over(&spare, &bytes)
}

/// Where the spare of a file is.
pub fn spare_path(path: &Path) -> PathBuf {
    path.with_extension("spare")
}

fn padded(content: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(content)?;
    bytes.resize(bytes.len().max(BYTES), b' ');
    Ok(bytes)
}

/// Writes without giving up the blocks that are there.
fn write_over(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use ronde_sim::SmallDisk;

    use super::*;

    fn read(path: &Path) -> String {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn a_file_is_made_once_and_replaced_as_often_as_one_likes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        create(&path, &"first").unwrap();
        assert_eq!(create(&path, &"again").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        for content in ["second", "third", &"long".repeat(3000), "short"] {
            write(&path, &content).unwrap();
            assert_eq!(read(&path), content);
        }
        let other = folder.path().join("other.json");
        write(&other, &"made by being written").unwrap();
        assert_eq!(read(&other), "made by being written");
    }

    #[test]
    fn a_full_disk_takes_a_replacement() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("disk");
        let Some(disk) = SmallDisk::mount(&place, "size=1m,nr_inodes=50") else { return };
        let [record, sandbox] = ["record.json", "sandbox.json"].map(|name| place.join(name));
        create(&record, &"first").unwrap();
        write(&sandbox, &"first").unwrap();
        disk.fill();
        disk.fill_inodes();
        for path in [&record, &sandbox] {
            for number in 0..10 {
                write(path, &number.to_string()).unwrap();
            }
            assert_eq!(read(path), "9");
        }
        let new = place.join("new.json");
        assert!(create(&new, &"").is_err(), "nothing is begun that could not be ended");
        assert!(!new.exists(), "and nothing looks as if it were");
    }
}
