use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn digest(text: &str) -> String {
    Digest::of_bytes(text.as_bytes()).to_string()
}

fn platform(text: &str) -> Platform {
    let mut parts = text.split('/').map(str::to_owned);
    let (os, architecture) = (parts.next().unwrap(), parts.next().unwrap());
    Platform { architecture, os, variant: parts.next() }
}

/// An index with one manifest for each platform; `-` says none.
fn index(platforms: &[&str]) -> Index {
    let entry = |text: &&str| {
        let mut entry = json!({"mediaType": OCI_MANIFEST, "digest": digest(text), "size": 7, "new": {"field": 1}});
        if *text != "-" {
            entry["platform"] = serde_json::to_value(platform(text)).unwrap();
        }
        entry
    };
    let entries: Vec<Value> = platforms.iter().map(entry).collect();
    Index::parse(json!({"schemaVersion": 2, "manifests": entries}).to_string().as_bytes()).unwrap()
}

fn manifest(layer_type: &str, layers: usize) -> Value {
    let layer = json!({"mediaType": layer_type, "digest": digest("layer"), "size": 10});
    json!({
        "schemaVersion": 2, "mediaType": DOCKER_MANIFEST,
        "config": {"mediaType": DOCKER_CONFIG, "digest": digest("config"), "size": 20},
        "layers": vec![layer; layers],
    })
}

const GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

#[test]
fn the_platform_that_fits_best_is_chosen() {
    let check = |offered: &[&str], wanted: &str, chosen: Option<&str>| {
        let index = index(offered);
        let found = index.choose(&platform(wanted)).ok().map(|found| found.digest.to_string());
        assert_eq!(found, chosen.map(digest), "{wanted} of {offered:?}");
    };
    check(&["linux/arm64", "linux/amd64"], "linux/amd64", Some("linux/amd64"));
    check(&["windows/amd64", "unknown/unknown", "linux/amd64"], "linux/amd64", Some("linux/amd64"));
    check(&["linux/amd64/v3", "linux/amd64"], "linux/amd64", Some("linux/amd64"));
    check(&["linux/amd64/v3"], "linux/amd64", None);
    check(&["linux/arm64", "linux/arm64/v8"], "linux/arm64/v8", Some("linux/arm64"));
    check(&["linux/arm/v5", "linux/arm/v6", "linux/arm/v8"], "linux/arm/v7", Some("linux/arm/v6"));
    check(&["-"], "linux/amd64", Some("-"));
    check(&["-", "linux/amd64"], "linux/amd64", Some("linux/amd64"));
    check(&[], "linux/amd64", None);
}

#[test]
fn a_missing_platform_is_told_with_those_that_exist() {
    let index = index(&["linux/s390x", "linux/arm/v7", "unknown/unknown"]);
    let error = index.choose(&platform("linux/amd64")).unwrap_err().to_string();
    assert_eq!(error, "the image is not for linux/amd64; it is for linux/arm/v7, linux/s390x");
}

#[test]
fn documents_are_told_apart() {
    let parse = |value: &Value, said: Option<&str>| Document::parse(value.to_string().as_bytes(), said);
    let image = manifest(GZIP, 2);
    assert!(matches!(parse(&image, None), Ok(Document::Manifest(manifest)) if manifest.layers.len() == 2));
    let list = serde_json::to_value(index(&["linux/amd64"])).unwrap();
    assert!(matches!(parse(&list, None), Ok(Document::Index(_))));
    assert!(matches!(
        parse(&list, Some("application/vnd.oci.image.index.v1+json; charset=utf-8")),
        Ok(Document::Index(_))
    ));
    assert!(matches!(parse(&json!({"schemaVersion": 1, "fsLayers": []}), None), Err(Error::Schema1)));
    let chart = json!({"schemaVersion": 2, "mediaType": "application/x-chart"});
    assert!(matches!(parse(&chart, None), Err(Error::MediaType(_))));
}

