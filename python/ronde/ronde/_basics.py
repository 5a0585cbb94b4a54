"""The engine of this process: started, asked who we are, shut down."""

import atexit
import ctypes
import hashlib
import json
import os

from ronde import _bootstrap, _control_channel, _settings
from ronde._ronde import (
    TYPE_CODES,
    Engine,
    HorovodInternalError,
    InitializationError,
    MismatchError,
    link_descriptors,
    log_to_stderr,
)
from ronde._report import report

_NOT_STARTED = "Horovod has not been initialized; use hvd.init()."


def _close_links():
    """An engine itself knows that it is a copy, and lets go of nothing. But while a copy of a connection is open, nobody
    sees that the rank at its end has died."""
    for descriptor in link_descriptors():
        os.close(descriptor)


# Once per process, whoever has engines: there are those of process groups of PyTorch too.
os.register_at_fork(after_in_child=_close_links)


class _Cards:
    """Gathers a line of text from each rank, before there is a framework to ask for it."""

    kind, details, name, is_group, process_set_id = "allgather", None, "ronde.cards", False, 0

    def __init__(self, line):
        self.buffer = ctypes.create_string_buffer(line, len(line))
        self.memory = [(TYPE_CODES["uint8"], (len(line),), ctypes.addressof(self.buffer), None)]


