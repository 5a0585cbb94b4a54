"""Tensors of a device through that device's own backend of torch.distributed: groups of it, and who works with them.

The engine decides what is done next on all ranks, and hands it over; here each process set has a thread that does it,
one after the other, with a group of the backend that it forms when it needs it. A ring that ends takes its groups with
it, and the next one forms new ones.
"""

import contextlib
import threading
from datetime import timedelta
from weakref import WeakValueDictionary

import torch

from ronde import _bootstrap, _settings, process_sets
from ronde._basics import basics
from ronde.torch._collectives import Members, carry_out

# How long the backend may wait for a peer. The engine notices before that if one has died.
_PATIENCE = timedelta(minutes=30)
# How long the end of a ring waits for a thread that a backend does not let go of.
_JOIN_SECONDS = 2
_GROUPS = {"gloo": "ProcessGroupGloo", "nccl": "ProcessGroupNCCL", "xccl": "ProcessGroupXCCL", "ucc": "ProcessGroupUCC"}

# Of this ring: the backend of each kind of device, this rank's own device of that kind, the store where groups are
# formed, and the threads by process set.
backends: dict = {}
_homes: dict = {}
_meeting = None
_lanes: dict = {}
_making = threading.Lock()


# --- what all ranks of a ring know ----------------------------------------------------------------------------------


def _wanted():
    """The backend of each device that has one: those that this PyTorch was built for, or what the user says."""
    said = _settings.device_backends()
    found = {device: backend for device, backend in said.items() if backend != "host"}
    if not torch.distributed.is_available():
        return {}
    known = getattr(torch.distributed.Backend, "default_device_backend_map", {"cuda": "nccl"})
    for device, backend in known.items():
        # Gloo works on the machine's memory: the engine does that better.
        if device not in said and backend != "gloo" and _is_usable(device, backend):
            found[device] = backend
    return found


def _is_usable(device, backend):
    module = getattr(torch, device, None)
    return module is not None and module.is_available() and (
        not hasattr(torch.distributed, f"is_{backend}_available")
        or getattr(torch.distributed, f"is_{backend}_available")()
    )


class _Meeting:
    """The store where the ranks of a ring find each other; the first one serves it."""

    def __init__(self):
        self._server = self._store = None
        self._addresses = []

    def serve(self):
        # Bound to all addresses, whatever name is given.
        self._server = torch.distributed.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        hosts = [f"[{each}]" if ":" in each else each for each in _settings.tuning()["addresses"]]
        if not hosts:
            hosts = [each.rpartition(":")[0] for each in _bootstrap.listen_everywhere(b"").addresses]
        return [f"{host}:{self._server.port}" for host in hosts]

    def learn(self, addresses):
        self._addresses = addresses

    def store(self, prefix):
        if self._server is None and self._store is None:
            host, _, port = _bootstrap.first_reachable(self._addresses).rpartition(":")
            self._store = torch.distributed.TCPStore(host.strip("[]"), int(port), None, False, wait_for_workers=False)
        return torch.distributed.PrefixStore(prefix, self._server or self._store)


def _offer():
    """What this rank says of itself: if it is the first, where the groups are formed."""
    global _meeting
    _forget()
    backends.update(_wanted())
    if not backends:
        return None
    _meeting = _Meeting()
    return _meeting.serve() if basics.rank() == 0 else []


def _take(offers):
    if backends:
        # What the first rank cannot do, nobody can.
        if offers[0]:
            _meeting.learn(offers[0])
        else:
            backends.clear()


basics.on_start("devices", _offer, _take)


def _end():
    for lane in _lanes.values():
        lane.end()
    _lanes.clear()
    _forget()


def _forget():
    # New ones: a thread that its backend does not let go of may still have the others.
    global _homes, _meeting
    backends.clear()
    _homes, _meeting = {}, None


basics.on_shutdown(_end)


def is_home(device):
    """Whether a device is the one of its kind that this rank works on: the first that it has used."""
    return _homes.setdefault(device.type, device) == device


def lane(number):
    """The thread that works for a process set; none if this rank is no member."""
    if number not in _lanes:
        with _making:
            ranks = basics.engine.process_sets().get(number, [])
            if number not in _lanes and basics.rank() in ranks:
                _lanes[number] = Lane(number, ranks)
    return _lanes.get(number)


def removed(number):
    """A process set is gone."""
    found = _lanes.pop(number, None)
    if found is not None:
        found.end()


process_sets.on_remove(removed)


def expect():
    """This rank is about to join: it has to take part in what the others do, also if it has done nothing so far."""
    for kind in backends:
        number = None if kind == "cpu" else getattr(torch, kind).current_device()
        is_home(torch.device(kind) if number is None else torch.device(kind, number))
        lane(0)


