//! The Horovod chart as Helm renders it: every object for the defaults and for the examples of its documentation, what
//! each value changes, and what is refused. That it works is told by the tests of pods. The operator's chart is in
//! `operator`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod helm;
mod operator;
mod operator_values;
mod values;

use std::{collections::BTreeSet, fmt::Write as _, process::Command, thread};

use fs_err as fs;
use insta::assert_snapshot;
use serde_json::Value;

use crate::{
    helm::{Chart, Helm, redact},
    values::{CHANGES, Change, WRONG},
};

/// Values under which nothing differs from run to run.
const FIXED: [&str; 2] = ["--values", "gpu.yaml"];

#[test]
fn the_chart_has_no_lint() {
    let Some(helm) = Helm::find() else { return };
    for options in [&[][..], &["--values", "gpu.yaml"], &["--values", "host_network.yaml"]] {
        let output = helm.run(&[&["lint", "--strict", Chart::Horovod.folder().to_str().unwrap()], options].concat());
        assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn the_defaults_and_the_examples_make_these_objects() {
    let Some(helm) = Helm::find() else { return };
    assert_snapshot!("defaults", redact(&helm.render(&[]).unwrap()));
    assert_snapshot!("gpu", redact(&helm.render(&["--values", "gpu.yaml"]).unwrap()));
    assert_snapshot!("host_network", redact(&helm.render(&["--values", "host_network.yaml"]).unwrap()));
    assert_snapshot!("agent", redact(&helm.render(&["--set", "launcher=agent"]).unwrap()));
}

#[test]
fn each_value_changes_these_lines() {
    let Some(helm) = Helm::find() else { return };
    let render = |change: &Change, options: &[&str]| {
        let launcher = if change.is_for_agent { r#"launcher="agent""# } else { r#"launcher="ssh""# };
        helm.render(&[&FIXED[..], &["--set-json", launcher], options].concat()).unwrap()
    };
    let describe = |change: &Change| {
        let (before, after) = (render(change, &[]), render(change, &["--set-json", change.set]));
        // The token of the agent is made anew, without a cluster that would have the one before.
        let follows = if change.is_for_agent { "" } else { follows(&before, &after) };
        let difference = lines_that_differ(&helm, change.set, &redact(&before), &redact(&after));
        format!("=== {}\n{follows}{difference}\n", change.set)
    };
    // Two at a time: most of the time goes into starting Helm.
    let (front, back) = CHANGES.split_at(CHANGES.len() / 2);
    let all = thread::scope(|scope| {
        let front = scope.spawn(|| front.iter().map(describe).collect::<String>());
        let back: String = back.iter().map(describe).collect();
        front.join().unwrap() + &back
    });
    assert_snapshot!("changes", all);
}

#[test]
fn every_value_is_changed_once() {
    let changed: Vec<&str> = CHANGES.iter().map(|change| change.set.split('=').next().unwrap()).collect();
    for value in values_of(Chart::Horovod) {
        assert!(
            changed.iter().any(|path| *path == value || path.starts_with(&format!("{value}."))),
            "no row of CHANGES is for `{value}`"
        );
    }
}

#[test]
fn every_value_is_in_the_readme() {
    assert_eq!(values_without_row(Chart::Horovod), Vec::<String>::new());
}

#[test]
fn values_that_cannot_work_are_refused() {
    let Some(helm) = Helm::find() else { return };
    let mut all = String::new();
    for set in WRONG {
        let refusal = helm.render(&["--set-json", set]).unwrap_err();
        let refusal = refusal.replace("\n\nUse --debug flag to render out invalid YAML", "");
        let _ = writeln!(all, "=== {set}\n{}\n", refusal.trim_end());
    }
    assert_snapshot!("refused", all);
}

#[test]
fn the_variables_of_the_chart_are_not_the_users() {
    let Some(helm) = Helm::find() else { return };
    for launcher in ["launcher=ssh", "launcher=agent"] {
        let rendered = helm.render(&[&FIXED[..], &["--set", launcher]].concat()).unwrap();
        for name in variables(&rendered) {
            let set = format!("worker.env.{name}=mine");
            let refusal = helm.render(&["--set", &set]).expect_err(&set);
            assert!(refusal.contains(&format!("worker.env sets {name}")), "{refusal}");
        }
    }
}

#[test]
fn a_cluster_that_is_too_old_is_refused() {
    let Some(helm) = Helm::find() else { return };
    let refusal = helm.render(&["--kube-version", "1.18.20"]).unwrap_err();
    assert!(refusal.contains("requires kubeVersion: >=1.19.0-0"), "{refusal}");
    assert!(helm.render(&["--kube-version", "1.19.0"]).is_ok());
}

#[test]
fn a_key_ends_with_a_newline_however_it_was_written() {
    let Some(helm) = Helm::find() else { return };
    let host_key = |indicator: &str| {
        let values = format!("ssh:\n  useSecrets: true\n  hostKey: {indicator}\n    one\n    two\n");
        let file = helm.write("key.yaml", &values);
        let rendered = helm.render(&["--values", file.to_str().unwrap()]).unwrap();
        rendered.lines().find_map(|line| line.trim().strip_prefix("host-key: ")).unwrap().to_owned()
    };
    for indicator in ["|-", "|", "|+"] {
        // The base64 of "one\ntwo\n".
        assert_eq!(host_key(indicator), "b25lCnR3bwo=", "{indicator}");
    }
}

/// Returns the names of the variables that containers have.
fn variables(rendered: &str) -> BTreeSet<String> {
    // No other name of a list is all in capitals.
    let names = rendered.lines().filter_map(|line| line.trim().strip_prefix("- name: "));
    names.filter(|name| name.chars().all(|each| each.is_ascii_uppercase() || each == '_')).map(str::to_owned).collect()
}

/// Tells who starts again when an upgrade goes from one rendering to another.
fn follows(before: &str, after: &str) -> &'static str {
    let revision = |text: &str, name: &str| {
        let (_, rest) = text.split_once(name).unwrap();
        rest.lines().next().unwrap().to_owned()
    };
    let differs = |name| revision(before, name) != revision(after, name);
    match (differs("horovod/template: "), differs("- name: WORKER_REVISION\n")) {
        (false, false) => "nobody starts again\n",
        (true, false) => "the master starts again\n",
        (false, true) => "the workers start again\n",
        (true, true) => "master and workers start again\n",
    }
}

/// Returns the lines that differ between two texts; the name is for files about them.
fn lines_that_differ(helm: &Helm, name: &str, before: &str, after: &str) -> String {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(60).collect();
    let file = |suffix: &str, text: &str| helm.write(&format!("{name}.{suffix}"), text);
    let (before, after) = (file("before", before), file("after", after));
    let output = Command::new("diff").arg("-U0").args([before, after]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().skip(2).filter(|line| !line.starts_with("@@"));
    lines.fold(String::new(), |all, line| all + line.trim_end() + "\n")
}

/// Returns the values that the table in a chart's README.md leaves out.
fn values_without_row(chart: Chart) -> Vec<String> {
    let readme = fs::read_to_string(chart.folder().join("README.md")).unwrap();
    let has_row =
        |value: &String| readme.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{value}`")));
    values_of(chart).into_iter().filter(|value| !has_row(value)).collect()
}

/// Returns the path of every value in a chart's `values.yaml`.
fn values_of(chart: Chart) -> Vec<String> {
    fn collect(prefix: &str, value: &Value, found: &mut Vec<String>) {
        match value.as_object().filter(|fields| !fields.is_empty()) {
            None => found.push(prefix.to_owned()),
            Some(fields) => {
                for (name, value) in fields {
                    let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    collect(&path, value, found);
                }
            }
        }
    }
    let text = fs::read_to_string(chart.folder().join("values.yaml")).unwrap();
    let mut found = Vec::new();
    collect("", &serde_saphyr::from_str(&text).unwrap(), &mut found);
    found
}
