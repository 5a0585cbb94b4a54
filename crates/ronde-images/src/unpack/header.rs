//! The headers of tar archives: old, ustar, pax and GNU. Pure: blocks in, entries out.
//!
//! Everything that a header says is untrusted. Extensions are bounded, because they are held in memory; sparse files are
//! refused, because their sizes are said in ways that tools disagree about.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

pub const BLOCK: usize = 512;
/// Paths have 4096 bytes at most, and extended attributes 64 KiB each.
const EXTENSION_MAX: u64 = 1 << 20;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    HardLink,
    Link,
    Character,
    Block,
    Folder,
    Fifo,
}

/// One entry, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub path: Vec<u8>,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub modified: i64,
    /// What a link points to.
    pub target: Vec<u8>,
    pub device: (u32, u32),
    pub attributes: Vec<(String, Vec<u8>)>,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a valid tar archive: {what}"))
}

/// Reads the next header with all its extensions; nothing at the end of the archive.
pub fn read(reader: &mut impl Read) -> io::Result<Option<Header>> {
    let mut more = Extensions::default();
    loop {
        let Some(block) = read_block(reader)? else {
            return if more.is_empty() { Ok(None) } else { Err(invalid("it ends after an extension")) };
        };
        let size = number(&block[124..136])?;
        match block[156] {
            b'x' => more.add_pax(&read_extension(reader, size)?)?,
            b'g' => drop(read_extension(reader, size)?),
            b'L' => more.path = Some(text(&read_extension(reader, size)?).to_vec()),
            b'K' => more.target = Some(text(&read_extension(reader, size)?).to_vec()),
            kind => return more.complete(&block, kind, size).map(Some),
        }
    }
}

/// Reads a block; nothing at a block of zeros, and an error at the end of the stream: a whole archive ends with zeros.
fn read_block(reader: &mut impl Read) -> io::Result<Option<[u8; BLOCK]>> {
    let mut block = [0; BLOCK];
    reader.read_exact(&mut block).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the archive is cut off"),
        _ => error,
    })?;
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let said = number(&block[148..156])?;
    let blank = [b' '; 8];
    let sum: u64 = block[..148].iter().chain(&blank).chain(&block[156..]).map(|byte| u64::from(*byte)).sum();
    if sum == said { Ok(Some(block)) } else { Err(invalid("a header has a wrong checksum")) }
}

fn read_extension(reader: &mut impl Read, size: u64) -> io::Result<Vec<u8>> {
    if size > EXTENSION_MAX {
        return Err(invalid("an extension is larger than 1 MiB"));
    }
    let mut bytes = vec![0; usize::try_from(size.next_multiple_of(BLOCK as u64)).map_err(io::Error::other)?];
    reader.read_exact(&mut bytes)?;
    bytes.truncate(usize::try_from(size).map_err(io::Error::other)?);
    Ok(bytes)
}

/// What was said in front of a header.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    pax: BTreeMap<String, Vec<u8>>,
}

impl Extensions {
    fn is_empty(&self) -> bool {
        self.path.is_none() && self.target.is_none() && self.pax.is_empty()
    }

    /// Reads records of the form `LENGTH KEY=VALUE\n`.
    fn add_pax(&mut self, bytes: &[u8]) -> io::Result<()> {
        let wrong = || invalid("a pax record cannot be read");
        let mut rest = bytes;
        while !rest.is_empty() {
            let blank = rest.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let length = std::str::from_utf8(&rest[..blank]).ok().and_then(|text| text.parse::<usize>().ok());
            let length = length.filter(|length| *length > blank + 1 && *length <= rest.len()).ok_or_else(wrong)?;
            let (record, after) = rest.split_at(length);
            let record = record[blank + 1..].strip_suffix(b"\n").ok_or_else(wrong)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
            let key = String::from_utf8(record[..equals].to_vec()).map_err(|_| wrong())?;
            self.pax.insert(key, record[equals + 1..].to_vec());
            rest = after;
        }
        Ok(())
    }

