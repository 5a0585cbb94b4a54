//! Who wants to know how far a pull or a load is. Called from several threads at once.

use crate::Descriptor;

/// Hears of every part of an image. All sizes are of the content as it is packed, so that they add up to
/// [`Descriptor::size`].
pub trait Progress: Send + Sync {
    /// A part is wanted, and this much of it is here already.
    fn begun(&self, _part: &Descriptor, _have: u64) {}
    /// So many more bytes of it arrived.
    fn downloaded(&self, _part: &Descriptor, _bytes: u64) {}
    /// So many more bytes of a layer are unpacked.
    fn unpacked(&self, _part: &Descriptor, _bytes: u64) {}
    /// Nothing more has to be done for it.
    fn done(&self, _part: &Descriptor) {}
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Progress for Quiet {}
