//! `ronde image`: the images of this machine. Works on the store in the data directory, whether the cluster is running or
//! not: the store has locks of its own.

mod list;
mod pull;

use std::{
    io::{self, Write},
    path::Path,
};

use ronde_images::{
    Reference, Store,
    archive::{self, ArchiveError, Input},
    pull::PullError,
    reference,
    registry::RegistryError,
    store::{Quiet, Removed, Removing, StoreError},
};
use ronde_node::machine::rootless;
use ronde_process::Alone;
use serde_json::json;

use crate::{
    Context,
    args::{ImageArgs, ImageVerb},
    data_dir::DataDir,
    failure::{Answer, Blame, Failure, Outcome},
};

/// Digests are told apart by less.
const SHORT_DIGEST: usize = 12;

const PRUNE: &str = "`ronde image prune` removes the images that no pod uses";
const LIST: &str = "`ronde image list` shows what is here";

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("invalid image name")]
    Name { source: reference::Error },
    #[error("cannot load `{file}`")]
    Load { file: String, source: Box<ArchiveError> },
    #[error("cannot save `{image}`")]
    Save { image: String, source: Box<ArchiveError> },
    // Which image it is the reason says.
    #[error("cannot pull {reason}")]
    Pull { reason: Box<PullError> },
    #[error("cannot use the settings of registries")]
    Registries { source: Box<RegistryError> },
    #[error("cannot open `{file}`")]
    File { file: String, source: io::Error },
    #[error("cannot enter the user namespace of your images")]
    Namespace { source: io::Error },
    #[error("cannot use the images of this machine")]
    Store { source: Box<StoreError> },
}

