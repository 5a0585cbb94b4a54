"""Messages between two members: each pair that has any has a ring of two, formed when it is needed first.

A message is an alltoall of that ring in which one side has nothing to say, so it needs nobody but the two. Its name has
the direction, the tag and a number, so that messages of one tag arrive in order and those of others pass them. As with
Gloo, a message leaves when the receiver asks for it.
"""

import collections
import itertools
import threading

import torch

from ronde._ronde import TYPE_CODES
from ronde.torch.distributed import _ring
from ronde.torch.distributed._work import Work

_BYTES = TYPE_CODES["uint8"]


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
        threading.Thread(target=self._form, name=f"ronde-lane-{peer}", daemon=True).start()

    def _form(self):
        group, sides = self._group, sorted((self._group.rank(), self._peer))
        try:
            engine = _ring.form(group.store, f"ronde/lane/{sides[0]}-{sides[1]}", self._side, 2, group.timeout)
        except Exception as error:
            with self._lock:
                self._error, waiting, self._waiting = error, self._waiting, []
            for work, _, _ in waiting:
                work.fail(error)
            return
        with self._lock:
            # In order, and before any that comes now.
            for work, operation, keep in self._waiting:
                work.begin(engine, operation, keep)
            self._engine, self._waiting = engine, []

    def close(self):
        with self._lock:
            engine, self._error = self._engine, self._error or RuntimeError("the group has been destroyed")
        if engine is not None:
            _ring.leave(engine)

    def _begin(self, work, operation, keep):
        with self._lock:
            if self._error is not None:
                return work.fail(self._error)
            if self._engine is None:
                return self._waiting.append((work, operation, keep))
        return work.begin(self._engine, operation, keep)

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
        if letter is None:
            work = Work(f"receive from rank {peer}", result, lambda _, outcome: take(peer, bytes_of(outcome)))
            lane.receive(work, tag)
        elif letter.is_completed():
            self.deliver(letter)
        return work

    def receive_any(self, tag, result, take):
        """Receives from whoever sends first: a letter of each is asked for, and those that are not taken stay."""
        reader = AnyWork(result, take)
        peers = [peer for peer in range(self._group.size()) if peer != self._group.rank()]
        lanes = {peer: self.to(peer) for peer in peers}
        new, there = [], None
        with self._lock:
            for peer in peers:
                if not self._letters[peer, tag]:
                    letter = _Letter(self, peer, tag)
                    self._letters[peer, tag].append(letter)
                    new.append(letter)
            self._readers[tag].append(reader)
            there = next((first for peer in peers if (first := self._letters[peer, tag][0])._is_done), None)
        for letter in new:
            lanes[letter.peer].receive(letter, tag)
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
        if reader is not None:
            letter.give(reader)

    def close(self):
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.close()
