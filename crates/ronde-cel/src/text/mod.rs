//! Texts as the real server's standard library reads and writes them: regular expressions, times, durations, URLs,
//! mail addresses, numbers.
//!
//! Formats of schemas and functions of rules both go through here. Nothing in it knows schemas or rules.

pub mod duration;
pub mod mail;
pub mod number;
pub mod regex;
pub mod time;
pub mod url;
