"""The ranks of `run()`: fetches the function, calls it, sends the result back, or what it raised."""

import os
import socket
import traceback
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

import cloudpickle

from ronde._launch import FAILURE, FUNCTION, KEY, PORT, RESULT

# Of a traceback, the end: what was raised and where.
FRAMES_MAX = 10
CHARACTERS_MAX = 8000


def _ask(*words):
    """One question to the process that called run(); it is where the launcher is."""
    key = os.environ[KEY].encode()
    caller = socket.create_connection((os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ[PORT])))
    with Connection(caller.detach()) as connection:
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
        for each in words:
            connection.send_bytes(each)
        return connection.recv_bytes()


def _rank():
    """An elastic job may have given this worker another rank meanwhile."""
    return os.environ["HOROVOD_RANK"].encode()


def _told(error):
    # Without the frame of main(), which is ours.
    frames = error.__traceback__.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames, limit=-FRAMES_MAX))
    return text[-CHARACTERS_MAX:].encode(errors="replace")


def main():
    try:
        func = cloudpickle.loads(_ask(FUNCTION))
        result = cloudpickle.dumps(func())
    except Exception as error:
        _ask(FAILURE, _rank(), _told(error))
        raise
    _ask(RESULT, _rank(), result)


if __name__ == "__main__":
    main()
