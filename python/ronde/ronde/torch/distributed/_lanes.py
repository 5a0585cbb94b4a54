"""Messages between two members: each pair that has any has a ring of two, formed when it is needed first.

A message is an alltoall of that ring in which one side has nothing to say, so it needs nobody but the two. Its name has
the direction, the tag and a number, so that messages of one tag arrive in order and those of others pass them. As with
Gloo, a message leaves when the receiver asks for it.
"""

import atexit
import collections
import contextlib
import itertools
import threading
import time

import torch

from ronde._ronde import TYPE_CODES
from ronde.torch.distributed import _ring
from ronde.torch.distributed._work import Work

_BYTES = TYPE_CODES["uint8"]
# Between two looks for the other side: one costs a round trip to the store.
_LOOK_EVERY_SECONDS = 0.02

# The threads that form lanes; they end before the interpreter does.
_forming: set = set()
_is_ending = threading.Event()


class Lane:
    """The way to one other member."""

    def __init__(self, group, peer):
        self._group, self._peer = group, peer
        self._side = 0 if group.rank() < peer else 1
        self._engine = None
        self._error = None
        self._waiting: list = []
        self._lock = threading.Lock()
        self._sent: dict = collections.defaultdict(itertools.count)
        self._received: dict = collections.defaultdict(itertools.count)
        thread = threading.Thread(target=self._form, name=f"ronde-lane-{peer}", daemon=True)
        _forming.add(thread)
        thread.start()

    def _form(self):
        try:
            self._open(self._meet())
        except Exception as error:
            self._end(error)
        finally:
            _forming.discard(threading.current_thread())

    def _meet(self):
        """Forms the ring once both sides want it: one that waits for a member who never comes can be told to end."""
        store, sides = self._group.store, sorted((self._group.rank(), self._peer))
        key = f"ronde/lane/{sides[0]}-{sides[1]}"
        own, other = (f"{key}/{side}" for side in (self._side, 1 - self._side))
        store.set(own, "")
        try:
            self._look_for(other)
            return _ring.form(store, key, self._side, 2, self._group.timeout)[0]
        finally:
            # Whoever has the store may be gone by now.
            with contextlib.suppress(RuntimeError):
                store.delete_key(own)

    def _look_for(self, key):
        """Who waits in a store lets nobody else of this process use it meanwhile."""
        seconds = self._group.timeout.total_seconds()
        deadline = time.monotonic() + seconds
        while not self._group.store.check([key]):
            if self._error is not None:
                raise self._error
            if time.monotonic() > deadline:
                raise RuntimeError(f"rank {self._peer} exchanged no message with this rank within {seconds:g} s")
            if _is_ending.wait(_LOOK_EVERY_SECONDS):
                raise RuntimeError("the process is ending")

    def _open(self, engine):
        """Begins what has been waiting, in order and before any that comes now; not under the lock: it may fail, and
        whoever hears of that may want another message."""
        while True:
            with self._lock:
                if self._error is not None:
                    break
                if not self._waiting:
                    self._engine = engine
                    return
                waiting, self._waiting = self._waiting, []
            for work, operation, keep in waiting:
                work.begin(engine, operation, keep)
        _ring.leave(engine)

    def _end(self, error):
        with self._lock:
            self._error = self._error or error
            waiting, self._waiting = self._waiting, []
        for work, _, _ in waiting:
            work.fail(self._error)

    def close(self):
        self._end(RuntimeError("the group has been destroyed"))
        with self._lock:
            engine = self._engine
        if engine is not None:
            _ring.leave(engine)

    def _begin(self, work, operation, keep):
        with self._lock:
            if self._error is None and self._engine is None:
                return self._waiting.append((work, operation, keep))
        return work.begin(self._engine, operation, keep) if self._error is None else work.fail(self._error)

    def send(self, tensor, tag):
        """Sends the bytes of a contiguous tensor."""
        splits = [0, 0]
        splits[1 - self._side] = size = tensor.numel() * tensor.element_size()
        work = Work(f"send to rank {self._peer}", [tensor], None)
        name = f"{self._side}.{tag}.{next(self._sent[tag])}"
        memory = [(_BYTES, (size,), tensor.data_ptr(), None)]
        self._begin(work, (name, "alltoall", splits, memory), tensor)
        return work

    def receive(self, work, tag):
        """Receives the next message of a tag."""
        name = f"{1 - self._side}.{tag}.{next(self._received[tag])}"
        self._begin(work, (name, "alltoall", [0, 0], [(_BYTES, (0,), 0, None)]), None)


