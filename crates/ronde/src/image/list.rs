//! `ronde image list`: one row for each name. Sizes are those of registries: of what is packed.

use std::collections::BTreeMap;

use ronde_images::{Digest, Image, Reference, Store};
use serde_json::{Value, json};

use super::{ImageError, SHORT_DIGEST, failed, size};
use crate::{
    Context,
    args::ImageOutput,
    table::{Layout, View},
};

/// Lists the images of this machine.
pub fn run(store: &Store, output: ImageOutput, context: &Context) -> Result<(), ImageError> {
    let images = store.list().map_err(failed)?;
    if images.is_empty() && output != ImageOutput::Json {
        context.printer.say("no images on this machine (`ronde image pull IMAGE` adds one)");
    }
    match output {
        ImageOutput::Table => {
            let view = View { wide: false, namespace: false };
            for line in Layout::new(view).render(&table(&images)) {
                context.printer.data(line);
            }
        }
        ImageOutput::Name => {
            for name in images.iter().flat_map(|image| &image.names) {
                context.printer.data(name.familiar());
            }
        }
        ImageOutput::Json => {
            let shares = Shares::of(&images);
            let all: Vec<Value> = images.iter().map(|image| described(image, shares.shared(image))).collect();
            context.printer.data(format_args!("{:#}", Value::from(all)));
        }
    }
    Ok(())
}

/// How many images have a part.
struct Shares(BTreeMap<Digest, usize>);

impl Shares {
    fn of(images: &[Image]) -> Self {
        let mut counts = BTreeMap::new();
        for part in images.iter().flat_map(|image| image.manifest.descriptors()) {
            *counts.entry(part.digest).or_default() += 1;
        }
        Self(counts)
    }

    /// Returns how much of an image others have too.
    fn shared(&self, image: &Image) -> u64 {
        let is_shared = |digest: &Digest| self.0.get(digest).is_some_and(|count| *count > 1);
        image.manifest.descriptors().filter(|part| is_shared(&part.digest)).map(|part| part.size).sum()
    }
}

fn table(images: &[Image]) -> Value {
    let columns = ["Image", "Digest", "Layers", "Size", "Shared", "Own"];
    let columns = columns.map(|name| json!({"name": name, "priority": 0}));
    let shares = Shares::of(images);
    let rows: Vec<Value> = images.iter().flat_map(|image| rows(image, shares.shared(image))).collect();
    json!({"columnDefinitions": columns, "rows": rows})
}

fn rows(image: &Image, shared: u64) -> Vec<Value> {
    let digest: String = image.digest.hex().chars().take(SHORT_DIGEST).collect();
    let (layers, all) = (image.layers.len().to_string(), image.size());
    let sizes = [all, shared, all.saturating_sub(shared)].map(size);
    let row = |name: &Reference| json!({"cells": [name.familiar(), digest, layers, sizes[0], sizes[1], sizes[2]]});
    image.names.iter().map(row).collect()
}

fn described(image: &Image, shared: u64) -> Value {
    let own = image.size().saturating_sub(shared);
    json!({"names": image.names, "digest": image.digest, "layers": image.layers.len(), "size": image.size(),
        "shared": shared, "own": own})
}
