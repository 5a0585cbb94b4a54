"""The control channel to the launcher: by it a rank of an elastic job gets its place and hears that hosts changed."""

import os
import sys

from ronde import _settings
from ronde._ronde import ControlChannel as Native


class ControlChannel:
    """What a rank has to tell when it asks for a place: its commits, and how its last ring ended."""

    def __init__(self, address, secret, worker):
        self.native = Native(address, secret, worker)
        # The commits of the state that this rank has; None as long as it has none.
        self.commits = None
        # All members of the last ring had the same state.
        self.is_in_step = False
        self._commits_of_first = 0
        self._is_interrupted = False
        self._why = ""

    def join(self):
        """Waits for a place in the next ring and returns the ring's number. A rank that is not needed any more ends."""
        seat = self.native.join(self.commits, self._is_interrupted, self._why)
        if seat is None:
            sys.exit(0)
        generation, *place, self._commits_of_first, self.is_in_step = seat
        self._is_interrupted, self._why = False, ""
        _settings.set_rank(*place)
        return generation

    def synced(self):
        """The state is now that of the first rank."""
        self.commits = self._commits_of_first

    def committed(self):
        """The state was saved."""
        if self.commits is not None:
            self.commits += 1

    def broken(self, error):
        """The ring ended by itself."""
        self._is_interrupted, self._why = False, str(error) or type(error).__name__

    def interrupted(self):
        """All ranks left the ring together."""
        self._is_interrupted, self._why = True, ""


_channel = None
_pid = None


def connect():
    """The channel of this process; None if this process is no rank of an elastic job."""
    global _channel, _pid
    found = _settings.control_channel()
    if found is None:
        return None
    # A forked child of a rank has no connection of its own, and is no rank.
    if _pid != os.getpid():
        _channel, _pid = ControlChannel(found[0], _settings.secret(), found[1]), os.getpid()
    return _channel
