//! Writes the files of a volume so that a reader sees all of a change or nothing of it.
//!
//! ```text
//! ..2026_01_02_03_04_05.000000000/   the files
//! ..data -> ..2026_01_02_03_04_05.000000000   swapped by one rename
//! key -> ..data/key                  what containers read
//! ```
//! Runs that were killed between two steps leave hidden folders behind; the next run removes them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use fs_err::{
    self as fs,
    os::unix::fs::{OpenOptionsExt, symlink},
};
use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Gid, chownat};

use super::content::{File, Files};

const DATA: &str = "..data";
const DATA_NEXT: &str = "..data_tmp";
/// The limits of Linux for a path and for one name in it.
const PATH_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 255;
const MODE_BITS: u32 = 0o7777;
const FOLDER_MODE: u32 = 0o755;
/// What the file system group may do: read files, and list folders whose new entries stay in the group.
const GROUP_FILE_MODE: u32 = 0o440;
const GROUP_FOLDER_MODE: u32 = 0o2550;

/// Why the files of a volume cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("invalid path in a volume: `{0}`")]
    Path(String),
    #[error("cannot write a volume")]
    Io(#[from] io::Error),
    #[error("cannot give {path} to group {group}")]
    Group { path: PathBuf, group: u32, source: io::Error },
}

/// Files whose paths stay in the folder.
type Clean<'a> = BTreeMap<String, &'a File>;

/// Makes a folder show exactly these files; returns whether anything had to be changed.
///
/// # Errors
/// If a path leads out of the folder, or the disk refuses.
pub fn write(folder: &Path, files: &Files, group: Option<u32>, now: Timestamp) -> Result<bool, WriteError> {
    let files: Clean<'_> =
        files.iter().map(|(path, file)| Ok((clean(path)?, file))).collect::<Result<_, WriteError>>()?;
    let files = &files;
    fs::create_dir_all(folder)?;
    let old = current(folder)?;
    let is_changed = match &old {
        Some(old) => !holds(&folder.join(old), files, group)?,
        None => true,
    };
    let data = match old {
        Some(old) if !is_changed => old,
        _ => publish(folder, files, group, now)?,
    };
    link(folder, files)?;
    tidy(folder, &data, files)?;
    Ok(is_changed)
}

/// Refuses paths that lead out of the folder or into its hidden part, and drops empty steps from the others.
fn clean(path: &str) -> Result<String, WriteError> {
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let is_plain = |name: &&str| *name != ".." && name.len() <= NAME_BYTES_MAX && !name.contains('\0');
    let is_inside = names.first().is_some_and(|first| !first.starts_with("..")) && names.iter().all(is_plain);
    if !is_inside || path.starts_with('/') || path.len() > PATH_BYTES_MAX {
        return Err(WriteError::Path(path.to_owned()));
    }
    Ok(names.join("/"))
}

/// The name of the folder that `..data` points to, if it is one of ours.
fn current(folder: &Path) -> Result<Option<String>, WriteError> {
    let target = match fs::read_link(folder.join(DATA)) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let name = target.to_str().filter(|name| name.starts_with("..") && !name.contains('/'));
    Ok(name.filter(|name| folder.join(name).is_dir()).map(str::to_owned))
}

/// Whether a folder holds these files and no others. Modes count too: the manifest may ask for others by now.
fn holds(folder: &Path, files: &Clean<'_>, group: Option<u32>) -> io::Result<bool> {
    let mut found = BTreeSet::new();
    list(folder, "", &mut found)?;
    if !found.iter().eq(files.keys()) {
        return Ok(false);
    }
    for (path, file) in files {
        let place = folder.join(path);
        let mode = fs::metadata(&place)?.permissions().mode() & MODE_BITS;
        if mode != mode_with(file.mode, group, GROUP_FILE_MODE) || fs::read(&place)? != file.bytes {
            return Ok(false);
        }
    }
    Ok(true)
}

fn list(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{path}/"), found)?;
        } else {
            found.insert(path);
        }
    }
    Ok(())
}

/// Writes a new folder and swaps it in; returns its name.
fn publish(folder: &Path, files: &Clean<'_>, group: Option<u32>, now: Timestamp) -> Result<String, WriteError> {
    let name = format!("..{}", now.strftime("%Y_%m_%d_%H_%M_%S.%9f"));
    let new = folder.join(&name);
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    own_folder(&new, group)?;
    for (path, file) in files {
        let mut place = new.clone();
        if let Some((parents, _)) = path.rsplit_once('/') {
            for parent in parents.split('/') {
                place.push(parent);
                own_folder(&place, group)?;
            }
        }
        write_file(&new.join(path), file, group)?;
    }
    let next = folder.join(DATA_NEXT);
    remove_if_there(&next)?;
    symlink(&name, &next)?;
    fs::rename(&next, folder.join(DATA))?;
    Ok(name)
}

fn own_folder(folder: &Path, group: Option<u32>) -> Result<(), WriteError> {
    if !folder.is_dir() {
        fs::create_dir(folder)?;
    }
    give(folder, FOLDER_MODE, group, GROUP_FOLDER_MODE)
}

fn write_file(place: &Path, file: &File, group: Option<u32>) -> Result<(), WriteError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    io::Write::write_all(&mut options.open(place)?, &file.bytes)?;
    give(place, file.mode, group, GROUP_FILE_MODE)
}

/// Sets group and mode, whatever the umask is; in this order, because a change of the group clears bits of the mode.
fn give(place: &Path, mode: u32, group: Option<u32>, group_mode: u32) -> Result<(), WriteError> {
    if let Some(group) = group {
        chownat(CWD, place, None, Some(Gid::from_raw(group)), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| WriteError::Group { path: place.to_owned(), group, source: error.into() })?;
    }
    fs::set_permissions(place, PermissionsExt::from_mode(mode_with(mode, group, group_mode)))?;
    Ok(())
}

fn mode_with(mode: u32, group: Option<u32>, group_mode: u32) -> u32 {
    if group.is_some() { mode | group_mode } else { mode }
}

/// Links the first name of every path into `..data`.
fn link(folder: &Path, files: &Clean<'_>) -> Result<(), WriteError> {
    for name in visible(files) {
        let (place, target) = (folder.join(name), Path::new(DATA).join(name));
        if fs::read_link(&place).is_ok_and(|found| found == target) {
            continue;
        }
        remove_if_there(&place)?;
        symlink(&target, &place)?;
    }
    Ok(())
}

/// Removes links of files that are gone, and folders of earlier or broken runs.
fn tidy(folder: &Path, data: &str, files: &Clean<'_>) -> Result<(), WriteError> {
    let visible = visible(files);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_wanted = name == DATA || name == data || visible.contains(name.as_str());
        let is_folder = entry.file_type()?.is_dir();
        if is_wanted {
            continue;
        }
        if is_folder && name.starts_with("..") {
            fs::remove_dir_all(entry.path())?;
        } else if !is_folder {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn visible<'a>(files: &'a Clean<'_>) -> BTreeSet<&'a str> {
    files.keys().map(|path| path.split_once('/').map_or(path.as_str(), |(first, _)| first)).collect()
}

fn remove_if_there(place: &Path) -> io::Result<()> {
    match fs::remove_file(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
