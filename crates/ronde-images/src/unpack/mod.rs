//! Turns the tar stream of a layer into a folder that the kernel takes as the lower part of an overlay.
//!
//! The archive is hostile until proven otherwise: nothing is written outside of the folder, whatever its paths and links
//! say, because every path is resolved by the kernel with the folder as root. Whiteouts become the overlay's own marks.
//! Memory does not depend on the archive: contents pass through the reader's buffer, and extensions are bounded.

mod content;
mod header;
mod rights;
mod sparse;
#[cfg(test)]
mod tests;

use std::{
    io::{self, BufRead},
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    rc::Rc,
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, XattrFlags, chownat, fchmod, fchown,
        fsetxattr, fstat, futimens, linkat, makedev, mkdirat, mknodat, openat, statat, symlinkat, unlinkat, utimensat,
    },
    io::Errno,
};

use self::content::{PutError, padding, skip};
pub use self::{
    header::{BLOCK, Header, Kind, read as read_header, write as file_header},
    rights::Rights,
};
use crate::inside::open_inside;

/// The largest images of frameworks have about 300 000 files in all of their layers.
pub const ENTRIES_MAX: u64 = 1_000_000;
/// 256 GiB: ten times the largest layers in use.
pub const BYTES_MAX: u64 = 256 << 30;
/// A path deeper than this is refused.
const DEPTH_MAX: usize = 256;
/// After the last entry tools fill the archive up with zeros, to 10 KiB or more.
const PADDING_MAX: u64 = 16 << 20;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// The overlay's own mark of such a folder: as root, and in a user namespace.
const OPAQUE_ATTRIBUTES: [&str; 2] = ["trusted.overlay.opaque", "user.overlay.opaque"];

/// Why a layer cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("cannot read the archive: {0}")]
    Read(io::Error),
    #[error("the archive has an entry with the path `{0}`, which leads out of the image")]
    Path(String),
    #[error("the archive has more than {0} entries")]
    Entries(u64),
    #[error("the archive unpacks to more than {0} bytes")]
    Bytes(u64),
    #[error("cannot unpack `{path}`: {source}")]
    Write { path: String, source: io::Error },
}

/// How to unpack.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub rights: Rights,
    pub entries_max: u64,
    pub bytes_max: u64,
}

impl Options {
    /// Options for whoever runs this process.
    pub fn of_caller() -> Self {
        Self { rights: Rights::of_caller(), entries_max: ENTRIES_MAX, bytes_max: BYTES_MAX }
    }
}

/// Unpacks an archive into a folder that is there and empty. Returns how many bytes its files have.
///
/// # Errors
/// If the archive is refused or the disk is; what was written until then is the caller's to remove.
pub fn unpack(reader: &mut impl BufRead, folder: &Path, options: Options) -> Result<u64, UnpackError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, folder, flags, Mode::empty()).map_err(|error| failed(b"/", error))?;
    let mut tree = Tree { root, options, parent: None };
    let (mut entries, mut bytes) = (0_u64, 0_u64);
    while let Some(header) = header::read(reader).map_err(UnpackError::Read)? {
        entries += 1;
        bytes = bytes.saturating_add(header.declared_size());
        if entries > options.entries_max {
            return Err(UnpackError::Entries(options.entries_max));
        }
        if bytes > options.bytes_max {
            return Err(UnpackError::Bytes(options.bytes_max));
        }
        tree.put(&header, reader)?;
    }
    tree.leave().map_err(|error| failed(b"/", error))?;
    // Digests are of the whole stream, so the rest has to be read.
    let rest =
        io::copy(&mut io::Read::take(&mut *reader, PADDING_MAX + 1), &mut io::sink()).map_err(UnpackError::Read)?;
    if rest > PADDING_MAX { Err(UnpackError::Bytes(PADDING_MAX)) } else { Ok(bytes) }
}

fn failed(path: &[u8], error: impl Into<io::Error>) -> UnpackError {
    UnpackError::Write { path: String::from_utf8_lossy(path).into_owned(), source: error.into() }
}

/// Splits a path of the archive into its names.
fn names(path: &[u8]) -> Result<Vec<&[u8]>, UnpackError> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").collect();
    if names.len() > DEPTH_MAX || names.contains(&&b".."[..]) || path.contains(&0) {
        return Err(UnpackError::Path(String::from_utf8_lossy(path).into_owned()));
    }
    Ok(names)
}

/// The folder that becomes the layer.
struct Tree {
    root: OwnedFd,
    options: Options,
    /// The folder of the entry before: most entries are in the same one.
    parent: Option<Parent>,
}

/// A folder that is being filled. That changes its time, which it gets back when it is left.
struct Parent {
    path: Vec<u8>,
    folder: Rc<OwnedFd>,
    times: Timestamps,
    /// Whether its path may mean another folder by now: only after something was removed.
    is_stale: bool,
}

