//! What we save is read by another tool, and what it writes is read by us.

use std::process::Command;

use super::*;
use crate::{
    store::Quiet,
    testing::{docker_archive, skip},
};

fn skopeo(arguments: &[&str]) -> String {
    let output = Command::new("skopeo").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_buildah_writes_is_read() {
    if !rustix::process::geteuid().is_root() || Command::new("buildah").arg("--version").output().is_err() {
        return skip("`buildah` is not installed, or this is not root");
    }
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    let buildah = |arguments: &[&str]| {
        let (root, run) = (path("root"), path("run"));
        let storage = ["--storage-driver", "vfs", "--root", &root, "--runroot", &run];
        let output = Command::new("buildah").args(storage).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    fs::write(path("file"), "hello").unwrap();
    let container = buildah(&["from", "scratch"]);
    buildah(&["copy", &container, &path("file"), "/file"]);
    buildah(&["config", "--cmd", "/file", &container]);
    for (number, format) in ["oci-archive", "docker-archive", "oci"].iter().enumerate() {
        let to = path(&format!("image-{number}"));
        let tag = if *format == "oci" { "1" } else { "example.org/team/app:1" };
        buildah(&["commit", "-q", &container, &format!("{format}:{to}:{tag}")]);
        let store = Store::new(place.path().join(format!("store-{number}")));
        let name = "app:2".parse().unwrap();
        let mut file = fs::File::open(&to).unwrap();
        let input = if *format == "oci" { Input::Folder(to.as_ref()) } else { Input::Stream(&mut file) };
        load(&store.adding().unwrap(), input, Some(&name), &Quiet).unwrap();
        let image = store.find(&name).unwrap().unwrap();
        assert_eq!(image.read_file("file").as_deref(), Some("hello"), "{format}");
        assert_eq!(image.config.config.cmd, ["/file"], "{format}");
    }
}

#[test]
fn skopeo_reads_what_is_saved_and_we_read_what_it_copies() {
    if Command::new("skopeo").arg("--version").output().is_err() {
        return skip("`skopeo` is not installed");
    }
    let place = tempfile::tempdir().unwrap();
    let store = Store::new(place.path().join("one"));
    let bytes = docker_archive("example.org/team/app:1", "hello");
    let loaded = load(&store.adding().unwrap(), Input::Stream(&mut bytes.as_slice()), None, &Quiet).unwrap();
    let saved = place.path().join("saved.tar");
    save(&store, &loaded[0].names[0], &mut fs::File::create(&saved).unwrap()).unwrap();
    let saved = saved.to_str().unwrap();

    let shown: serde_json::Value =
        serde_json::from_str(&skopeo(&["inspect", &format!("oci-archive:{saved}")])).unwrap();
    assert_eq!(shown["Digest"], loaded[0].digest.to_string());
    assert_eq!(shown["Env"], json!(["A=1"]));
    let shown: serde_json::Value =
        serde_json::from_str(&skopeo(&["inspect", &format!("docker-archive:{saved}:example.org/team/app:1")])).unwrap();
    assert_eq!(shown["Layers"].as_array().map(Vec::len), Some(1));

    // With the policy of everybody: a machine without one has skopeo refuse everything.
    for (number, format) in ["oci-archive", "docker-archive"].iter().enumerate() {
        let copied = place.path().join(format!("copied-{number}.tar"));
        let to = format!("{format}:{}:example.org/team/app:2", copied.display());
        skopeo(&["--insecure-policy", "copy", &format!("oci-archive:{saved}"), &to]);
        let other = Store::new(place.path().join(format!("other-{number}")));
        let mut file = fs::File::open(&copied).unwrap();
        let name = "app:2".parse().unwrap();
        load(&other.adding().unwrap(), Input::Stream(&mut file), Some(&name), &Quiet).unwrap();
        let image = other.find(&name).unwrap().unwrap();
        assert_eq!(image.read_file("file").as_deref(), Some("hello"), "{format}");
    }
}
