//! Tests of ownership, availability, and the order in which pods are given up.

use ronde_sim::pods::{Making, at, pod};

use super::{
    hash,
    rank::{DELETION_COST, rank},
    *,
};

#[test]
fn a_pod_is_claimed_by_whom_it_belongs_to() {
    fn check(name: &str, is_owner_deleted: bool, is_selected: bool, pod: Making, expected: Claim) {
        let deletion_timestamp = is_owner_deleted.then(|| time(at(0)));
        let owner = ObjectMeta { uid: Some("me".to_owned()), deletion_timestamp, ..ObjectMeta::default() };
        assert_eq!(claim(&owner, is_selected, &pod.build().metadata), expected, "{name}");
    }
    check("its own", false, true, pod("a").owner("me"), Claim::Own);
    check("its own, while it is deleted", true, true, pod("a").owner("me"), Claim::Own);
    check("its own, not selected any more", false, false, pod("a").owner("me"), Claim::Release);
    check("its own, not selected, while it is deleted", true, false, pod("a").owner("me"), Claim::Ignore);
    check("another's", false, true, pod("a").owner("you"), Claim::Ignore);
    check("an orphan that it selects", false, true, pod("a"), Claim::Adopt);
    check("an orphan that it does not select", false, false, pod("a"), Claim::Ignore);
    check("an orphan that is going", false, true, pod("a").deleted(0), Claim::Ignore);
    check("an orphan, while it is deleted", true, true, pod("a"), Claim::Ignore);
}

#[test]
fn a_pod_is_available_after_being_ready_for_a_while() {
    fn check(name: &str, pod: Making, min_ready_seconds: i32, expected: (bool, Option<i64>)) {
        let pod = pod.build();
        let next = next_available_in([&*pod], min_ready_seconds, at(20)).map(|wait| wait.as_secs());
        assert_eq!((is_available(&pod, min_ready_seconds, at(20)), next), expected, "{name}");
    }
    check("not ready", pod("a"), 0, (false, None));
    check("ready, no wait", pod("a").ready(20), 0, (true, None));
    check("ready for too short a time", pod("a").ready(15), 10, (false, Some(5)));
    check("ready for just long enough", pod("a").ready(10), 10, (true, None));
    check("ready for longer", pod("a").ready(5), 10, (true, None));
}

#[test]
fn the_pod_that_is_missed_least_goes_first() {
    fn check(name: &str, first: Making, second: Making) {
        let (first, second) = (rank(&first.build(), 1, at(1000)), rank(&second.build(), 1, at(1000)));
        assert!(first < second, "{name}: {first:?} {second:?}");
    }
    let running = || pod("b").on("n").ready(10);
    check("without a node before with one", pod("z"), pod("a").on("n"));
    check("pending before unknown", pod("z").on("n"), pod("a").on("n").phase("Unknown"));
    check("unknown before running", pod("z").on("n").phase("Unknown"), running());
    check("not ready before ready", pod("z").on("n").phase("Running"), running());
    check("cheap before dear", pod("z").on("n").ready(10).annotation(DELETION_COST, "-5"), running());
    check("lately ready before long ready", pod("z").on("n").ready(900), running());
    check("young before old", pod("z").on("n").created(900), pod("a").on("n").created(0));
    let restarted = running().with_status(|status| {
        let container =
            json_container(r#"{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 3}"#);
        status.container_statuses = Some(vec![container]);
    });
    check("often restarted before steady", restarted, running());
    check("about the same age: by chance", pod("a").created(500), pod("b").created(499));
}

fn json_container(text: &str) -> k8s_openapi::api::core::v1::ContainerStatus {
    serde_json::from_str(text).expect("a container status")
}

#[test]
fn of_crowded_pods_one_goes_first() {
    let (crowded, alone) = (pod("z").on("n").ready(10).build(), pod("a").on("m").ready(10).build());
    assert!(rank(&crowded, 2, at(1000)) < rank(&alone, 1, at(1000)));
}

#[test]
fn a_name_is_made_of_harmless_letters_and_follows_the_content() {
    let name = hash::name(&"content", None);
    assert!(name.bytes().all(|letter| b"bcdfghjklmnpqrstvwxz2456789".contains(&letter)), "{name}");
    assert!((1..=10).contains(&name.len()), "{name}");
    assert_eq!(name, hash::name(&"content", None));
    assert_ne!(name, hash::name(&"another", None));
    assert_ne!(name, hash::name(&"content", Some(1)));
}
