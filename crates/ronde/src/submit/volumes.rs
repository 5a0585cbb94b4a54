//! What a job mounts: claims, directories of the nodes, files of this machine, shared memory, code.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fs_err as fs;
use ronde_text::{names, quantity::Quantity};
use serde_json::{Value, json};

use crate::args::CommonArgs;

/// What a ConfigMap can hold.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
pub const CODE_VOLUME: &str = "code-sync";

/// A volume and where it is mounted.
#[derive(Debug, Clone, PartialEq)]
pub struct Mount {
    pub volume: Value,
    pub mount: Value,
}

/// A file of this machine for the pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    pub key: String,
    pub path: String,
    pub base64: String,
}

/// Returns the claims, the directories and the shared memory.
pub fn mounts(common: &CommonArgs, faults: &mut Vec<String>) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for text in &common.data {
        let found = text.split_once(':').filter(|(claim, path)| claim.len() >= 2 && is_mountable(path));
        match found {
            Some((claim, path)) => {
                mounts.push(mount(claim, path, json!({"persistentVolumeClaim": {"claimName": claim}})));
            }
            None => faults.push(format!("--data `{text}` is not like `CLAIM:/PATH`, with a path below /")),
        }
    }
    for (index, text) in common.data_dirs.iter().enumerate() {
        let (host, path) = text.split_once(':').unwrap_or((text, text));
        if is_mountable(host) && is_mountable(path) {
            mounts.push(mount(&format!("training-data-{index}"), path, json!({"hostPath": {"path": host}})));
        } else {
            faults.push(format!("--data-dir `{text}` is not like `/DIR` or `/DIR:/PATH`"));
        }
    }
    if Quantity::parse(&common.share_memory).is_ok_and(|size| !size.is_zero()) {
        let memory = json!({"emptyDir": {"medium": "Memory", "sizeLimit": common.share_memory}});
        mounts.push(mount("dshm", "/dev/shm", memory));
    }
    if common.sync_mode.is_some() {
        let code = format!("{}/code", common.working_dir.trim_end_matches('/'));
        mounts.push(mount(CODE_VOLUME, &code, json!({"emptyDir": {}})));
    }
    mounts
}

fn mount(name: &str, path: &str, source: Value) -> Mount {
    let mut volume = source;
    volume["name"] = name.into();
    Mount { volume, mount: json!({"name": name, "mountPath": path}) }
}

fn is_mountable(path: &str) -> bool {
    path.starts_with('/') && !path.trim_matches('/').is_empty()
}

/// Reads the files of `--config-file`.
pub fn read_files(texts: &[String], faults: &mut Vec<String>) -> Vec<ConfigFile> {
    let mut files = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let (file, path) = text.split_once(':').map_or((text.as_str(), None), |(file, path)| (file, Some(path)));
        let name = file.rsplit('/').next().unwrap_or_default();
        let path = path.map_or_else(|| file.to_owned(), str::to_owned);
        if !is_mountable(&path) {
            faults.push(format!("--config-file `{text}` does not say where in the pods: write `FILE:/PATH`"));
            continue;
        }
        let key = if names::is_config_map_key(name).is_empty() { format!("{index}-{name}") } else { index.to_string() };
        match read(file) {
            Ok(bytes) => files.push(ConfigFile { key, path, base64: BASE64_STANDARD.encode(bytes) }),
            Err(error) => faults.push(format!("--config-file `{text}`: {error}")),
        }
    }
    files
}

fn read(file: &str) -> Result<Vec<u8>, String> {
    let length = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("has {length} bytes, at most {FILE_BYTES_MAX} can be taken along"));
    }
    fs::read(file).map_err(|error| error.to_string())
}

/// Returns the mounts of files that are in a ConfigMap.
pub fn file_mounts(config_map: &str, files: &[ConfigFile]) -> Vec<Mount> {
    let volume = json!({"name": "config-files", "configMap": {"name": config_map}});
    let of = |file: &ConfigFile| {
        let mount = json!({"name": "config-files", "mountPath": file.path, "subPath": file.key});
        Mount { volume: volume.clone(), mount }
    };
    files.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::fixtures::etjob;

    fn check(line: &str, expected: &[&str], expected_faults: &[&str]) {
        let mut faults = Vec::new();
        let found = mounts(&etjob(line).common, &mut faults);
        let shown = |one: &Mount| {
            let mut volume = one.volume.clone();
            let name = volume.as_object_mut().unwrap().remove("name").unwrap();
            format!("{} {} {volume}", name.as_str().unwrap(), one.mount["mountPath"].as_str().unwrap())
        };
        assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected, "{line}");
        assert_eq!(faults, expected_faults, "{line}");
    }

    const SHM: &str = r#"dshm /dev/shm {"emptyDir":{"medium":"Memory","sizeLimit":"2Gi"}}"#;

    #[test]
    fn claims_and_directories_are_mounted() {
        check("run", &[SHM], &[]);
        check("--share-memory=0 run", &[], &[]);
        check(
            "-d data:/d --data-dir /a --data-dir /b:/c --sync-mode git --sync-source u --working-dir /w/ run",
            &[
                r#"data /d {"persistentVolumeClaim":{"claimName":"data"}}"#,
                r#"training-data-0 /a {"hostPath":{"path":"/a"}}"#,
                r#"training-data-1 /c {"hostPath":{"path":"/b"}}"#,
                SHM,
                r#"code-sync /w/code {"emptyDir":{}}"#,
            ],
            &[],
        );
        check(
            "--data a --data d:/x --data data:/ --data-dir here run",
            &[SHM],
            &[
                "--data `a` is not like `CLAIM:/PATH`, with a path below /",
                "--data `d:/x` is not like `CLAIM:/PATH`, with a path below /",
                "--data `data:/` is not like `CLAIM:/PATH`, with a path below /",
                "--data-dir `here` is not like `/DIR` or `/DIR:/PATH`",
            ],
        );
    }

    #[test]
    fn files_are_taken_along() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.json").display().to_string();
        fs::write(&file, b"{}").unwrap();
        let mut faults = Vec::new();
        let files = read_files(&[format!("{file}:/etc/a"), "relative".to_owned(), "/none".to_owned()], &mut faults);
        let expected = ConfigFile { key: "0-a.json".to_owned(), path: "/etc/a".to_owned(), base64: "e30=".to_owned() };
        assert_eq!(files, [expected]);
        assert_eq!(faults.len(), 2, "{faults:?}");
        let mounts = file_mounts("m", &files);
        assert_eq!(mounts[0].mount, json!({"name": "config-files", "mountPath": "/etc/a", "subPath": "0-a.json"}));
    }
}
