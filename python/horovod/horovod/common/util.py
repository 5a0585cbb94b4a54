"""Questions about the installation, and small helpers that scripts use."""

import contextlib
import functools
import importlib
import os

EXTENSIONS = ["tensorflow", "torch", "mxnet"]


def _cache(function):
    """Remembers what a function returned, by its arguments."""
    remembered = {}

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        key = (args, frozenset(kwargs.items()))
        if key not in remembered:
            remembered[key] = function(*args, **kwargs)
        return remembered[key]

    return wrapper


def extension_available(ext_base_name, verbose=False):
    """Whether the module for a framework can be imported."""
    try:
        importlib.import_module(f"horovod.{ext_base_name}")
    except ImportError as error:
        if verbose:
            print(f"horovod.{ext_base_name} is not available: {error}")
        return False
    return True


def check_extension(ext_name, ext_env_var, pkg_path, *args):
    """There is one extension for all frameworks, and it came with this package."""


def gpu_available(ext_base_name, verbose=False):
    return False


def mpi_built(verbose=False):
    return False


def gloo_built(verbose=False):
    """Scripts mean by it: can it do without MPI? It can."""
    return True


def nccl_built(verbose=False):
    return False


def ddl_built(verbose=False):
    return False


def ccl_built(verbose=False):
    return False


@contextlib.contextmanager
def env(**kwargs):
    """Sets variables of the environment for a while; None takes one away."""
    before = {name: os.environ.get(name) for name in kwargs}
    _set(kwargs)
    try:
        yield
    finally:
        _set(before)


def _set(values):
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def split_list(l, n):  # noqa: E741
    """Cuts a list into so many parts of nearly equal length."""
    length, longer = divmod(len(l), n)
    ends = [i * length + min(i, longer) for i in range(n + 1)]
    return [l[start:end] for start, end in zip(ends, ends[1:])]


def is_iterable(x):
    try:
        iter(x)
    except TypeError:
        return False
    return True


def num_rank_is_power_2(num_rank):
    return num_rank != 0 and (num_rank & (num_rank - 1)) == 0


def is_version_greater_equal_than(ver, target):
    def numbers(text):
        return [int("".join(filter(str.isdigit, part)) or 0) for part in text.split("+")[0].split(".")]

    return numbers(ver) >= numbers(target)
