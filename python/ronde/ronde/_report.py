"""`report`: how far a training is, told in its output once a second; the launcher and the controllers read it there.

A call only notes what it is given: a thread turns it into a line. Nothing here waits for anybody.
"""

import atexit
import math
import os
import sys
import threading
import time

_PACE_SECONDS = 1.0


class _Reporter:
    def __init__(self, output=None):
        self._output = output
        self._latest = None
        self._samples = 0
        self._thread = None
        self._start = threading.Lock()
        self._write = threading.Lock()
        self._told = (0, time.monotonic())
        # Rank and size, also after the last shutdown.
        self._place = (int(os.environ.get("HOROVOD_RANK", "0")), int(os.environ.get("HOROVOD_SIZE", "1")))

    def report(self, step, loss=None, samples=0, **metrics):
        """Tells how far the training is: the step, the loss, the samples that this rank has trained on since the last
        call, and any other numbers by name. Every rank may call it; the first one tells. Costs a microsecond."""
        # One assignment each: the thread sees the old or the new.
        self._latest = (step, loss, metrics)
        self._samples += samples
        if self._thread is None:
            self._begin()

    def _begin(self):
        with self._start:
            if self._thread is None:
                self._told = (0, time.monotonic())
                self._thread = threading.Thread(target=self._tell_always, name="ronde-report", daemon=True)
                self._thread.start()

    def _tell_always(self):
        while True:
            time.sleep(_PACE_SECONDS)
            self.tell()

    def tell(self):
        """Writes the line, if there is anything new in it."""
        with self._write:
            latest, self._latest = self._latest, None
            self._place = rank, size = _place() or self._place
            if latest is None or rank != 0:
                return
            (before, then), now, samples = self._told, time.monotonic(), self._samples
            self._told = (samples, now)
            speed = (samples - before) / (now - then) * size if samples > before and now > then else None
            try:
                text = line(*latest, speed)
            except Exception as error:
                text = f"ronde: cannot report: {error}\n"
            try:
                output = self._output or sys.stdout
                output.write(text)
                output.flush()
            except (OSError, ValueError, AttributeError):
                # Nobody reads it any more.
                pass


def line(step, loss, metrics, speed):
    """`Step #340    Loss: 0.047924    Samples/s: 1523.4    accuracy: 0.91`."""
    parts = [f"Step #{int(step)}"]
    if loss is not None:
        parts.append(f"Loss: {_number(loss)}")
    if speed is not None:
        parts.append(f"Samples/s: {speed:.1f}")
    parts.extend(f"{name}: {_number(value)}" for name, value in metrics.items())
    return "    ".join(parts) + "\n"


def _number(value):
    # A tensor is turned into a number here, not in the call: that may have to wait for a GPU.
    value = float(value)
    return f"{value:.6f}" if value == 0 or (math.isfinite(value) and 1e-3 <= abs(value) < 1e9) else f"{value:.6e}"


def _place():
    # Not above: that module has `report` among its names.
    from ronde._basics import basics

    return (basics.rank(), basics.size()) if basics.is_initialized() else None


_reporter = _Reporter()


def report(step, loss=None, samples=0, **metrics):
    _reporter.report(step, loss, samples, **metrics)


report.__doc__ = _Reporter.report.__doc__


def _begin_anew():
    global _reporter
    _reporter = _Reporter()


atexit.register(lambda: _reporter.tell())
# A forked child has no thread, and what its parent has noted is its parent's to tell.
os.register_at_fork(after_in_child=_begin_anew)
