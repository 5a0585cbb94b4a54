//! Keeps scenarios, recordings and the list of known differences in step, without any server.

use std::path::{Path, PathBuf};

use ronde_e2e::{cases, known_differences};

fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
}

#[test]
fn every_scenario_has_a_recording_of_its_steps() {
    for case in cases(&suite()).expect("the suite is readable") {
        let faults = case.recording_faults().expect("the scenario is well formed");
        assert!(faults.is_empty(), "the recording of {}: {}", case.name, faults.join("\n"));
    }
}

#[test]
fn known_differences_are_listed() {
    let all = cases(&suite()).expect("the suite is readable");
    let wanted = known_differences(&all).expect("the scenarios are well formed");
    let listed = fs_err::read_to_string(suite().join("known-differences.md")).unwrap_or_default();
    assert_eq!(listed, wanted, "run `ronde-e2e differences`");
}
