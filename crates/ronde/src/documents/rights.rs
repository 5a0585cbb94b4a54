//! The page of rights: what the operator, users and launchers may do, from the rules themselves; and whether the page about
//! security explains those that reach beyond jobs.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use ronde_control::{elastic::objects::launcher_rules, install::user_roles, operator::LEASE};

use super::{cell, check_page, root};

/// Groups whose objects are jobs, and what belongs to jobs: whoever writes them can do harm to jobs alone.
const OF_JOBS: [&str; 5] =
    ["batch.volcano.sh", "bus.volcano.sh", "flow.volcano.sh", "kai.alibabacloud.com", "scheduling.volcano.sh"];
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

fn read(path: &str) -> String {
    fs_err::read_to_string(root().join(path)).unwrap()
}

/// Returns the rules of the chart, each with the comment that it stands under.
fn operators() -> Vec<(String, PolicyRule)> {
    let text = read("charts/ronde/files/rules.yaml");
    let rules: Vec<PolicyRule> = serde_saphyr::from_str(&text).unwrap();
    let (mut topics, mut topic, mut was_comment) = (Vec::new(), String::new(), false);
    // The first line is about the file.
    for line in text.lines().skip(1) {
        match line.strip_prefix("# ") {
            Some(comment) if was_comment => topic += &format!(" {comment}"),
            Some(comment) => comment.clone_into(&mut topic),
            None if line.starts_with("- ") => topics.push(topic.clone()),
            None => {}
        }
        was_comment = line.starts_with('#');
    }
    assert_eq!(topics.len(), rules.len());
    topics.into_iter().zip(rules).collect()
}

fn row(rule: &PolicyRule) -> String {
    let list = |words: &[String]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let groups = rule.api_groups.clone().unwrap_or_default();
    let group = if groups == [""] { "core".to_owned() } else { list(&groups) };
    let names = rule.resource_names.as_deref().filter(|names| !names.is_empty());
    let only = names.map_or(String::new(), |names| format!(", only {}", list(names)));
    let resources = list(rule.resources.as_deref().unwrap_or_default());
    format!("| {group} | {resources}{only} | {} |\n", cell(&list(&rule.verbs)))
}

fn table<'a>(rules: impl Iterator<Item = &'a PolicyRule>) -> String {
    format!("\n| group | resources | verbs |\n|---|---|---|\n{}", rules.map(row).collect::<String>())
}

#[test]
fn the_page_of_rights_is_current() {
    let mut page =
        "# Rights\n\nWhat may do what in a cluster, from the rules themselves. What that means is told under \
                    [security](../cluster-security.md).\n\n## The operator\n\nIn all namespaces, by its ClusterRole.\n"
            .to_owned();
    let rules = operators();
    for chunk in rules.chunk_by(|one, next| one.0 == next.0) {
        page += &format!("\n{}\n{}", chunk[0].0, table(chunk.iter().map(|(_, rule)| rule)));
    }
    let (namespace, lease) = LEASE;
    page += &format!(
        "\nIn `{namespace}`, by its Role: `get`, `update` and `watch` of the lease `{lease}`, and `create` of leases. With \
         `rbac.owners`, also `get` of the kinds that are named there, and `update` of their finalizers.\n\n## Users\n\nBy \
         the cluster's own roles, which these extend.\n"
    );
    for role in user_roles() {
        let role: ClusterRole = serde_json::from_value(role).unwrap();
        let name = role.metadata.name.unwrap_or_default();
        page += &format!("\n`{name}`:\n{}", table(role.rules.unwrap_or_default().iter()));
    }
    let workers = ["JOB-worker-0", "JOB-worker-1"].map(str::to_owned).into();
    page += "\nWhat `ronde` needs beside, in one namespace, is in [examples/role.yaml](../../examples/role.yaml).\n\n\
             ## Launchers of training jobs\n\nEach has an account of its own, with these rights in the namespace of the \
             job `JOB`. The workers are those that it has.\n";
    page += &table(launcher_rules("JOB", &workers).iter());
    check_page("rights.md", &page);
}

#[test]
fn rights_that_reach_beyond_jobs_are_explained() {
    let page = read("docs/cluster-security.md");
    let section = page.split("## What the operator's account can do\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rules = operators();
    let powerful = rules.iter().map(|(_, rule)| rule).filter(|rule| {
        let groups = rule.api_groups.iter().flatten();
        let writes = rule.verbs.iter().any(|verb| WRITES.contains(&verb.as_str()));
        writes && groups.clone().any(|group| !OF_JOBS.contains(&group.as_str()))
    });
    for resource in powerful.flat_map(|rule| rule.resources.iter().flatten()) {
        assert!(section.contains(&format!("`{resource}`")), "docs/cluster-security.md does not explain `{resource}`");
    }
    assert!(section.contains("`secrets`"));
}
