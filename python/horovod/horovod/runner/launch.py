"""The command line of horovodrun from Python: the program reads it, and this shows what it read."""

import argparse
import json
import os
import subprocess
import sys

from ronde._launch import binary


def parse_args():
    """The arguments of this process as horovodrun reads them. Ends the process if they make no sense."""
    done = subprocess.run([binary(), "run", "--show-arguments", *sys.argv[1:]], stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return argparse.Namespace(**json.loads(done.stdout))


def run_commandline():
    """Becomes horovodrun."""
    os.execv(binary(), ["horovodrun", *sys.argv[1:]])


def check_build(verbose=False):
    """Shows what was built in, and ends the process."""
    sys.exit(subprocess.run([binary(), "run", "--check-build"]).returncode)


if __name__ == "__main__":
    run_commandline()
