//! Cuts a stream of bytes into lines, puts the prefix before each, and remembers the last ones. Pure.

use std::collections::VecDeque;

/// A line beyond this is cut in two: what a stream may make us hold.
const LINE_MAX: usize = 1 << 20;
/// Lines remembered, and bytes of each.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: usize = 500;

/// The last lines of a stream.
pub type Tail = Vec<String>;

/// A stream that is being cut.
#[derive(Debug)]
pub struct Lines {
    prefix: String,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// The last line ended with a carriage return; a newline right after it belongs to it.
    is_returned: bool,
    tail: VecDeque<String>,
}

impl Lines {
    pub fn new(prefix: String) -> Self {
        Self { prefix, begun: Vec::new(), is_returned: false, tail: VecDeque::new() }
    }

    /// Takes bytes; returns the lines that they complete, each with the time, the prefix and its own end.
    pub fn push(&mut self, mut bytes: &[u8], time: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 4);
        if std::mem::take(&mut self.is_returned) && bytes.first() == Some(&b'\n') {
            out.push(b'\n');
            bytes = &bytes[1..];
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let is_pair = bytes[end..].starts_with(b"\r\n");
            let next = end + 1 + usize::from(is_pair);
            let (line, rest) = bytes.split_at(next);
            self.emit(line, time, &mut out);
            self.is_returned = rest.is_empty() && line.ends_with(b"\r");
            bytes = rest;
        }
        self.begun.extend_from_slice(bytes);
        if self.begun.len() >= LINE_MAX {
            self.emit(b"\n", time, &mut out);
        }
        out
    }

    /// Returns the last line, if it had no end of its own.
    pub fn finish(&mut self, time: &str) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.begun.is_empty() {
            self.emit(b"\n", time, &mut out);
        }
        out
    }

    pub fn into_tail(self) -> Tail {
        self.tail.into()
    }

    fn emit(&mut self, rest: &[u8], time: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(time.as_bytes());
        out.extend_from_slice(self.prefix.as_bytes());
        let start = out.len();
        out.append(&mut self.begun);
        out.extend_from_slice(rest);
        self.remember(&out[start..]);
    }

    fn remember(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            return;
        }
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        let cut = &line[..line.len().min(TAIL_BYTES)];
        self.tail.push_back(String::from_utf8_lossy(cut).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, pushed: &[&str], expected: &str) {
        let mut lines = Lines::new("[0]<stdout>:".to_owned());
        let mut out = Vec::new();
        pushed.iter().for_each(|bytes| out.extend(lines.push(bytes.as_bytes(), "")));
        out.extend(lines.finish(""));
        assert_eq!(String::from_utf8(out).unwrap().replace("[0]<stdout>:", "> "), expected, "{name}");
    }

    #[test]
    fn every_line_has_the_prefix() {
        check("lines", &["a\nb\n"], "> a\n> b\n");
        check("a line in pieces", &["a", "b", "c\nd", "\n"], "> abc\n> d\n");
        check("a last line without an end", &["a\nb"], "> a\n> b\n");
        check("an empty line", &["\n\n"], "> \n> \n");
        check("a progress bar", &["10%\r", "20%\r\n"], "> 10%\r> 20%\r\n");
        check("the pair in two pieces", &["a\r", "\nb\n"], "> a\r\n> b\n");
        check("a return, then text", &["a\r", "b\n\n"], "> a\r> b\n> \n");
        check("a letter in two pieces", &["gr\u{fc}n\n"], "> gr\u{fc}n\n");
        check("nothing", &[], "");
    }

    #[test]
    fn the_time_stands_before_the_prefix() {
        let mut lines = Lines::new("[1]<stderr>:".to_owned());
        let out = lines.push(b"x\n", "Thu Jan  1 00:00:00 1970");
        assert_eq!(out, b"Thu Jan  1 00:00:00 1970[1]<stderr>:x\n");
    }

    #[test]
    fn a_line_without_end_is_cut_and_memory_stays_small() {
        let mut lines = Lines::new("p:".to_owned());
        let endless = vec![b'x'; 100_000];
        let mut written = 0;
        for _ in 0..64 {
            written += lines.push(&endless, "").len();
            assert!(lines.begun.len() < LINE_MAX + endless.len());
        }
        assert!(written > 5_000_000, "{written}");
    }

    #[test]
    fn the_last_lines_are_remembered() {
        let mut lines = Lines::new("p:".to_owned());
        (0..50).for_each(|number| {
            lines.push(format!("line {number}\n\n").as_bytes(), "");
        });
        lines.push(&[b'y'; 10_000], "");
        lines.finish("");
        let tail = lines.into_tail();
        assert_eq!((tail.len(), tail[0].as_str(), tail[19].len()), (TAIL_LINES, "line 31", TAIL_BYTES));
    }
}
