"""What the environment says: who this rank is, where ranks meet, and how the engine is tuned.

The only place that reads it, and for elastic jobs writes it. Launchers are recognised in this order: Horovod's
variables (also `ronde run`), Open MPI, MPICH, torchrun, Slurm; a process that none of them started is alone.
"""

import fcntl
import ipaddress
import os
import re
import socket
import struct
import tempfile
from dataclasses import dataclass
from typing import Optional


@dataclass
class RankInfo:
    """A rank's place in its job. What is None is found out when the ring is formed."""

    rank: int = 0
    size: int = 1
    local_rank: Optional[int] = None
    local_size: Optional[int] = None
    cross_rank: Optional[int] = None
    cross_size: Optional[int] = None
    # "host:port" of a server, or a directory; None for a rank alone.
    rendezvous: Optional[str] = None
    # The first rank runs the server at `rendezvous` itself.
    is_own_server: bool = False
    # The agreement goes through torchrun's store.
    is_torch_store: bool = False
    # The agreement goes through the MPI that started the ranks.
    is_mpi: bool = False
    # The rendezvous is a directory of ours, to be removed.
    is_own_directory: bool = False


def _number(env, name, default=None, kind=int):
    text = env.get(name)
    if text is None or text == "":
        return default
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a number") from None


def _flag(env, name):
    return env.get(name, "0").lower() not in ("", "0", "false", "off", "no")


def rank_info(env=os.environ):
    """Who this rank is, by whoever started it."""
    for variable, read in _LAUNCHERS.items():
        if variable in env:
            return read(env)
    return RankInfo()


def has_launcher(env=os.environ):
    """Whether somebody has told who this rank is."""
    return any(variable in env for variable in _LAUNCHERS)


def _horovod(env):
    found = RankInfo(
        rank=_number(env, "HOROVOD_RANK"),
        size=_number(env, "HOROVOD_SIZE", 1),
        local_rank=_number(env, "HOROVOD_LOCAL_RANK"),
        local_size=_number(env, "HOROVOD_LOCAL_SIZE"),
        cross_rank=_number(env, "HOROVOD_CROSS_RANK"),
        cross_size=_number(env, "HOROVOD_CROSS_SIZE"),
    )
    address = env.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    if address and found.size > 1:
        found.rendezvous = _join(address, _number(env, "HOROVOD_GLOO_RENDEZVOUS_PORT", 0))
    return _with_rendezvous(env, found)


def _open_mpi(env):
    found = RankInfo(
        rank=_number(env, "OMPI_COMM_WORLD_RANK"),
        size=_number(env, "OMPI_COMM_WORLD_SIZE", 1),
        local_rank=_number(env, "OMPI_COMM_WORLD_LOCAL_RANK"),
        local_size=_number(env, "OMPI_COMM_WORLD_LOCAL_SIZE"),
    )
    return _with_rendezvous(env, found)


def _mpich(env):
    found = RankInfo(
        rank=_number(env, "PMI_RANK"),
        size=_number(env, "PMI_SIZE", 1),
        local_rank=_number(env, "MPI_LOCALRANKID"),
        local_size=_number(env, "MPI_LOCALNRANKS"),
    )
    return _with_rendezvous(env, found)


def _torchrun(env):
    found = RankInfo(
        rank=_number(env, "RANK"),
        size=_number(env, "WORLD_SIZE", 1),
        local_rank=_number(env, "LOCAL_RANK"),
        local_size=_number(env, "LOCAL_WORLD_SIZE"),
    )
    found.is_torch_store = _flag(env, "TORCHELASTIC_USE_AGENT_STORE")
    return _with_rendezvous(env, found)


def _slurm(env):
    found = RankInfo(rank=_number(env, "SLURM_PROCID"), size=_number(env, "SLURM_NTASKS", 1))
    found.local_rank = _number(env, "SLURM_LOCALID")
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_NODELIST")
    if nodes and "MASTER_ADDR" not in env and found.size > 1:
        job = _number(env, "SLURM_JOB_ID", 0) * 31 + _number(env, "SLURM_STEP_ID", 0)
        # Below the range that the kernel gives to others.
        found.rendezvous = _join(first_host(nodes), 15000 + job % 15000)
        found.is_own_server = True
    return _with_rendezvous(env, found)


