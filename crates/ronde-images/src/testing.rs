//! What tests of several modules share: archives made by hand, and how a test says that it could not run.

use std::io::Write as _;

use crate::{
    Digest,
    unpack::{BLOCK, file_header},
};

/// One entry of an archive: kind, path, content or target.
pub type Entry<'a> = (u8, &'a str, &'a str);

/// Makes an archive.
pub fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, path, content) in entries {
        let is_file = *kind == b'0';
        let mut header = file_header(path, if is_file { content.len() as u64 } else { 0 });
        header[156] = *kind;
        if !is_file {
            header[157..157 + content.len()].copy_from_slice(content.as_bytes());
        }
        if *kind == b'5' {
            header[100..108].copy_from_slice(b"0000755\0");
        }
        header[148..156].copy_from_slice(b"        ");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend(header);
        if is_file {
            bytes.extend(content.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

/// Makes an archive of plain files.
pub fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        bytes.extend(file_header(name, content.len() as u64));
        bytes.extend(*content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

/// What `docker save` makes of an image with one layer.
pub fn docker_archive(name: &str, content: &str) -> Vec<u8> {
    let layer = tar(&[("file", content.as_bytes())]);
    let config = serde_json::json!({"config": {"Cmd": ["sh"], "Env": ["A=1"]},
        "rootfs": {"type": "layers", "diff_ids": [Digest::of_bytes(&layer).to_string()]}});
    let list = serde_json::json!([{"Config": "c.json", "RepoTags": [name], "Layers": ["l/layer.tar"]}]);
    let (config, list) = (config.to_string(), list.to_string());
    tar(&[("l/layer.tar", &layer), ("c.json", config.as_bytes()), ("manifest.json", list.as_bytes())])
}

/// Records that the running test is skipped, and why, where `tools/test.sh` counts it. The test returns after it.
#[expect(clippy::disallowed_methods, reason = "the simulation's own function for it would bring all of Kubernetes")]
pub fn skip(reason: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("SKIPPED: {name}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os("RONDE_SKIPS") {
        let opened = fs_err::OpenOptions::new().append(true).create(true).open(std::path::PathBuf::from(file));
        opened.and_then(|mut file| file.write_all(line.as_bytes())).expect("$RONDE_SKIPS can be written");
    }
}
