//! Images as files: reads docker-archives, OCI archives and OCI folders, and writes an archive that is both.
//!
//! An archive is unpacked into the store's folder for unfinished things first, by the unpacker of layers, because its
//! parts may come in any order. Every part passes the check of its digest on the way into the store.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    path::Path,
};

use fs_err as fs;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::Deserialize;
use serde_json::json;

use crate::{
    Descriptor, Digest, Manifest, Platform, Reference,
    inside::open_inside,
    manifest::{
        self, Compression, DOCUMENT_SIZE_MAX, Document, Index, LAYERS_MAX, OCI_CONFIG, OCI_INDEX, OCI_MANIFEST,
    },
    reference,
    store::{Adding, Progress, Store, StoreError},
    unpack::{self, BLOCK, Options, Rights, UnpackError, file_header},
    zstd,
};

const LAYER_TAR: &str = "application/vnd.oci.image.layer.v1.tar";
const LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
/// What is read at a time.
const CHUNK: usize = 1 << 17;
/// Archives with more are made to be trouble.
const IMAGES_MAX: usize = 1000;
/// How deep an index may point to an index.
const NESTING_MAX: u32 = 4;
/// Where tools write the whole name, and where they write a name or only a tag.
const NAME_ANNOTATIONS: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];

/// Why an archive cannot be loaded or saved.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("cannot read the archive: {0}")]
    Io(#[from] io::Error),
    #[error("cannot unpack the archive: {0}")]
    Unpack(#[from] UnpackError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    #[error(transparent)]
    Name(#[from] reference::Error),
    #[error("this is neither a docker-archive nor an OCI archive or folder")]
    Unknown,
    #[error("`{0}` in the archive cannot be read")]
    Document(&'static str),
    #[error("the image in the archive has no name")]
    Nameless,
    #[error("the archive has {0} images, and one name was given")]
    Several(usize),
    #[error("the archive has more than {IMAGES_MAX} images")]
    TooMany,
    #[error("there is no image `{0}`")]
    Missing(String),
    #[error("the packed layers of `{0}` were removed to free disk space; load it again, or remove and pull it")]
    Unpacked(String),
}

/// Where an image comes from.
pub enum Input<'a> {
    /// A tar archive, perhaps compressed with gzip or zstd.
    Stream(&'a mut dyn Read),
    Folder(&'a Path),
}

/// An image that was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    pub names: Vec<Reference>,
    pub digest: Digest,
}

/// Loads all images of an archive. A given name is for the only one.
pub fn load(
    adding: &Adding,
    input: Input<'_>,
    name: Option<&Reference>,
    progress: &dyn Progress,
) -> Result<Vec<Loaded>, ArchiveError> {
    match input {
        Input::Folder(path) => load_folder(adding, path, name, progress),
        Input::Stream(reader) => {
            let temporary = adding.temporary_folder()?;
            let folder = temporary.path();
            let mut start = [0; 4];
            reader.read_exact(&mut start)?;
            let whole = buffered(io::Read::chain(&start[..], reader));
            // Its files are ours: owners mean nothing outside of layers.
            let options = Options { rights: Rights::Own, ..Options::of_caller() };
            let mut decoder: Box<dyn io::BufRead> = match packed(start) {
                Compression::None => Box::new(whole),
                Compression::Gzip => Box::new(buffered(flate2::bufread::MultiGzDecoder::new(whole))),
                Compression::Zstd => Box::new(buffered(zstd::Decoder::new(whole))),
            };
            unpack::unpack(&mut decoder, folder, options)?;
            load_folder(adding, folder, name, progress)
        }
    }
}

fn buffered<R: Read>(reader: R) -> io::BufReader<R> {
    io::BufReader::with_capacity(CHUNK, reader)
}

/// Tells how bytes are packed by how they begin.
fn packed(start: [u8; 4]) -> Compression {
    match start {
        zstd::MAGIC => Compression::Zstd,
        [0x1f, 0x8b, ..] => Compression::Gzip,
        _ => Compression::None,
    }
}

fn load_folder(
    adding: &Adding,
    path: &Path,
    name: Option<&Reference>,
    progress: &dyn Progress,
) -> Result<Vec<Loaded>, ArchiveError> {
    let files = Files::open(path)?;
    let found = if files.has("oci-layout") && files.has("index.json") {
        put_oci(adding, &files)?
    } else if files.has("manifest.json") {
        put_docker(adding, &files)?
    } else {
        return Err(ArchiveError::Unknown);
    };
    let count = found.len();
    let mut loaded = Vec::new();
    for (digest, names) in found {
        let names = match name {
            Some(_) if count > 1 => return Err(ArchiveError::Several(count)),
            Some(name) => vec![name.clone()],
            None => names,
        };
        if names.is_empty() {
            return Err(ArchiveError::Nameless);
        }
        adding.unpack_all(digest, progress)?;
        adding.name(digest, &names)?;
        loaded.push(Loaded { names, digest });
    }
    Ok(loaded)
}

/// The files of an unpacked archive; links among them mean its folder.
struct Files(std::os::fd::OwnedFd);

impl Files {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, path, flags, Mode::empty())?))
    }

    fn file(&self, path: &str) -> io::Result<fs::File> {
        let file = open_inside(&self.0, path, OFlags::RDONLY | OFlags::NONBLOCK).map_err(|error| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("`{path}`: {error}"))
        })?;
        Ok(fs::File::from_parts(file.into(), path))
    }

    fn has(&self, path: &str) -> bool {
        self.file(path).is_ok()
    }

    /// Reads a document, which is never large.
    fn document(&self, path: &str, what: &'static str) -> Result<Vec<u8>, ArchiveError> {
        let mut bytes = Vec::new();
        self.file(path)?.take(DOCUMENT_SIZE_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > DOCUMENT_SIZE_MAX { Err(ArchiveError::Document(what)) } else { Ok(bytes) }
    }

    fn blob(&self, digest: Digest) -> io::Result<fs::File> {
        self.file(&format!("blobs/sha256/{}", digest.hex()))
    }
}

