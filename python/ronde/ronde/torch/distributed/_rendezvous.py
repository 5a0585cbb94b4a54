"""`init_process_group("ronde")` under `ronde run`, mpirun or srun, which say who a rank is but not where torch's store is.

The first rank opens a store on any free port and tells the others through the launcher's own way to meet.
"""

import json
import os
from datetime import timedelta

import torch
from torch.distributed import TCPStore

from ronde import _bootstrap, _settings
from ronde._basics import basics
from ronde._objects import broadcast_object
from ronde._ronde import TYPE_CODES, Engine, InitializationError
from ronde.torch.distributed import _ring

_rings = 0


def is_needed():
    """Whether a launcher has told the rank, but not in torch's words."""
    return _is_elastic() or "MASTER_ADDR" not in os.environ and _settings.has_launcher()


def _is_elastic():
    return _settings.control_channel() is not None


def meet(timeout=timedelta(minutes=5)):
    """Returns the store of all ranks, this rank and their number."""
    if _is_elastic():
        # Who this rank is in the present ring, the launcher says only then.
        basics.init()
    info = _settings.rank_info()
    store, offer = None, []
    if info.rank == 0:
        store = TCPStore("localhost", 0, info.size, True, timeout, wait_for_workers=False)
        offer = _addresses(store.port)
    if info.size > 1:
        addresses = broadcast_object(offer, name="torch.store") if _is_elastic() else _told(info, offer, timeout)
        if store is None:
            store = _connected(addresses, info.size, timeout)
    for name, value in {
        "RANK": info.rank,
        "WORLD_SIZE": info.size,
        "LOCAL_RANK": info.local_rank,
        "LOCAL_WORLD_SIZE": info.local_size,
    }.items():
        if value is not None and (_is_elastic() or name not in os.environ):
            os.environ[name] = str(value)
    return store, info.rank, info.size


def _connected(addresses, size, timeout):
    try:
        host, _, port = _bootstrap.first_reachable(addresses).rpartition(":")
        return TCPStore(host.strip("[]"), int(port), size, False, timeout)
    except (RuntimeError, ValueError) as error:
        failure = InitializationError(f"cannot reach the store of the first rank: {error}")
        _ring.note(failure)
        raise failure from None


def _addresses(port):
    """Where others may find a port of this machine."""
    hosts = [address.rpartition(":")[0] for address in _bootstrap.listen_everywhere(b"").addresses]
    return [f"{host}:{port}" for host in hosts]


def _told(info, offer, timeout):
    """What the first rank tells all."""
    global _rings
    _rings += 1
    rendezvous, secret = _bootstrap.by_settings(info)
    options = dict(
        _settings.tuning(),
        rank=info.rank,
        size=info.size,
        rendezvous=rendezvous,
        secret=secret,
        scope=f"torch.{os.environ.get('RONDE_SCOPE', 'ring')}.{_rings}",
        host=_settings.host_name(),
        start_timeout=timeout.total_seconds(),
        timeline=None,
    )
    engine = Engine(options)
    text = json.dumps(offer).encode() if offer else b""
    own = torch.tensor(list(text), dtype=torch.uint8)
    memory = (TYPE_CODES["uint8"], (len(text),), own.data_ptr(), None)
    outcome = engine.start(("torch.store", "allgather", None, [memory]), own, True).wait()
    heard = torch.empty(outcome.shapes[0], dtype=torch.uint8)
    outcome.copy_to(0, heard.data_ptr())
    # Nobody leaves before all have heard.
    engine.start(("torch.heard", "barrier", None, []), own, True).wait()
    engine.shutdown()
    return json.loads(bytes(heard.tolist()))
