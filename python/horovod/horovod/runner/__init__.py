"""What scripts and tests use of the launcher; `ronde run` itself is another program."""

from ronde._launch import run

__all__ = ["run"]
