"""Threads that do one thing."""

import threading


def in_thread(target, args=(), name=None, daemon=True, silent=False):
    """Runs a function in a thread; with `silent` nobody hears of its exceptions."""
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}: {args}")

    def run():
        try:
            target(*args)
        except Exception:
            if not silent:
                raise

    thread = threading.Thread(target=run, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(event, func, args=(), stop=None, check_stop_interval_s=1.0, daemon=True, silent=False):
    """Calls a function when an event comes, unless it is stopped before."""
    if event is None:
        raise ValueError("Event must not be None")
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}: {args}")
    if stop is not None and not hasattr(stop, "is_set"):
        raise ValueError(f"stop must be an event, not {type(stop)}")

    def wait():
        if stop is None:
            event.wait()
        while stop is not None and not event.wait(check_stop_interval_s):
            if stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    return in_thread(wait, daemon=daemon, silent=silent)