impl Tree {
    fn put(&mut self, header: &Header, reader: &mut impl BufRead) -> Result<(), UnpackError> {
        let names = names(&header.path)?;
        let wrap = |error: io::Error| failed(&header.path, error);
        let Some((name, above)) = names.split_last() else {
            // The root folder itself.
            return if header.kind == Kind::Folder {
                self.leave().and_then(|()| self.dress_folder(&self.root, header)).map_err(wrap)
            } else {
                skip(reader, header.size + padding(header.size)).map_err(UnpackError::Read)
            };
        };
        let parent = self.parent(above).map_err(wrap)?;
        let skipped = if name.starts_with(WHITEOUT) {
            self.put_whiteout(&parent, name, header)?;
            header.size
        } else if header.kind == Kind::File {
            self.put_file(&parent, name, header, reader).map_err(|error| match error {
                PutError::Read(error) => UnpackError::Read(error),
                PutError::Write(error) => wrap(error),
            })?;
            0
        } else {
            self.put_other(&parent, name, header).map_err(wrap)?;
            0
        };
        skip(reader, skipped + padding(header.size)).map_err(UnpackError::Read)
    }

    fn parent(&mut self, above: &[&[u8]]) -> io::Result<Rc<OwnedFd>> {
        let path = joined(above);
        match &self.parent {
            Some(parent) if parent.path == path && !parent.is_stale => Ok(Rc::clone(&parent.folder)),
            _ => {
                self.leave()?;
                let folder = Rc::new(self.folder(above)?);
                let times = times_of(&folder)?;
                self.parent = Some(Parent { path, folder: Rc::clone(&folder), times, is_stale: false });
                Ok(folder)
            }
        }
    }

    /// Gives the folder that was filled its time back.
    fn leave(&mut self) -> io::Result<()> {
        match self.parent.take() {
            Some(parent) => Ok(futimens(&parent.folder, &parent.times)?),
            None => Ok(()),
        }
    }

    /// Opens the folder at a path, made where it is missing. Links in it mean this tree.
    fn folder(&self, names: &[&[u8]]) -> io::Result<OwnedFd> {
        let open = |path: &[u8]| open_inside(&self.root, path, OFlags::RDONLY | OFlags::DIRECTORY);
        match open(&joined(names)) {
            Err(Errno::NOENT) => {}
            other => return Ok(other?),
        }
        let mut at = open(b"/")?;
        for (index, name) in names.iter().enumerate() {
            at = match open(&joined(&names[..=index])) {
                Err(Errno::NOENT) => {
                    let times = times_of(&at)?;
                    // A link that leads nowhere is there, and so refuses.
                    mkdirat(&at, *name, Mode::from_raw_mode(0o755))?;
                    futimens(&at, &times)?;
                    open(&joined(&names[..=index]))?
                }
                other => other?,
            };
        }
        Ok(at)
    }

