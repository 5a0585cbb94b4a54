//! `ronde restore`: a data directory from a backup.

use std::{
    io::{self, BufRead, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Component, Path},
};

use fs_err::{self as fs, os::unix::fs::OpenOptionsExt as _};
use ronde_apiserver::backup::{self, Restored};

use super::{BackupError, STREAM};
use crate::{
    Context,
    args::RestoreArgs,
    data_dir::DataDir,
    failure::{Answer, Outcome},
};

/// Runs `ronde restore`.
pub fn run(args: &RestoreArgs, context: &Context) -> Outcome {
    let mut data_dir = DataDir::resolve(args.data_dir.data_dir.as_deref(), &context.environment)?;
    let path = data_dir.path().to_owned();
    let failed = |source| BackupError::Place { path: path.clone(), source };
    refuse_filled(&path)?;
    let input: Box<dyn BufRead> = if args.file.as_os_str() == STREAM {
        Box::new(io::stdin().lock())
    } else {
        let opened = fs::File::open(&args.file);
        Box::new(BufReader::new(opened.map_err(|source| BackupError::Open { file: args.file.clone(), source })?))
    };
    // Beside its place, and gone if we fail.
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(failed)?;
    let unfinished = tempfile::Builder::new().prefix(".ronde-restore-").tempdir_in(parent).map_err(failed)?;
    fs::set_permissions(unfinished.path(), std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    let restored = fill(input, unfinished.path(), &args.file)?;
    DataDir::resolve(Some(unfinished.path()), &context.environment)?.mark()?;
    // Takes the place of an empty directory too, and of no other.
    fs::rename(unfinished.path(), &path).map_err(failed)?;
    drop(unfinished.keep());
    data_dir.prepare()?;
    let Restored { objects, created, program } = restored;
    context.printer.say(format_args!(
        "restored {objects} objects into {} (backup of {} by ronde {program})",
        path.display(),
        created.strftime("%Y-%m-%d %H:%M:%S UTC")
    ));
    let option = args.data_dir.data_dir.is_some().then(|| format!(" --data-dir {}", path.display()));
    let option = option.unwrap_or_default();
    context.printer.say(format_args!("start it with `ronde up{option}`: its pods start again, as after a reboot"));
    Ok(Answer::Done)
}

fn refuse_filled(path: &Path) -> Result<(), BackupError> {
    match fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(BackupError::NotEmpty { path: path.to_owned() }),
        Ok(false) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(BackupError::Place { path: path.to_owned(), source }),
    }
}

fn fill(input: impl BufRead, folder: &Path, file: &Path) -> Result<Restored, BackupError> {
    let store = folder.join(ronde_apiserver::STORE_FILE);
    let restored = backup::restore(input, &store, |name, text| write_file(folder, name, text));
    restored.map_err(|source| BackupError::Restore { file: file.to_owned(), source: Box::new(source) })
}

/// Writes a file for its owner alone. A name leads nowhere but into the folder.
fn write_file(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let name = Path::new(name);
    if !name.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(io::Error::other("this is not a name in a data directory"));
    }
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap_or(folder))?;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_backup_stays_in_its_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("data");
        write_file(&folder, "node/network.json", "{}").unwrap();
        assert_eq!(fs::read_to_string(folder.join("node/network.json")).unwrap(), "{}");
        assert!(write_file(&folder, "node/network.json", "{}").is_err(), "nothing is overwritten");
        for name in ["../outside", "/etc/outside", "a/../../outside", ""] {
            assert!(write_file(&folder, name, "x").is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
