//! The data directory: where it is, that it is really ours, and what may be deleted.
//!
//! A directory becomes Ronde's by the file `format` in it. Any other directory that holds files is refused, so that
//! `--data-dir ~` neither scatters files nor lets `ronde down --delete-data` remove a home. Who uses the
//! directory is the business of [`crate::lock`].

use std::{
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use fs_err as fs;

use crate::{
    environment::{self, Environment},
    failure::{Blame, Failure},
};

/// Marks a data directory; its content is the version of the layout.
const FORMAT_FILE: &str = "format";
const FORMAT: &str = "1";

/// Where one instance keeps everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    path: PathBuf,
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("cannot find a place for the data: there is no home directory")]
    NoHome,
    #[error("cannot use the data directory {path}")]
    Io { path: PathBuf, source: io::Error },
    #[error("the directory {path} holds files that are not Ronde's")]
    Foreign { path: PathBuf },
    #[error("the data directory {path} has format {found}, this version of ronde knows format {FORMAT}")]
    Format { path: PathBuf, found: String },
}

impl Failure for DataDirError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoHome | Self::Io { .. } => Blame::Environment,
            Self::Foreign { .. } | Self::Format { .. } => Blame::User,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome | Self::Io { .. } => Some("choose another place with `--data-dir DIR`".to_owned()),
            Self::Foreign { .. } => Some("name an empty or a new directory with `--data-dir DIR`".to_owned()),
            Self::Format { .. } => Some("use the version of ronde that wrote it".to_owned()),
        }
    }
}

/// How much a data directory holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    pub files: u64,
    pub bytes: u64,
}

