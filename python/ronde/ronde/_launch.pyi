from typing import Any, Callable, Mapping, Optional, Sequence, TypeVar, Union

_T = TypeVar("_T")

PORT: str
KEY: str
FUNCTION: bytes
RESULT: bytes
FAILURE: bytes
INPUT: int
SAID_MAX: int

def binary() -> str: ...
def run(
    func: Callable[..., _T],
    args: Sequence[Any] = (),
    kwargs: Optional[dict[str, Any]] = None,
    num_proc: Optional[int] = None,
    min_num_proc: Optional[int] = None,
    max_num_proc: Optional[int] = None,
    slots: Optional[int] = None,
    reset_limit: Optional[int] = None,
    cooldown_range: Optional[Sequence[int]] = None,
    hosts: Optional[str] = None,
    hostfile: Optional[str] = None,
    host_discovery_script: Optional[str] = None,
    start_timeout: Optional[int] = None,
    ssh_port: Optional[int] = None,
    ssh_identity_file: Optional[str] = None,
    disable_cache: Optional[bool] = None,
    output_filename: Optional[str] = None,
    verbose: Optional[bool] = None,
    use_gloo: Optional[bool] = None,
    use_mpi: Optional[bool] = None,
    mpi_args: Optional[str] = None,
    network_interface: Union[None, str, Sequence[str]] = None,
    network_interfaces: Union[None, str, Sequence[str]] = None,
    executable: Optional[str] = None,
    np: Optional[int] = None,
    min_np: Optional[int] = None,
    max_np: Optional[int] = None,
) -> list[_T]: ...
def run_function(
    options: dict[str, Any], func: Callable[[], _T], executable: Optional[str] = None, env: Mapping[str, str] = ...
) -> list[_T]: ...
def run_command(
    options: dict[str, Any], command: Sequence[str], env: Mapping[str, str], failures: Optional[dict[int, str]] = None
) -> None: ...
