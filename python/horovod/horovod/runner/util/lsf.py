"""Questions about a job of LSF. Its hosts are not read: name them with -H."""

import os

from horovod.runner._instead import instead


class LSFUtils:
    @staticmethod
    def using_lsf():
        """Whether LSF has started this process."""
        return "LSB_JOBID" in os.environ

    get_allocation_info = staticmethod(instead("get_allocation_info", "horovodrun with -H"))
    get_compute_hosts = staticmethod(instead("get_compute_hosts", "horovodrun with -H"))
    get_num_cores = staticmethod(instead("get_num_cores", "os.cpu_count()"))
    get_num_gpus = staticmethod(instead("get_num_gpus", "horovodrun with -H"))
    get_num_processes = staticmethod(instead("get_num_processes", "horovodrun with -np"))
    get_num_threads = staticmethod(instead("get_num_threads", "os.cpu_count()"))
