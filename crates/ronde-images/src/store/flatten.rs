//! The layers of an image in one folder, for kernels that make no overlay. Shows what the overlay would show.
//!
//! Layers are applied from the lowest up. Links among the files are never followed: every step is from an open folder to
//! a name in it, so that nothing is written outside, whatever the layers have.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, XattrFlags, chownat, fchmod,
        fchown, fgetxattr, flistxattr, fsetxattr, fstat, ftruncate, futimens, linkat, mkdirat, mknodat, openat,
        readlinkat, seek, statat, symlinkat, unlinkat, utimensat,
    },
    io::Errno,
};

use super::{Image, Store, StoreError};
use crate::unpack::Rights;

/// What the kernel takes for one attribute, and for the names of all.
const ATTRIBUTE_MAX: usize = 64 << 10;
/// What is copied at a time where the kernel cannot copy by itself.
const CHUNK: usize = 1 << 17;
const OPAQUE: [&str; 2] = ["trusted.overlay.opaque", "user.overlay.opaque"];

impl Store {
    /// Copies the files of an image into a folder that is there and empty, as an overlay of its layers would show them.
    ///
    /// # Errors
    /// If the disk refuses; what was written until then is the caller's to remove.
    pub fn flatten(&self, image: &Image, into: &Path) -> Result<(), StoreError> {
        Ok(flatten(&image.layers, into)?)
    }
}

/// Copies unpacked layers, the lowest first, into a folder, for who has nothing but their paths.
///
/// # Errors
/// As [`Store::flatten`].
pub fn flatten<P: AsRef<Path>>(layers: &[P], into: &Path) -> io::Result<()> {
    let target = open_folder(CWD, into)?;
    let rights = Rights::of_caller();
    for layer in layers {
        let mut copy = Copy { rights, links: BTreeMap::new(), target: target.as_fd() };
        copy.folder(&open_folder(CWD, layer.as_ref())?, &target, b".")?;
    }
    Ok(())
}

/// One layer on its way.
struct Copy<'a> {
    rights: Rights,
    /// Where files with several names are already.
    links: BTreeMap<(u64, u64), Vec<u8>>,
    target: BorrowedFd<'a>,
}

impl Copy<'_> {
    fn folder(&mut self, from: &OwnedFd, to: &OwnedFd, path: &[u8]) -> io::Result<()> {
        if OPAQUE.iter().any(|name| fgetxattr(from, *name, &mut [0; 2]).is_ok_and(|length| length > 0)) {
            clear(to)?;
        }
        for name in names_in(from)? {
            let path = [path, b"/", &name].concat();
            self.entry(from, to, &name, &path).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot copy `{}`: {error}", String::from_utf8_lossy(&path)))
            })?;
        }
        self.dress(from, to, &fstat(from)?)
    }

    fn entry(&mut self, from: &OwnedFd, to: &OwnedFd, name: &[u8], path: &[u8]) -> io::Result<()> {
        let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            if kind_at(to, name)? != Some(FileType::Directory) {
                remove(to, name)?;
                mkdirat(to, name, Mode::from_raw_mode(0o700))?;
            }
            return self.folder(&open_folder(from, name)?, &open_folder(to, name)?, path);
        }
        remove(to, name)?;
        if kind == FileType::CharacterDevice && stat.st_rdev == 0 {
            // A whiteout.
            return Ok(());
        }
        let inode = (stat.st_dev, stat.st_ino);
        if let Some(first) = self.links.get(&inode) {
            return Ok(linkat(self.target, first.as_slice(), to, name, AtFlags::empty())?);
        }
        if stat.st_nlink > 1 {
            self.links.insert(inode, path.to_vec());
        }
        match kind {
            FileType::RegularFile => self.file(from, to, name, &stat),
            _ => self.other(from, to, name, &stat),
        }
    }

    fn file(&self, from: &OwnedFd, to: &OwnedFd, name: &[u8], stat: &Stat) -> io::Result<()> {
        let source = openat(from, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
        let target = openat(to, name, flags, Mode::from_raw_mode(0o600))?;
        copy_content(&source, &target, u64::try_from(stat.st_size).unwrap_or(0))?;
        self.dress(&source, &target, stat)
    }

    fn other(&self, from: &OwnedFd, to: &OwnedFd, name: &[u8], stat: &Stat) -> io::Result<()> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Symlink {
            symlinkat(readlinkat(from, name, Vec::new())?, to, name)?;
        } else {
            mknodat(to, name, kind, Mode::from_raw_mode(stat.st_mode), stat.st_rdev)?;
        }
        if let Some((user, group)) = self.rights.owner(stat.st_uid, stat.st_gid) {
            chownat(to, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(utimensat(to, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Gives a file or folder what the original has besides its content. The owner first: it takes away from the mode.
    fn dress(&self, from: &OwnedFd, to: &OwnedFd, stat: &Stat) -> io::Result<()> {
        if let Some((user, group)) = self.rights.owner(stat.st_uid, stat.st_gid) {
            fchown(to, Some(user), Some(group))?;
        }
        fchmod(to, Mode::from_raw_mode(stat.st_mode))?;
        copy_attributes(from, to)?;
        Ok(futimens(to, &times(stat))?)
    }
}

fn open_folder(at: impl AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

fn times(stat: &Stat) -> Timestamps {
    // The kernel has less than a second in it.
    let of = |seconds: i64, part: u64| Timespec { tv_sec: seconds, tv_nsec: i64::try_from(part).unwrap_or(0) };
    Timestamps {
        last_access: of(stat.st_atime, stat.st_atime_nsec),
        last_modification: of(stat.st_mtime, stat.st_mtime_nsec),
    }
}

fn names_in(folder: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if !matches!(name.as_slice(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

fn kind_at(folder: &OwnedFd, name: &[u8]) -> io::Result<Option<FileType>> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes a name with everything below it.
fn remove(folder: &OwnedFd, name: &[u8]) -> io::Result<()> {
    match kind_at(folder, name)? {
        None => Ok(()),
        Some(FileType::Directory) => {
            clear(&open_folder(folder, name)?)?;
            Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
        }
        Some(_) => Ok(unlinkat(folder, name, AtFlags::empty())?),
    }
}

fn clear(folder: &OwnedFd) -> io::Result<()> {
    names_in(folder)?.iter().try_for_each(|name| remove(folder, name))
}

/// Copies what is in a file, and leaves its holes.
fn copy_content(from: &OwnedFd, to: &OwnedFd, size: u64) -> io::Result<()> {
    ftruncate(to, size)?;
    let mut at = 0;
    loop {
        at = match seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole follows.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = seek(from, SeekFrom::Hole(at))?;
        copy_range(from, to, at, end)?;
        at = end;
    }
}

fn copy_range(from: &OwnedFd, to: &OwnedFd, start: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut at = start;
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        let read = rustix::io::pread(from, &mut buffer[..most], at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut written = 0;
        while written < read {
            written += rustix::io::pwrite(to, &buffer[written..read], at + written as u64)?;
        }
        at += read as u64;
    }
    Ok(())
}

/// Copies attributes that programs use; those of the overlay have been followed.
fn copy_attributes(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let mut names = vec![0_u8; ATTRIBUTE_MAX];
    let length = match flistxattr(from, &mut names) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for name in names[..length].split(|byte| *byte == 0) {
        let is_wanted = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
        if is_wanted || name == b"security.capability" {
            let mut value = vec![0_u8; ATTRIBUTE_MAX];
            let length = fgetxattr(from, name, &mut value)?;
            fsetxattr(to, name, &value[..length], XattrFlags::empty())?;
        }
    }
    Ok(())
}
