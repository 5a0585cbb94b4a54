//! The operator's chart as Helm renders it: every object for the defaults, what each value changes, what is refused, and
//! what its account may never do. That the account may do enough is told by the scenarios.

use std::fmt::Write as _;

use insta::assert_snapshot;
use serde_json::Value;

use crate::{
    helm::{Chart, Helm},
    lines_that_differ,
    operator_values::{CHANGES, WRONG},
    values_of, values_without_row,
};

/// Helm knows no cluster here, and takes an old one for granted.
const CLUSTER: [&str; 2] = ["--kube-version", "1.34.0"];

fn render(helm: &Helm, options: &[&str]) -> Result<String, String> {
    let options = [&["--namespace", "ronde-system"], &CLUSTER[..], options].concat();
    helm.render_chart(Chart::Operator, "ronde", &options).map(|text| without_files(&text))
}

/// Leaves the names of definitions and dashboards: what is in them is told elsewhere. Helm 4 ends objects with an empty line.
fn without_files(rendered: &str) -> String {
    let shorten = |document: &str| {
        if let Some((head, rest)) = document.split_once("kind: CustomResourceDefinition\n") {
            let spec = rest.find("\nspec:\n").unwrap();
            return format!("{head}kind: CustomResourceDefinition\n{}\n", &rest[..spec]);
        }
        if let Some((head, data)) = document.split_once("\ndata:\n") {
            let files = data.lines().filter(|line| !line.starts_with("   ")).map(|line| format!("{line} (…)\n"));
            return format!("{head}\ndata:\n{}", files.collect::<String>());
        }
        document.replace("\n\n", "\n")
    };
    rendered.split("---\n").map(shorten).collect::<Vec<_>>().join("---\n")
}

fn documents(helm: &Helm) -> Vec<Value> {
    let text = render(helm, &[]).unwrap();
    let all = text.split("---\n").filter(|document| document.contains("kind: "));
    all.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn named<'a>(documents: &'a [Value], kind: &str, name: &str) -> &'a Value {
    documents.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name).unwrap()
}

#[test]
fn the_chart_has_no_lint() {
    for helm in Helm::find_all() {
        let chart = Chart::Operator.folder();
        let output = helm.run(&[&["lint", "--strict", chart.to_str().unwrap()], &CLUSTER[..]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn the_defaults_make_these_objects() {
    for helm in Helm::find_all() {
        assert_snapshot!("operator_defaults", render(&helm, &[]).unwrap());
    }
}

#[test]
fn each_value_changes_these_lines() {
    let Some(helm) = Helm::find() else { return };
    let before = render(&helm, &[]).unwrap();
    let mut all = String::new();
    for set in CHANGES {
        let after = render(&helm, &["--set-json", set]).unwrap();
        let _ = writeln!(all, "=== {set}\n{}", lines_that_differ(&helm, set, &before, &after));
    }
    assert_snapshot!("operator_changes", all);
}

#[test]
fn every_value_is_changed_once_and_explained() {
    let changed: Vec<&str> = CHANGES.iter().map(|set| set.split('=').next().unwrap()).collect();
    for value in values_of(Chart::Operator) {
        let is_changed = changed.iter().any(|path| *path == value || path.starts_with(&format!("{value}.")));
        assert!(is_changed, "no row of CHANGES is for `{value}`");
    }
    assert_eq!(values_without_row(Chart::Operator), Vec::<String>::new());
}

#[test]
fn values_that_cannot_work_are_refused() {
    let Some(helm) = Helm::find() else { return };
    let mut all = String::new();
    for set in WRONG {
        let refusal = render(&helm, &["--set-json", set]).unwrap_err();
        let refusal = refusal.replace("\n\nUse --debug flag to render out invalid YAML", "");
        let _ = writeln!(all, "=== {set}\n{}\n", refusal.trim_end());
    }
    assert_snapshot!("operator_refused", all);
}

#[test]
fn the_account_has_no_wildcard_and_cannot_raise_itself() {
    let Some(helm) = Helm::find() else { return };
    let documents = documents(&helm);
    for rule in named(&documents, "ClusterRole", "ronde")["rules"].as_array().unwrap() {
        let words = |field: &str| rule[field].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let all = ["apiGroups", "resources", "verbs"].into_iter().flat_map(words);
        for word in all {
            let is_too_much = ["*", "escalate", "bind", "impersonate", "nodes/proxy"].contains(&word)
                || word.starts_with("cluster")
                || word.starts_with("customresource")
                || word.ends_with("webhookconfigurations");
            assert!(!is_too_much, "{rule}");
        }
        assert!(!words("resources").any(|it| it == "nodes") || words("verbs").all(|it| it != "patch"), "{rule}");
    }
}

#[test]
fn users_have_the_same_rights_as_without_the_chart() {
    let Some(helm) = Helm::find() else { return };
    let documents = documents(&helm);
    for role in ronde_control::install::user_roles() {
        let rendered = named(&documents, "ClusterRole", role["metadata"]["name"].as_str().unwrap());
        assert_eq!(rendered["rules"], role["rules"]);
        for (label, value) in role["metadata"]["labels"].as_object().unwrap() {
            assert_eq!(rendered["metadata"]["labels"][label], *value);
        }
    }
}

#[test]
fn a_cluster_that_is_too_old_is_refused() {
    let Some(helm) = Helm::find() else { return };
    let refusal = render(&helm, &["--kube-version", "1.29.0"]).unwrap_err();
    assert!(refusal.contains("requires kubeVersion: >=1.30.0-0"), "{refusal}");
}

/// A release is one Secret, of at most a megabyte, with the chart and what was made of it.
#[test]
fn the_release_fits_into_its_secret() {
    const SECRET_MAX: usize = 1 << 20;
    let folder = Chart::Operator.folder();
    let size: u64 = walk(&folder).iter().map(|file| file.metadata().unwrap().len()).sum();
    // Not even compressed and without what was rendered: base64 takes a third more.
    assert!(usize::try_from(size).unwrap() * 4 / 3 < SECRET_MAX, "{size}");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
