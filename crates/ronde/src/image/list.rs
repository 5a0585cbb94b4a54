//! `ronde image list`: one row for each name.

use ronde_images::{Image, Reference, Store};
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
        ImageOutput::Table | ImageOutput::Wide => {
            let view = View { wide: output == ImageOutput::Wide, namespace: false };
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
            let all: Vec<Value> = images.iter().map(described).collect();
            context.printer.data(format_args!("{:#}", Value::from(all)));
        }
    }
    Ok(())
}

fn table(images: &[Image]) -> Value {
    let columns = [("Image", 0), ("Digest", 0), ("Layers", 0), ("Size", 0)];
    let columns = columns.map(|(name, priority)| json!({"name": name, "priority": priority}));
    json!({"columnDefinitions": columns, "rows": images.iter().flat_map(rows).collect::<Vec<_>>()})
}

fn rows(image: &Image) -> Vec<Value> {
    let digest: String = image.digest.hex().chars().take(SHORT_DIGEST).collect();
    let row = |name: &Reference| json!({"cells": [name.familiar(), digest, image.layers.len().to_string(), size(image.size())]});
    image.names.iter().map(row).collect()
}

fn described(image: &Image) -> Value {
    json!({"names": image.names, "digest": image.digest, "layers": image.layers.len(), "size": image.size()})
}
