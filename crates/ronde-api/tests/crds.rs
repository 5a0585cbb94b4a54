//! The committed definitions are those that the types generate.

use std::path::Path;

use ronde_api::crd::COMMITTED;
use serde_json::Value;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crds")
}

#[test]
fn the_committed_definitions_are_current() {
    let all = ronde_api::crd::all();
    assert_eq!(all.len(), COMMITTED.len());
    for (definition, (name, text)) in all.iter().zip(COMMITTED) {
        assert_eq!(ronde_api::crd::name(definition), name);
        assert!(text.starts_with(ronde_api::crd::HEAD), "{name}");
        let committed: Value = serde_saphyr::from_str(text).expect("YAML");
        assert_eq!(committed, *definition, "{name} is not current: run `make generate`");
    }
}

#[test]
fn there_is_no_other_file_among_them() {
    let mut files: Vec<String> = fs_err::read_dir(folder())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    files.sort();
    assert_eq!(files, COMMITTED.map(|(name, _)| format!("{name}.yaml")));
}

/// `kubectl apply` notes the whole manifest in an annotation.
#[test]
fn every_definition_can_be_applied() {
    const ANNOTATION_MAX: usize = 256 * 1024;
    for definition in ronde_api::crd::all() {
        let size = definition.to_string().len();
        assert!(size < ANNOTATION_MAX, "{} has {size} bytes", ronde_api::crd::name(&definition));
    }
}
