"""A shell command that never outlives its caller, however that ends.

It runs under a keeper, which is the `ronde` program by another name: `ronde run` puts one around every rank. The keeper
reads the command and then signals from a socket, and writes there how the command ended. When the socket closes,
everything that the command has started is ended.
"""

import codecs
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from horovod.runner.util.threads import in_thread, on_event
from ronde._launch import binary

GRACEFUL_TERMINATION_TIME_S = 5
KEEPER = "ronde-keep"
# How a command ended: `c` and its exit code, or `s` and the signal.
REPORT = struct.Struct(">ci")


def execute(command, env=None, stdout=None, stderr=None, index=None, events=None, prefix_output_with_timestamp=False):
    """Runs a command and passes on what it writes, a line at a time; returns its exit code.

    With an index, lines begin with it. When one of the events is set the command is ended.
    """
    ours, theirs = socket.socketpair()
    stop = threading.Event()
    with ours:
        with theirs:
            keeper = _start_keeper(theirs)
        outputs = ((keeper.stdout, stdout or sys.stdout, "stdout"), (keeper.stderr, stderr or sys.stderr, "stderr"))
        pumps = [in_thread(prefix_connection, (*each, index, prefix_output_with_timestamp)) for each in outputs]
        for event in events or []:
            on_event(event, _terminate, (ours, stop), stop=stop, silent=True)
        try:
            ours.sendall(_frame(command, env))
            ended = ours.recv(REPORT.size, socket.MSG_WAITALL)
        finally:
            stop.set()
    for pump in pumps:
        pump.join()
    return _exit_code(ended, keeper.wait())


def _start_keeper(channel):
    return subprocess.Popen(
        [KEEPER], executable=binary(), stdin=channel, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _frame(command, env):
    program = {
        "argv": ["/bin/sh", "-c", command],
        "env": list((os.environ if env is None else env).items()),
        "folder": os.getcwd(),
    }
    text = json.dumps([program, os.devnull]).encode()
    return struct.pack(">I", len(text)) + text


def _terminate(channel, stop):
    channel.sendall(bytes([signal.SIGTERM]))
    if not stop.wait(GRACEFUL_TERMINATION_TIME_S):
        channel.sendall(bytes([signal.SIGKILL]))


def _exit_code(ended, code_of_keeper):
    if len(ended) < REPORT.size:
        return code_of_keeper or 1
    kind, number = REPORT.unpack(ended)
    # As shells tell it.
    return 128 + number if kind == b"s" else number


def prefix_connection(src_connection, dst_stream, prefix, index, prefix_output_with_timestamp):
    """Copies UTF-8 text, each line as soon as it is there; with a prefix and an index, lines begin with them."""
    decoder = codecs.getincrementaldecoder("utf8")(errors="replace")
    line, is_open = "", True
    while is_open:
        data = os.read(src_connection.fileno(), 1 << 16)
        is_open = bool(data)
        *whole, line = re.split("(?<=[\r\n])", line + decoder.decode(data, final=not is_open))
        for each in whole if is_open or not line else [*whole, line]:
            head = _head(prefix, index, prefix_output_with_timestamp)
            dst_stream.write(head + each)
            dst_stream.flush()
    src_connection.close()


def _head(prefix, index, has_time):
    if index is None or prefix is None:
        return ""
    # With the time in one argument: tests of Horovod put another clock here.
    said = time.asctime(time.localtime(time.time())) if has_time else ""
    return f"{said}[{index}]<{prefix}>:"
