//! `ronde backup` and `ronde restore`: all objects and the identity of a cluster as one file, and back.
//!
//! A running instance is asked for its objects, which it gives as of one moment; one that is stopped is read under its
//! lock. The file appears under its name when it is whole and on disk, for its owner alone. A restore builds a
//! data directory beside its place and moves it there in the end: all of it or nothing. Data of volumes is not part of it.

mod restore;

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use fs_err as fs;
use futures::{AsyncBufReadExt as _, StreamExt as _};
use ronde_apiserver::{
    BACKUP_PATH, IDENTITY_FILES,
    backup::{self, ReadError, Writer},
    store::{self, Store},
};
use serde_json::Value;
use tempfile::NamedTempFile;

pub use self::restore::run as restore;
use crate::{
    Context,
    args::BackupArgs,
    client,
    data_dir::DataDir,
    environment,
    failure::{Answer, Blame, Failure, Outcome},
    lock::{self, About, Lock},
};

/// The subnets that services have their addresses in.
const NETWORK_FILE: &str = "node/network.json";
/// A file of this name is the standard stream.
const STREAM: &str = "-";

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is no data in {path}")]
    NoData { path: PathBuf },
    #[error("cannot read the data directory {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read the objects in {path}")]
    Store { path: PathBuf, source: Box<store::OpenError> },
    #[error("cannot write the backup to {file}")]
    Write { file: PathBuf, source: io::Error },
    #[error("the API stopped sending objects after {got} of {announced}")]
    Short { got: u64, announced: u64 },
    #[error("cannot restore {file}")]
    Restore { file: PathBuf, source: Box<ReadError> },
    #[error("cannot open the backup {file}")]
    Open { file: PathBuf, source: io::Error },
    #[error("the directory {path} is not empty")]
    NotEmpty { path: PathBuf },
    #[error("cannot create the data directory {path}")]
    Place { path: PathBuf, source: io::Error },
}

impl Failure for BackupError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoData { .. } | Self::NotEmpty { .. } | Self::Open { .. } => Blame::User,
            Self::Restore { source, .. } => match **source {
                ReadError::Io(_) | ReadError::Store(_) | ReadError::File { .. } => Blame::Environment,
                _ => Blame::User,
            },
            _ => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoData { .. } => Some("name the directory of an instance with `--data-dir DIR`".to_owned()),
            Self::NotEmpty { .. } => Some("restore into a new or an empty directory with `--data-dir DIR`".to_owned()),
            Self::Restore { source, .. } if matches!(**source, ReadError::Newer { .. }) => {
                Some("use the version of ronde that wrote it, or a newer one".to_owned())
            }
            Self::Restore { .. } => Some("nothing was changed".to_owned()),
            Self::Place { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                Some("a mount point cannot be replaced: name a new directory below it with `--data-dir DIR`".to_owned())
            }
            _ => None,
        }
    }
}

/// Runs `ronde backup`.
pub fn run(args: &BackupArgs, context: &Context) -> Outcome {
    let data_dir = DataDir::resolve(args.data_dir.data_dir.as_deref(), &context.environment)?;
    if !data_dir.is_ours()? {
        return Err(BackupError::NoData { path: data_dir.path().to_owned() }.into());
    }
    let failed = |source| BackupError::Write { file: args.file.clone(), source };
    if args.file.as_os_str() == STREAM {
        write(io::stdout().lock(), &data_dir, &args.file)?;
        return Ok(Answer::Done);
    }
    // For its owner alone, from the first byte on; gone if we fail.
    let folder = args.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::metadata(folder).map_err(failed)?;
    let unfinished = NamedTempFile::new_in(folder).map_err(failed)?;
    let objects = write(unfinished.as_file(), &data_dir, &args.file)?;
    unfinished.as_file().sync_all().map_err(failed)?;
    let bytes = unfinished.as_file().metadata().map_err(failed)?.len();
    unfinished.persist(&args.file).map_err(|error| failed(error.error))?;
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    let mebibytes = bytes as f64 / 1_048_576.0;
    context.printer.say(format_args!("wrote {} ({objects} objects, {mebibytes:.1} MiB)", args.file.display()));
    context.printer.say("it holds the keys and secrets of the cluster: keep it private");
    Ok(Answer::Done)
}

