//! Texts as the real server's standard library reads and writes them: regular expressions, times, durations, URLs,
//! mail addresses, numbers.
//!
//! Formats of schemas and functions of rules both go through here. Nothing in it knows schemas or rules.

pub(super) mod duration;
pub(super) mod mail;
pub(super) mod number;
pub(super) mod regex;
pub(super) mod time;
pub(super) mod url;
