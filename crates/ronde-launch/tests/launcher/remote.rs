//! Ranks through a command of the user's, and through Slurm's: programs that stand in for another machine.

use std::process::Command;

use rustix::process::Signal;

use crate::sandbox::{BUSY, Running, SOON, Sandbox, path_with};

/// A host is reached by a session of its own, as sshd makes one; the line is read by a shell.
const RSH: &str = "#!/bin/sh\necho \"$@\" >> calls\nshift\nexec setsid -w sh -c \"$1\"\n";
const SRUN: &str = "#!/bin/sh\necho \"$@\" >> calls\nwhile [ $1 != /bin/sh ]; do shift; done\nexec setsid -w \"$@\"\n";

fn by_command(sandbox: &Sandbox, np: &str, line: &str) -> Command {
    let rsh = sandbox.script("rsh", RSH).display().to_string();
    sandbox.launcher(&["-np", np, "-H", "far.invalid:4,off.invalid:4", "--rsh", &rsh, "sh", "-c", line])
}

#[test]
fn a_command_reaches_other_hosts() {
    let sandbox = Sandbox::new();
    let line = "echo $HOROVOD_HOSTNAME $HOROVOD_RANK \"$OWN\" $PWD; echo e >&2";
    let output = by_command(&sandbox, "5", line).env("OWN", "it's\ntwo").output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("[4]<stdout>:off.invalid 4 it's\n[4]<stdout>:two "), "{stdout}");
    assert!(stdout.contains(&sandbox.folder.path().display().to_string()), "{stdout}");
    assert_eq!(stdout.lines().count(), 10, "{stdout}");
    sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn ranks_elsewhere_share_the_cores_that_are_there() {
    let sandbox = Sandbox::new();
    // Four on the first host, one on the second; `nproc` is found there.
    sandbox.script("nproc", "#!/bin/sh\necho 13\n");
    let mut command = by_command(&sandbox, "5", "echo $HOROVOD_RANK ${OMP_NUM_THREADS-none}");
    let output = command.env_remove("OMP_NUM_THREADS").env("PATH", path_with(sandbox.folder.path())).output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(stdout.contains("[0]<stdout>:0 3\n") && stdout.contains("[3]<stdout>:3 3\n"), "{stdout}");
    assert!(stdout.contains("[4]<stdout>:4 none\n"), "{stdout}");
    let expected = "notice: OMP_NUM_THREADS is set on each host to its cores divided by its ranks; set it to choose";
    assert_eq!(stderr.matches(expected).count(), 1, "{stderr}");
}

#[test]
fn codes_signals_and_missing_programs_come_back() {
    let sandbox = Sandbox::new();
    let code = |line: &str| by_command(&sandbox, "1", line).output().unwrap().status.code();
    assert_eq!(code("exit 7"), Some(7));
    assert_eq!(code("kill -KILL $$"), Some(137));
    assert_eq!(code("exec no-such-program"), Some(127));
    assert_eq!(code("exit 255"), Some(255));
    sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn a_failure_elsewhere_ends_all_and_ctrl_c_reaches_them() {
    let sandbox = Sandbox::new();
    let line = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let running = Running::start(by_command(&sandbox, "2", line), 2);
    running.signal(Signal::INT);
    let said = running.end();
    assert_eq!((said.code, said.stdout.matches("bye").count()), (Some(130), 2), "{}", said.stderr);
    let output = by_command(&sandbox, "3", "[ $HOROVOD_RANK = 2 ] && exit 5; sleep 600").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn nothing_elsewhere_outlives_the_launcher_and_no_secret_is_shown() {
    let sandbox = Sandbox::new();
    let line = "trap '' TERM; echo ready $RONDE_SECRET; while :; do sleep 0.05; done";
    let mut running = Running::start(by_command(&sandbox, "2", line), 2);
    let secret = running.seen.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(secret.len(), 32);
    for pid in sandbox.processes() {
        let words = fs_err::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!words.contains(&secret), "{words}");
    }
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    sandbox.wait_for_nothing_left(ronde_launch::start::NOTICED_WITHIN + BUSY);
}

#[test]
fn an_allocation_of_slurm_is_used() {
    let sandbox = Sandbox::new();
    sandbox.script("srun", SRUN);
    let mut command = sandbox.launcher(&["sh", "-c", "echo $HOROVOD_HOSTNAME $HOROVOD_RANK/$HOROVOD_SIZE"]);
    command.env("PATH", path_with(sandbox.folder.path())).env("SLURM_JOB_ID", "7");
    let output = command.env("SLURM_JOB_NODELIST", "n[1-2]").env("SLURM_TASKS_PER_NODE", "2,1").output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("[0]<stdout>:n1 0/3") && stdout.contains("[2]<stdout>:n2 2/3"), "{stdout}");
    let calls = fs_err::read_to_string(sandbox.path("calls")).unwrap();
    assert_eq!(calls.matches("--nodelist n1").count(), 2, "{calls}");
    sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn an_elastic_job_uses_the_allocation_of_slurm_too() {
    let sandbox = Sandbox::new();
    sandbox.script("srun", SRUN);
    let mut command = sandbox.launcher(&["--min-np", "3", "sh", "-c", "echo $HOROVOD_HOSTNAME"]);
    command.env("PATH", path_with(sandbox.folder.path())).env("SLURM_JOB_ID", "7");
    let output = command.env("SLURM_JOB_NODELIST", "n[1-2]").env("SLURM_TASKS_PER_NODE", "2,1").output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let count = |text: &str| stdout.matches(text).count();
    assert_eq!((count("<stdout>:n1\n"), count("<stdout>:n2\n")), (2, 1), "{stdout}{stderr}");
    assert_eq!(fs_err::read_to_string(sandbox.path("calls")).unwrap().matches("--nodelist n1").count(), 2);
    sandbox.wait_for_nothing_left(SOON);
}

#[test]
fn a_way_that_cannot_be_gone_is_an_error_of_the_machine() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(&["-np", "1", "-H", "far.invalid:1", "--rsh", "/no/such/rsh"], "true");
    assert_eq!(said.code, Some(3));
    assert!(
        said.stderr.contains("cannot start a rank on host `far.invalid`: cannot run `/no/such/rsh`"),
        "{}",
        said.stderr
    );
}
