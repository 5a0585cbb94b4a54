"""`run()`: a function on many ranks, from a script or a notebook, through `ronde run`.

The function goes to the ranks, and their results come back, over connections that prove a key made for this job;
the key is in the ranks' environment, which nobody else can read. The ranks' side is `ronde._task`.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

import cloudpickle

PORT = "RONDE_TASK_PORT"
KEY = "RONDE_TASK_KEY"


def binary():
    """The `ronde` program: of this installation, or what RONDE_BINARY names."""
    path = os.environ.get("RONDE_BINARY") or os.path.join(sysconfig.get_path("scripts"), "ronde")
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no `{path}`: install the wheel, or name the program with RONDE_BINARY")
    return path


def run(
    func,
    args=(),
    kwargs=None,
    num_proc=None,
    min_num_proc=None,
    max_num_proc=None,
    slots=None,
    reset_limit=None,
    cooldown_range=None,
    hosts=None,
    hostfile=None,
    host_discovery_script=None,
    start_timeout=None,
    ssh_port=None,
    ssh_identity_file=None,
    disable_cache=None,
    output_filename=None,
    verbose=None,
    use_gloo=None,
    use_mpi=None,
    mpi_args=None,
    network_interface=None,
    network_interfaces=None,
    executable=None,
    np=None,
    min_np=None,
    max_np=None,
):
    """Runs `func(*args, **kwargs)` on every rank and returns what they return, by rank.

    Raises RuntimeError if a rank fails; what it wrote has been shown by then. `disable_cache`, `use_gloo`, `use_mpi`
    and `mpi_args` are accepted and make no difference.
    """
    flags = _flags(
        num_proc=num_proc or np or 1,
        min_np=min_num_proc or min_np,
        max_np=max_num_proc or max_np,
        slots_per_host=slots,
        reset_limit=reset_limit,
        blacklist_cooldown_range=cooldown_range,
        hosts=hosts,
        hostfile=hostfile,
        host_discovery_script=host_discovery_script,
        start_timeout=start_timeout,
        ssh_port=ssh_port,
        ssh_identity_file=ssh_identity_file,
        output_filename=output_filename,
        verbose=verbose,
        network_interfaces=_joined(network_interfaces or network_interface),
    )
    is_here = not (hosts or hostfile or host_discovery_script)
    with _Desk("127.0.0.1" if is_here else "", cloudpickle.dumps((func, args, kwargs or {}))) as desk:
        _launch(flags + [executable or sys.executable, "-m", "ronde._task"], desk.environment())
        return [cloudpickle.loads(desk.results[rank]) for rank in sorted(desk.results)]


def _joined(names):
    return names if names is None or isinstance(names, str) else ",".join(names)


def _flags(**options):
    flags = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        flags.append("--" + name.replace("_", "-"))
        if value is not True:
            flags += [str(each) for each in (value if isinstance(value, (list, tuple)) else [value])]
    return flags


def _launch(words, environment):
    """Runs the launcher and shows its output, also in a notebook."""
    with tempfile.TemporaryDirectory(prefix="ronde-run-") as folder:
        report = os.path.join(folder, "report")
        process = subprocess.Popen(
            [binary(), "run", "--report", report, "--until-stdin-ends", *words],
            env=environment,
            # Nothing is ever written: when this process is gone, however it ended, the launcher sees the end of it.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        pumps = [_pump(process.stdout, sys.stdout), _pump(process.stderr, sys.stderr)]
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            for pump in pumps:
                pump.join()
        if code != 0:
            raise RuntimeError(_failure(report, code))


def _pump(source, target):
    def copy():
        for line in source:
            target.write(line.decode(errors="replace"))
            target.flush()

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def _failure(report, code):
    try:
        with open(report, encoding="utf-8") as file:
            ended = json.load(file)
    except (OSError, ValueError):
        ended = {}
    if "rank" not in ended:
        return f"The job was not run to its end (exit code {code})."
    # Horovod's words: callers look for them.
    return (
        "Horovod detected that one or more processes exited with non-zero status, thus causing the job to be "
        "terminated. The first process to do so was:\n"
        f"Process name: {ended['rank']}\nExit code: {ended['exit_code']}\n"
    )


class _Desk:
    """Hands the function to ranks that know the key, and takes their results."""

    def __init__(self, address, payload):
        self.payload = payload
        self.key = secrets.token_hex(16)
        self.results = {}
        self.listener = socket.create_server((address, 0))

    def __enter__(self):
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        # Closing alone would not wake the thread that waits for callers.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def environment(self):
        return dict(os.environ, **{PORT: str(self.listener.getsockname()[1]), KEY: self.key})

    def _serve(self):
        while True:
            try:
                caller, _ = self.listener.accept()
            except OSError:
                return
            # One thread each: a caller that says nothing keeps nobody waiting.
            threading.Thread(target=self._answer, args=(caller,), daemon=True).start()

    def _answer(self, caller):
        try:
            with Connection(caller.detach()) as connection:
                deliver_challenge(connection, self.key.encode())
                answer_challenge(connection, self.key.encode())
                rank = connection.recv_bytes().decode()
                if rank == "function":
                    connection.send_bytes(self.payload)
                else:
                    self.results[int(rank)] = connection.recv_bytes()
                    connection.send_bytes(b"taken")
        except (AuthenticationError, EOFError, OSError, ValueError):
            # Not one of ours, or one that has ended: a rank that misses something says so itself.
            pass
