//! The documentation as a reader meets it: links that lead somewhere, and lists that are complete.
//!
//! Commands in code blocks are checked by `crates/ronde/src/documents`, which knows the arguments.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Pages outside of `docs`.
const ELSEWHERE: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "charts/horovod/README.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    fs_err::read_to_string(root().join(path)).unwrap()
}

/// Returns the files below a folder that end so, as paths below the root.
fn files(folder: &str, end: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![root().join(folder)];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        } else if path.to_str().unwrap().ends_with(end) {
            found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

fn pages() -> Vec<String> {
    ELSEWHERE.map(str::to_owned).into_iter().chain(files("docs", ".md")).collect()
}

/// Returns a page without its code blocks.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in read(page).lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}

/// Returns the targets of the links in a page: `[text](target)` and `src="target"`.
fn links(text: &str) -> Vec<String> {
    let upto = |rest: &str, end: char| rest.split(end).next().unwrap_or_default().to_owned();
    let inline = text.split("](").skip(1).map(|rest| upto(rest, ')'));
    let images = text.split("src=\"").skip(1).map(|rest| upto(rest, '"'));
    inline.chain(images).collect()
}

/// Returns the anchors of a page, as GitHub and our site make them from headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page);
    let mut found = BTreeSet::new();
    for heading in headings.lines().filter(|line| line.starts_with('#')) {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        found.insert(kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect());
    }
    found
}

/// Says what is wrong with a link of a page.
fn fault(page: &str, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = root().join(page).parent().unwrap().to_owned();
    let file = if path.is_empty() { root().join(page) } else { folder.join(path) };
    let Ok(file) = file.canonicalize() else {
        return Some(format!("{page}: {target} does not exist"));
    };
    let name = file.strip_prefix(root()).ok()?.to_str().unwrap();
    let is_dead = !anchor.is_empty() && !anchors(name).contains(anchor);
    is_dead.then(|| format!("{page}: {name} has no heading for #{anchor}"))
}

#[test]
fn every_link_leads_somewhere() {
    let mut faults = Vec::new();
    for page in pages() {
        faults.extend(links(&prose(&page)).iter().filter_map(|target| fault(&page, target)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn dead_links_are_found() {
    assert!(fault("README.md", "docs/nothing.md").is_some());
    assert!(fault("docs/jobs.md", "queues.md#nothing").is_some());
    assert!(fault("docs/jobs.md", "#nothing").is_some());
    assert_eq!(fault("docs/jobs.md", "#policies"), None);
    assert_eq!(links("a [b](c.md#d) ![e](f.svg) <img src=\"g.svg\">"), ["c.md#d", "f.svg", "g.svg"]);
}

#[test]
fn every_page_is_on_the_site() {
    let nav = read("tools/docs/mkdocs.yml");
    for page in files("docs", ".md").iter().filter(|page| !page.starts_with("docs/decisions/")) {
        let name = page.strip_prefix("docs/").unwrap();
        assert!(nav.contains(&format!(" {name}\n")), "tools/docs/mkdocs.yml does not list {page}");
    }
}

/// Returns the words of a text that begin so and go on with capitals.
fn variables(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    let rest = text.split("RONDE_").skip(1).map(|rest| rest.split(|letter| !is_part(letter)).next().unwrap());
    rest.filter(|rest| !rest.is_empty()).map(|rest| format!("RONDE_{rest}")).collect()
}

#[test]
fn every_variable_is_documented() {
    let mut used = BTreeSet::new();
    let read_by = files("crates", ".rs").into_iter().chain(files("python/ronde/ronde", ".py"));
    for source in read_by.filter(|path| !path.contains("tests") && !path.contains("/documents/")) {
        // Variables are texts; macros and constants of tests are not in quotes.
        let text = read(&source);
        used.extend(variables(&text).into_iter().filter(|name| text.contains(&format!("\"{name}\""))));
    }
    // Those by which tests are told what the machine has.
    used.retain(|name| !["RONDE_SKIPS", "RONDE_REQUIRE_PROGRAMS"].contains(&name.as_str()) && !name.contains("TEST"));
    let documented = variables(&read("docs/reference/variables.md"));
    let missing: Vec<&String> = used.difference(&documented).collect();
    assert!(missing.is_empty(), "docs/reference/variables.md lacks {missing:?}");
    let sources = sources();
    // Some are set in the text of a shell script.
    let is_gone = |name: &&String| !sources.contains(&format!("{name}="));
    let gone: Vec<&String> = documented.difference(&used).filter(is_gone).collect();
    assert!(gone.is_empty(), "docs/reference/variables.md lists {gone:?}, which nobody reads");
}

/// Returns all sources of the crates as one text.
fn sources() -> String {
    files("crates", ".rs").iter().map(|path| read(path)).collect()
}

/// Returns the reasons of events and conditions that the controllers have as constants.
fn reasons() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for source in files("crates/ronde-control/src", ".rs") {
        let text = read(&source);
        if !text.contains("pub const INVALID_JOB: &str") {
            continue;
        }
        let values = text.lines().filter(|line| line.starts_with("pub const ") && line.contains(": &str = \""));
        found.extend(values.map(|line| line.split('"').nth(1).unwrap().to_owned()));
    }
    for line in read("crates/ronde-scheduler/src/plan.rs").lines().filter(|line| line.contains("=> \"")) {
        found.insert(line.split('"').nth(1).unwrap().to_owned());
    }
    found.retain(|reason| !["True", "False"].contains(&reason.as_str()));
    found
}

#[test]
fn every_reason_is_documented() {
    let page = read("docs/reference/events.md");
    let missing: Vec<String> = reasons().into_iter().filter(|reason| !page.contains(&format!("`{reason}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/events.md lacks {missing:?}");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let listed: Vec<&str> = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect();
    let sources = sources();
    let gone: Vec<&str> = listed.into_iter().filter(|reason| !sources.contains(&format!("\"{reason}\""))).collect();
    assert!(gone.is_empty(), "docs/reference/events.md lists {gone:?}, which nobody says");
}
