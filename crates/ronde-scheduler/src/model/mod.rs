//! The words of the scheduler: plain values that the caller makes from its own objects.
//!
//! Nothing here decides; selectors can tell whether they match, amounts can be added and printed.

pub use ronde_text::amounts;
pub mod budget;
pub mod group;
pub mod ids;
pub mod node;
pub mod pod;
pub mod queue;
pub mod selector;
