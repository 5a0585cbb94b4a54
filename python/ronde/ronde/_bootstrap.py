"""Ways to a rendezvous when no launcher runs one."""

import atexit
import contextlib
import ctypes
import ctypes.util
import json
import os
import secrets
import socket

from ronde import _pmi, _settings
from ronde._ronde import Server

# A server that this rank runs lives as long as the process: rings are formed again and again.
_server = None


def _serve(address, secret):
    global _server
    if _server is None:
        _server = Server(address, secret)
    return _server


def by_settings(info):
    """The rendezvous and the secret of a rank; the first rank begins to serve if nobody else does."""
    secret = _settings.secret()
    if info.is_torch_store:
        return _by_torch_store(info)
    if info.is_mpi:
        return _by_mpi(info)
    if info.is_own_directory:
        _remove_at_exit(info)
    if info.is_own_server and info.rank == 0:
        _serve_for(info.rendezvous, secret)
    return info.rendezvous, secret


def _serve_for(rendezvous, secret):
    """Serves on all addresses: on its own host a name may mean loopback only, where nobody else comes."""
    host, _, port = rendezvous.rpartition(":")
    host = host.strip("[]")
    if _settings.is_loopback(host):
        address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0][4][0]
        return _serve(f"[{address}]:{port}" if ":" in address else f"{address}:{port}", secret)
    return _serve_everywhere(secret, port)


_removed: set = set()


def _remove_at_exit(info):
    """Each rank takes its own files away; the last one the directory."""
    if info.rendezvous not in _removed:
        _removed.add(info.rendezvous)
        atexit.register(_remove, os.getpid(), info.rendezvous, f".{info.rank}")


def _remove(pid, directory, ending):
    if pid != os.getpid():
        return
    # Others may still be there, and somebody may have cleaned up before us.
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            if name.endswith(ending):
                os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
        os.rmdir(os.path.dirname(directory))


_agreed = None


def _by_torch_store(info):
    """torchrun's own port is taken by its store; so that is where the first rank says where its server is."""
    global _agreed
    if _agreed is None:
        from torch.distributed import TCPStore

        host, _, port = info.rendezvous.rpartition(":")
        store = TCPStore(host, int(port), info.size, False)
        key = f"ronde/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        if info.rank == 0:
            secret = secrets.token_hex(16)
            server = _serve("0.0.0.0:0", secret.encode())
            store.set(key, f"{host}:{server.port} {secret}")
        address, secret = store.get(key).decode().split()
        _agreed = address, secret.encode()
    return _agreed


def by_communicator(comm):
    """The rendezvous of the ranks of an MPI communicator (of mpi4py)."""
    if comm.Get_rank() == 0 and _server is not None:
        raise ValueError("this process already runs a rendezvous: use a single communicator")
    return _by_broadcast(comm.Get_rank(), lambda offer: comm.bcast(offer, root=0))


def _by_mpi(info):
    """The rendezvous of all ranks that mpirun started: it carries the first rank's offer to the others."""
    global _agreed
    if _agreed is None:
        _agreed = _by_broadcast(info.rank, _mpi_broadcast(info))
    return _agreed


def _mpi_broadcast(info):
    """By mpi4py if it is of the MPI that started us, else by MPICH's launcher or by Open MPI's library."""
    # It says RuntimeError where it finds no MPI.
    with contextlib.suppress(ImportError, RuntimeError):
        from mpi4py import MPI

        if MPI.COMM_WORLD.Get_size() == info.size:
            return lambda offer: MPI.COMM_WORLD.bcast(offer, root=0)
    descriptor = _settings.pmi_descriptor()
    if descriptor is not None:
        return lambda offer: _unpacked(_pmi.broadcast(descriptor, _packed(offer, _PMI_BYTES_MAX)))
    return _open_mpi_broadcast(info)


def _by_broadcast(rank, broadcast):
    offer = None
    if rank == 0:
        secret = secrets.token_bytes(16)
        offer = (_serve_everywhere(secret).addresses, secret)
    addresses, secret = broadcast(offer)
    return first_reachable(addresses), secret


def _serve_everywhere(secret, port="0"):
    global _server
    if _server is None:
        _server = listen_everywhere(secret, port)
    return _server


def listen_everywhere(secret, port="0"):
    """A server on all addresses of both families, or of the one that there is."""
    try:
        return Server(f"[::]:{port}", secret)
    except OSError:
        return Server(f"0.0.0.0:{port}", secret)


def first_reachable(addresses):
    """The server's machine has many addresses, and not all lead there from here."""
    for address in addresses:
        host, _, port = address.rpartition(":")
        with contextlib.suppress(OSError):
            socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
            return address
    raise ValueError(f"Horovod initialization failed: cannot reach the first rank at any of {', '.join(addresses)}")


_OFFER_BYTES_MAX = 16 * 1024
# A value may have 1 024 characters, and every three bytes become four.
_PMI_BYTES_MAX = 1023 // 4 * 3


def _packed(offer, length_max):
    """An offer as bytes; of a machine with very many addresses the first ones."""
    if offer is None:
        return None
    addresses, secret = list(offer[0]), offer[1].hex()
    while len(text := json.dumps([addresses, secret]).encode()) > length_max:
        addresses.pop()
    return text


def _unpacked(text):
    addresses, secret = json.loads(text)
    return addresses, bytes.fromhex(secret)


def _open_mpi_broadcast(info):
    """Open MPI's own broadcast, from its library."""
    name = ctypes.util.find_library("mpi") or "libmpi.so.40"
    try:
        mpi = ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
        world, byte = (
            ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, each)))
            for each in ("ompi_mpi_comm_world", "ompi_mpi_byte")
        )
    except (OSError, ValueError):
        raise ValueError(_settings.nowhere_to_meet(info.size)) from None
    is_begun = ctypes.c_int()
    mpi.MPI_Initialized(ctypes.byref(is_begun))
    if not is_begun.value:
        mpi.MPI_Init(None, None)
        # Without it mpirun takes the end of a rank for a failure.
        atexit.register(mpi.MPI_Finalize)

    def broadcast(offer):
        text = _packed(offer, _OFFER_BYTES_MAX - 1) or b""
        message = ctypes.create_string_buffer(text, _OFFER_BYTES_MAX)
        mpi.MPI_Bcast(message, _OFFER_BYTES_MAX, byte, 0, world)
        return _unpacked(message.value)

    return broadcast
