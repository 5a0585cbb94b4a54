"""A time by which something must have happened."""

import time


class TimeoutException(Exception):
    def __init__(self, message):
        super().__init__(message)
        self.message = message


class Timeout:
    """So many seconds from now; the message may have a place for `{activity}`."""

    def __init__(self, timeout, message):
        self._timeout = timeout
        self._message = message
        self._end = time.monotonic() + timeout

    def remaining(self):
        return max(0, self._end - time.monotonic())

    def timed_out(self):
        return time.monotonic() > self._end

    def check_time_out_for(self, activity):
        """Raises TimeoutException if the time is over."""
        if self.timed_out():
            message = self._message.format(activity=activity).rstrip(".")
            raise TimeoutException(f"{message}. Timeout after {self._timeout} seconds.")
