//! The definitions in the operator's chart: those that `ronde operator` itself would install, one in a line.

use super::{check_file, root};

#[test]
fn the_definitions_of_the_chart_are_current() {
    let lines =
        ronde_control::install::definitions().iter().map(|definition| format!("{definition}\n")).collect::<String>();
    check_file(&root().join("charts/ronde/files/definitions.jsonl"), &lines);
}
