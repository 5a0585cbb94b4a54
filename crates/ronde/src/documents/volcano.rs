//! "Bring Volcano jobs": says of every field of Volcano's kinds, and of every plugin and its arguments, what it does here.
//!
//! The list comes from our definitions, which have all fields of Volcano's. So none can be forgotten.

use std::collections::BTreeSet;

use ronde_api::names::plugins;
use ronde_control::vcjob::plugins::flags_of;
use serde_json::Value;

use super::root;

/// Fields of Kubernetes itself, and of kinds that are told of elsewhere on the page.
const ELSEWHERE: [&str; 7] =
    ["template", "volumeClaim", "jobTemplate", "jobSpec", "labelMatch", "labelSelector", "httpHeader"];

/// Returns what stands in backticks in the section, word by word: `tasks[].name` has two.
fn words() -> BTreeSet<String> {
    let page = fs_err::read_to_string(root().join("docs/jobs.md")).expect("the page");
    let section = page.split("## Bring Volcano jobs").nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let code = section.split('`').skip(1).step_by(2);
    code.flat_map(|code| code.split('.').map(|word| word.trim_end_matches("[]").to_owned())).collect()
}

/// Collects the names of all fields of a schema.
fn fields(schema: &Value, names: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        names.insert(name.clone());
        if !ELSEWHERE.contains(&name.as_str()) {
            fields(field, names);
        }
    }
    for inside in ["items", "additionalProperties"] {
        if schema[inside].is_object() {
            fields(&schema[inside], names);
        }
    }
}

#[test]
fn every_field_of_volcanos_kinds_is_told_of() {
    let words = words();
    let mut missing = Vec::new();
    for definition in ronde_api::crd::all() {
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        if !group.ends_with(".volcano.sh") {
            continue;
        }
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let mut schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let top = schema["properties"].as_object_mut().expect("fields");
        ["apiVersion", "kind", "metadata", "status"].iter().for_each(|common| drop(top.remove(*common)));
        let mut names = BTreeSet::new();
        match top.get("spec") {
            Some(spec) => fields(spec, &mut names),
            None => names.extend(top.keys().cloned()),
        }
        assert!(names.len() >= 3, "{kind} has no fields");
        missing.extend(names.difference(&words).map(|name| format!("{kind}: {name}")));
    }
    assert!(missing.is_empty(), "docs/jobs.md says nothing of these fields:\n{}", missing.join("\n"));
}

#[test]
fn every_plugin_of_jobs_and_all_its_arguments_are_told_of() {
    let words = words();
    for plugin in plugins::ALL {
        let arguments = flags_of(plugin).iter().map(|(name, _)| *name);
        for word in arguments.chain([plugin]) {
            assert!(words.contains(word), "docs/jobs.md says nothing of {word} of {plugin}");
        }
    }
}

#[test]
fn every_example_for_volcano_is_run_by_a_test() {
    let read = |path: std::path::PathBuf| fs_err::read_to_string(path).unwrap_or_default();
    let files = |folder: &str| -> Vec<std::path::PathBuf> {
        let entries = fs_err::read_dir(root().join(folder)).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()).collect()
    };
    let transcripts = files("crates/ronde/tests/pods/transcripts").into_iter().map(read).collect::<Vec<_>>().join("\n");
    let run: Vec<&str> = transcripts.lines().filter(|line| line.trim_start().starts_with('$')).collect();
    let examples = files("examples/volcano");
    assert!(!examples.is_empty());
    for example in examples {
        let name = example.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(run.iter().any(|line| line.contains(&name)), "no transcript with pods uses examples/volcano/{name}");
    }
}
