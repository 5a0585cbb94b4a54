//! `ronde image list`: one row for each name, with what the image takes on disk.

use std::collections::BTreeMap;

use ronde_images::{
    Digest, Image, Reference, Store,
    store::{Size, StoreError},
};
use serde_json::{Value, json};

use super::{ImageError, SHORT_DIGEST, failed, size};
use crate::{
    Context,
    args::ImageOutput,
    table::{Layout, View},
};

/// What images take on disk, by their manifests.
type Sizes = BTreeMap<Digest, Size>;

/// Lists the images of this machine.
pub fn run(store: &Store, output: ImageOutput, context: &Context) -> Result<(), ImageError> {
    let (images, sizes) = read(store).map_err(failed)?;
    if images.is_empty() && output != ImageOutput::Json {
        context.printer.say("no images on this machine (`ronde image pull IMAGE` adds one)");
    }
    match output {
        ImageOutput::Table => {
            for line in Layout::new(View { wide: false, namespace: false }).render(&table(&images, &sizes)) {
                context.printer.data(line);
            }
        }
        ImageOutput::Name => {
            for name in images.iter().flat_map(|image| &image.names) {
                context.printer.data(name.familiar());
            }
        }
        ImageOutput::Json => {
            let all: Vec<Value> = images.iter().map(|image| described(image, size_of(&sizes, image))).collect();
            context.printer.data(format_args!("{:#}", Value::from(all)));
        }
    }
    Ok(())
}

fn read(store: &Store) -> Result<(Vec<Image>, Sizes), StoreError> {
    Ok((store.list()?, store.sizes()?))
}

/// One that came in between has no size yet.
fn size_of(sizes: &Sizes, image: &Image) -> Size {
    sizes.get(&image.digest).copied().unwrap_or_default()
}

fn table(images: &[Image], sizes: &Sizes) -> Value {
    let columns = ["Image", "Digest", "Layers", "Size", "Shared", "Own"];
    let columns = columns.map(|name| json!({"name": name, "priority": 0}));
    let rows: Vec<Value> = images.iter().flat_map(|image| rows(image, size_of(sizes, image))).collect();
    json!({"columnDefinitions": columns, "rows": rows})
}

fn rows(image: &Image, on_disk: Size) -> Vec<Value> {
    let digest: String = image.digest.hex().chars().take(SHORT_DIGEST).collect();
    let layers = image.layers.len().to_string();
    let [total, shared, own] = [on_disk.total, on_disk.shared, on_disk.own].map(size);
    let row = |name: &Reference| json!({"cells": [name.familiar(), digest, layers, total, shared, own]});
    image.names.iter().map(row).collect()
}

fn described(image: &Image, on_disk: Size) -> Value {
    json!({"names": image.names, "digest": image.digest, "layers": image.layers.len(), "size": on_disk.total,
        "shared": on_disk.shared, "own": on_disk.own})
}