# --- order between the streams of a device --------------------------------------------------------------------------


class Here:
    """The machine's own memory: what is done is done."""

    def ready(self):
        return None

    def beside(self, operations):
        return contextlib.nullcontext()

    def follow(self, operation, results):
        pass


class Streams:
    """A device that does what is queued, in a stream of its own for our operations: they wait for what the caller has
    queued before, and what it queues later waits for them. The host waits for nothing."""

    def __init__(self, device, module=None):
        self._device = device
        self._module = module or getattr(torch, device.type)
        self._own = self._module.Stream(device)

    def ready(self):
        """What the caller has queued so far."""
        event = self._module.Event()
        event.record(self._module.current_stream(self._device))
        return event

    @contextlib.contextmanager
    def beside(self, operations):
        with self._module.device(self._device), self._module.stream(self._own):
            for operation in operations:
                self._own.wait_event(operation.ready)
                for tensor in operation.staged:
                    # Its memory is not given to others before this stream is done with it.
                    tensor.record_stream(self._own)
            yield
            event = self._module.Event()
            event.record(self._own)
            for operation in operations:
                operation.done = event

    def follow(self, operation, results):
        """What the caller queues from now on comes after the operation."""
        stream = self._module.current_stream(self._device)
        stream.wait_event(operation.done)
        for tensor in results:
            tensor.record_stream(stream)


# --- who does it ----------------------------------------------------------------------------------------------------


class Lane:
    """The operations of a process set on tensors of devices."""

    def __init__(self, number, ranks):
        self.ranks = ranks
        # What is in flight is kept by the engine.
        self.operations = WeakValueDictionary()
        self._number = number
        self._engine = basics.engine
        self._prefix = f"{number}.{process_sets.uses(number)}"
        self._me = ranks.index(basics.rank())
        self._meeting = _meeting
        self._wanted, self._homes = dict(backends), _homes
        self._orders = {}
        self._members = {}
        self._is_busy = False
        self._thread = threading.Thread(target=self._run, name=f"ronde-devices-{number}", daemon=True)
        self._thread.start()

    def order(self, kind):
        """How the streams of this rank's device of a kind are kept in order."""
        if kind not in self._orders:
            self._orders.setdefault(kind, Here() if kind == "cpu" else Streams(self._homes[kind]))
        return self._orders[kind]

    def _run(self):
        while (batch := self._engine.take_batch(self._number)) is not None:
            self._is_busy = True
            try:
                self._carry_out(batch)
            except Exception as error:
                batch.fail(self._told(batch.device, error))
            self._is_busy = False
            del batch

    def _told(self, device, error):
        # The machine's own memory is the engine's by default.
        hint = "" if device == "cpu" else f" (with RONDE_DEVICE_BACKENDS={device}:host, tensors go through the CPU)"
        return f"{self._wanted.get(device, device)}: {error}{hint}"

    def _carry_out(self, batch):
        tickets = [ticket for ticket, *_ in batch.operations]
        operations = [None if ticket is None else self.operations.get(ticket) for ticket in tickets]
        present = [operation for operation in operations if operation is not None]
        with self.order(batch.device).beside(present):
            carry_out(batch, self._group(batch.device), self._homes[batch.device], operations)
        batch.finish()

    def _group(self, device):
        if device not in self._members:
            backend = self._wanted[device]
            store = self._meeting.store(f"{self._prefix}/{device}")
            group = _form(backend, store, self._me, len(self.ranks))
            self._members[device] = Members(group, backend, self._me, len(self.ranks))
        return self._members[device]

    def end(self):
        """The ring is over, or the set is gone; nobody waits for anything here."""
        is_whole = not self._engine.is_broken and not self._is_busy
        for members in self._members.values():
            # Old versions have neither: their groups end when nobody holds them.
            method = getattr(members.group, "shutdown" if is_whole else "abort", None)
            with contextlib.suppress(Exception):
                method and method()
        self._thread.join(_JOIN_SECONDS)
        self._members.clear()


def _form(backend, store, rank, size):
    if backend in _GROUPS:
        kind = getattr(torch.distributed, _GROUPS[backend], None)
        if kind is None:
            raise ValueError(f"this PyTorch was built without the backend {backend}")
        return kind(store, rank, size, _PATIENCE)
    plugin = getattr(torch.distributed.Backend, "_plugins", {}).get(backend.upper())
    if plugin is None:
        raise ValueError(f"PyTorch knows no backend {backend}")
    return plugin.creator_fn(store, rank, size, _PATIENCE)