#[test]
fn what_is_too_much_is_refused() {
    let parse = |value: &Value| Manifest::parse(value.to_string().as_bytes());
    assert!(parse(&manifest(GZIP, LAYERS_MAX)).is_ok());
    assert!(matches!(parse(&manifest(GZIP, LAYERS_MAX + 1)), Err(Error::TooMany { .. })));
    assert!(matches!(parse(&manifest("text/html", 1)), Err(Error::MediaType(_))));
    let mut large = manifest(GZIP, 1);
    large["layers"][0]["size"] = json!(LAYER_SIZE_MAX + 1);
    assert!(matches!(parse(&large), Err(Error::Size { .. })));
    large["layers"][0]["size"] = json!(-1);
    assert!(matches!(parse(&large), Err(Error::Parse { .. })));
    let blank = vec![b' '; 1 + usize::try_from(DOCUMENT_SIZE_MAX).unwrap()];
    assert!(matches!(Manifest::parse(&blank), Err(Error::TooLarge { .. })));
}

#[test]
fn layers_of_all_formats_are_known() {
    let compression = |media_type: &str| {
        let layer = json!({"mediaType": media_type, "digest": digest(""), "size": 1});
        serde_json::from_value::<Descriptor>(layer).unwrap().compression().ok()
    };
    assert_eq!(compression(GZIP), Some(Compression::Gzip));
    assert_eq!(compression("application/vnd.oci.image.layer.v1.tar"), Some(Compression::None));
    assert_eq!(compression("application/vnd.oci.image.layer.v1.tar+gzip"), Some(Compression::Gzip));
    assert_eq!(compression("application/vnd.oci.image.layer.v1.tar+zstd"), Some(Compression::Zstd));
    assert_eq!(compression("application/vnd.oci.image.layer.v1.tar+gzip+encrypted"), None);
}

#[test]
fn a_configuration_is_read_as_docker_writes_it() {
    let text = json!({
        "architecture": "amd64", "os": "linux", "created": "2026-01-01T00:00:00Z", "history": [{"created_by": "x"}],
        "config": {
            "Entrypoint": null, "Cmd": ["sh"], "Env": ["PATH=/bin"], "WorkingDir": "/work", "User": "app:staff",
            "Volumes": {"/data": {}}, "ExposedPorts": {"80/tcp": {}}, "StopSignal": "SIGTERM", "Labels": null,
            "Healthcheck": {"Test": ["CMD", "x"]}, "OnBuild": null,
        },
        "rootfs": {"type": "layers", "diff_ids": [digest("layer")]},
    });
    let config = ImageConfig::parse(text.to_string().as_bytes()).unwrap();
    let run = &config.config;
    assert_eq!((run.entrypoint.len(), run.cmd.as_slice()), (0, ["sh".to_owned()].as_slice()));
    assert_eq!((run.user.as_str(), run.working_dir.as_str()), ("app:staff", "/work"));
    assert_eq!((run.volumes.contains("/data"), run.exposed_ports.contains("80/tcp")), (true, true));
    assert_eq!((run.stop_signal.as_str(), run.env.as_slice()), ("SIGTERM", ["PATH=/bin".to_owned()].as_slice()));
    assert_eq!(config.rootfs.diff_ids.len(), 1);
}

#[test]
fn a_configuration_must_belong_to_its_image() {
    let image = Manifest::parse(manifest(GZIP, 1).to_string().as_bytes()).unwrap();
    let check = |architecture: &str, layers: usize| {
        let ids = vec![digest("layer"); layers];
        let text = json!({"architecture": architecture, "config": null, "rootfs": {"diff_ids": ids}}).to_string();
        ImageConfig::parse_for(text.as_bytes(), &image, &platform("linux/amd64")).err().map(|error| error.to_string())
    };
    assert_eq!(check("amd64", 1), None);
    assert_eq!(check("", 1), None);
    assert_eq!(check("arm64", 1).unwrap(), "the image is not for linux/amd64; it is for linux/arm64");
    assert_eq!(check("amd64", 2).unwrap(), "number of layers: 1 in the manifest, 2 in the image configuration");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let _ = Document::parse(&bytes, None);
        let _ = ImageConfig::parse(&bytes);
    }

    #[test]
    fn only_what_runs_is_chosen(offered in prop::collection::vec("(linux|windows)/(arm|arm64|amd64)(/v[1-9])?", 0..6)) {
        let offered: Vec<&str> = offered.iter().map(String::as_str).collect();
        let wanted = platform("linux/arm/v7");
        match index(&offered).choose(&wanted) {
            Ok(chosen) => prop_assert!(wanted.runs(chosen.platform.as_ref().unwrap())),
            Err(_) => prop_assert!(!offered.iter().any(|text| wanted.runs(&platform(text)))),
        }
    }
}