impl DataDir {
    /// Returns the directory named, or the default one: `/var/lib/ronde` for root, else below the user's data home.
    pub fn resolve(named: Option<&Path>, environment: &Environment) -> Result<Self, DataDirError> {
        let path = match named {
            Some(named) => named.to_owned(),
            None => default_path(environment).ok_or(DataDirError::NoHome)?,
        };
        let absolute =
            environment::absolute(&path).map_err(|source| DataDirError::Io { path: path.clone(), source })?;
        // Two names of one directory must be one owner in a kubeconfig.
        Ok(Self { path: canonical(&absolute).unwrap_or(absolute) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn log_file(&self) -> PathBuf {
        self.path.join("ronde.log")
    }

    /// The file that the API keeps its objects in.
    pub fn store(&self) -> PathBuf {
        self.path.join(ronde_apiserver::STORE_FILE)
    }

    /// The kubeconfig of this instance alone, for our own requests and for scripts.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    /// Creates the directory when it is missing, checks that it is ours, and makes it private.
    pub fn prepare(&mut self) -> Result<(), DataDirError> {
        fs::create_dir_all(&self.path).map_err(|source| self.io(source))?;
        self.path = fs::canonicalize(&self.path).map_err(|source| self.io(source))?;
        if !self.is_ours()? && self.has_other_files()? {
            return Err(DataDirError::Foreign { path: self.path.clone() });
        }
        self.mark()?;
        self.make_private().map_err(|source| self.io(source))
    }

    /// Makes a directory ours.
    pub fn mark(&self) -> Result<(), DataDirError> {
        fs::write(self.path.join(FORMAT_FILE), FORMAT).map_err(|source| self.io(source))
    }

    /// Tells whether this is a data directory that Ronde made.
    pub fn is_ours(&self) -> Result<bool, DataDirError> {
        match fs::read_to_string(self.path.join(FORMAT_FILE)) {
            // Empty: another process is making it at this moment, or was stopped while it did.
            Ok(found) if ["", FORMAT].contains(&found.trim()) => Ok(true),
            Ok(found) => {
                let found = found.trim().chars().take(20).collect();
                Err(DataDirError::Format { path: self.path.clone(), found })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(self.io(source)),
        }
    }

    /// Adds up the files.
    pub fn size(&self) -> Result<Size, DataDirError> {
        let mut size = Size::default();
        add_up(&self.path, &mut size).map_err(|source| self.io(source))?;
        Ok(size)
    }

    /// Deletes the directory with everything in it. The caller holds the lock and has asked [`Self::is_ours`].
    pub fn delete(&self) -> Result<(), DataDirError> {
        fs::remove_dir_all(&self.path).map_err(|source| self.io(source))
    }

    fn make_private(&self) -> io::Result<()> {
        let mode = fs::metadata(&self.path)?.permissions().mode();
        if mode & 0o077 == 0 {
            return Ok(());
        }
        fs::set_permissions(&self.path, std::fs::Permissions::from_mode(0o700))
    }

    fn has_other_files(&self) -> Result<bool, DataDirError> {
        let entries = fs::read_dir(&self.path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|source| self.io(source))?;
        // Another process may have made it ours since we looked.
        Ok(!entries.is_empty() && entries.iter().all(|entry| entry.file_name() != FORMAT_FILE))
    }

    fn io(&self, source: io::Error) -> DataDirError {
        DataDirError::Io { path: self.path.clone(), source }
    }
}

/// The one name of a path, of which the last part need not exist.
fn canonical(path: &Path) -> Option<PathBuf> {
    let of_parent = || Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(of_parent)
}

fn default_path(environment: &Environment) -> Option<PathBuf> {
    if environment.is_root {
        return Some(PathBuf::from("/var/lib/ronde"));
    }
    let home = environment.home.as_deref().map(|home| home.join(".local/share"));
    environment.data_home.clone().or(home).map(|data_home| data_home.join("ronde"))
}

fn add_up(directory: &Path, size: &mut Size) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let counted = entry.metadata().and_then(|metadata| {
            if metadata.is_dir() {
                return add_up(&entry.path(), size);
            }
            size.files += 1;
            size.bytes += metadata.len();
            Ok(())
        });
        match counted {
            // A running instance replaces files while we look, and the kernel keeps a folder in every pod to itself.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {}
            other => other?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> Environment {
        Environment { home: Some("/home/ada".into()), ..Environment::default() }
    }

    fn check(name: &str, named: Option<&str>, environment: &Environment, expected: &str) {
        let dir = DataDir::resolve(named.map(Path::new), environment).unwrap();
        assert_eq!(dir.path(), Path::new(expected), "{name}");
    }

    #[test]
    fn the_directory_is_chosen_by_option_user_and_variable() {
        let root = Environment { is_root: true, ..ada() };
        let xdg = Environment { data_home: Some("/data".into()), ..ada() };
        check("a user's own place", None, &ada(), "/home/ada/.local/share/ronde");
        check("the data home variable", None, &xdg, "/data/ronde");
        check("root's place", None, &root, "/var/lib/ronde");
        check("the option wins", Some("/srv/x"), &root, "/srv/x");
    }

    #[test]
    fn a_new_directory_becomes_ours_and_private() {
        let parent = tempfile::tempdir().unwrap();
        let mut dir = DataDir { path: parent.path().join("a/b") };
        dir.prepare().unwrap();
        assert!(dir.is_ours().unwrap());
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
        dir.prepare().unwrap();
    }

    #[test]
    fn a_directory_with_other_files_is_refused_and_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("thesis.tex"), "x").unwrap();
        let mut dir = DataDir { path: parent.path().to_owned() };
        assert!(matches!(dir.prepare(), Err(DataDirError::Foreign { .. })));
        assert!(!parent.path().join(FORMAT_FILE).exists());
    }

    #[test]
    fn a_directory_of_a_later_format_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join(FORMAT_FILE), "7\n").unwrap();
        let mut dir = DataDir { path: parent.path().to_owned() };
        assert!(matches!(dir.prepare(), Err(DataDirError::Format { found, .. }) if found == "7"));
    }
}
