"""What can go wrong, under the names that Horovod's users catch."""

from ronde._ronde import HorovodInternalError, MismatchError


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts came or went: an elastic job forms a new ring, and keeps the state it has."""

    def __init__(self, skip_sync=False):
        super().__init__("the hosts of the job have changed")
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """Parts of different versions are installed."""

    def __init__(self, name, version, installed_version):
        super().__init__(f"{name} is {installed_version}, and {version} is wanted")
        self.name = name
        self.version = version
        self.installed_version = installed_version


__all__ = ["HorovodInternalError", "HorovodVersionMismatchError", "HostsUpdatedInterrupt", "MismatchError"]
