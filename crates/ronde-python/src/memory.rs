//! Tensors by their address, as the Python adapters give them.
//!
//! An adapter passes the address of a contiguous tensor together with the tensor itself; [`crate::handle::Handle`]
//! holds that object until the operation is done, even if Python drops the handle before.
#![expect(unsafe_code, reason = "tensors of Python frameworks come as addresses")]

use ronde_collective::Buffer;

/// The memory of a tensor.
pub(crate) fn tensor(address: usize, len: usize) -> Buffer {
    // SAFETY: the adapters of `python/ronde` pass the address and the length of a contiguous tensor, and that tensor
    // as what the handle keeps alive; that nobody writes it meanwhile is what every user of an asynchronous
    // operation promises.
    unsafe { Buffer::from_raw(std::ptr::with_exposed_provenance_mut(address), len) }
}
