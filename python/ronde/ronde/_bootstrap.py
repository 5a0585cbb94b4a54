"""Ways to a rendezvous when no launcher runs one."""

import os
import secrets
import socket

from ronde import _settings
from ronde._ronde import Server

# A server that this rank runs lives as long as the process: rings are formed again and again.
_server = None


def _serve(address, secret):
    global _server
    if _server is None:
        _server = Server(address, secret)
    return _server


def by_settings(place):
    """The rendezvous and the secret of a place; the first rank begins to serve if nobody else does."""
    secret = _settings.secret()
    if place.is_torch_store:
        return _by_torch_store(place)
    if place.is_own_server and place.rank == 0:
        host, _, port = place.rendezvous.rpartition(":")
        address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0][4][0]
        _serve(f"[{address}]:{port}" if ":" in address else f"{address}:{port}", secret)
    return place.rendezvous, secret


_agreed = None


def _by_torch_store(place):
    """torchrun's own port is taken by its store; so that is where the first rank says where its server is."""
    global _agreed
    if _agreed is None:
        from torch.distributed import TCPStore

        host, _, port = place.rendezvous.rpartition(":")
        store = TCPStore(host, int(port), place.size, False)
        key = f"ronde/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        if place.rank == 0:
            secret = secrets.token_hex(16)
            server = _serve("0.0.0.0:0", secret.encode())
            store.set(key, f"{host}:{server.port} {secret}")
        address, secret = store.get(key).decode().split()
        _agreed = address, secret.encode()
    return _agreed


def by_communicator(comm):
    """The rendezvous of the ranks of an MPI communicator (of mpi4py)."""
    offer = None
    if comm.Get_rank() == 0:
        secret = secrets.token_bytes(16)
        server = _serve("0.0.0.0:0", secret) if _server is None else None
        if server is None:
            raise ValueError("this process runs a rendezvous already: start it with one communicator only")
        offer = (f"{socket.gethostbyname(socket.gethostname())}:{server.port}", secret)
    return comm.bcast(offer, root=0)