type Found = Vec<(Digest, Vec<Reference>)>;

fn put_oci(adding: &Adding, files: &Files) -> Result<Found, ArchiveError> {
    let index = Index::parse(&files.document("index.json", "index.json")?)?;
    // Names of one image come as several entries.
    let mut found: BTreeMap<Digest, Vec<Reference>> = BTreeMap::new();
    for entry in &index.manifests {
        let digest = put_oci_image(adding, files, entry, 0)?;
        let names = found.entry(digest).or_default();
        if let Some(name) = annotated_name(entry) {
            names.push(name);
        }
    }
    Ok(found.into_iter().collect())
}

/// A word alone is a tag of a name that is not said.
fn annotated_name(entry: &Descriptor) -> Option<Reference> {
    let mut written = NAME_ANNOTATIONS.iter().filter_map(|key| entry.annotations.get(*key));
    written.find(|text| text.contains([':', '/'])).and_then(|text| text.parse().ok())
}

fn put_oci_image(adding: &Adding, files: &Files, entry: &Descriptor, depth: u32) -> Result<Digest, ArchiveError> {
    let path = format!("blobs/sha256/{}", entry.digest.hex());
    let bytes = files.document(&path, "a manifest")?;
    entry.digest.verify(&bytes).map_err(StoreError::from)?;
    match Document::parse(&bytes, Some(entry.media_type.as_str()).filter(|said| !said.is_empty()))? {
        Document::Index(index) if depth < NESTING_MAX => {
            let chosen = index.choose(&Platform::of_this_machine())?;
            put_oci_image(adding, files, chosen, depth + 1)
        }
        Document::Index(_) => Err(ArchiveError::Document("index.json")),
        Document::Manifest(manifest) => {
            for part in manifest.descriptors() {
                if !adding.has_blob(part.digest) {
                    adding.put_blob(&mut files.blob(part.digest)?, Some(part.digest))?;
                }
            }
            Ok(adding.put_blob(&mut bytes.as_slice(), Some(entry.digest))?.0)
        }
    }
}

/// One image of a docker-archive.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    layers: Vec<String>,
}

fn put_docker(adding: &Adding, files: &Files) -> Result<Found, ArchiveError> {
    let bytes = files.document("manifest.json", "manifest.json")?;
    let images: Vec<DockerImage> =
        serde_json::from_slice(&bytes).map_err(|_| ArchiveError::Document("manifest.json"))?;
    if images.len() > IMAGES_MAX {
        return Err(ArchiveError::TooMany);
    }
    let mut found = Vec::new();
    for image in images {
        let names = image.repo_tags.iter().flatten().map(|name| name.parse()).collect::<Result<Vec<_>, _>>()?;
        found.push((put_docker_image(adding, files, &image)?, names));
    }
    Ok(found)
}

