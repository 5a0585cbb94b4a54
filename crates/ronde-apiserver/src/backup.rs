//! A backup of a data directory as one file of JSON lines, and the way back.
//!
//! ```text
//! {"kind":"ronde backup","format":1,"program":"0.1.0","created":"…"}
//! {"file":"ca.key","text":"…"}                  one line for each file of the identity
//! {"revision":42,"objects":2}
//! {"collection":"pods","object":{…}}            one line for each object, as it is stored
//! {"sha256":"…"}                                of all bytes before this line
//! ```
//!
//! A file that lacks its last line is cut off, one whose sum differs is damaged, and a newer format is refused: a reader
//! takes all of it or nothing. Where the bytes come from and go to is the caller's business.

use std::{
    io::{self, BufRead, Write},
    path::Path,
};

use jiff::Timestamp;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::store::{Draft, Import, Key, Object, OpenError, Revision, Snapshot};

const KIND: &str = "ronde backup";
/// The version of the format; a file with a newer one is refused.
pub const FORMAT: u64 = 1;
/// The longest line: an object has three megabytes at most, and escaped text is longer than what it stands for.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Why a backup cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("not a ronde backup")]
    Foreign,
    #[error("unsupported format {found}: this version of ronde reads format {FORMAT}")]
    Newer { found: u64 },
    #[error("truncated after line {line}")]
    CutOff { line: u64 },
    #[error("line {line} is damaged")]
    Damaged { line: u64 },
    #[error("checksum mismatch: the file was changed or damaged")]
    Checksum,
    #[error("cannot read the file")]
    Io(#[source] io::Error),
    #[error("cannot write the store")]
    Store(#[source] OpenError),
    #[error("cannot write `{file}`")]
    File { file: String, source: io::Error },
}

#[derive(Serialize, Deserialize)]
struct Header {
    kind: String,
    format: u64,
    program: String,
    created: Timestamp,
}

/// Any line but the first.
#[derive(Deserialize)]
struct Line {
    file: Option<String>,
    text: Option<String>,
    revision: Option<Revision>,
    objects: Option<u64>,
    collection: Option<String>,
    object: Option<Value>,
    sha256: Option<String>,
}

/// Writes a backup.
pub struct Writer<W> {
    out: W,
    sum: Context,
}

impl<W: Write> Writer<W> {
    /// Begins a backup.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(out: W, program: &str, created: Timestamp) -> io::Result<Self> {
        let mut writer = Self { out, sum: Context::new(&SHA256) };
        let header = Header { kind: KIND.to_owned(), format: FORMAT, program: program.to_owned(), created };
        writer.line(&serde_json::to_vec(&header)?)?;
        Ok(writer)
    }

    /// Adds a file by its name in the data directory.
    ///
    /// # Errors
    /// As [`Writer::begin`].
    pub fn file(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.line(json!({"file": name, "text": text}).to_string().as_bytes())
    }

    /// Adds a line of [`lines`], without its end.
    ///
    /// # Errors
    /// As [`Writer::begin`].
    pub fn line(&mut self, line: &[u8]) -> io::Result<()> {
        for bytes in [line, b"\n"] {
            self.sum.update(bytes);
            self.out.write_all(bytes)?;
        }
        Ok(())
    }

    /// Adds the checksum and returns where it was written to.
    ///
    /// # Errors
    /// As [`Writer::begin`].
    pub fn finish(mut self) -> io::Result<W> {
        let last = json!({"sha256": hex(self.sum.finish().as_ref())});
        writeln!(self.out, "{last}")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// The lines of the objects, without their ends: first how many there are.
pub fn lines(snapshot: Snapshot) -> impl Iterator<Item = Vec<u8>> + Send {
    let head = json!({"revision": snapshot.revision, "objects": snapshot.objects.len()}).to_string().into_bytes();
    let line = |(collection, object): (std::sync::Arc<str>, std::sync::Arc<Object>)| {
        let mut line = format!("{{\"collection\":{},\"object\":", json!(&*collection)).into_bytes();
        line.extend_from_slice(object.raw());
        line.push(b'}');
        line
    };
    std::iter::once(head).chain(snapshot.objects.into_iter().map(line))
}

/// Returns how many objects follow a first line of [`lines`].
pub fn objects_announced(line: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Line>(line).ok()?.objects
}

/// What a backup was made of.
#[derive(Debug, PartialEq, Eq)]
pub struct Restored {
    pub created: Timestamp,
    pub program: String,
    pub objects: u64,
}

/// Reads a backup into a store that does not exist yet, and hands each file over. Until this returns without an error
/// nothing of it may be used.
///
/// # Errors
/// If it is no whole backup that we know, or cannot be written.
pub fn restore(
    mut input: impl BufRead,
    store: &Path,
    mut file: impl FnMut(&str, &str) -> io::Result<()>,
) -> Result<Restored, ReadError> {
    let mut lines = Lines { sum: Context::new(&SHA256), number: 0, bytes: Vec::new() };
    if !lines.read(&mut input)? {
        return Err(ReadError::Foreign);
    }
    let header = header(&lines.bytes)?;
    let mut import = Import::begin(store).map_err(ReadError::Store)?;
    let (mut announced, mut objects) = (None, 0);
    loop {
        let sum = lines.sum.clone();
        if !lines.read(&mut input)? {
            return Err(ReadError::CutOff { line: lines.number });
        }
        let damaged = || ReadError::Damaged { line: lines.number };
        match serde_json::from_slice(&lines.bytes).map_err(|_| damaged())? {
            Line { sha256: Some(expected), .. } => {
                if hex(sum.finish().as_ref()) != expected || announced != Some(objects) {
                    return Err(ReadError::Checksum);
                }
                import.finish().map_err(ReadError::Store)?;
                return Ok(Restored { created: header.created, program: header.program, objects });
            }
            Line { file: Some(name), text: Some(text), .. } => {
                file(&name, &text).map_err(|source| ReadError::File { file: name, source })?;
            }
            Line { revision: Some(revision), objects: Some(count), .. } => {
                announced = Some(count);
                import.set_revision(revision);
            }
            Line { collection: Some(collection), object: Some(value), .. } => {
                let (key, object) = stored(&collection, &value).ok_or_else(damaged)?;
                import.add(key, object).map_err(ReadError::Store)?;
                objects += 1;
            }
            _ => return Err(damaged()),
        }
    }
}

fn header(line: &[u8]) -> Result<Header, ReadError> {
    // Of a newer format only these two are known.
    let value: Value = serde_json::from_slice(line).map_err(|_| ReadError::Foreign)?;
    match (value["kind"].as_str(), value["format"].as_u64()) {
        (Some(KIND), Some(FORMAT)) => serde_json::from_value(value).map_err(|_| ReadError::Damaged { line: 1 }),
        (Some(KIND), Some(found)) => Err(ReadError::Newer { found }),
        _ => Err(ReadError::Foreign),
    }
}

fn stored(collection: &str, value: &Value) -> Option<(Key, Object)> {
    let metadata = &value["metadata"];
    let revision = metadata["resourceVersion"].as_str()?.parse().ok()?;
    let (namespace, name) = (metadata["namespace"].as_str().unwrap_or_default(), metadata["name"].as_str()?);
    Some((Key::new(&collection.into(), namespace, name), Draft::new(value).at(revision)))
}

struct Lines {
    sum: Context,
    number: u64,
    bytes: Vec<u8>,
}

impl Lines {
    /// Reads the next line; none at the end. A last line without its end is cut off.
    fn read(&mut self, input: &mut impl BufRead) -> Result<bool, ReadError> {
        self.bytes.clear();
        let mut limited = io::Read::take(&mut *input, LINE_BYTES_MAX);
        let count = limited.read_until(b'\n', &mut self.bytes).map_err(ReadError::Io)?;
        if count > 0 && self.bytes.last() != Some(&b'\n') {
            let line = self.number;
            return Err(if line == 0 { ReadError::Foreign } else { ReadError::CutOff { line } });
        }
        self.number += 1;
        self.sum.update(&self.bytes);
        Ok(count > 0)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Change, Expect, Range, Store};

    async fn filled(path: &Path) -> anyhow::Result<Store> {
        let store = Store::open(path)?;
        for name in ["a", "b", "gone"] {
            let value =
                json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "data": {"text": "ä\n\"\u{0}"}});
            let key = Key::new(&"configmaps".into(), "n", name);
            let draft = Draft::new(&value);
            let written =
                store.commit(Change { key: key.clone(), expect: Expect::Absent, draft, removes: false }).await?;
            if name == "gone" {
                let (expect, draft) = (Expect::Revision(written.revision), written.redraft());
                store.commit(Change { key, expect, draft, removes: true }).await?;
            }
        }
        Ok(store)
    }

    fn backup(store: &Store) -> anyhow::Result<Vec<u8>> {
        let mut writer = Writer::begin(Vec::new(), "0.1.0", Timestamp::UNIX_EPOCH)?;
        writer.file("ca.key", "secret\n")?;
        for line in lines(store.snapshot()) {
            writer.line(&line)?;
        }
        Ok(writer.finish()?)
    }

    fn restore_into(bytes: &[u8], folder: &Path) -> Result<Restored, ReadError> {
        restore(bytes, &folder.join("store"), |name, text| fs_err::write(folder.join(name), text))
    }

    #[tokio::test]
    async fn what_is_backed_up_is_restored_with_its_revisions() -> anyhow::Result<()> {
        let (from, to) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let store = filled(&from.path().join("store")).await?;
        let restored = restore_into(&backup(&store)?, to.path())?;
        assert_eq!(restored.objects, 2);
        assert_eq!(fs_err::read_to_string(to.path().join("ca.key"))?, "secret\n");
        let again = Store::open(&to.path().join("store"))?;
        assert_eq!(again.revision(), store.revision(), "the next write gets a version that nobody has seen");
        let all = |store: &Store| store.list("configmaps", &Range::default()).map(|page| page.objects);
        assert_eq!(all(&again).ok(), all(&store).ok());
        Ok(())
    }

    #[tokio::test]
    async fn a_file_that_is_not_whole_or_not_ours_is_refused() -> anyhow::Result<()> {
        let from = tempfile::tempdir()?;
        let good = backup(&filled(&from.path().join("store")).await?)?;
        let why = |bytes: &[u8]| {
            let to = tempfile::tempdir().expect("a folder");
            restore_into(bytes, to.path()).expect_err("it is refused").to_string()
        };
        for cut in 0..good.len() {
            why(&good[..cut]);
        }
        assert_eq!(why(&good[..good.len() - 1]), "truncated after line 5");
        let text = String::from_utf8(good)?;
        assert_eq!(
            why(text.replace("secret", "sekret").as_bytes()),
            "checksum mismatch: the file was changed or damaged"
        );
        let without_one: String = text.split_inclusive('\n').filter(|line| !line.contains("\"uid\":\"b\"")).collect();
        assert_eq!(why(without_one.as_bytes()), "checksum mismatch: the file was changed or damaged");
        let newer = text.replace("\"format\":1", "\"format\":2");
        assert_eq!(why(newer.as_bytes()), "unsupported format 2: this version of ronde reads format 1");
        assert_eq!(why(b"apiVersion: v1\nkind: Pod\n"), "not a ronde backup");
        assert_eq!(why(b"{}\n"), "not a ronde backup");
        Ok(())
    }
}