    fn complete(mut self, block: &[u8; BLOCK], kind: u8, size: u64) -> io::Result<Header> {
        if kind == b'S' || self.pax.keys().any(|key| key.starts_with("GNU.sparse.")) {
            return Err(invalid("sparse files are not supported"));
        }
        let path = self.pax.remove("path").or(self.path.take()).unwrap_or_else(|| plain_path(block));
        let target = self.pax.remove("linkpath").or(self.target.take());
        let kind = kind_of(kind, &path)?;
        let said = self.number("size")?.unwrap_or(size);
        let id = |value: u64| u32::try_from(value).map_err(|_| invalid("a user or group is out of range"));
        Ok(Header {
            kind,
            mode: u32::try_from(number(&block[100..108])? & 0o7777).unwrap_or(0),
            uid: id(self.number("uid")?.map_or_else(|| number(&block[108..116]), Ok)?)?,
            gid: id(self.number("gid")?.map_or_else(|| number(&block[116..124]), Ok)?)?,
            size: if kind == Kind::File { said } else { 0 },
            modified: i64::try_from(number(&block[136..148]).unwrap_or(0)).unwrap_or(0),
            target: target.unwrap_or_else(|| text(&block[157..257]).to_vec()),
            device: (id(number(&block[329..337]).unwrap_or(0))?, id(number(&block[337..345]).unwrap_or(0))?),
            attributes: self.attributes(),
            path,
        })
    }

    fn number(&self, key: &str) -> io::Result<Option<u64>> {
        let parse = |value: &Vec<u8>| std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        self.pax.get(key).map(|value| parse(value).ok_or_else(|| invalid("a pax number cannot be read"))).transpose()
    }

    fn attributes(self) -> Vec<(String, Vec<u8>)> {
        let named = |(key, value): (String, Vec<u8>)| Some((key.strip_prefix("SCHILY.xattr.")?.to_owned(), value));
        self.pax.into_iter().filter_map(named).collect()
    }
}

fn kind_of(kind: u8, path: &[u8]) -> io::Result<Kind> {
    match kind {
        b'0' | 0 if path.ends_with(b"/") => Ok(Kind::Folder),
        b'0' | b'7' | 0 => Ok(Kind::File),
        b'1' => Ok(Kind::HardLink),
        b'2' => Ok(Kind::Link),
        b'3' => Ok(Kind::Character),
        b'4' => Ok(Kind::Block),
        b'5' => Ok(Kind::Folder),
        b'6' => Ok(Kind::Fifo),
        _ => Err(invalid("an entry is of an unknown kind")),
    }
}

/// The path of a header without extensions; ustar has its beginning in another field.
fn plain_path(block: &[u8; BLOCK]) -> Vec<u8> {
    let name = text(&block[..100]);
    let prefix = if &block[257..263] == b"ustar\0" { text(&block[345..500]) } else { &[] };
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    &field[..end]
}

/// Reads octal digits, or the binary form of numbers that are too large for them.
fn number(field: &[u8]) -> io::Result<u64> {
    let wrong = || invalid("a number cannot be read");
    if field[0] & 0x80 != 0 {
        let (high, low) = field.split_at(field.len().saturating_sub(8));
        let is_small = high.iter().all(|byte| matches!(byte, 0 | 0x80)) && low.len() == 8 && !high.is_empty();
        let bytes = low.try_into().map_err(|_| wrong())?;
        return if is_small { Ok(u64::from_be_bytes(bytes)) } else { Err(wrong()) };
    }
    let text = std::str::from_utf8(field).map_err(|_| wrong())?;
    let digits = text.trim_matches(|letter| matches!(letter, '\0' | ' '));
    if digits.is_empty() { Ok(0) } else { u64::from_str_radix(digits, 8).map_err(|_| wrong()) }
}

/// Returns the header of a plain file for an archive of ours, whose names are short.
pub fn write(name: &str, size: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, &name[..name.len().min(99)]);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o} "));
    put(136, "00000000000 ");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
