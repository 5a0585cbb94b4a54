"""horovodrun from Python: the program reads the command line and runs the job, and this asks it to."""

import argparse
import json
import os
import subprocess
import sys

from horovod.common.util import ccl_built, ddl_built, extension_available, gloo_built, mpi_built, nccl_built
from horovod.runner._instead import instead
from horovod.runner.common.util import config_parser
from horovod.runner.js_run import is_jsrun_installed
from horovod.runner.util import lsf
from ronde._launch import binary, run_command, run_function

# Arguments of the launcher itself, with their flags; the others go to the ranks as variables.
FLAGS = {
    "num_proc": "num_proc",
    "min_num_proc": "min_num_proc",
    "max_num_proc": "max_num_proc",
    "slots": "slots_per_host",
    "elastic_timeout": "elastic_timeout",
    "reset_limit": "reset_limit",
    "cooldown_range": "blacklist_cooldown_range",
    "hosts": "hosts",
    "hostfile": "hostfile",
    "host_discovery_script": "host_discovery_script",
    "start_timeout": "start_timeout",
    "ssh_port": "ssh_port",
    "ssh_identity_file": "ssh_identity_file",
    "output_filename": "output_filename",
    "prefix_output_with_timestamp": "prefix_output_with_timestamp",
}


def parse_args():
    """The arguments of this process as horovodrun reads them; raises ValueError if they make no sense."""
    return argparse.Namespace(**_read(sys.argv[1:]))


def _read(words):
    done = subprocess.run([binary(), "run", "--show-arguments", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr.removeprefix("error: ").strip())
    # What means something else here than in Horovod.
    print(done.stderr, end="", file=sys.stderr)
    if not done.stdout.startswith("{"):
        # They ask for the help, the version, or what was built in.
        print(done.stdout, end="")
        sys.exit(0)
    return {**json.loads(done.stdout), "run_func": None, "executable": None}


def run_commandline():
    """Becomes horovodrun."""
    os.execv(binary(), ["horovodrun", *sys.argv[1:]])


def check_build(verbose=False):
    """Shows what was built in, and ends the process."""
    sys.exit(subprocess.run([binary(), "run", "--check-build"]).returncode)


def _run(args):
    """Runs the job that arguments describe; returns what the ranks return if it is a function, by rank."""
    return _run_elastic(args) if _is_elastic(args) else _run_static(args)


def _is_elastic(args):
    return args.host_discovery_script is not None or args.min_num_proc is not None


def _run_static(args):
    results = []

    def launch():
        results.append(_launch_job(args))

    # There is one controller, whichever of Horovod's is asked for.
    run_controller(True, launch, False, launch, False, launch, args.verbose)
    return results[0] if results else None


def _run_elastic(args):
    return _launch_job(args)


def _launch_job(args):
    options = {flag: getattr(args, name) for name, flag in FLAGS.items()}
    options["verbose"] = bool(args.verbose)
    options["network_interfaces"] = ",".join(args.nics) if args.nics else None
    env = config_parser.set_env_from_args(dict(os.environ), args)
    if args.run_func is not None:
        return run_function(options, args.run_func, args.executable, env)
    return run_command(options, args.command, env)


def is_gloo_used(use_gloo=None, use_mpi=None, use_jsrun=None):
    """Whether `run_controller` would call the function for Gloo."""
    return bool(use_gloo or not (use_mpi or use_jsrun or mpi_built()))


def run_controller(use_gloo, gloo_run, use_mpi, mpi_run, use_jsrun, js_run, verbosity):
    """Calls the function of the controller that is asked for; if none is, of one that is built in."""
    if use_jsrun and mpi_built() and not lsf.LSFUtils.using_lsf():
        raise ValueError("jsrun works in LSF jobs only, and this is none; use another controller")
    if use_gloo or use_mpi or use_jsrun:
        name, is_built = ("Gloo", gloo_built()) if use_gloo else ("MPI", mpi_built())
        if not is_built:
            raise ValueError(f"{name} is not built in; `horovodrun --check-build` shows what is")
        return (gloo_run if use_gloo else mpi_run if use_mpi else js_run)()
    if mpi_built():
        return (js_run if lsf.LSFUtils.using_lsf() and is_jsrun_installed() else mpi_run)()
    if gloo_built():
        return gloo_run()
    raise ValueError("no controller is built in; `horovodrun --check-build` shows what is")


_check_all_hosts_ssh_successful = instead("check of ssh from Python", "horovodrun, which checks by itself")

__all__ = [
    "ccl_built",
    "check_build",
    "ddl_built",
    "extension_available",
    "gloo_built",
    "is_gloo_used",
    "is_jsrun_installed",
    "mpi_built",
    "nccl_built",
    "parse_args",
    "run_commandline",
    "run_controller",
]

if __name__ == "__main__":
    run_commandline()
