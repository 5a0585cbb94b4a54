"""Hosts with their slots, and which rank goes where."""

import collections
import re
from dataclasses import dataclass

HostInfo = collections.namedtuple("HostInfo", ["hostname", "slots"])
HostInfo.from_string = staticmethod(lambda host_string: _host(host_string))


@dataclass
class SlotInfo:
    """The place of a rank."""

    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int
    local_size: int = None
    cross_size: int = None

    def to_response_string(self):
        return ",".join(
            str(each)
            for each in (self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size)
        )

    @staticmethod
    def from_response_string(text):
        rank, size, local_rank, local_size, cross_rank, cross_size = (int(each) for each in text.split(","))
        return SlotInfo("", rank, local_rank, cross_rank, size, local_size, cross_size)


INVALID_SLOT_INFO = SlotInfo("", -1, -1, -1, -1, -1, -1)


def _host(text):
    if not re.match(r"^[\w.-]+:[0-9]+$", text.strip()):
        raise ValueError(f"Invalid host input, please make sure it has format as : worker-0:2,worker-1:2, not {text!r}")
    name, slots = text.strip().split(":")
    return HostInfo(name, int(slots))


def parse_hosts(hosts_string):
    """Reads `a:2,b:4`."""
    return [_host(item) for item in hosts_string.split(",")]


def parse_hosts_and_slots(hosts):
    """Names and slots of `a:2,b:4`."""
    found = parse_hosts(hosts)
    return [host.hostname for host in found], {host.hostname: host.slots for host in found}


def parse_host_files(filename):
    """Reads a hostfile, `a slots=2` in each line; returns `a:2,b:4`."""
    hosts = []
    with open(filename, encoding="utf-8") as file:
        for line in (line.split("#")[0].strip() for line in file):
            if line:
                name, _, slots = line.partition(" ")
                hosts.append(f"{name}:{slots.partition('=')[2].strip() or 1}")
    return ",".join(hosts)


def get_host_assignments(hosts, min_num_proc, max_num_proc=None):
    """Places for as many ranks as there are slots, or as `max_num_proc` says; consecutive on each host."""
    limit = max_num_proc or sum(host.slots for host in hosts)
    places, used = [], collections.Counter()
    for host in hosts:
        for local_rank in range(min(host.slots, limit - len(places))):
            places.append(SlotInfo(host.hostname, len(places), local_rank, used[local_rank], 0))
            used[local_rank] += 1
    if len(places) < min_num_proc:
        raise ValueError(
            f"Requested more processes ({min_num_proc}) than there are available slots ({len(places)})"
        )
    on_host = collections.Counter(place.hostname for place in places)
    for place in places:
        place.size, place.local_size, place.cross_size = len(places), on_host[place.hostname], used[place.local_rank]
    return places
