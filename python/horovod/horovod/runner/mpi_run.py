"""Questions about an installed MPI. Ranks are not started through it, but `mpirun python train.py` works by itself."""

from horovod.runner._instead import instead
from horovod.runner.common.util import safe_shell_exec, tiny_shell_exec

_OMPI_IMPL = "OpenMPI"
_SMPI_IMPL = "SpectrumMPI"
_MPICH_IMPL = "MPICH"
_IMPI_IMPL = "IntelMPI"
_UNKNOWN_IMPL = "Unknown"
_MISSING_IMPL = "Missing"
# What `mpirun --version` says, and whose it is.
_WORDS = {
    "Open MPI": _OMPI_IMPL,
    "OpenRTE": _OMPI_IMPL,
    "IBM Spectrum MPI": _SMPI_IMPL,
    "MPICH": _MPICH_IMPL,
    "HYDRA": _MPICH_IMPL,
    "Intel(R) MPI": _IMPI_IMPL,
}
# Hosts from which on Open MPI would need other flags.
_LARGE_CLUSTER_THRESHOLD = 64


def mpi_available(env=None):
    """Whether `mpi_run` can be used: it cannot, whatever is installed.

    Horovod asks this to choose how it starts ranks. Here horovodrun always starts them itself, and an mpirun that is
    installed starts them without it: `mpirun python train.py`.
    """
    return False


def _get_mpi_implementation(env=None):
    """Whose mpirun is in the PATH."""
    said = tiny_shell_exec.execute("mpirun --version", env)
    if said is None or said[1] != 0:
        return _MISSING_IMPL
    return next((name for word, name in _WORDS.items() if word in said[0]), _UNKNOWN_IMPL)


def is_open_mpi(env=None):
    return _get_mpi_implementation(env) == _OMPI_IMPL


def is_spectrum_mpi(env=None):
    return _get_mpi_implementation(env) == _SMPI_IMPL


def is_mpich(env=None):
    return _get_mpi_implementation(env) == _MPICH_IMPL


def is_intel_mpi(env=None):
    return _get_mpi_implementation(env) == _IMPI_IMPL


def _get_mpi_implementation_flags(tcp_flag, env=None):
    """Flags for mpirun; None, since it is not called."""
    return None, None, None


mpi_run = instead("mpi_run", "gloo_run, horovodrun, or `mpirun python train.py`")

__all__ = ["is_intel_mpi", "is_mpich", "is_open_mpi", "is_spectrum_mpi", "mpi_available", "mpi_run", "safe_shell_exec"]
