"""What the environment says of a rank before init()."""

import os


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
