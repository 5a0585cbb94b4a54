from ronde._ronde import HorovodInternalError as HorovodInternalError
from ronde._ronde import MismatchError as MismatchError

class HostsUpdatedInterrupt(RuntimeError):
    skip_sync: bool
    def __init__(self, skip_sync: bool = False) -> None: ...

class HorovodVersionMismatchError(ImportError):
    name: str
    version: str
    installed_version: str
    def __init__(self, name: str, version: str, installed_version: str) -> None: ...

__all__ = ["HorovodInternalError", "HorovodVersionMismatchError", "HostsUpdatedInterrupt", "MismatchError"]