# By the variable that says which rank this is; the first that is there counts.
_LAUNCHERS = {
    "HOROVOD_RANK": _horovod,
    "OMPI_COMM_WORLD_RANK": _open_mpi,
    "PMI_RANK": _mpich,
    "RANK": _torchrun,
    "SLURM_PROCID": _slurm,
}


def first_host(nodes):
    """The first of Slurm's list of hosts: `a[03-05,9],b` is a03."""
    head = re.match(r"([^\[,]*)(?:\[([^\]]*)\])?([^,]*)", nodes)
    inside = re.split(r"[,-]", head.group(2))[0] if head.group(2) else ""
    return head.group(1) + inside + head.group(3)


def _with_rendezvous(env, found):
    """Where to meet if the launcher did not say: a server of the first rank, or a directory on one machine."""
    if found.size == 1 or found.rendezvous:
        return found
    if env.get("RONDE_RENDEZVOUS"):
        found.rendezvous = env["RONDE_RENDEZVOUS"]
    elif env.get("MASTER_ADDR") and env.get("MASTER_PORT"):
        found.rendezvous = _join(env["MASTER_ADDR"], _number(env, "MASTER_PORT"))
        found.is_own_server = True
    elif found.local_size == found.size:
        found.rendezvous = _directory_of_siblings(env)
        found.is_own_directory = True
    elif "OMPI_COMM_WORLD_RANK" in env or "PMI_RANK" in env:
        found.is_mpi = True
    else:
        raise ValueError(nowhere_to_meet(found.size))
    return found


def nowhere_to_meet(size):
    return (
        f"{size} ranks on several hosts need a place to meet: set RONDE_RENDEZVOUS to a directory "
        "that all of them see, or MASTER_ADDR and MASTER_PORT to the first rank's host and a free port (with mpirun: "
        "-x MASTER_ADDR -x MASTER_PORT), or install mpi4py"
    )


def _directory_of_siblings(env):
    """A directory of the ranks that one process of this machine started, by that process's number and birth."""
    launcher = _launcher(env)
    birth = _stat(launcher)[19]
    base = os.path.join(tempfile.gettempdir(), f"ronde-{os.getuid()}")
    path = os.path.join(base, f"{launcher}-{birth}")
    for each in (base, path):
        try:
            os.mkdir(each, 0o700)
        except FileExistsError:
            if os.lstat(each).st_uid != os.getuid():
                raise ValueError(f"`{each}` belongs to another user") from None
    return path


def _launcher(env):
    """The process that started the ranks: the nearest ancestor that is not this rank itself, as a wrapper of it is."""
    # Others than the first may have been made from it by the wrapper, for programs that want those.
    names = next(name for name in _LAUNCHERS if name in env), "PMIX_NAMESPACE", "PMI_FD", "PMI_PORT"
    own = {name: env[name] for name in names if name in env}
    ancestor = os.getppid()
    while ancestor > 1 and own.items() <= _environment(ancestor).items():
        ancestor = int(_stat(ancestor)[1])
    return ancestor


def _environment(pid):
    """The variables that a process was started with; nothing if they are not ours to read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(word.partition("=")[::2] for word in words)


def _stat(pid):
    """What the kernel says of a process, after its name: the state, the parent and so on."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()


