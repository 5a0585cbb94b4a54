//! Reads manifests: files, directories or stdin, with one or many YAML documents, or JSON.
//!
//! All mistakes that can be seen without the API are reported at once, each with its file and line.

use std::{
    fmt,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::failure::{Blame, Failure};

/// The API takes no object near this size; more is not a manifest.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How many keys and values a file may have: manifests have one in ten bytes or more, so the bytes are the bound.
const FILE_NODES_MAX: usize = 8 * 1024 * 1024;
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// One object of a manifest, with what is needed to send it.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// File and line, for messages.
    pub origin: String,
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: Option<String>,
    pub object: Value,
}

/// Why manifests cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("cannot read the manifests")]
    Read { source: io::Error },
    #[error("{file} is not text in UTF-8")]
    NotText { file: String },
    #[error("{file} is larger than {} MiB", FILE_BYTES_MAX / 1024 / 1024)]
    TooLarge { file: String },
    #[error("no manifests in {directory} (looked for .yaml, .yml and .json files)")]
    NoFiles { directory: PathBuf },
    #[error("no objects in {files}")]
    Empty { files: String },
    #[error("invalid manifests{0}")]
    Mistakes(Mistakes),
}

/// Everything that is wrong, one line or block each.
#[derive(Debug)]
pub struct Mistakes(Vec<String>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|mistake| write!(f, "\n  {}", mistake.trim_end().replace('\n', "\n  ")))
    }
}

impl Failure for ManifestError {
    fn blame(&self) -> Blame {
        Blame::User
    }
}

/// Reads all manifests, in the order given; the files of a directory by name.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    let mut mistakes = Vec::new();
    for file in expand(paths)? {
        let text = read_file(&file)?;
        match parse(&file.display().to_string(), &text) {
            Ok(found) => manifests.extend(found),
            Err(found) => mistakes.extend(found),
        }
    }
    if !mistakes.is_empty() {
        return Err(ManifestError::Mistakes(Mistakes(mistakes)));
    }
    if manifests.is_empty() {
        let files: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(ManifestError::Empty { files: files.join(", ") });
    }
    Ok(manifests)
}

fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ManifestError> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(list(path)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn list(directory: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(|source| ManifestError::Read { source })? {
        let path = entry.map_err(|source| ManifestError::Read { source })?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if path.is_file() && EXTENSIONS.contains(&extension) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(ManifestError::NoFiles { directory: directory.to_owned() }) } else { Ok(files) }
}

fn read_file(path: &Path) -> Result<String, ManifestError> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
    };
    match read {
        Ok(length) if length as u64 > FILE_BYTES_MAX => {
            Err(ManifestError::TooLarge { file: path.display().to_string() })
        }
        Ok(_) => Ok(text),
        Err(source) if source.kind() == io::ErrorKind::InvalidData => {
            Err(ManifestError::NotText { file: path.display().to_string() })
        }
        Err(source) => Err(ManifestError::Read { source }),
    }
}

/// Parses the documents of one file; returns all objects or all mistakes.
fn parse(file: &str, text: &str) -> Result<Vec<Manifest>, Vec<String>> {
    // A document is no more than its bytes: a file may have as many as fit.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: FILE_NODES_MAX,
            max_nodes: FILE_NODES_MAX,
            max_events: 4 * FILE_NODES_MAX,
            max_merge_keys: FILE_NODES_MAX,
        },
    };
    let documents: Vec<Spanned<Value>> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| vec![explain(file, &error)])?;
    let mut manifests = Vec::new();
    let mut mistakes = Vec::new();
    for document in documents {
        let origin = format!("{file}:{}", document.referenced.line());
        for object in objects(document.value) {
            match check(&origin, object) {
                Ok(manifest) => manifests.push(manifest),
                Err(mistake) => mistakes.push(format!("{origin}: {mistake}")),
            }
        }
    }
    if mistakes.is_empty() { Ok(manifests) } else { Err(mistakes) }
}

/// Says why a file is not YAML. The parser shows its limits as a data structure: those get a sentence.
fn explain(file: &str, error: &serde_saphyr::Error) -> String {
    if is_limit(error.without_snippet()) {
        let line = error.location().map_or_else(String::new, |location| format!(":{}", location.line()));
        return format!("{file}{line}: too large or too deeply nested once its aliases are expanded");
    }
    format!("{file}: {}", error.to_string().replace("<input>", file).trim_start_matches("error: "))
}

