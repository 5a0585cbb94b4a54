//! Input that cannot be used: one sentence, a hint, the documented exit code.

use crate::sandbox::Sandbox;

fn check(name: &str, line: &str, expected: &str) {
    let sandbox = Sandbox::new();
    fs_err::write(sandbox.path("bad-hosts"), "a slots=2\nb slots=two\n").unwrap();
    fs_err::write(sandbox.path("empty-hosts"), "\n").unwrap();
    fs_err::write(sandbox.path("bad.yaml"), "params: {cycle_time_ms: fast}\n").unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = sandbox.launcher(&words).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, expected, "{name}");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), b"".as_slice()), "{name}");
}

const LIST_HINT: &str = "\n\nhint: give hosts as in `-H node1:4,node2:4`, an IPv6 address in brackets: `[fd00::1]:4`; \
                         the user and other settings of ssh belong in ~/.ssh/config\n";

#[test]
fn bad_input_is_refused_with_a_hint() {
    check("no number", "true", "error: number of ranks not given\n\nhint: set it with -np, as in `-np 4`\n");
    check(
        "no command",
        "-np 2",
        "error: no command given\n\n\
         hint: it stands at the end, as in `-np 4 python train.py`\n",
    );
    check(
        "too few slots",
        "-np 3 -H localhost:2 true",
        "error: Requested more processes (3) than there are available slots (2)\n\n\
         hint: give the hosts more slots (`-H node1:4,node2:4`), or start fewer ranks with -np\n",
    );
    check(
        "a host without a number",
        "-np 1 -H a:x true",
        &format!("error: cannot use the hosts\n  cause: `a:x` is not a valid host entry{LIST_HINT}"),
    );
    check(
        "a host twice",
        "-np 1 -H a:1,a:2 true",
        "error: cannot use the hosts\n  cause: host `a` is listed twice\n\nhint: add up its slots in one place\n",
    );
    check(
        "a wrong line",
        "-np 1 -hostfile bad-hosts true",
        "error: cannot use the hosts\n  cause: `b slots=two` is not a valid host entry (line 2 of the hostfile)\n\n\
         hint: a line of a hostfile is `node1 slots=4`\n",
    );
    check(
        "no host",
        "-np 1 -hostfile empty-hosts true",
        "error: cannot use the hosts\n  cause: no hosts in the hostfile\n\n\
         hint: a line of a hostfile is `node1 slots=4`\n",
    );
    check(
        "a wrong configuration",
        "-np 1 --config-file bad.yaml true",
        "error: cannot use the configuration file `bad.yaml`: `params.cycle_time_ms` is \"fast\", not a non-negative number\n\n\
         hint: the same parameters are flags, see --help\n",
    );
    check(
        "no such interface",
        "-np 1 --network-interfaces eth77 true",
        "error: there is no network interface `eth77` on this machine\n\nhint: `ip link` lists the interfaces\n",
    );
    check(
        "noise out of range",
        "-np 1 --autotune-gaussian-process-noise 1.5 true",
        "error: the autotune noise must be between 0 and 1, not 1.5\n\nhint: see --help\n",
    );
    check(
        "no slots",
        "-np 1 -H a:0 true",
        "error: cannot use the hosts\n  cause: host `a` has no slots\n\n\
         hint: leave the host out, or give it at least one slot\n",
    );
}

#[test]
fn numbers_of_ranks_that_contradict_each_other_are_refused() {
    check(
        "more at least than at most",
        "--min-np 3 --max-np 2 true",
        "error: --min-np 3 is more than --max-np 2\n\nhint: see --help\n",
    );
    check(
        "more than at most, though the number does not change",
        "-np 4 --max-np 2 true",
        "error: -np 4 is more than --max-np 2\n\nhint: see --help\n",
    );
    check("fewer than at least", "-np 2 --min-np 3 true", "error: -np 2 is less than --min-np 3\n\nhint: see --help\n");
}

#[test]
fn a_missing_hostfile_is_named() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(&["-np", "1", "-hostfile", "nowhere"], "true");
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.starts_with("error: cannot read `nowhere`\n"), "{}", said.stderr);
}

#[test]
fn flags_of_mpi_are_accepted_with_a_notice() {
    for (flags, notices) in [
        (["--mpi", "--mpi-args=--oversubscribe", "--binding-args=x"], "--mpi --mpi-args --binding-args"),
        (["--jsrun", "--mpi-threads-disable", "--config-file=c.yaml"], "c.yaml --jsrun --mpi-threads-disable"),
    ] {
        let sandbox = Sandbox::new();
        fs_err::write(sandbox.path("c.yaml"), "controller: mpi\n").unwrap();
        let said = sandbox.run(&[&["-np", "1"][..], &flags].concat(), "true");
        assert_eq!(said.code, Some(0));
        let named: Vec<&str> =
            said.stderr.lines().filter_map(|it| it.strip_prefix("notice: ")?.split(':').next()).collect();
        assert_eq!(named.join(" "), notices, "{}", said.stderr);
    }
}
