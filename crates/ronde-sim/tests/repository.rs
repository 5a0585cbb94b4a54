//! What a reviewer would say twice: file heads, the map of the crates, the lists that must be complete.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

use std::{
    fs::DirEntry,
    path::{Path, PathBuf},
};

/// Files above this are hard to read; a generated table says so by its place in `generated`.
const LINES_MAX: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    fs_err::read_to_string(root().join(path)).unwrap()
}

fn entries(directory: &Path) -> Vec<DirEntry> {
    let mut entries: Vec<DirEntry> = directory.read_dir().unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(DirEntry::file_name);
    entries
}

/// Returns all Rust sources of the workspace, as paths below its root.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = ["crates", "e2e", "bench"].map(|name| root().join(name)).into();
    while let Some(directory) = left.pop() {
        for entry in entries(&directory) {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() && name != "target" {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let shown = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((shown, fs_err::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

#[test]
fn every_source_file_opens_by_saying_what_it_is_for() {
    let bare: Vec<String> = sources()
        .into_iter()
        // A file of tests beside its subject is explained by the subject.
        .filter(|(path, text)| !text.starts_with("//!") && !path.ends_with("/tests.rs"))
        .map(|(path, _)| path)
        .collect();
    assert!(bare.is_empty(), "these do not start with `//!`: {bare:#?}");
}

#[test]
fn no_source_file_is_endless() {
    let long: Vec<String> = sources()
        .into_iter()
        .filter(|(path, text)| {
            text.lines().count() > LINES_MAX && !path.contains("tests") && !path.contains("generated")
        })
        .map(|(path, _)| path)
        .collect();
    assert!(long.is_empty(), "these have more than {LINES_MAX} lines: {long:#?}");
}

#[test]
fn unsafe_code_is_where_the_map_says() {
    let mut files: Vec<String> = sources()
        .into_iter()
        .filter(|(path, text)| text.contains("expect(unsafe_code") && !path.ends_with("repository.rs"))
        .map(|(path, _)| path)
        .collect();
    files.sort();
    let expected = [
        // Tensors of Python frameworks come as addresses.
        "crates/ronde-collective/src/buffer.rs",
        // Memory that several processes map.
        "crates/ronde-collective/src/memory/segment.rs",
        // Code that is compiled for more than the least of processors.
        "crates/ronde-collective/src/reduce/simd.rs",
        // No safe interface makes a process together with its namespaces.
        "crates/ronde-process/src/fork.rs",
        // XLA speaks C, and its layout is declared here.
        "crates/ronde-python/src/jax/abi.rs",
        // Tensors of Python frameworks come as addresses.
        "crates/ronde-python/src/memory.rs",
        // TensorFlow is a C library, found at run time.
        "crates/ronde-python/src/tensorflow/abi.rs",
        // A C++ object of TensorFlow's is moved.
        "crates/ronde-python/src/tensorflow/callback.rs",
    ];
    assert_eq!(files, expected);
}

#[test]
fn every_crate_is_on_the_map() {
    let map = read("ARCHITECTURE.md");
    for entry in entries(&root().join("crates")) {
        let name = format!("`crates/{}`", entry.file_name().display());
        assert!(map.contains(&name), "ARCHITECTURE.md does not mention {name}");
    }
}

/// Returns the crates of ours that a manifest names under `[dependencies]`.
fn own_dependencies(manifest: &str) -> Vec<String> {
    let after = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = after.split("\n[").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| line.split([' ', '.', '=']).next());
    names.filter(|name| name.starts_with("ronde")).map(str::to_owned).collect()
}

#[test]
fn a_crate_uses_only_crates_above_it_on_the_map() {
    let map = read("ARCHITECTURE.md");
    let place = |name: &str| map.find(&format!("| `crates/{name}` |")).unwrap_or_else(|| panic!("{name} has no row"));
    for entry in entries(&root().join("crates")) {
        let name = entry.file_name().display().to_string();
        for used in own_dependencies(&read(&format!("crates/{name}/Cargo.toml"))) {
            assert!(place(&used) < place(&name), "{name} uses {used}, which is below it in ARCHITECTURE.md");
        }
    }
}

/// Returns the folders of a crate that hold a controller.
fn controllers(crate_: &str) -> Vec<String> {
    let is_controller = |text: &str| text.contains("impl Controller for ") || text.contains("impl ClusterLoop for ");
    let below = format!("crates/{crate_}/src/");
    let mut found: Vec<String> = sources()
        .iter()
        .filter(|(_, text)| is_controller(text))
        .filter_map(|(path, _)| Some(path.strip_prefix(&below)?.split_once('/')?.0.to_owned()))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the modules of the crate that a source names by a path which begins with `root`.
fn modules_named(text: &str, root: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(root) {
        if text[..at].ends_with("super::") {
            continue;
        }
        let rest = &text[at + root.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.extend(first_word(rest));
            continue;
        };
        let mut depth = 0_usize;
        let mut starts = true;
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => starts = true,
                _ if starts && letter.is_alphabetic() => {
                    found.extend(first_word(&group[at..]));
                    starts = false;
                }
                _ => {}
            }
        }
    }
    found
}

fn first_word(text: &str) -> Option<String> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().map(str::to_owned)
}

#[test]
fn modules_are_found_in_imports_of_every_form() {
    let check = |text: &str, root: &str, expected: &[&str]| assert_eq!(modules_named(text, root), expected, "{text}");
    check("use crate::vcjob::act::apply;", "crate::", &["vcjob"]);
    check("use crate::{\n    b::{c, d::{e}},\n    f,\n};\nlet x = crate::g::h();", "crate::", &["b", "f", "g"]);
    check("use super::super::elastic::pod;", "super::super::", &["elastic"]);
    check("use super::super::pod;", "super::", &["super"]);
}

#[test]
fn no_controller_imports_another() {
    for crate_ in ["ronde-control", "ronde-machine"] {
        let controllers = controllers(crate_);
        assert!(controllers.len() >= 5, "{crate_} has these controllers only: {controllers:?}");
        for (path, text) in sources() {
            let Some(inside) = path.strip_prefix(&format!("crates/{crate_}/src/")) else { continue };
            let Some((own, rest)) = inside.split_once('/').filter(|(own, _)| controllers.iter().any(|it| it == own))
            else {
                continue;
            };
            let file_depth = usize::from(!rest.ends_with("mod.rs"));
            let up = "super::".repeat(1 + rest.matches('/').count() + file_depth);
            let named = modules_named(&text, "crate::").into_iter().chain(modules_named(&text, &up));
            let others: Vec<String> = named.filter(|name| name != own && controllers.contains(name)).collect();
            assert!(others.is_empty(), "{path} imports {others:?}: what two controllers need has a home of its own");
        }
    }
}

#[test]
fn verbs_and_patches_of_the_api_know_nothing_of_http() {
    let inner = ["crates/ronde-apiserver/src/verbs/", "crates/ronde-apiserver/src/patch/"];
    let is_http = |line: &str| {
        let line = line.trim_start();
        line.starts_with("use http::") || line.starts_with("http::") || line.contains("crate::http")
    };
    let found: Vec<String> = sources()
        .into_iter()
        .filter(|(path, text)| inner.iter().any(|inner| path.starts_with(inner)) && text.lines().any(is_http))
        .map(|(path, _)| path)
        .collect();
    assert!(found.is_empty(), "these use HTTP: {found:#?}");
}

#[test]
fn every_decision_is_listed() {
    let list = read("docs/decisions/README.md");
    for entry in entries(&root().join("docs/decisions")) {
        let name = entry.file_name().display().to_string();
        assert!(name == "README.md" || list.contains(&format!("({name})")), "docs/decisions/README.md misses {name}");
    }
}

#[test]
fn every_make_target_in_the_documents_exists() {
    let makefile = read("Makefile");
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = read(document);
        for part in text.split("`make ").skip(1) {
            let target = part.split(['`', ' ']).next().unwrap();
            assert!(makefile.contains(&format!("\n{target}:")), "{document} mentions `make {target}`");
        }
    }
}
