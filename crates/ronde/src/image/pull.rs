//! `ronde image pull`: brings images from their registries, one after the other, and shows how far it is.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use ronde_images::{
    Descriptor, Digest, Reference, Store,
    pull::{self, PullError, Pulled},
    registry::{Keyring, Registries, RegistriesOptions},
    store::{Progress, Quiet},
};

use super::{ImageError, SHORT_DIGEST, parse, size};
use crate::{Context, args::RegistriesArgs, client, failure::Failure, printer::Printer, registries};

/// A registry that is there answers sooner.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Pulls images by their names.
pub fn run(
    store: &Store,
    images: &[String],
    settings: &RegistriesArgs,
    context: &Context,
) -> Result<(), Box<dyn Failure>> {
    let names = images.iter().map(|image| parse(image)).collect::<Result<Vec<_>, _>>()?;
    let folders = registries::folders(settings, &context.environment);
    let options = RegistriesOptions { connect_timeout: CONNECT_MAX, ..RegistriesOptions::new(folders) };
    let wrong = |source| ImageError::Registries { source: Box::new(source) };
    let registries = Registries::new(options).map_err(wrong)?;
    let home = context.environment.home.as_deref();
    let keyring = home.map(Keyring::of_user).transpose().map_err(wrong)?.unwrap_or_default();
    let runtime = client::runtime()?;
    for name in &names {
        let pulled = runtime.block_on(pull_one(&registries, &keyring, store, name, context.printer));
        let Pulled { digest, .. } = pulled.map_err(|reason| ImageError::Pull { reason: Box::new(reason) })?;
        context.printer.data(format_args!("pulled {} ({digest})", name.familiar()));
    }
    Ok(())
}

async fn pull_one(
    registries: &Registries,
    keyring: &Keyring,
    store: &Store,
    name: &Reference,
    printer: Printer,
) -> Result<Pulled, PullError> {
    printer.say(format_args!("pulling {}", name.familiar()));
    let progress: Arc<dyn Progress> = match (printer.quiet, io::stderr().is_terminal()) {
        (true, _) => Arc::new(Quiet),
        (false, true) => Arc::new(Bars::new()),
        (false, false) => Arc::new(Lines(printer)),
    };
    pull::pull(registries, keyring, store, name, progress).await
}

fn short(digest: Digest) -> String {
    digest.hex().chars().take(SHORT_DIGEST).collect()
}

/// One line for each part that is here, for logs.
struct Lines(Printer);

impl Progress for Lines {
    fn done(&self, part: &Descriptor) {
        self.0.say(format_args!("  {}  {}", short(part.digest), size(part.size)));
    }
}

/// One bar for each part.
struct Bars {
    all: MultiProgress,
    /// Owned by those who fetch and unpack: several threads.
    parts: Mutex<BTreeMap<Digest, Part>>,
}

struct Part {
    bar: ProgressBar,
    is_unpacking: bool,
}

impl Bars {
    fn new() -> Self {
        Self { all: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()), parts: Mutex::default() }
    }

    fn with(&self, part: &Descriptor, act: impl FnOnce(&mut Part)) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        act(parts.entry(part.digest).or_insert_with(|| {
            let bar = self.all.add(ProgressBar::new(part.size)).with_style(style());
            bar.set_prefix(short(part.digest));
            bar.set_message("downloading");
            Part { bar, is_unpacking: false }
        }));
    }
}

fn style() -> ProgressStyle {
    let template = "  {prefix}  {msg:11}  {bar:30}  {decimal_bytes:>9} / {decimal_total_bytes}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

impl Progress for Bars {
    fn begun(&self, part: &Descriptor, have: u64) {
        self.with(part, |part| part.bar.set_position(have));
    }

    fn downloaded(&self, part: &Descriptor, bytes: u64) {
        self.with(part, |part| part.bar.inc(bytes));
    }

    fn unpacked(&self, part: &Descriptor, bytes: u64) {
        self.with(part, |part| {
            if !std::mem::replace(&mut part.is_unpacking, true) {
                part.bar.set_message("unpacking");
                part.bar.set_position(0);
            }
            part.bar.inc(bytes);
        });
    }

    fn done(&self, part: &Descriptor) {
        self.with(part, |part| {
            part.bar.set_position(part.bar.length().unwrap_or_default());
            part.bar.finish_with_message("done");
        });
    }
}
