"""Addresses and interfaces of this machine."""

import socket

from horovod.runner.util import threads
from ronde._settings import addresses_of_interface


def get_local_host_addresses():
    """All IPv4 addresses of this machine."""
    return {each for _, name in socket.if_nameindex() for each in _ipv4(name)}


def get_local_intfs(nic=None):
    """Interfaces with the address 127.0.0.1; of one that is named, whether it has it."""
    names = [name for _, name in socket.if_nameindex() if nic in (None, name)]
    return {name for name in names if "127.0.0.1" in _ipv4(name)}


def resolve_host_address(host_name):
    """An address of a host; None if nobody knows it."""
    try:
        return socket.gethostbyname(host_name)
    except socket.gaierror:
        return None


def filter_local_addresses(all_host_names):
    """Those of the hosts that are not this machine."""
    own = get_local_host_addresses()
    found = threads.execute_function_multithreaded(resolve_host_address, [[name] for name in all_host_names])
    return [name for number, name in enumerate(all_host_names) if found[number] not in own]


def get_driver_ip(nics):
    """The address of this machine on the first of the interfaces."""
    found = _ipv4(next(iter(nics)))
    if not found:
        raise RuntimeError(f"interface {next(iter(nics))} has no IPv4 address")
    return found[0]


def find_port(server_factory):
    """A server on a free port, and the port."""
    server = server_factory(("", 0))
    return server, server.socket.getsockname()[1]


def _ipv4(name):
    return [each for each in addresses_of_interface(name) if "." in each]
