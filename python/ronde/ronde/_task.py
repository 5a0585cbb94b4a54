"""The ranks of `run()`: fetches the function, calls it, sends the result back."""

import os
import socket
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

import cloudpickle

from ronde._launch import KEY, PORT


def _ask(what, *more):
    """One question to the process that called run(); it is where the launcher is."""
    key = os.environ[KEY].encode()
    caller = socket.create_connection((os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ[PORT])))
    with Connection(caller.detach()) as connection:
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
        for each in (what.encode(), *more):
            connection.send_bytes(each)
        return connection.recv_bytes()


def main():
    func, args, kwargs = cloudpickle.loads(_ask("function"))
    result = cloudpickle.dumps(func(*args, **kwargs))
    # An elastic job may have given this worker another rank meanwhile.
    _ask(os.environ["HOROVOD_RANK"], result)


if __name__ == "__main__":
    main()