def bytes_of(outcome):
    """What a message brought."""
    received = torch.empty(outcome.shapes[0], dtype=torch.uint8)
    outcome.copy_to(0, received.data_ptr())
    return received


class _Letter(Work):
    """A message that somebody who takes them from anywhere has asked for: whoever wants one next may have it."""

    def __init__(self, lanes, peer, tag):
        super().__init__(f"receive from rank {peer}", None, self._keep)
        self.lanes, self.peer, self.tag = lanes, peer, tag
        self.bytes = self.reader = None

    def _keep(self, _, outcome):
        self.bytes = bytes_of(outcome)

    def _tell(self):
        self.lanes.deliver(self)

    def give(self, work):
        work.take(self.peer, self.bytes) if self._error is None else work.fail(self._error)


class AnyWork(Work):
    """A receive that takes what another operation brings."""

    def __init__(self, result, take):
        super().__init__("receive from any rank", result, None)
        self._take = take

    def take(self, peer, received):
        self._source = peer
        try:
            self._take(peer, received)
        except ValueError as error:
            return self.fail(error)
        self._settle()
        self._driving.release()
        return self._tell()


class Lanes:
    """The ways of one member of a group to all others."""

    def __init__(self, group):
        self._group = group
        self._lanes: dict = {}
        self._lock = threading.Lock()
        # Letters that are under way or lie here, by sender and tag, in order; and readers that take any, by tag.
        self._letters: dict = collections.defaultdict(collections.deque)
        self._readers: dict = collections.defaultdict(collections.deque)

    def to(self, peer):
        rank, size = self._group.rank(), self._group.size()
        if peer == rank or not 0 <= peer < size:
            raise ValueError(f"rank {rank} of {size} cannot exchange messages with rank {peer}")
        with self._lock:
            if peer not in self._lanes:
                self._lanes[peer] = Lane(self._group, peer)
            return self._lanes[peer]

    def receive(self, peer, tag, result, take):
        """Receives from one member; `take` gets the sender and the bytes."""
        lane = self.to(peer)
        with self._lock:
            letter = self._letters[peer, tag].popleft() if self._letters[peer, tag] else None
            if letter is not None:
                work = letter.reader = AnyWork(result, take)
            new = self._missing(tag)
        self._ask(new)
        if letter is None:
            work = Work(f"receive from rank {peer}", result, lambda _, outcome: take(peer, bytes_of(outcome)))
            lane.receive(work, tag)
        elif letter.is_completed():
            self.deliver(letter)
        return work

    def receive_any(self, tag, result, take):
        """Receives from whoever sends first: a letter of each is asked for, and those that are not taken stay."""
        reader = AnyWork(result, take)
        with self._lock:
            self._readers[tag].append(reader)
            new = self._missing(tag)
            firsts = [letters[0] for (_, of), letters in self._letters.items() if of == tag and letters]
            there = next((first for first in firsts if first._is_done), None)
        self._ask(new)
        if there is not None:
            self.deliver(there)
        return reader

    def deliver(self, letter):
        """Gives a letter that has arrived, or never will, to who waits for it; each to one only."""
        with self._lock:
            letters, readers = self._letters[letter.peer, letter.tag], self._readers[letter.tag]
            reader, letter.reader = letter.reader, None
            if reader is None and letter in letters and readers:
                letters.remove(letter)
                reader = readers.popleft()
            new = self._missing(letter.tag)
        if reader is not None:
            letter.give(reader)
        self._ask(new)

    def _missing(self, tag):
        """The letters that are still to be asked for: one of each member, as long as somebody takes any."""
        if not self._readers[tag]:
            return []
        peers = [peer for peer in range(self._group.size()) if peer != self._group.rank()]
        new = [_Letter(self, peer, tag) for peer in peers if not self._letters[peer, tag]]
        for letter in new:
            self._letters[letter.peer, tag].append(letter)
        return new

    def _ask(self, letters):
        for letter in letters:
            self.to(letter.peer).receive(letter, letter.tag)

    def close(self):
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.close()


def _end_forming():
    _is_ending.set()
    for thread in list(_forming):
        # One whose other side has just come is a moment away from its ring.
        thread.join(1)


# Before works and engines end: the last registered is the first.
atexit.register(_end_forming)
