//! Container images: what they are called, what they are made of, and how they come from a registry.
//!
//! [`Reference`] is the name of an image, [`Digest`] the name of its content, and [`manifest`] the documents between
//! the two. Whoever pulls an image asks a registry for its manifest, checks the digest, and only then looks inside.
//! [`registry`] speaks to registries, and [`mod@pull`] brings images from them into the store.
//! [`archive`] reads and writes images as files, [`unpack`] turns layers into folders, and [`store`] keeps them.
//! [`inside`] opens what is in them.
//! The crate knows nothing of pods or of the Kubernetes API.

pub mod archive;
pub mod digest;
pub mod inside;
pub mod manifest;
pub mod pull;
pub mod reference;
pub mod registry;
pub mod store;
#[cfg(test)]
mod testing;
pub mod unpack;
mod zstd;

pub use self::{
    digest::{Digest, Verifier},
    manifest::{Descriptor, ImageConfig, Manifest, Platform},
    pull::{PullError, Pulled, Resolved, pull, resolve},
    reference::Reference,
    registry::{Keyring, Login, Registries, RegistriesOptions, RegistryError},
    store::{Image, Store},
};
