//! Volumes as users write them in manifests, and the files that containers find.

use std::{collections::BTreeMap, net::IpAddr, os::unix::fs::MetadataExt, path::Path, sync::Arc};

use fs_err as fs;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod, Secret, Volume},
    apimachinery::pkg::api::resource::Quantity,
};
use proptest::prelude::*;
use serde_json::{Value, from_value, json};

use super::{File, Files, Tokens, content, failed_mount, references, write};
use crate::env::PodFacts;

fn files_of(volume: Value, fs_group: Option<i64>) -> Result<String, String> {
    let volume: Volume = from_value(volume).expect("a volume");
    let pod: Pod = from_value(json!({
        "metadata": {"name": "p", "namespace": "ns", "labels": {"b": "2", "a": "1"}},
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": {"memory": "64Mi"}}}],
            "securityContext": {"fsGroup": fs_group},
        },
    }))
    .expect("a pod");
    let config: ConfigMap =
        from_value(json!({"data": {"k": "v", "l": "w"}, "binaryData": {"b": "/w=="}})).expect("a ConfigMap");
    let secret: Secret = from_value(json!({"data": {"s": "eA=="}})).expect("a Secret");
    let facts = PodFacts {
        pod: &pod,
        host_ip: IpAddr::from([192, 168, 0, 1]),
        pod_ip: None,
        allocatable: &BTreeMap::from([("cpu".to_owned(), Quantity("4".to_owned()))]),
        config_maps: &BTreeMap::from([("c".to_owned(), Arc::new(config))]),
        secrets: &BTreeMap::from([("s".to_owned(), Arc::new(secret))]),
    };
    let tokens = Tokens::from([(("v".to_owned(), "token".to_owned()), "t0k".to_owned())]);
    match content(&volume, &facts, &tokens) {
        Ok(Some(files)) => Ok(shown(&files)),
        Ok(None) => Ok("not from the API".to_owned()),
        Err(error) => Err(failed_mount(&volume.name, &error)),
    }
}

fn shown(files: &Files) -> String {
    let line =
        |(path, file): (&String, &File)| format!("{path}={}:{:o}", String::from_utf8_lossy(&file.bytes), file.mode);
    files.iter().map(line).collect::<Vec<_>>().join(" ")
}

fn check<'a>(rows: impl IntoIterator<Item = (&'a str, Value, Result<&'a str, &'a str>)>) {
    for (name, mut volume, expected) in rows {
        volume["name"] = json!("v");
        let expected = expected.map(str::to_owned);
        let expected = expected.map_err(|text| format!("MountVolume.SetUp failed for volume \"v\" : {text}"));
        assert_eq!(files_of(volume, None), expected, "{name}");
    }
}

#[test]
fn content_follows_the_manifest() {
    let rows = [
        ("all keys", json!({"configMap": {"name": "c"}}), Ok("b=\u{fffd}:644 k=v:644 l=w:644")),
        (
            "some keys, elsewhere, with modes",
            json!({"configMap": {"name": "c", "defaultMode": 0o600, "items": [
                {"key": "k", "path": "x/y"},
                {"key": "l", "path": "z", "mode": 0o400},
            ]}}),
            Ok("x/y=v:600 z=w:400"),
        ),
        ("a secret", json!({"secret": {"secretName": "s", "defaultMode": 0o400}}), Ok("s=x:400")),
        ("an optional one", json!({"secret": {"secretName": "none", "optional": true}}), Ok("")),
        (
            "an optional key",
            json!({"configMap": {"name": "c", "optional": true, "items": [{"key": "no", "path": "p"}]}}),
            Ok(""),
        ),
        ("none", json!({"configMap": {"name": "none"}}), Err("configmap \"none\" not found")),
        ("no secret", json!({"secret": {"secretName": "none"}}), Err("secret \"none\" not found")),
        (
            "no key",
            json!({"configMap": {"name": "c", "items": [{"key": "no", "path": "p"}]}}),
            Err("configmap references non-existent config key: no"),
        ),
        (
            "no key of a secret",
            json!({"secret": {"secretName": "s", "items": [{"key": "no", "path": "p"}]}}),
            Err("references non-existent secret key: no"),
        ),
        (
            "downward API",
            json!({"downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "mem", "mode": 0o440, "resourceFieldRef": {
                    "containerName": "c", "resource": "limits.memory", "divisor": "1Mi",
                }},
                {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}},
            ]}}),
            Ok("cpu=4:644 labels=a=\"1\"\nb=\"2\":644 mem=64:440"),
        ),
        (
            "a field that volumes cannot have",
            json!({"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "status.podIP"}}]}}),
            Err("unsupported fieldPath: status.podIP"),
        ),
        ("another kind", json!({"emptyDir": {}}), Ok("not from the API")),
    ];
    check(rows);
}

