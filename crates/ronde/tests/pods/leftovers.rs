//! What pods do to the machine, in namespaces in which nothing else is: `ronde down` leaves nothing behind, everything is
//! counted before and after; and what pods may not write, they cannot.

use ronde_sim::{is_root, program};

use crate::{
    client::{Home, Program},
    directory, has_static_busybox,
    sandbox::Sandbox,
};

/// Runs a script where it is alone, and compares what it says; or skips the test.
fn check(script: &str, expected: &str) {
    if !is_root() || Program::find_all(&[]).is_none() || ["unshare", "nft", "ip"].map(program).contains(&None) {
        return;
    }
    let sandbox = Sandbox::new();
    let home = Home::of(&sandbox, &directory().join("bin"));
    let line = format!(
        "RONDE={} RONDE_DATA_DIR=$PWD/data unshare --net --mount --pid --fork --kill-child --mount-proc bash {}/{script}",
        env!("CARGO_BIN_EXE_ronde"),
        directory().display()
    );
    assert_eq!(home.succeed(&line), expected);
}

const NOTHING: &str = "nothing is left\n";

#[test]
fn nothing_is_left_after_down() {
    check("leftovers.sh running", NOTHING);
}

#[test]
fn nothing_is_left_after_kill_9_and_down() {
    check("leftovers.sh killed", NOTHING);
}

/// Pods that share the machine's processes have some that nobody but us would end.
#[test]
fn nothing_is_left_when_supervisors_are_killed_too() {
    check("leftovers.sh orphaned", NOTHING);
}

#[test]
fn nothing_is_left_of_orphans_without_control_groups() {
    check("leftovers.sh bare", NOTHING);
}

/// Everybody notices, and ends by itself.
#[test]
fn nothing_is_left_after_the_data_directory_is_deleted() {
    check("leftovers.sh deleted", NOTHING);
}

#[test]
fn nothing_is_left_after_the_data_directory_is_moved() {
    check("leftovers.sh moved", NOTHING);
}

#[test]
fn what_is_left_of_a_deleted_data_directory_is_found_by_down() {
    check("leftovers.sh abandoned", NOTHING);
}

#[test]
fn what_is_left_of_another_deleted_data_directory_is_found_by_down_all() {
    check("leftovers.sh forgotten", NOTHING);
    check("leftovers.sh forgotten-bare", NOTHING);
}

#[test]
fn without_overlays_pods_change_no_file_of_the_machine() {
    check("read_only.sh", "seen\n");
}

#[test]
fn without_overlays_images_are_copied() {
    if has_static_busybox() {
        let copied = "Image \"test/box:1\" is copied for the container: this machine has no overlay file system\n";
        let box_says =
            "cat: can't open '/etc/removed': No such file or directory\nls: /usr: No such file or directory\n";
        check("read_only.sh image", &format!("seen\n{box_says}of-a-pod\n{copied}"));
    }
}
