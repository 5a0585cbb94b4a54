//! What a rank says in a round: what it newly has ready, and small tensors along with it.

use std::sync::Arc;

use super::{cache::CacheId, request::Request};
use crate::codec::{Reader, Writer};

/// Something that a rank has ready.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    /// The same request as last time, by its number in the cache.
    Known(CacheId),
    New(Arc<Request>),
}

/// A rank's part of a round.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RoundMessage {
    pub(crate) items: Vec<Item>,
    /// Whether the tensors of all items follow the message.
    pub(crate) has_data: bool,
    /// What the first member wants the fusion threshold to be.
    pub(crate) threshold: u64,
}

impl RoundMessage {
    /// At most so many bytes are written before the items.
    pub(crate) const HEAD_MAX: usize = 32;

    pub(crate) fn write(&self, to: &mut Writer) {
        to.number(u64::from(self.has_data)).number(self.threshold).size(self.items.len());
        for item in &self.items {
            match item {
                Item::Known(CacheId(number)) => {
                    to.number(u64::from(*number) + 1);
                }
                Item::New(request) => {
                    to.number(0);
                    request.write(to);
                }
            }
        }
    }

    /// Returns the message and what follows it.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut from = Reader(bytes);
        let (has_data, threshold) = (from.number()? == 1, from.number()?);
        let items = from.list(|from| match from.number()?.checked_sub(1) {
            Some(number) => Some(Item::Known(CacheId(u32::try_from(number).ok()?))),
            None => Some(Item::New(Arc::new(Request::read(from)?))),
        })?;
        Some((Self { items, has_data, threshold }, from.0))
    }
}
