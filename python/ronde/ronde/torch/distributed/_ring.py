"""How the ranks of a process group find each other: through the store that torch gives them.

Each process group has a ring of its own, so that groups may be at work in any order, and one that breaks leaves the
others alone. The first member says in the store where it serves as a rendezvous, and a secret; the rest is the engine's.
"""

import atexit
import hashlib
import hmac
import json
import secrets
import threading

from ronde import _bootstrap, _control_channel, _settings
from ronde._ronde import Engine, HorovodInternalError, InitializationError, MismatchError

# The engines of this process, to be ended before the interpreter is.
_engines: set = set()
_lock = threading.Lock()
_server = None
_failure = None


def failure():
    """The error by which a ring of this process has ended. Of an error in a backward pass torch keeps only the text, so
    that nobody can tell by its type."""
    return _failure


def note(error):
    """Remembers an error of the engine, if the ring is over by it."""
    global _failure
    if isinstance(error, (HorovodInternalError, InitializationError)) and not isinstance(error, MismatchError):
        _failure = _failure or error


def forget():
    """New rings are going to be formed."""
    global _failure
    _failure = None


def form(store, key, rank, size, timeout):
    """Forms a ring of those who call this with the same store and key; returns this member's engine, and a name that
    no other ring has."""
    offer = None
    if size > 1:
        offer = _agree(store, key, rank, timeout)
    channel = _control_channel.connect()
    engine = Engine(_options(offer, rank, size, timeout.total_seconds()), channel and channel.native)
    with _lock:
        _engines.add(engine)
    if size > 1 and rank == 0:
        # Everybody has read it, and a group of the same name may be formed once more.
        store.delete_key(key)
    return engine, offer["scope"] if offer else "alone"


def _agree(store, key, rank, timeout):
    if rank == 0:
        addresses, secret = _serve()
        store.set(key, json.dumps({"addresses": addresses, "secret": secret.hex(), "scope": secrets.token_hex(8)}))
    try:
        store.wait([key], timeout)
        return json.loads(store.get(key))
    except RuntimeError as error:
        raise InitializationError(f"the first member did not say where to meet: {error}") from None


def _serve():
    """The rendezvous of all rings whose first member this process is; it serves as long as the process lives."""
    global _server
    with _lock:
        if _server is None:
            secret = secrets.token_bytes(16)
            _server = _bootstrap.listen_everywhere(_ring_secret(secret)), secret
    return _server[0].addresses, _server[1]


def _ring_secret(said):
    """A store of torch shows everybody what is in it: where the launcher gave the job a secret, that is needed too."""
    return hmac.new(_settings.job_secret().encode(), said, hashlib.sha256).digest()


def _options(offer, rank, size, seconds):
    options = dict(
        _settings.tuning(),
        rank=rank,
        size=size,
        rendezvous=None,
        secret=b"",
        scope="alone",
        host=_settings.host_name(),
        start_timeout=seconds,
        # An operation that waits for longer ends the group, and the error says for whom it waited.
        stall_fail_after=seconds,
        # Operations are numbered: no name comes twice.
        cache_capacity=0,
        # One file cannot hold the timelines of several rings.
        timeline=None,
    )
    if offer is not None:
        options["rendezvous"] = _bootstrap.first_reachable(offer["addresses"])
        options["secret"] = _ring_secret(bytes.fromhex(offer["secret"]))
        options["scope"] = offer["scope"]
    return options


def leave(engine):
    """Ends this member's part in a ring: what is in flight fails, here and on the others."""
    with _lock:
        _engines.discard(engine)
    engine.shutdown()


def _leave_all():
    for engine in list(_engines):
        leave(engine)


atexit.register(_leave_all)
