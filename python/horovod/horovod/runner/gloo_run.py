"""Jobs from settings, through `ronde run`."""

import os

from horovod.runner._instead import instead
from ronde._launch import run_command


def gloo_run(settings, nics, env, server_ip, command):
    """Runs a command on every rank; raises RuntimeError if one fails."""
    options = {
        "num_proc": settings.num_proc,
        "hosts": settings.hosts,
        "ssh_port": settings.ssh_port,
        "ssh_identity_file": settings.ssh_identity_file,
        "output_filename": settings.output_filename,
        "prefix_output_with_timestamp": settings.prefix_output_with_timestamp,
        "network_interfaces": ",".join(nics) if nics else None,
        "verbose": settings.verbose >= 2,
    }
    if settings.start_timeout is not None:
        options["start_timeout"] = max(1, round(settings.start_timeout.remaining()))
    # Programs are looked for where this one looks, as with mpirun.
    run_command(options, command, {"PATH": os.environ.get("PATH", os.defpath), **env})


launch_gloo = instead("launch_gloo", "gloo_run")
gloo_run_elastic = instead("gloo_run_elastic", "horovod.run with min_num_proc, or horovodrun --min-np")
launch_gloo_elastic = instead("launch_gloo_elastic", "horovod.run with min_num_proc, or horovodrun --min-np")
