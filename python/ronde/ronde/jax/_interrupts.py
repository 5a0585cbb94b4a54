"""Ctrl-C while Python waits in XLA for a computation whose operations wait for other ranks.

XLA's wait hears no signals, and it may have no end. So a thread hears them too: if Python has not begun to handle
Ctrl-C after a moment, this rank leaves the ring. What is in flight fails, XLA returns, and Python gets to raise
`KeyboardInterrupt`.
"""

import os
import signal
import sys
import threading
import time

from ronde._basics import basics

# A wait that ends by itself ends sooner, mostly.
_PATIENCE_SECONDS = 1.0


def watch():
    """Begins to listen, unless somebody else does already, or this is not the thread that gets signals."""
    if threading.current_thread() is not threading.main_thread():
        return
    heard, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    if before != -1:
        # An event loop, for instance, which returns to Python by itself.
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(told)
        return
    os.register_at_fork(after_in_child=_forget)
    threading.Thread(target=_listen, args=(heard,), name="ronde-jax-interrupts", daemon=True).start()


def _forget():
    """In a forked child: its signals are not its parent's."""
    signal.set_wakeup_fd(-1)


def _listen(heard):
    while True:
        numbers = os.read(heard, 64)
        if signal.SIGINT in numbers and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            place = _place()
            time.sleep(_PATIENCE_SECONDS)
            if _place() == place and basics.is_initialized():
                basics.engine.shutdown()


def _place():
    """Where in the program the first thread is."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    return None if frame is None else (id(frame), frame.f_lasti)