def is_loopback(host):
    """Whether a name means the machine of who says it, wherever that is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") in ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def _join(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# What launchers call a job; equal on all its ranks.
_JOB_NAMES = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE")


def secret(env=os.environ):
    """The job's secret. Without one, the job's name keeps jobs apart; it does not keep out who can guess it."""
    return (job_secret(env) or " ".join(env[name] for name in _JOB_NAMES if name in env)).encode()


def job_secret(env=os.environ):
    """What the launcher made for the job alone; empty if it made nothing."""
    return env.get("RONDE_SECRET") or env.get("_HOROVOD_SECRET_KEY") or ""


def host_name(env=os.environ):
    return env.get("HOROVOD_HOSTNAME") or socket.gethostname()


def tuning(env=os.environ):
    """How the engine is tuned; what Horovod has and we do not need is accepted and does nothing."""
    timeline = env.get("HOROVOD_TIMELINE")
    warn_after = _number(env, "HOROVOD_STALL_CHECK_TIME_SECONDS", 60.0, float)
    fail_after = _number(env, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0.0, float)
    is_checking = not _flag(env, "HOROVOD_STALL_CHECK_DISABLE")
    return {
        "is_tcp_only": env.get("RONDE_TRANSPORT", "auto") == "tcp",
        "addresses": _addresses(env.get("RONDE_ADDRESSES", "")),
        "start_timeout": _number(env, "HOROVOD_GLOO_TIMEOUT_SECONDS", 30.0, float),
        "cache_capacity": _number(env, "HOROVOD_CACHE_CAPACITY", 1024),
        "fusion_threshold": _number(env, "HOROVOD_FUSION_THRESHOLD", 128 * 1024 * 1024),
        "cycle_time": _number(env, "HOROVOD_CYCLE_TIME", 0.0, float) / 1000,
        "stall_warn_after": warn_after if is_checking else None,
        "stall_fail_after": fail_after if is_checking and fail_after > 0 else None,
        "timeline": None if timeline in (None, "", "DYNAMIC") else timeline,
        "mark_cycles": _flag(env, "HOROVOD_TIMELINE_MARK_CYCLES"),
        "autotune": _flag(env, "HOROVOD_AUTOTUNE"),
        "autotune_log": env.get("HOROVOD_AUTOTUNE_LOG") or None,
    }


def device_backends(env=os.environ):
    """Of devices, by their names in torch, the backend of torch.distributed that is wanted for them; `host` for none."""
    found = {}
    for each in filter(None, (each.strip() for each in env.get("RONDE_DEVICE_BACKENDS", "").split(","))):
        device, _, backend = each.partition(":")
        if not device or not backend:
            raise ValueError(f"RONDE_DEVICE_BACKENDS: `{each}` is no device with its backend, as in cuda:nccl")
        found[device] = backend
    return found


def _addresses(names):
    """Addresses, separated by commas; the name of a network interface stands for those that it has here."""
    found = []
    for each in filter(None, (each.strip() for each in names.split(","))):
        try:
            found.append(str(ipaddress.ip_address(each)))
        except ValueError:
            own = addresses_of_interface(each)
            if not own:
                raise ValueError(f"RONDE_ADDRESSES: `{each}` is neither an address nor an interface with one") from None
            found += own
    return found


def addresses_of_interface(name):
    """The addresses that a network interface of this machine has."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            # SIOCGIFADDR
            answer = fcntl.ioctl(asked, 0x8915, struct.pack("256s", name.encode()[:15]))
            found.append(socket.inet_ntoa(answer[20:24]))
        except OSError:
            pass
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as table:
            rows = [line.split() for line in table]
    except OSError:
        rows = []
    addresses = [ipaddress.IPv6Address(bytes.fromhex(row[0])) for row in rows if row[5] == name]
    return found + [str(each) for each in addresses if not each.is_link_local]


def log_level(env=os.environ):
    """Horovod's levels, in the engine's words."""
    level = env.get("HOROVOD_LOG_LEVEL", "warning").lower()
    return {"warning": "warn", "fatal": "error"}.get(level, level)


def pmi_descriptor(env=os.environ):
    """Where MPICH's launcher listens to this rank; None if it did not start it."""
    return _number(env, "PMI_FD")


def has_timeline(env=os.environ):
    return bool(env.get("HOROVOD_TIMELINE"))


def has_dynamic_process_sets(env=os.environ):
    return _flag(env, "HOROVOD_DYNAMIC_PROCESS_SETS")


def is_elastic(env=os.environ):
    return _flag(env, "HOROVOD_ELASTIC")


def control_channel(env=os.environ):
    """The launcher's control channel and this rank's number there; None if the ranks of the job never change."""
    if not is_elastic(env) or not env.get("RONDE_DRIVER"):
        return None
    return env["RONDE_DRIVER"], _number(env, "RONDE_WORKER", 0)


def set_rank(rank, size, local_rank, local_size, cross_rank, cross_size, env=os.environ):
    """Writes a new place where scripts, and `rank_info()`, look for it."""
    env.update(
        HOROVOD_RANK=str(rank),
        HOROVOD_SIZE=str(size),
        HOROVOD_LOCAL_RANK=str(local_rank),
        HOROVOD_LOCAL_SIZE=str(local_size),
        HOROVOD_CROSS_RANK=str(cross_rank),
        HOROVOD_CROSS_SIZE=str(cross_size),
    )
