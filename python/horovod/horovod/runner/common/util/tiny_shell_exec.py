"""A shell command, with what it says."""

import io

from horovod.runner.common.util import safe_shell_exec


def execute(command, env=None):
    """Runs a command; returns what it wrote to stdout and stderr, and its exit code."""
    output = io.StringIO()
    code = safe_shell_exec.execute(command, env=env, stdout=output, stderr=output)
    return output.getvalue(), code
