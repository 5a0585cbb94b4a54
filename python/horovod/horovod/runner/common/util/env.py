"""What the environment says of a rank before init()."""

import os
import re

LOG_LEVEL_STR = ["FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"]
# What belongs to one machine, or to nobody else.
IGNORE_REGEXES = {"BASH_FUNC_.*", "OLDPWD", ".*CUDA_VISIBLE_DEVICES", "_HOROVOD_SECRET_KEY"}


def is_exportable(name):
    """Whether a variable may go to another machine."""
    return not any(re.match(each, name) for each in IGNORE_REGEXES)


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
