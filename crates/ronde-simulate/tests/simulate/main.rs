//! The simulator from outside: what must hold at every moment, and stories whose end is known.

mod properties;
mod stories;
mod traces;
