//! `ronde down` leaves nothing behind: everything is counted before and after, where nothing else can be counted.

use ronde_sim::{is_root, program};

use crate::{
    client::{Home, Program},
    directory,
    sandbox::Sandbox,
};

fn check(how: &str) {
    if !is_root() || Program::find_all(&[]).is_none() || ["unshare", "nft", "ip"].map(program).contains(&None) {
        return;
    }
    let sandbox = Sandbox::new();
    let home = Home::of(&sandbox, &directory().join("bin"));
    let script = directory().join("leftovers.sh");
    let line = format!(
        "RONDE={} RONDE_DATA_DIR=$PWD/data unshare --net --mount --pid --fork --kill-child --mount-proc bash {} {how}",
        env!("CARGO_BIN_EXE_ronde"),
        script.display()
    );
    assert_eq!(home.succeed(&line), "nothing is left\n");
}

#[test]
fn nothing_is_left_after_down() {
    check("running");
}

#[test]
fn nothing_is_left_after_kill_9_and_down() {
    check("killed");
}