#[test]
fn projected_volumes_gather_sources() {
    let rows = [
        (
            "projected: all in one, the last of a path counts",
            json!({"projected": {"defaultMode": 0o440, "sources": [
                {"configMap": {"name": "c", "items": [{"key": "k", "path": "same"}]}},
                {"secret": {"name": "s", "items": [{"key": "s", "path": "same"}]}},
                {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                {"serviceAccountToken": {"path": "token"}},
            ]}}),
            Ok("ns=ns:440 same=x:440 token=t0k:440"),
        ),
        (
            "projected: every mistake is said",
            json!({"projected": {"sources": [
                {"configMap": {"name": "x"}},
                {"secret": {"name": "y"}},
                {"serviceAccountToken": {"path": "other"}},
            ]}}),
            Err(
                "[configmap \"x\" not found, secret \"y\" not found, failed to fetch token: none was issued for other]",
            ),
        ),
    ];
    check(rows);
}

#[test]
fn a_token_is_for_the_group_alone_if_there_is_one() {
    let sources = json!([{"serviceAccountToken": {"path": "token"}}]);
    let volume = json!({"name": "v", "projected": {"defaultMode": 0o644, "sources": sources}});
    assert_eq!(files_of(volume, Some(2000)).as_deref(), Ok("token=t0k:600"));
}

#[test]
fn references_are_all_found() {
    let pod: Pod = from_value(json!({
        "metadata": {"name": "p"},
        "spec": {
            "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "s1"}}]}],
            "containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "c1"}}], "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c2", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
            ]}],
            "volumes": [
                {"name": "a", "configMap": {"name": "c3"}},
                {"name": "b", "secret": {"secretName": "s3"}},
                {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "e", "ephemeral": {}},
                {"name": "f", "projected": {"sources": [
                    {"configMap": {"name": "c4"}}, {"secret": {"name": "s4"}},
                    {"serviceAccountToken": {"path": "t", "audience": "vault", "expirationSeconds": 600}},
                ]}},
            ],
        },
    }))
    .expect("a pod");
    let found = references(&pod);
    let shown = format!("{:?} {:?} {:?}", found.config_maps, found.secrets, found.claims);
    assert_eq!(shown, r#"{"c1", "c2", "c3", "c4"} {"s1", "s2", "s3", "s4"} {"claim", "p-e"}"#);
    let token = &found.tokens[0];
    assert_eq!((token.volume.as_str(), token.path.as_str(), token.expiration_seconds), ("f", "t", Some(600)));
    assert_eq!(token.audience.as_deref(), Some("vault"));
}

fn files(list: &[(&str, &str)]) -> Files {
    list.iter()
        .map(|(path, text)| ((*path).to_owned(), File { bytes: text.as_bytes().to_vec(), mode: 0o640 }))
        .collect()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

/// What a container sees: every path that can be read, with its text.
fn seen(folder: &Path, prefix: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.starts_with("..") {
            continue;
        }
        if path.is_dir() {
            lines.extend(seen(&path, &format!("{prefix}{name}/")));
        } else {
            lines.push(format!("{prefix}{name}={}", fs::read_to_string(&path).expect("a file")));
        }
    }
    lines.sort();
    lines
}

fn hidden(folder: &Path) -> usize {
    let names = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    names.filter(|name| name.to_string_lossy().starts_with("..")).count()
}

