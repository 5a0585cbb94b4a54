"""Threads that do one thing."""

import threading
from concurrent.futures import ThreadPoolExecutor


def execute_function_multithreaded(fn, args_list, block_until_all_done=True, max_concurrent_executions=1000):
    """Calls a function with each list of arguments, each in a thread; returns results by number, or nothing at once."""
    if not args_list:
        return {}
    pool = ThreadPoolExecutor(min(max_concurrent_executions, len(args_list)))
    calls = [pool.submit(fn, *args) for args in args_list]
    pool.shutdown(wait=block_until_all_done)
    return {number: call.result() for number, call in enumerate(calls)} if block_until_all_done else None


def in_thread(target, args=(), name=None, daemon=True, silent=False):
    """Runs a function in a thread; with `silent` nobody hears of its exceptions."""
    _check_is_tuple(args)

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
    _check_is_tuple(args)
    if stop is None and not daemon:
        raise ValueError("Stop event must be given for non-daemon event thread")

    def wait():
        if stop is None:
            event.wait()
        while stop is not None and not event.wait(check_stop_interval_s):
            if stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    return in_thread(wait, daemon=daemon, silent=silent)


def _check_is_tuple(args):
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}, for a single argument use (arg,)")
