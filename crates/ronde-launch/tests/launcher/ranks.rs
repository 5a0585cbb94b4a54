//! What ranks find when they start.

use std::collections::BTreeSet;

use crate::sandbox::Sandbox;

const PLACE: &str = "echo $HOROVOD_HOSTNAME $HOROVOD_RANK/$HOROVOD_SIZE \
                     $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE $HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE";

#[test]
fn every_rank_knows_its_place() {
    let said = Sandbox::new().run(&["-np", "3", "-H", "localhost:2,127.0.0.1:2"], PLACE);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    let expected = ["[0]<stdout>:localhost 0/3 0/2 0/2", "[1]<stdout>:localhost 1/3 1/2 0/1"];
    assert_eq!(said.sorted(), [expected.as_slice(), &["[2]<stdout>:127.0.0.1 2/3 0/1 1/2"]].concat());
}

#[test]
fn fewer_ranks_than_slots_are_so_many() {
    let said = Sandbox::new().run(&["-np", "2", "-H", "localhost:4"], PLACE);
    assert_eq!(said.sorted(), ["[0]<stdout>:localhost 0/2 0/2 0/1", "[1]<stdout>:localhost 1/2 1/2 0/1"]);
}

#[test]
fn hosts_come_from_a_file() {
    let sandbox = Sandbox::new();
    fs_err::write(sandbox.path("hosts"), "# ours\n\nlocalhost slots=2\n").unwrap();
    let said = sandbox.run(&["-np", "2", "-hostfile", "hosts"], "echo $HOROVOD_RANK");
    assert_eq!(said.sorted(), ["[0]<stdout>:0", "[1]<stdout>:1"]);
}

#[test]
fn hosts_that_nobody_names_are_those_of_the_job() {
    let sandbox = Sandbox::new();
    fs_err::write(sandbox.path("hosts"), "localhost:1\n127.0.0.1:1\n").unwrap();
    let line = ["sh", "-c", "echo $HOROVOD_HOSTNAME"];
    let run = |flags: &[&str], file: &str| {
        let mut command = sandbox.launcher(&[flags, &line].concat());
        let output = command.env("RONDE_HOSTS_FILE", sandbox.path(file)).output().unwrap();
        let mut lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(run(&["-np", "2"], "hosts"), ["[0]<stdout>:localhost", "[1]<stdout>:127.0.0.1"]);
    assert_eq!(run(&["-np", "2", "-H", "localhost:2"], "hosts"), ["[0]<stdout>:localhost", "[1]<stdout>:localhost"]);
    // The variable goes along to other hosts, where there is no such file.
    assert_eq!(run(&["-np", "2"], "nowhere"), ["[0]<stdout>:localhost", "[1]<stdout>:localhost"]);
}

#[test]
fn ranks_inherit_folder_and_environment_but_not_stdin() {
    let sandbox = Sandbox::new();
    let line = "echo $PWD; echo $OWN; cat; echo $PYTHONUNBUFFERED $HOROVOD_CYCLE_TIME $HOROVOD_LOG_LEVEL; \
                echo $HOROVOD_GLOO_RENDEZVOUS_ADDR; test $HOROVOD_GLOO_RENDEZVOUS_PORT -gt 0; test ${#RONDE_SECRET} = 32";
    let mut command = sandbox.launcher(&["-np", "1", "--cycle-time-ms", "2.5", "sh", "-ec", line]);
    let output = command.env("OWN", "ü  '\"").env("HOROVOD_LOG_LEVEL", "debug").output().unwrap();
    let folder = sandbox.folder.path().display();
    let expected = format!("[0]<stdout>:{folder}\n[0]<stdout>:ü '\"\n[0]<stdout>:1 2.5 debug\n[0]<stdout>:127.0.0.1\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn ranks_share_the_cores_of_their_host_and_the_user_is_told_once() {
    let sandbox = Sandbox::new();
    let share = (std::thread::available_parallelism().unwrap().get() / 4).max(1).to_string();
    let run = |flags: &[&str], chosen: Option<(&str, &str)>| {
        let mut command = sandbox.launcher(&[flags, &["sh", "-c", "echo ${OMP_NUM_THREADS-none}"]].concat());
        let output = command.env_remove("OMP_NUM_THREADS").envs(chosen).output().unwrap();
        let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let threads: BTreeSet<String> =
            stdout.lines().map(|line| line[line.find(':').unwrap() + 1..].to_owned()).collect();
        (Vec::from_iter(threads).join(" "), stderr.matches("notice: OMP_NUM_THREADS").count())
    };
    let elastic = ["--min-np", "4"];
    assert_eq!(run(&["-np", "4"], None), (share.clone(), 1));
    assert_eq!(run(&elastic, None), (share, 1));
    for flags in [["-np", "4"], elastic] {
        assert_eq!(run(&flags, Some(("OMP_NUM_THREADS", "7"))), ("7".to_owned(), 0));
        assert_eq!(run(&flags, Some(("MKL_NUM_THREADS", "7"))), ("none".to_owned(), 0));
    }
    assert_eq!(run(&["-np", "1"], None), ("none".to_owned(), 0));
    assert_eq!(run(&["--min-np", "1"], None), ("none".to_owned(), 0));
}

#[test]
fn interfaces_are_passed_on_by_name() {
    let said = Sandbox::new().run(
        &["-np", "1", "--network-interfaces", "lo"],
        "echo $RONDE_ADDRESSES $HOROVOD_GLOO_IFACE $NCCL_SOCKET_IFNAME",
    );
    assert_eq!(said.stdout, "[0]<stdout>:lo lo lo\n");
}

#[test]
fn the_build_and_the_version_are_shown() {
    let sandbox = Sandbox::new();
    let shown = |flag: &str| String::from_utf8(sandbox.launcher(&[flag]).output().unwrap().stdout).unwrap();
    assert_eq!(shown("--version"), format!("{}\n", ronde_launch::VERSION));
    let build = shown("-cb");
    assert!(build.starts_with("Horovod v0.28.1"), "{build}");
    assert!(build.contains("Available Controllers:\n    [ ] MPI\n    [X] Gloo\n"), "{build}");
}