/// A docker-archive has no manifest of its own: we make the one that OCI would have.
fn put_docker_image(adding: &Adding, files: &Files, image: &DockerImage) -> Result<Digest, ArchiveError> {
    if image.layers.len() > LAYERS_MAX {
        return Err(ArchiveError::Document("manifest.json"));
    }
    let config = files.document(&image.config, "the image configuration")?;
    let (digest, size) = adding.put_blob(&mut config.as_slice(), None)?;
    let config = describe(OCI_CONFIG, digest, size);
    let mut layers = Vec::new();
    for path in &image.layers {
        let mut start = [0; 4];
        files.file(path)?.read_exact(&mut start)?;
        let media_type = match packed(start) {
            Compression::None => LAYER_TAR,
            Compression::Gzip => LAYER_GZIP,
            Compression::Zstd => LAYER_ZSTD,
        };
        let (digest, size) = adding.put_blob(&mut files.file(path)?, None)?;
        layers.push(describe(media_type, digest, size));
    }
    let media_type = Some(OCI_MANIFEST.to_owned());
    let manifest = Manifest { schema_version: 2, media_type, config, layers, annotations: BTreeMap::new() };
    let bytes = serde_json::to_vec(&manifest).map_err(io::Error::other)?;
    Ok(adding.put_blob(&mut bytes.as_slice(), None)?.0)
}

fn describe(media_type: &str, digest: Digest, size: u64) -> Descriptor {
    let annotations = BTreeMap::new();
    Descriptor { media_type: media_type.to_owned(), digest, size, urls: Vec::new(), annotations, platform: None }
}

/// Writes an image as an archive that OCI tools and `docker load` read.
pub fn save(store: &Store, name: &Reference, output: &mut dyn Write) -> Result<(), ArchiveError> {
    let _use = store.hold()?;
    let image = store.find(name)?.ok_or_else(|| ArchiveError::Missing(name.familiar()))?;
    if image.manifest.layers.iter().any(|layer| !store.blob(layer.digest).exists()) {
        return Err(ArchiveError::Unpacked(name.familiar()));
    }
    let manifest_size = fs::metadata(store.blob(image.digest))?.len();
    let path = |digest: Digest| format!("blobs/sha256/{}", digest.hex());
    let media_type = image.manifest.media_type.as_deref().unwrap_or(OCI_MANIFEST);
    let annotations: BTreeMap<&str, String> = NAME_ANNOTATIONS.iter().map(|key| (*key, name.to_string())).collect();
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [{"mediaType": media_type,
        "digest": image.digest, "size": manifest_size, "annotations": annotations}]});
    let layers: Vec<String> = image.manifest.layers.iter().map(|layer| path(layer.digest)).collect();
    let docker =
        json!([{"Config": path(image.manifest.config.digest), "RepoTags": [name.familiar()], "Layers": layers}]);
    put_document(output, "oci-layout", &json!({"imageLayoutVersion": "1.0.0"}))?;
    put_document(output, "index.json", &index)?;
    put_document(output, "manifest.json", &docker)?;
    let mut written = std::collections::BTreeSet::new();
    for digest in std::iter::once(image.digest).chain(image.manifest.descriptors().map(|part| part.digest)) {
        if written.insert(digest) {
            let mut blob = fs::File::open(store.blob(digest))?;
            let size = blob.metadata()?.len();
            put_file(output, &path(digest), size, &mut blob)?;
        }
    }
    Ok(output.write_all(&[0; 2 * BLOCK])?)
}

fn put_document(output: &mut dyn Write, name: &str, document: &serde_json::Value) -> io::Result<()> {
    let text = document.to_string();
    put_file(output, name, text.len() as u64, &mut text.as_bytes())
}

fn put_file(output: &mut dyn Write, name: &str, size: u64, content: &mut dyn Read) -> io::Result<()> {
    output.write_all(&file_header(name, size))?;
    io::copy(&mut content.take(size), output)?;
    let padding = size.next_multiple_of(BLOCK as u64) - size;
    output.write_all(&vec![0; usize::try_from(padding).unwrap_or(0)])
}
