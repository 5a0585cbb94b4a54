//! What the server knows about the shape of a kind, in the model of [`ronde_cel::schema`].
//!
//! Builders: [`builtin`] (from the compiled-in types plus our table of list keys) and [`crd`] (from a structural schema).
//! Readers: strict decoding, the patches, defaulting, pruning, validation. Nothing here does I/O.

pub mod builtin;
pub mod crd;
pub mod strict;

pub use ronde_cel::schema::{
    Additional, Checks, Empty, Format, Id, ListType, Node, NodeData, PatchHints, Rule, Set, Type,
};
