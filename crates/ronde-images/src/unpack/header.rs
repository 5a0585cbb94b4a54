//! The headers of tar archives: old, ustar, pax and GNU. Pure: blocks in, entries out.
//!
//! Everything that a header says is untrusted. Extensions are bounded, because they are held in memory.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use super::sparse::{self, Sparse};

pub const BLOCK: usize = 512;
/// Paths have 4096 bytes at most, and extended attributes 64 KiB each.
pub const EXTENSION_MAX: u64 = 1 << 20;

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
    /// How many bytes of content follow in the archive.
    pub size: u64,
    pub modified: Time,
    /// What a link points to.
    pub target: Vec<u8>,
    pub device: (u32, u32),
    pub attributes: Vec<(String, Vec<u8>)>,
    /// Where the content belongs in a file with holes.
    pub sparse: Option<Sparse>,
}

/// Seconds since 1970, perhaps negative, and nanoseconds after them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Time {
    pub seconds: i64,
    pub nanoseconds: u32,
}

impl Header {
    /// Returns how large the entry says that it is: with its holes, which are bounded too.
    pub fn declared_size(&self) -> u64 {
        self.sparse.as_ref().map_or(self.size, |sparse| sparse.size.max(self.size))
    }
}

pub fn invalid(what: &str) -> io::Error {
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
            kind => return more.complete(&block, kind, size, reader).map(Some),
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
    /// Offsets and lengths in turn, as the oldest form of sparse files in pax has them.
    segments: Vec<u64>,
}

impl Extensions {
    fn is_empty(&self) -> bool {
        self.path.is_none() && self.target.is_none() && self.pax.is_empty() && self.segments.is_empty()
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
            let value = record[equals + 1..].to_vec();
            if matches!(key.as_str(), sparse::OFFSET | sparse::LENGTH) {
                // The only keys that are said again and again.
                self.segments.push(sparse::decimal(&value)?);
            } else {
                self.pax.insert(key, value);
            }
            rest = after;
        }
        Ok(())
    }

    fn complete(mut self, block: &[u8; BLOCK], kind: u8, size: u64, reader: &mut impl Read) -> io::Result<Header> {
        let mut size = self.number("size")?.unwrap_or(size);
        let sparse = match kind {
            b'S' => Some(sparse::read_gnu(block, reader)?),
            b'0' | 0 => sparse::read_pax(&self.pax, &self.segments, &mut size, reader)?,
            _ => None,
        };
        let name = self.pax.remove(sparse::NAME).filter(|_| sparse.is_some());
        let path = name.or(self.value("path")).or(self.path.take()).unwrap_or_else(|| plain_path(block));
        let target = self.value("linkpath").or(self.target.take());
        let kind = kind_of(kind, &path)?;
        let size = if kind == Kind::File { size } else { 0 };
        let id = |value: u64| u32::try_from(value).map_err(|_| invalid("a user or group is out of range"));
        Ok(Header {
            kind,
            mode: u32::try_from(number(&block[100..108])? & 0o7777).unwrap_or(0),
            uid: id(self.number("uid")?.map_or_else(|| number(&block[108..116]), Ok)?)?,
            gid: id(self.number("gid")?.map_or_else(|| number(&block[116..124]), Ok)?)?,
            size,
            modified: self
                .pax
                .get("mtime")
                .and_then(|value| decimal_time(value))
                .unwrap_or_else(|| time(&block[136..148])),
            target: target.unwrap_or_else(|| text(&block[157..257]).to_vec()),
            device: (id(number(&block[329..337]).unwrap_or(0))?, id(number(&block[337..345]).unwrap_or(0))?),
            attributes: self.attributes(),
            sparse: sparse.filter(|_| kind == Kind::File).map(|sparse| sparse.checked(size)).transpose()?,
            path,
        })
    }

    /// An empty value takes back what was said before.
    fn value(&mut self, key: &str) -> Option<Vec<u8>> {
        self.pax.remove(key).filter(|value| !value.is_empty())
    }

    fn number(&self, key: &str) -> io::Result<Option<u64>> {
        self.pax.get(key).filter(|value| !value.is_empty()).map(|value| sparse::decimal(value)).transpose()
    }

    fn attributes(self) -> Vec<(String, Vec<u8>)> {
        let named = |(key, value): (String, Vec<u8>)| Some((key.strip_prefix("SCHILY.xattr.")?.to_owned(), value));
        self.pax.into_iter().filter_map(named).collect()
    }
}

fn kind_of(kind: u8, path: &[u8]) -> io::Result<Kind> {
    match kind {
        b'0' | 0 if path.ends_with(b"/") => Ok(Kind::Folder),
        b'0' | b'7' | b'S' | 0 => Ok(Kind::File),
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
pub fn number(field: &[u8]) -> io::Result<u64> {
    let wrong = || invalid("a number cannot be read");
    if field[0] & 0x80 != 0 {
        let digits = [field[0] & 0x7f].into_iter().chain(field[1..].iter().copied());
        let read = digits.map(u64::from).try_fold(0_u64, |sum, byte| sum.checked_mul(256)?.checked_add(byte));
        return read.ok_or_else(wrong);
    }
    let text = std::str::from_utf8(field).map_err(|_| wrong())?;
    let digits = text.trim_matches(|letter| matches!(letter, '\0' | ' '));
    if digits.is_empty() { Ok(0) } else { u64::from_str_radix(digits, 8).map_err(|_| wrong()) }
}

/// Reads a time, which may be before 1970. One that cannot be read does no harm.
fn time(field: &[u8]) -> Time {
    let negative = (field[0] == 0xff).then(|| field.last_chunk::<8>()).flatten();
    let plain = || number(field).ok().and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(0);
    let seconds = negative.map_or_else(plain, |bytes| i64::from_be_bytes(*bytes));
    Time { seconds, nanoseconds: 0 }
}

/// Reads a time such as `-12.5`.
fn decimal_time(value: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(value).ok()?;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = part.chars().chain(std::iter::repeat('0')).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    let seconds: i64 = whole.parse().ok()?;
    if whole.starts_with('-') && nanoseconds > 0 {
        return Some(Time { seconds: seconds.checked_sub(1)?, nanoseconds: 1_000_000_000 - nanoseconds });
    }
    Some(Time { seconds, nanoseconds })
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