    fn put_whiteout(&self, parent: &OwnedFd, name: &[u8], header: &Header) -> Result<(), UnpackError> {
        let wrap = |error: io::Error| failed(&header.path, error);
        if name == OPAQUE {
            return self.make_opaque(parent).map_err(wrap);
        }
        let hidden = &name[WHITEOUT.len()..];
        // Other names with two marks are notes of an old file system.
        if hidden.starts_with(WHITEOUT) {
            return Ok(());
        }
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(UnpackError::Path(String::from_utf8_lossy(&header.path).into_owned()));
        }
        self.hide(parent, hidden).map_err(wrap)
    }

    /// Hides what the layers below have at a name.
    fn hide(&self, parent: &OwnedFd, name: &[u8]) -> io::Result<()> {
        match kind_at(parent, name)? {
            None => Ok(mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), makedev(0, 0))?),
            // The layer has both: only what is below is hidden.
            Some(FileType::Directory) => self.make_opaque(&open_folder(parent, name)?),
            Some(_) => Ok(()),
        }
    }

    /// Says that nothing of the layers below shows in a folder.
    fn make_opaque(&self, folder: &OwnedFd) -> io::Result<()> {
        let name = OPAQUE_ATTRIBUTES[usize::from(!self.options.rights.is_of_machine())];
        Ok(fsetxattr(folder, name, b"y", XattrFlags::empty())?)
    }

    fn put_file(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        header: &Header,
        reader: &mut impl BufRead,
    ) -> Result<(), PutError> {
        let create = || {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(parent, name, flags, Mode::from_raw_mode(0o600))
        };
        let file = match create() {
            Err(Errno::EXIST) => {
                self.remove(parent, name)?;
                create()
            }
            other => other,
        };
        let file = content::write(reader, file.map_err(io::Error::from)?, header)?;
        self.own(&file, header)?;
        fchmod(&file, Mode::from_raw_mode(header.mode)).map_err(io::Error::from)?;
        self.put_attributes(&file, header)?;
        Ok(futimens(&file, &times(header)).map_err(io::Error::from)?)
    }

    fn put_other(&mut self, parent: &OwnedFd, name: &[u8], header: &Header) -> io::Result<()> {
        if header.kind == Kind::Folder {
            return self.put_folder(parent, name, header);
        }
        if header.kind == Kind::Character && header.device == (0, 0) {
            // A whiteout as the overlay itself writes it.
            return self.hide(parent, name);
        }
        if matches!(header.kind, Kind::Character | Kind::Block) && !self.options.rights.is_of_machine() {
            return Ok(());
        }
        self.remove(parent, name)?;
        let mode = Mode::from_raw_mode(header.mode);
        match header.kind {
            Kind::HardLink => return self.put_hard_link(parent, name, header),
            Kind::Link => symlinkat(header.target.as_slice(), parent, name)?,
            Kind::Fifo => mknodat(parent, name, FileType::Fifo, mode, 0)?,
            Kind::Character | Kind::Block => {
                let kind = if header.kind == Kind::Block { FileType::BlockDevice } else { FileType::CharacterDevice };
                mknodat(parent, name, kind, mode, makedev(header.device.0, header.device.1))?;
            }
            Kind::File | Kind::Folder => {}
        }
        if let Some((user, group)) = self.options.rights.owner(header.uid, header.gid) {
            chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(utimensat(parent, name, &times(header), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn put_folder(&mut self, parent: &OwnedFd, name: &[u8], header: &Header) -> io::Result<()> {
        let was_hidden = match kind_at(parent, name)? {
            Some(FileType::Directory) => false,
            before => {
                self.remove(parent, name)?;
                mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
                before == Some(FileType::CharacterDevice)
            }
        };
        let folder = open_folder(parent, name)?;
        if was_hidden {
            self.make_opaque(&folder)?;
        }
        self.dress_folder(&folder, header)
    }

    fn dress_folder(&self, folder: &OwnedFd, header: &Header) -> io::Result<()> {
        self.own(folder, header)?;
        // Who has no rights could not fill a folder that is closed to its owner, nor remove it.
        let mode = if self.options.rights == Rights::Own { header.mode | 0o700 } else { header.mode };
        fchmod(folder, Mode::from_raw_mode(mode))?;
        let is_opaque = |(name, value): &(String, Vec<u8>)| OPAQUE_ATTRIBUTES.contains(&name.as_str()) && value == b"y";
        if header.attributes.iter().any(is_opaque) {
            self.make_opaque(folder)?;
        }
        self.put_attributes(folder, header)?;
        Ok(futimens(folder, &times(header))?)
    }

    fn put_hard_link(&self, parent: &OwnedFd, name: &[u8], header: &Header) -> io::Result<()> {
        let outside = || io::Error::new(io::ErrorKind::InvalidData, "the link leads out of the image");
        let names = names(&header.target).map_err(|_| outside())?;
        let (last, above) = names.split_last().ok_or_else(outside)?;
        Ok(linkat(self.folder(above)?, *last, parent, name, AtFlags::empty())?)
    }

    /// Makes room for an entry: the last one of a name counts. A folder with something in it is not replaced.
    fn remove(&mut self, parent: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let flags = match kind_at(parent, name)? {
            None => return Ok(()),
            Some(FileType::Directory) => AtFlags::REMOVEDIR,
            Some(_) => AtFlags::empty(),
        };
        if let Some(parent) = &mut self.parent {
            parent.is_stale = true;
        }
        Ok(unlinkat(parent, name, flags)?)
    }

    fn own(&self, file: &OwnedFd, header: &Header) -> io::Result<()> {
        match self.options.rights.owner(header.uid, header.gid) {
            Some((user, group)) => Ok(fchown(file, Some(user), Some(group))?),
            None => Ok(()),
        }
    }

    /// Sets what an image may say; other marks of the overlay would let it show what it does not have.
    fn put_attributes(&self, file: &OwnedFd, header: &Header) -> io::Result<()> {
        for (name, value) in &header.attributes {
            let is_mark = name.starts_with("trusted.") || name.starts_with("user.overlay.");
            let is_capability = self.options.rights != Rights::Own && name == "security.capability";
            let is_wanted = name.starts_with("user.") || is_capability;
            if is_mark || !is_wanted {
                continue;
            }
            match fsetxattr(file, name.as_str(), value, XattrFlags::empty()) {
                // Not every file system has them, and programs can do without.
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn open_folder(parent: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

fn joined(names: &[&[u8]]) -> Vec<u8> {
    if names.is_empty() { b"/".to_vec() } else { names.join(&b'/') }
}

fn kind_at(parent: &OwnedFd, name: &[u8]) -> io::Result<Option<FileType>> {
    match statat(parent.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn times(header: &Header) -> Timestamps {
    modified_at(header.modified.seconds, header.modified.nanoseconds.into())
}

fn times_of(folder: &OwnedFd) -> io::Result<Timestamps> {
    let stat = fstat(folder)?;
    // The kernel has less than a second in it.
    Ok(modified_at(stat.st_mtime, stat.st_mtime_nsec.try_into().unwrap_or(0)))
}

fn modified_at(seconds: i64, nanoseconds: i64) -> Timestamps {
    let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Timestamps { last_access: keep, last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds } }
}
