//! Finds where the last lines of a log begin, reading the files from their end.

use std::{io, os::unix::fs::FileExt as _};

use fs_err::File;

use super::record::Record;

/// Several times the longest record.
const BLOCK_BYTES: u64 = 128 << 10;

/// Returns the file and the place in it that `lines` lines follow; `files` are oldest first, and end at `ends`.
pub fn find_start(files: &[File], ends: &[u64], lines: u64) -> io::Result<(usize, u64)> {
    let mut found = 0;
    for (index, (file, end)) in files.iter().zip(ends).enumerate().rev() {
        if let Some(at) = start_in(file, *end, lines, &mut found)? {
            return Ok((index, at));
        }
    }
    Ok((0, 0))
}

/// Goes back through one file; none if lines before it are wanted too.
fn start_in(file: &File, mut end: u64, lines: u64, found: &mut u64) -> io::Result<Option<u64>> {
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK_BYTES);
        block.resize(usize::try_from(end - start).expect("a block fits into memory"), 0);
        file.file().read_exact_at(&mut block, start)?;
        // All but the first block of a file begin in the middle of a record.
        let whole = match block.iter().position(|byte| *byte == b'\n') {
            Some(at) if start > 0 && at + 1 < block.len() => at + 1,
            _ => 0,
        };
        let mut at = end;
        for line in block[whole..].split_inclusive(|byte| *byte == b'\n').rev() {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let record = Record::parse(text);
            // The very last record may be a line that is still being written.
            if record.is_some_and(|record| record.is_end || *found == 0) {
                if *found == lines {
                    return Ok(Some(at));
                }
                *found += 1;
            }
            at -= line.len() as u64;
        }
        end = start + whole as u64;
    }
    Ok(None)
}