impl Failure for ImageError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store { source } if matches!(**source, StoreError::Missing(_) | StoreError::InUse(_)) => Blame::User,
            Self::Store { .. } | Self::Namespace { .. } => Blame::Environment,
            Self::Pull { reason } if !reason.is_missing() => Blame::Environment,
            _ => Blame::User,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Load { source, .. } if matches!(**source, ArchiveError::Nameless) => {
                Some("name it with `--name IMAGE`".to_owned())
            }
            Self::Save { source, .. } if matches!(**source, ArchiveError::Missing(_)) => Some(LIST.to_owned()),
            Self::Pull { reason } if reason.is_missing() => {
                Some("check the name; for a private image run `docker login`, whose credentials are used".to_owned())
            }
            Self::Pull { reason } if reason.is_out_of_room() => Some(PRUNE.to_owned()),
            Self::Store { source } if source.is_out_of_room() => Some(PRUNE.to_owned()),
            Self::Pull { reason } if reason.is_unreachable() => {
                Some("`ronde image load FILE` loads an image without a registry".to_owned())
            }
            Self::Store { source } => match **source {
                StoreError::Missing(_) => Some(LIST.to_owned()),
                StoreError::InUse(_) => Some("delete the pod first".to_owned()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Runs the verb.
pub fn run(args: &ImageArgs, context: &Context) -> Outcome {
    let mut data_dir = DataDir::resolve(args.data_dir.data_dir.as_deref(), &context.environment)?;
    let store = Store::new(data_dir.path().join("images"));
    let node = data_dir.path().join("node");
    if !context.environment.is_root {
        let entered = Alone::check().and_then(|alone| rootless::enter_for_files(alone, &node));
        entered.map_err(|source| ImageError::Namespace { source })?;
    }
    match &args.verb {
        ImageVerb::List { output } => list::run(&store, *output, context)?,
        ImageVerb::Pull { images, registries } => {
            data_dir.prepare()?;
            pull::run(&store, images, registries, context)?;
        }
        ImageVerb::Load { file, name } => {
            data_dir.prepare()?;
            load(&store, file, name.as_deref(), context)?;
        }
        ImageVerb::Save { image, file } => save(&store, image, file, context)?,
        ImageVerb::Remove { images } => remove(&store, images, &node, context)?,
        ImageVerb::Prune => prune(&store, &node, context)?,
        ImageVerb::Inspect { image } => inspect(&store, image, context)?,
    }
    Ok(Answer::Done)
}

fn failed(source: StoreError) -> ImageError {
    ImageError::Store { source: Box::new(source) }
}

fn parse(name: &str) -> Result<Reference, ImageError> {
    name.parse().map_err(|source| ImageError::Name { source })
}

/// As `du -h` would say it, in decimal units.
fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

fn load(store: &Store, file: &Path, name: Option<&str>, context: &Context) -> Result<(), ImageError> {
    let name = name.map(parse).transpose()?;
    let shown = || file.display().to_string();
    let adding = store.adding().map_err(failed)?;
    let loaded = if file == Path::new("-") {
        archive::load(&adding, Input::Stream(&mut io::stdin().lock()), name.as_ref(), &Quiet)
    } else if file.is_dir() {
        archive::load(&adding, Input::Folder(file), name.as_ref(), &Quiet)
    } else {
        let opened = fs_err::File::open(file).map_err(|source| ImageError::File { file: shown(), source })?;
        archive::load(&adding, Input::Stream(&mut io::BufReader::new(opened)), name.as_ref(), &Quiet)
    };
    for image in loaded.map_err(|source| ImageError::Load { file: shown(), source: Box::new(source) })? {
        for name in &image.names {
            context.printer.data(format_args!("loaded {} ({})", name.familiar(), image.digest));
        }
    }
    Ok(())
}

fn save(store: &Store, image: &str, file: &Path, context: &Context) -> Result<(), ImageError> {
    let name = parse(image)?;
    let save = |output: &mut dyn Write| {
        archive::save(store, &name, output)
            .map_err(|source| ImageError::Save { image: image.to_owned(), source: Box::new(source) })
    };
    if file == Path::new("-") {
        return save(&mut io::stdout().lock());
    }
    let shown = || file.display().to_string();
    let unknown = store.find(&name).map_err(failed)?.is_none();
    if unknown {
        return Err(failed(StoreError::Missing(name.familiar())));
    }
    let created = fs_err::File::create(file).map_err(|source| ImageError::File { file: shown(), source })?;
    let mut output = io::BufWriter::new(created);
    save(&mut output)?;
    output.flush().map_err(|source| ImageError::File { file: shown(), source })?;
    context.printer.say(format_args!("saved {} to {}", name.familiar(), shown()));
    Ok(())
}

fn remove(store: &Store, images: &[String], node: &Path, context: &Context) -> Result<(), ImageError> {
    let names = images.iter().map(|image| parse(image)).collect::<Result<Vec<_>, _>>()?;
    // Nothing is made where nothing is stored.
    if !store.folder().exists() {
        return names.first().map_or(Ok(()), |name| Err(failed(StoreError::Missing(name.familiar()))));
    }
    let removing = begin_to_remove(store, context)?;
    for name in &names {
        let removed = removing.remove(name, &|| ronde_node::images::choice::in_use(node)).map_err(failed)?;
        tell(&removed, context);
    }
    Ok(())
}

/// Nothing is removed while images come; whoever has to wait for that is told.
fn begin_to_remove(store: &Store, context: &Context) -> Result<Removing, ImageError> {
    if let Some(removing) = store.try_removing().map_err(failed)? {
        return Ok(removing);
    }
    context.printer.say("waiting for a pull or load to finish");
    store.removing().map_err(failed)
}

fn prune(store: &Store, node: &Path, context: &Context) -> Result<(), ImageError> {
    if !store.folder().exists() {
        return Ok(());
    }
    let removing = begin_to_remove(store, context)?;
    let removed = removing.prune(&|| ronde_node::images::choice::in_use(node)).map_err(failed)?;
    tell(&removed, context);
    context.printer.say(format_args!("freed {}", size(removed.bytes)));
    Ok(())
}

fn tell(removed: &Removed, context: &Context) {
    for name in &removed.names {
        context.printer.data(format_args!("removed {}", name.familiar()));
    }
}

fn inspect(store: &Store, image: &str, context: &Context) -> Result<(), ImageError> {
    let name = parse(image)?;
    let found = store.find(&name).map_err(failed)?.ok_or_else(|| failed(StoreError::Missing(name.familiar())))?;
    let shown = json!({"names": found.names, "digest": found.digest, "size": found.size(),
        "manifest": found.manifest, "config": found.config});
    context.printer.data(format_args!("{shown:#}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in
            [(0, "0 B"), (999, "999 B"), (1_234, "1.2 kB"), (5_060_000, "5.0 MB"), (7_900_000_000, "7.9 GB")]
        {
            assert_eq!(size(bytes), expected);
        }
    }
}
