"""`run()`: a function on many ranks, from a script or a notebook, through `ronde run`.

The function goes to the ranks, and their results come back, over connections that prove a key made for this job;
the key is in the ranks' environment, which nobody else can read. The ranks' side is `ronde._task`.
"""

import collections
import functools
import json
import os
import secrets
import shutil
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
# What a rank wants: the function, or to bring its rank and what came of it.
FUNCTION, RESULT, FAILURE = b"function", b"result", b"failure"

# The launcher's exit code for arguments that need a change.
INPUT = 2
# Lines of the launcher's stderr in which its error is looked for: the last words of a rank may be among them.
SAID_MAX = 200


def binary():
    """The `ronde` program: what RONDE_BINARY names, else that of this installation, else one on the PATH."""
    named = os.environ.get("RONDE_BINARY")
    if named:
        if not os.access(named, os.X_OK):
            raise FileNotFoundError(f"RONDE_BINARY is `{named}`, which is not a program")
        return named
    folders = _folders()
    found = shutil.which("ronde", path=os.pathsep.join(folders))
    if found is None:
        looked = "".join(f"\n  {folder}" for folder in folders)
        raise FileNotFoundError(f"no `ronde` program found; install the wheel or set RONDE_BINARY. Looked in:{looked}")
    return found


def _folders():
    """Where pip may have put the program, in the order of likelihood, and the PATH."""
    folders = [
        os.path.dirname(sys.executable or ""),
        sysconfig.get_path("scripts"),
        # `pip install --user`, and `--target`.
        sysconfig.get_path("scripts", f"{os.name}_user"),
        os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"),
        *os.environ.get("PATH", os.defpath).split(os.pathsep),
    ]
    return list(dict.fromkeys(folder for folder in folders if folder))


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

    Raises ValueError if the arguments make no sense, and RuntimeError if a rank fails, with what it raised; what it
    wrote has been shown by then. `disable_cache`, `use_gloo`, `use_mpi` and `mpi_args` are accepted and make no
    difference.
    """
    options = {
        "num_proc": _given(num_proc, np, 1),
        "min_np": _given(min_num_proc, min_np),
        "max_np": _given(max_num_proc, max_np),
        "slots_per_host": slots,
        "reset_limit": reset_limit,
        "blacklist_cooldown_range": cooldown_range,
        "hosts": hosts,
        "hostfile": hostfile,
        "host_discovery_script": host_discovery_script,
        "start_timeout": start_timeout,
        "ssh_port": ssh_port,
        "ssh_identity_file": ssh_identity_file,
        "output_filename": output_filename,
        "verbose": verbose,
        "network_interfaces": _joined(network_interfaces or network_interface),
    }
    return run_function(options, functools.partial(func, *args, **(kwargs or {})), executable)


def run_function(options, func, executable=None, env=os.environ):
    """Runs a function on every rank and returns what they return, by rank; options are flags of `ronde run`."""
    is_here = not any(options.get(name) for name in ("hosts", "hostfile", "host_discovery_script"))
    with _TaskServer("127.0.0.1" if is_here else "", cloudpickle.dumps(func)) as server:
        command = [executable or sys.executable, "-m", "ronde._task"]
        run_command(options, command, {**env, **server.variables()}, server.failures)
        return [cloudpickle.loads(server.results[rank]) for rank in sorted(server.results)]


def _given(*values):
    """The first that is given; 0 is, and the launcher says what it thinks of it."""
    return next((value for value in values if value is not None), None)


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


def run_command(options, command, env, failures=None):
    """Runs a command on every rank and shows their output, also in a notebook."""
    with tempfile.TemporaryDirectory(prefix="ronde-run-") as folder:
        report = os.path.join(folder, "report")
        process = subprocess.Popen(
            [binary(), "run", "--report", report, "--until-stdin-ends", *_flags(**options), *command],
            env=env,
            # Nothing is ever written: when this process is gone, however it ended, the launcher sees the end of it.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        said = collections.deque(maxlen=SAID_MAX)
        pumps = [_pump(process.stdout, sys.stdout), _pump(process.stderr, sys.stderr, said)]
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
            raise _failure(_read(report), code, _error(said), failures or {})


def _pump(source, target, said=None):
    def copy():
        for line in source:
            text = line.decode(errors="replace")
            target.write(text)
            target.flush()
            if said is not None:
                said.append(text)

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def _read(report):
    """How the job ended, by the launcher's report; nothing if there was no job."""
    try:
        with open(report, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def _error(said):
    """The launcher's error, without its hint, from the last lines of its stderr."""
    lines = list(said)
    begins = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    text = "".join(lines[begins[-1] :]) if begins else ""
    return text.removeprefix("error: ").split("\n\n")[0].rstrip()


def _failure(ended, code, error, failures):
    """The exception for a job that failed: how it ended, the launcher's words, and what each rank has raised."""
    if ended is None and code == INPUT:
        return ValueError(error)
    if ended is None or "rank" not in ended:
        return RuntimeError(f"The job did not finish (exit code {code}){': ' + error if error else '.'}")
    rank = ended["rank"]
    # Horovod's words: callers look for them.
    text = (
        "Horovod detected that one or more processes exited with non-zero status, thus causing the job to be "
        "terminated. The first process to do so was:\n"
        f"Process name: {rank}\nExit code: {ended['exit_code']}\n"
    )
    # The first to raise need not be the first to end: the others fail because it is gone.
    for each in dict.fromkeys([*list(failures)[:1], rank]):
        if each in failures:
            text += f"\nRank {each} raised:\n\n{failures[each]}"
    return RuntimeError(text)


class _TaskServer:
    """Hands the function to ranks that know the key, and takes their results, or what they raised."""

    def __init__(self, address, payload):
        self.payload = payload
        self.key = secrets.token_hex(16)
        self.results = {}
        self.failures = {}
        self.listener = socket.create_server((address, 0))

    def __enter__(self):
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        # Closing alone would not wake the thread that waits for callers.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def variables(self):
        return {PORT: str(self.listener.getsockname()[1]), KEY: self.key}

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
                what = connection.recv_bytes()
                if what == FUNCTION:
                    connection.send_bytes(self.payload)
                    return
                rank, brought = int(connection.recv_bytes()), connection.recv_bytes()
                if what == RESULT:
                    self.results[rank] = brought
                else:
                    self.failures[rank] = brought.decode(errors="replace")
                connection.send_bytes(b"taken")
        except (AuthenticationError, EOFError, OSError, ValueError):
            # Not one of ours, or one that has ended: a rank that misses something says so itself.
            pass
