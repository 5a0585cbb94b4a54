//! Files with holes: where the content that is in the archive belongs in the file.
//!
//! Tools say it in four ways: in GNU's own header, and three times differently in pax. All become one list, which is
//! checked: pieces in order, within the file, and as long together as the content.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use super::header::{BLOCK, EXTENSION_MAX, invalid, number};

/// The keys of pax.
pub const OFFSET: &str = "GNU.sparse.offset";
pub const LENGTH: &str = "GNU.sparse.numbytes";
pub const NAME: &str = "GNU.sparse.name";
const MAP: &str = "GNU.sparse.map";
const SIZES: [&str; 2] = ["GNU.sparse.realsize", "GNU.sparse.size"];
/// A piece takes 24 bytes in GNU's header, and 16 in memory.
const PIECE: usize = 24;
const PIECES_MAX: usize = 1 << 16;

/// How a file is made from content that is shorter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sparse {
    /// The size of the file with its holes.
    pub size: u64,
    /// Where a piece begins, and how long it is.
    pub pieces: Vec<(u64, u64)>,
}

impl Sparse {
    fn from_numbers(size: u64, numbers: &[u64]) -> io::Result<Self> {
        if !numbers.len().is_multiple_of(2) || numbers.len() / 2 > PIECES_MAX {
            return Err(wrong());
        }
        Ok(Self { size, pieces: numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect() })
    }

    /// Checks that the pieces are in order, in the file, and as long as the content.
    pub fn checked(self, content: u64) -> io::Result<Self> {
        let (mut end, mut sum) = (0_u64, 0_u64);
        for (offset, length) in &self.pieces {
            let next = offset.checked_add(*length).filter(|next| *offset >= end && *next <= self.size);
            end = next.ok_or_else(wrong)?;
            sum = sum.checked_add(*length).ok_or_else(wrong)?;
        }
        if sum == content { Ok(self) } else { Err(wrong()) }
    }
}

fn wrong() -> io::Error {
    invalid("a sparse file cannot be read")
}

/// Reads a number as pax writes it.
pub fn decimal(value: &[u8]) -> io::Result<u64> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|text| text.parse().ok()).ok_or_else(|| invalid("a pax number cannot be read"))
}

/// Reads GNU's own form: four pieces in the header, and as many blocks with 21 more as are needed.
pub fn read_gnu(block: &[u8; BLOCK], reader: &mut impl Read) -> io::Result<Sparse> {
    let mut numbers = Vec::new();
    add_pieces(&block[386..482], &mut numbers)?;
    let mut more = block[482] != 0;
    while more {
        let mut next = [0; BLOCK];
        reader.read_exact(&mut next)?;
        add_pieces(&next[..504], &mut numbers)?;
        more = next[504] != 0;
        if numbers.len() > 2 * PIECES_MAX {
            return Err(wrong());
        }
    }
    Sparse::from_numbers(number(&block[483..495])?, &numbers)
}

fn add_pieces(bytes: &[u8], numbers: &mut Vec<u64>) -> io::Result<()> {
    for piece in bytes.chunks_exact(PIECE) {
        // Places that are not used are empty.
        if piece[0] != 0 {
            numbers.extend([number(&piece[..12])?, number(&piece[12..])?]);
        }
    }
    Ok(())
}

/// Reads the forms of pax. The newest has its list in front of the content, which becomes shorter by it.
pub fn read_pax(
    pax: &BTreeMap<String, Vec<u8>>,
    segments: &[u64],
    content: &mut u64,
    reader: &mut impl Read,
) -> io::Result<Option<Sparse>> {
    let Some(size) = SIZES.iter().find_map(|key| pax.get(*key)) else {
        return if pax.keys().any(|key| key.starts_with("GNU.sparse.")) { Err(wrong()) } else { Ok(None) };
    };
    let size = decimal(size)?;
    let numbers = match pax.get(MAP) {
        _ if pax.get("GNU.sparse.major").is_some_and(|major| major == b"1") => read_list(content, reader)?,
        Some(list) if list.is_empty() => Vec::new(),
        Some(list) => list.split(|byte| *byte == b',').map(decimal).collect::<io::Result<_>>()?,
        None => segments.to_vec(),
    };
    Sparse::from_numbers(size, &numbers).map(Some)
}

/// Reads lines with numbers: how many pieces, and then each. Filled up to whole blocks.
fn read_list(content: &mut u64, reader: &mut impl Read) -> io::Result<Vec<u64>> {
    let (mut numbers, mut line, mut wanted) = (Vec::new(), Vec::new(), 1_u64);
    let mut read = 0;
    while (numbers.len() as u64) < wanted {
        let mut block = [0; BLOCK];
        read += BLOCK as u64;
        *content = content.checked_sub(BLOCK as u64).filter(|_| read <= EXTENSION_MAX).ok_or_else(wrong)?;
        reader.read_exact(&mut block)?;
        for byte in block {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            numbers.push(decimal(&line)?);
            line.clear();
            wanted = numbers[0].checked_mul(2).and_then(|numbers| numbers.checked_add(1)).ok_or_else(wrong)?;
            if numbers.len() as u64 == wanted {
                break;
            }
        }
    }
    Ok(numbers.split_off(1))
}