class Basics:
    """One per process; every framework's module hands out its methods."""

    def __init__(self):
        self._engine = None
        self._is_forked = False
        self._rings = 0
        self._has_timeline = False
        self._before_shutdown = []
        self._on_shutdown = []
        self._on_start = {}
        self._is_registered = False

    # --- life ---------------------------------------------------------------------------------------------------

    def init(self, comm=None, process_sets=None):
        """Forms the ring of all ranks. Does nothing if there is one already."""
        if self._engine is not None:
            return
        if self._is_forked:
            raise RuntimeError("this is a forked child of a rank: it cannot be a rank itself")
        if process_sets == "dynamic":
            os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
        log_to_stderr(_settings.log_level())
        channel = _control_channel.connect()
        while channel is not None:
            # A ring that breaks before it is whole is no failure of this rank: it asks for the next.
            generation = channel.join()
            try:
                return self._start(self._find(comm), generation, channel.native, process_sets)
            except (HorovodInternalError, InitializationError) as error:
                if isinstance(error, MismatchError):
                    raise
                channel.broken(error)
                self.shutdown()
        self._rings += 1
        self._start(self._find(comm), self._rings, None, process_sets)

    def _start(self, found, number, channel, process_sets):
        info, rendezvous, secret, scope = found
        options = dict(
            _settings.tuning(),
            rank=info.rank,
            size=info.size,
            rendezvous=rendezvous,
            secret=secret,
            scope=f"{scope}.{number}",
            host=_settings.host_name(),
        )
        self._engine = Engine(options, channel)
        self._engine.make_current()
        self._has_timeline = _settings.has_timeline()
        self._is_dynamic = _settings.has_dynamic_process_sets()
        self._rank, self._size = info.rank, info.size
        try:
            self._survey(info)
            self._register()
            self._process_sets(process_sets)
        except BaseException:
            if not isinstance(process_sets, list):
                self.shutdown()
            raise

    def _find(self, comm):
        info = _settings.rank_info()
        scope = os.environ.get("RONDE_SCOPE", "ring")
        if comm is None or comm == []:
            return (info, *_bootstrap.by_settings(info), scope)
        if hasattr(comm, "Get_rank"):
            found = _settings.RankInfo(rank=comm.Get_rank(), size=comm.Get_size())
            return (found, *_bootstrap.by_communicator(comm), scope)
        ranks = sorted(comm)
        if info.rank not in ranks:
            raise ValueError(f"rank {info.rank} is not one of the ranks given to init(): {ranks}")
        rendezvous, secret = _bootstrap.by_settings(info)
        found = _settings.RankInfo(rank=ranks.index(info.rank), size=len(ranks))
        scope = f"{scope}-of-{'-'.join(map(str, ranks))}"
        return found, rendezvous if len(ranks) > 1 else None, secret, scope

    def _register(self):
        if not self._is_registered:
            atexit.register(self.shutdown)
            os.register_at_fork(after_in_child=self._forked)
            self._is_registered = True

    def _forked(self):
        if self._engine is not None:
            self._is_forked = True
            self._engine = None

    def _process_sets(self, process_sets):
        from ronde import process_sets as module

        module.begin(self, process_sets if isinstance(process_sets, list) else [])

    def shutdown(self):
        """Leaves the ring; what is in flight fails."""
        if self._engine is not None:
            for action in self._before_shutdown:
                action()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.shutdown()
            for action in self._on_shutdown:
                action()

    def before_shutdown(self, action):
        """For frameworks that have operations in flight which nobody waits for."""
        self._before_shutdown.append(action)

    def on_start(self, name, offer, take):
        """For what ranks must know of each other in every ring: what `offer` returns goes to `take` of all, by rank."""
        self._on_start[name] = offer, take

    def on_shutdown(self, action):
        self._on_shutdown.append(action)

    def is_initialized(self):
        return self._engine is not None

    @property
    def engine(self):
        if self._engine is None:
            if self._is_forked:
                raise RuntimeError(
                    "this is a forked child of a rank, and the engine belongs to its parent: "
                    "start the child with the `spawn` method"
                )
            raise ValueError(_NOT_STARTED)
        return self._engine

    # --- who we are ---------------------------------------------------------------------------------------------

    def _survey(self, info):
        """Who shares a host with whom: everybody tells, and what the launcher said goes first."""
        own = hashlib.sha256(_settings.host_name().encode()).hexdigest()
        cards = self._exchange({"host": own, **{name: offer() for name, (offer, _) in self._on_start.items()}})
        for name, (_, take) in self._on_start.items():
            take([card.get(name) for card in cards])
        hosts = [card["host"] for card in cards]
        order = list(dict.fromkeys(hosts))
        local = [rank for rank, host in enumerate(hosts) if host == own]
        local_rank = local.index(self._rank)
        # The hosts that have a rank of this local number.
        cross = [host for host in order if hosts.count(host) > local_rank]
        self._local_rank = _first(info.local_rank, local_rank)
        self._local_size = _first(info.local_size, len(local))
        self._cross_rank = _first(info.cross_rank, cross.index(own))
        self._cross_size = _first(info.cross_size, len(cross))
        self._is_homogeneous = len({hosts.count(host) for host in order}) == 1

    def _exchange(self, card):
        """What all ranks say of themselves."""
        if self._size == 1:
            return [card]
        outcome = self._engine.run(_Cards(json.dumps(card).encode() + b"\n"), 0)
        heard = ctypes.create_string_buffer(outcome.shapes[0][0])
        outcome.copy_to(0, ctypes.addressof(heard))
        return [json.loads(line) for line in heard.raw.splitlines()]

    def _ask(self, value):
        if self._engine is None:
            self.engine  # raises
        return getattr(self, value)

    def rank(self):
        return self._ask("_rank")

    def size(self):
        return self._ask("_size")

    def local_rank(self):
        return self._ask("_local_rank")

    def local_size(self):
        return self._ask("_local_size")

    def cross_rank(self):
        return self._ask("_cross_rank")

    def cross_size(self):
        return self._ask("_cross_size")

    def is_homogeneous(self):
        return self._ask("_is_homogeneous")

    # --- looking inside -----------------------------------------------------------------------------------------

    def start_timeline(self, file_path, mark_cycles=False):
        engine = self.engine
        if not self._has_timeline:
            raise ValueError("timelines are off: set HOROVOD_TIMELINE=DYNAMIC before init()")
        engine.start_timeline(os.fspath(file_path), mark_cycles)

    def stop_timeline(self):
        engine = self.engine
        if not self._has_timeline:
            raise ValueError("timelines are off: set HOROVOD_TIMELINE=DYNAMIC before init()")
        engine.stop_timeline()

    def metrics(self):
        """What the engine has counted since init()."""
        return self.engine.metrics()

    report = staticmethod(report)

    def _get_process_set_ids_and_ranks(self):
        return self.engine.process_sets()

    # --- what scripts ask before they choose --------------------------------------------------------------------

    def mpi_threads_supported(self):
        raise ValueError("Ronde does not use MPI: MPI threads are not supported")

    def mpi_enabled(self):
        return False

    def mpi_built(self):
        return False

    def gloo_enabled(self):
        """Scripts mean by it: can it do without MPI? It can."""
        return True

    def gloo_built(self):
        return True

    def nccl_built(self):
        return 0

    def ddl_built(self):
        return False

    def ccl_built(self):
        return False

    def cuda_built(self):
        return False

    def rocm_built(self):
        return False


def _first(said, found):
    return found if said is None else said


basics = Basics()

NAMES = [
    "init",
    "shutdown",
    "is_initialized",
    "rank",
    "size",
    "local_rank",
    "local_size",
    "cross_rank",
    "cross_size",
    "is_homogeneous",
    "start_timeline",
    "stop_timeline",
    "metrics",
    "report",
    "mpi_threads_supported",
    "mpi_enabled",
    "mpi_built",
    "gloo_enabled",
    "gloo_built",
    "nccl_built",
    "ddl_built",
    "ccl_built",
    "cuda_built",
    "rocm_built",
]

for _name in NAMES:
    globals()[_name] = getattr(basics, _name)

__all__ = NAMES