fn is_limit(error: &serde_saphyr::Error) -> bool {
    use serde_saphyr::Error as E;
    match error {
        E::AliasError { error, .. } => is_limit(error.without_snippet()),
        E::Budget { .. }
        | E::AliasReplayCounterOverflow { .. }
        | E::AliasReplayLimitExceeded { .. }
        | E::AliasExpansionLimitExceeded { .. }
        | E::AliasReplayStackDepthExceeded { .. } => true,
        _ => false,
    }
}

/// Returns the items of a `List`, or the object itself; nothing for an empty document.
fn objects(value: Value) -> Vec<Value> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Null => Vec::new(),
        Value::Object(mut fields) if is_list => match fields.remove("items") {
            Some(Value::Array(items)) => items,
            _ => vec![Value::Object(fields)],
        },
        other => vec![other],
    }
}

fn check(origin: &str, object: Value) -> Result<Manifest, String> {
    if !object.is_object() {
        return Err("not an object with `apiVersion` and `kind`".to_owned());
    }
    let field = |value: &Value, path: &str| match value.as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("`{path}` is missing or not a string")),
    };
    let metadata = &object["metadata"];
    Ok(Manifest {
        origin: origin.to_owned(),
        api_version: field(&object["apiVersion"], "apiVersion")?,
        kind: field(&object["kind"], "kind")?,
        name: field(&metadata["name"], "metadata.name")?,
        namespace: metadata["namespace"].as_str().map(str::to_owned),
        object,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: Result<&[&str], &[&str]>) {
        let parsed = parse("f.yaml", text);
        let shown =
            parsed.map(|all| all.iter().map(|m| format!("{} {}/{}", m.origin, m.kind, m.name)).collect::<Vec<_>>());
        match (&shown, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{name}"),
            (Err(found), Err(expected)) => {
                assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
                for (found, expected) in found.iter().zip(expected) {
                    assert!(found.starts_with(expected), "{name}: {found}");
                }
            }
            _ => panic!("{name}: {shown:?}"),
        }
    }

    #[test]
    fn manifests_are_read() {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        check("one document", map, Ok(&["f.yaml:1 ConfigMap/a"]));
        check("two documents", &format!("{map}---\n{map}"), Ok(&["f.yaml:1 ConfigMap/a", "f.yaml:5 ConfigMap/a"]));
        check("empty documents are nothing", "---\n# only words\n---\n", Ok(&[]));
        check("an empty file is nothing", "", Ok(&[]));
        check("JSON", r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}"#, Ok(&["f.yaml:1 Pod/p"]));
        check(
            "a list is its items",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n\
             - {apiVersion: v1, kind: Pod, metadata: {name: b}}\n",
            Ok(&["f.yaml:1 Pod/a", "f.yaml:1 Pod/b"]),
        );
    }

    #[test]
    fn a_file_that_is_not_text_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image.yaml");
        fs::write(&file, [0x89, b'P', b'N', b'G', 0xff]).unwrap();
        let error = read(std::slice::from_ref(&file)).unwrap_err();
        assert_eq!(error.to_string(), format!("{} is not text in UTF-8", file.display()));
    }

    #[test]
    fn a_file_may_have_thousands_of_documents() {
        let document = |number: usize| {
            let data: String = (0..25).map(|key| format!("  key-{key}: value\n")).collect();
            format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: map-{number}\ndata:\n{data}")
        };
        let text: String = (0..5_000).map(document).collect();
        let found = parse("f.yaml", &text).unwrap();
        assert_eq!(found.len(), 5_000);
        assert_eq!((found[4_999].name.as_str(), found[4_999].origin.as_str()), ("map-4999", "f.yaml:154971"));
        let empty = "---\n".repeat(5_000);
        assert_eq!(parse("f.yaml", &empty).unwrap(), []);
    }

    #[test]
    fn all_mistakes_are_reported_with_their_place() {
        check(
            "every document is checked",
            "kind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\n---\n- 1\n",
            Err(&[
                "f.yaml:1: `apiVersion` is missing or not a string",
                "f.yaml:4: `metadata.name` is missing or not a string",
                "f.yaml:7: not an object with `apiVersion` and `kind`",
            ]),
        );
        check("bad YAML", "a: [1\n", Err(&["f.yaml: "]));
        let bomb: String =
            (1..12).map(|level| format!("a{level}: &a{level} [{}]\n", format!("*a{},", level - 1).repeat(9))).collect();
        let bomb = format!("a0: &a0 [x]\n{bomb}");
        let found = parse("f.yaml", &bomb).unwrap_err();
        assert!(found[0].ends_with("too large or too deeply nested once its aliases are expanded"), "{found:?}");
        check(
            "a name that is a number",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 1}\n",
            Err(&["f.yaml:1: `metadata.name`"]),
        );
    }
}
