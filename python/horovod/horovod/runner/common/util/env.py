"""What the environment says of a rank before init()."""

import os
import re

from horovod.runner.common.util.secret import HOROVOD_SECRET_KEY

LOG_LEVEL_STR = ["FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"]
# What belongs to one machine, or to nobody else.
IGNORE_REGEXES = {"BASH_FUNC_.*", "OLDPWD", ".*CUDA_VISIBLE_DEVICES", HOROVOD_SECRET_KEY}
KUBEFLOW_MPI_EXEC = "/etc/mpi/kubexec.sh"


def is_exportable(v):
    """Whether a variable may go to another machine."""
    return not any(re.match(each, v) for each in IGNORE_REGEXES)


def is_kubeflow_mpi():
    """Whether Kubeflow's operator for MPI has started this pod."""
    return os.environ.get("OMPI_MCA_plm_rsh_agent") == KUBEFLOW_MPI_EXEC


def get_env_rank_and_size():
    """Rank and size by whichever launcher there is; (0, 1) if there is none."""
    for rank, size in (
        ("HOROVOD_RANK", "HOROVOD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ):
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1
