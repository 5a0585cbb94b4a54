"""The names of Horovod's launcher that scripts import, over ours."""

import io
import os
import subprocess
import sys
import threading
import time

import pytest
from test_launch import HOROVODRUN


def args_of(monkeypatch, line):
    from horovod.runner import launch

    monkeypatch.setattr(sys, "argv", ["horovodrun", *line.split()])
    return launch.parse_args()


def test_the_command_line_can_be_read_from_python(monkeypatch):
    args = args_of(monkeypatch, "-np 2 -H a:1,b:1 --fusion-threshold-mb 8 --no-autotune python t.py -np 3")
    assert (args.num_proc, args.hosts, args.fusion_threshold_mb, args.autotune) == (2, "a:1,b:1", 8, False)
    assert args.command == ["python", "t.py", "-np", "3"]
    with pytest.raises(ValueError, match="invalid value 'none' for '--num-proc <N>'"):
        args_of(monkeypatch, "-np none")


@pytest.mark.parametrize(("line", "said"), [("--version", "0.28"), ("--help", "Usage: "), ("-cb", "[X] Gloo")])
def test_questions_are_answered_on_the_way(monkeypatch, capsys, line, said):
    with pytest.raises(SystemExit) as caught:
        args_of(monkeypatch, line)
    assert caught.value.code == 0
    assert said in capsys.readouterr().out


def test_arguments_become_the_variables_that_the_program_makes_of_them(monkeypatch):
    """Every argument of the engine is known to both, and means the same."""
    from horovod.runner.common.util import config_parser

    line = (
        "-np 1 --fusion-threshold-mb 8 --cycle-time-ms 2 --no-hierarchical-allreduce --autotune "
        "--autotune-gaussian-process-noise 0.5 --timeline-filename t --no-stall-check --gloo-timeout-seconds 9 "
        "--log-level info --log-without-timestamp --tcp"
    )
    args = args_of(monkeypatch, line)
    expected = config_parser.set_env_from_args({}, args)
    done = subprocess.run([HOROVODRUN, *line.split(), "env"], capture_output=True, text=True, check=True)
    found = dict(each.removeprefix("[0]<stdout>:").split("=", 1) for each in done.stdout.splitlines() if "=" in each)
    assert {name: found.get(name) for name in expected} == expected
    assert len(expected) == 11


def test_a_configuration_file_says_what_arguments_do_not(monkeypatch, tmp_path):
    from horovod.runner.common.util import config_parser

    config = {"controller": "gloo", "stall_check": {"enabled": False}, "params": {"cache_capacity": 3, "cycle_time_ms": 1}}
    file = tmp_path / "config.json"
    file.write_text(str(config).replace("False", "false"))
    by_program = args_of(monkeypatch, f"-np 1 --config-file {file} --cache-capacity 5")
    by_python = args_of(monkeypatch, "-np 1 --cache-capacity 5")
    config_parser.set_args_from_config(by_python, config, {"cache_capacity"})
    for args in (by_program, by_python):
        assert (args.use_gloo, args.no_stall_check, args.cache_capacity, args.cycle_time_ms) == (True, True, 5, 1)
    by_python.cache_capacity = -1
    with pytest.raises(ValueError, match="cache_capacity=-1 must be >= 0"):
        config_parser.validate_config_args(by_python)


def test_arguments_can_be_run(monkeypatch, capfd):
    from horovod.runner import _HorovodArgs, launch

    args = _HorovodArgs()
    args.num_proc, args.cycle_time_ms = 2, 3.0
    args.run_func = lambda: (os.environ["HOROVOD_RANK"], os.environ["HOROVOD_CYCLE_TIME"])
    assert launch._run(args) == [("0", "3.0"), ("1", "3.0")]
    assert launch._run(args_of(monkeypatch, "-np 2 --min-np 2 -H localhost:2 echo well done")) is None
    assert capfd.readouterr().out.count("well done") == 2


def test_settings_can_be_run(capfd):
    from horovod.runner.common.util import settings, timeout
    from horovod.runner.gloo_run import gloo_run

    given = settings.Settings(num_proc=2, hosts="localhost:2", start_timeout=timeout.Timeout(60, "late"))
    gloo_run(given, ["lo"], {"WORD": "well"}, "127.0.0.1", ["sh", "-c", "echo $WORD done"])
    assert capfd.readouterr().out.count("well done") == 2
    with pytest.raises(RuntimeError, match="Exit code: 3"):
        gloo_run(given, None, {}, "127.0.0.1", ["sh", "-c", "exit 3"])


@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [
        ("echo hello; echo there >&2", 0, "[7]<stdout>:hello\n", "[7]<stderr>:there\n"),
        ("printf 'a\\rb'; exit 5", 5, "[7]<stdout>:a\r[7]<stdout>:b", ""),
        ("kill -TERM $$", 143, "", ""),
        ("echo $WORD", 0, "[7]<stdout>:word\n", ""),
    ],
)
def test_a_command_of_the_shell(command, code, out, err):
    from horovod.runner.common.util import safe_shell_exec

    stdout, stderr = io.StringIO(), io.StringIO()
    assert safe_shell_exec.execute(command, env={"WORD": "word"}, stdout=stdout, stderr=stderr, index=7) == code
    assert (stdout.getvalue(), stderr.getvalue()) == (out, err)


def test_an_event_ends_a_command_and_what_it_has_started():
    from horovod.runner.common.util import safe_shell_exec

    event = threading.Event()
    threading.Timer(0.2, event.set).start()
    start = time.monotonic()
    assert safe_shell_exec.execute("sleep 600 & sleep 600; true", events=[event]) == 143
    assert time.monotonic() - start < safe_shell_exec.GRACEFUL_TERMINATION_TIME_S


def test_what_is_not_here_says_what_is():
    from horovod.runner.mpi_run import mpi_run

    with pytest.raises(NotImplementedError, match="Ronde has no mpi_run; use gloo_run, horovodrun, or"):
        mpi_run(None, None, {}, ["true"])


def test_hosts_and_slots():
    from horovod.runner.common.util import hosts

    places = hosts.get_host_assignments(hosts.parse_hosts("a:2,b:1"), 3)
    assert [place.to_response_string() for place in places] == ["0,3,0,2,0,2", "1,3,1,2,0,1", "2,3,0,1,1,2"]
    assert hosts.SlotInfo.from_response_string("1,3,1,2,0,1").cross_size == 1
    assert len(hosts.get_host_assignments(hosts.parse_hosts("a:2,b:2"), 1, 3)) == 3
    with pytest.raises(ValueError, match="Requested more processes .3. than there are available slots .2."):
        hosts.get_host_assignments(hosts.parse_hosts("a:2"), 3)
    with pytest.raises(ValueError):
        hosts.parse_hosts("a")


def test_hosts_that_are_found(tmp_path):
    from horovod.runner.elastic.discovery import HostDiscoveryScript
    from horovod.runner.util import network

    found = HostDiscoveryScript("printf 'a:2\\n\\nb\\n'", 4).find_available_hosts_and_slots()
    assert found == {"a": 2, "b": 4}
    assert network.get_local_intfs() == {"lo"} and network.get_driver_ip(["lo"]) == "127.0.0.1"
    assert network.filter_local_addresses(["localhost", "nowhere.invalid"]) == ["nowhere.invalid"]
