"""A name for this machine, or for the container that this is."""

import hashlib
import os
import socket

NAMESPACES = "/proc/self/ns"


def _hash(string):
    return hashlib.md5(string.encode("ascii"), usedforsecurity=False).hexdigest()


def host_hash(salt=None):
    """The host's name and a hash, equal for processes that share its memory; another one with a salt."""
    name = socket.gethostname()
    parts = [name, *(os.readlink(each.path) for each in sorted(os.scandir(NAMESPACES), key=lambda each: each.name))]
    return f"{name.split('.')[0]}-{_hash(' '.join(parts + [str(salt)] if salt else parts))}"
