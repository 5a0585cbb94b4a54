"""Which hosts an elastic job may use, and how many slots they have."""

import io

from horovod.runner._instead import instead
from horovod.runner.common.util import safe_shell_exec


class HostDiscovery:
    def find_available_hosts_and_slots(self):
        """Slots by host."""
        raise NotImplementedError


class HostDiscoveryScript(HostDiscovery):
    """Asks a program, which prints `host:slots` or `host` in each line."""

    def __init__(self, discovery_script, slots):
        self._discovery_script = discovery_script
        self._default_slots = slots

    def find_available_hosts_and_slots(self):
        found = {}
        for line in filter(None, self._execute_discovery_script().split()):
            host, _, slots = line.partition(":")
            found[host] = int(slots) if slots else self._default_slots
        return found

    def _execute_discovery_script(self):
        output = io.StringIO()
        code = safe_shell_exec.execute(self._discovery_script, stdout=output)
        if code != 0:
            raise RuntimeError(f"the discovery script {self._discovery_script} failed with exit code {code}")
        return output.getvalue()


class FixedHosts(HostDiscovery):
    """Hosts that are known."""

    def __init__(self, host_slots):
        self._host_slots = host_slots

    def find_available_hosts_and_slots(self):
        return self._host_slots

    def set(self, host_slots):
        self._host_slots = host_slots


HostManager = instead("HostManager", "horovodrun --host-discovery-script, which watches the hosts")