#[test]
fn a_change_is_swapped_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    assert!(write(folder, &files(&[("a", "1"), ("d/b", "2"), ("d/./c", "3")]), None, at(1)).expect("written"));
    assert_eq!(seen(folder, ""), ["a=1", "d/b=2", "d/c=3"]);
    assert_eq!(fs::metadata(folder.join("a")).expect("a file").mode() & 0o777, 0o640);
    let before = fs::read_link(folder.join("..data")).expect("a link");
    assert!(!write(folder, &files(&[("a", "1"), ("d/b", "2"), ("d/c", "3")]), None, at(2)).expect("unchanged"));
    assert_eq!(fs::read_link(folder.join("..data")).expect("a link"), before, "no change, no write");

    assert!(write(folder, &files(&[("a", "9"), ("e/f/g", "5")]), None, at(3)).expect("changed"));
    assert_eq!(seen(folder, ""), ["a=9", "e/f/g=5"]);
    assert_eq!(hidden(folder), 2, "only the newest data and its link");
    assert!(write(folder, &Files::new(), None, at(4)).expect("emptied"));
    assert_eq!(seen(folder, ""), Vec::<String>::new());
}

#[test]
fn a_changed_mode_is_a_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut content = files(&[("a", "1")]);
    assert!(write(folder.path(), &content, None, at(1)).expect("written"));
    content.get_mut("a").expect("there").mode = 0o400;
    assert!(write(folder.path(), &content, None, at(2)).expect("written"));
    assert_eq!(fs::metadata(folder.path().join("a")).expect("a file").mode() & 0o777, 0o400);
}

#[test]
fn what_a_killed_run_left_is_cleared() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::create_dir(folder.join("..1970_01_01_00_00_01.000000000")).expect("left over");
    fs::write(folder.join("..1970_01_01_00_00_01.000000000/a"), "half").expect("left over");
    fs::os::unix::fs::symlink("..gone", folder.join("..data_tmp")).expect("left over");
    fs::os::unix::fs::symlink("..gone", folder.join("..data")).expect("left over");
    fs::create_dir(folder.join("nested")).expect("a mount point");
    assert!(write(folder, &files(&[("a", "1")]), None, at(1)).expect("written"));
    assert_eq!(seen(folder, ""), ["a=1"]);
    assert_eq!(hidden(folder), 2);
    assert!(folder.join("nested").is_dir(), "mount points of other volumes stay");
}

#[test]
fn a_group_may_read() {
    if !ronde_sim::is_root() {
        ronde_sim::skip("giving files to a group needs root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let content = Files::from([("d/a".to_owned(), File { bytes: b"1".to_vec(), mode: 0o600 })]);
    assert!(write(folder.path(), &content, Some(2345), at(1)).expect("written"));
    let shown = |path: &str| {
        let found = fs::metadata(folder.path().join(path)).expect("there");
        format!("{} {:o}", found.gid(), found.mode() & 0o7777)
    };
    assert_eq!((shown("d/a").as_str(), shown("d").as_str()), ("2345 640", "2345 2755"));
    assert!(!write(folder.path(), &content, Some(2345), at(2)).expect("unchanged"));
}

#[test]
fn paths_out_of_the_folder_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("volume");
    let long = "x".repeat(256);
    for path in ["", ".", "..", "../a", "a/../b", "/a", "..a", "./..data/a", "a/..", "a\0b", long.as_str()] {
        assert!(write(&inner, &files(&[(path, "1")]), None, at(1)).is_err(), "{path}");
    }
    assert!(!inner.exists());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn nothing_is_written_outside(paths in proptest::collection::vec("(\\.{0,3}/?[ab]{0,1}/?){1,3}", 1..4)) {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("volume");
        let list: Vec<_> = paths.iter().map(|path| (path.as_str(), "1")).collect();
        let _ = write(&inner, &files(&list), None, at(1));
        let outside = fs::read_dir(folder.path()).expect("a folder").filter(|entry| {
            entry.as_ref().is_ok_and(|entry| entry.file_name() != "volume")
        });
        prop_assert_eq!(outside.count(), 0);
    }
}