/// Writes a backup and returns the number of objects.
fn write(out: impl Write, data_dir: &DataDir, file: &Path) -> Result<u64, Box<dyn Failure>> {
    let failed = |source| BackupError::Write { file: file.to_owned(), source };
    let version = env!("CARGO_PKG_VERSION");
    let mut writer = Writer::begin(BufWriter::new(out), version, environment::now()).map_err(failed)?;
    for (name, text) in files(data_dir)? {
        writer.file(name, &text).map_err(failed)?;
    }
    let objects = match lock::holder(data_dir.path())? {
        Some(_) => write_running(&mut writer, data_dir, file)?,
        None => write_stopped(&mut writer, data_dir, file)?,
    };
    writer.finish().map_err(failed)?;
    Ok(objects)
}

/// The files of the identity, and what the node remembers of its network.
fn files(data_dir: &DataDir) -> Result<Vec<(&'static str, String)>, BackupError> {
    let read = |name: &str| {
        let path = data_dir.path().join(name);
        fs::read_to_string(&path).map_err(|source| BackupError::Read { path: data_dir.path().to_owned(), source })
    };
    let mut files = IDENTITY_FILES.iter().map(|name| Ok((*name, read(name)?))).collect::<Result<Vec<_>, _>>()?;
    if data_dir.path().join(NETWORK_FILE).exists() {
        files.push((NETWORK_FILE, elsewhere(&read(NETWORK_FILE)?)));
    }
    Ok(files)
}

/// What was changed on this machine was not changed on another.
fn elsewhere(network: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(network) else { return network.to_owned() };
    value["forwarding_enabled"] = false.into();
    value.to_string()
}

/// Asks the instance, which gives its objects as of one moment.
fn write_running(writer: &mut Writer<impl Write>, data_dir: &DataDir, file: &Path) -> Result<u64, Box<dyn Failure>> {
    client::runtime()?.block_on(async {
        let api = client::connect(Some(&data_dir.kubeconfig()), None).await?;
        let mut lines = client::stream_bytes(&api, client::get(BACKUP_PATH, "*/*")).await?.lines();
        let (mut announced, mut got) = (None, 0);
        while let Some(line) = lines.next().await {
            let line = line.map_err(|source| client::ClientError::Unreachable { source: source.into() })?;
            match announced {
                None => announced = Some(backup::objects_announced(line.as_bytes()).unwrap_or_default()),
                Some(_) => got += 1,
            }
            let failed = |source| BackupError::Write { file: file.to_owned(), source };
            writer.line(line.as_bytes()).map_err(failed)?;
        }
        let announced = announced.unwrap_or_default();
        if got == announced { Ok(got) } else { Err(BackupError::Short { got, announced }.into()) }
    })
}

/// Reads the store while nobody else may open it.
fn write_stopped(writer: &mut Writer<impl Write>, data_dir: &DataDir, file: &Path) -> Result<u64, Box<dyn Failure>> {
    let about = About {
        pid: std::process::id(),
        started: environment::now(),
        endpoint: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let _lock = Lock::take(data_dir.path(), &about)?;
    let unread = |source| BackupError::Store { path: data_dir.path().to_owned(), source: Box::new(source) };
    let snapshot = Store::open(&data_dir.store()).map_err(unread)?.snapshot();
    let objects = snapshot.objects.len() as u64;
    for line in backup::lines(snapshot) {
        writer.line(&line).map_err(|source| BackupError::Write { file: file.to_owned(), source })?;
    }
    Ok(objects)
}
