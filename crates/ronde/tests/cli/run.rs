//! `run`, and the same program as `horovodrun`. What the launcher does is tested where it lives, in `ronde-launch`.

use std::os::unix::process::CommandExt as _;

use crate::sandbox::Sandbox;

#[test]
fn run_starts_ranks_and_passes_their_exit_code_on() {
    let sandbox = Sandbox::new();
    let output = sandbox.run("run -np 2 -H localhost:2 printenv HOROVOD_SIZE");
    assert_eq!(output.status.code(), Some(0));
    let mut lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0]<stdout>:2", "[1]<stdout>:2"]);
    assert_eq!(sandbox.run("-q run -np 1 false").status.code(), Some(1));
}

#[test]
fn horovodrun_is_the_same_program() {
    let sandbox = Sandbox::new();
    let output = sandbox.command("-np 1 printenv HOROVOD_RANK").arg0("/usr/bin/horovodrun").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"[0]<stdout>:0\n".as_slice()));
    let help = sandbox.command("--help").arg0("horovodrun").output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("Usage: horovodrun [OPTIONS] [COMMAND]..."));
}

#[test]
fn run_explains_itself_and_refuses_with_a_hint() {
    let sandbox = Sandbox::new();
    let help = sandbox.run("run --help");
    assert!(String::from_utf8(help.stdout).unwrap().contains("Usage: ronde run [OPTIONS] [COMMAND]..."));
    assert_eq!(
        sandbox.transcript("run -np 2"),
        "$ ronde run -np 2\nexit code: 2\n----- stderr\nerror: no command given\n\n\
         hint: it stands at the end, as in `-np 4 python train.py`\n"
    );
}
