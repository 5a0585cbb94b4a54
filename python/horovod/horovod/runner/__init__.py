"""What scripts and tests use of the launcher; `ronde run` itself is another program."""

from ronde._launch import run


class _HorovodArgs:
    """The arguments of horovodrun for one rank, with nothing else said."""

    def __init__(self):
        from horovod.runner.launch import _read

        vars(self).update(_read(["--num-proc", "1"]))


__all__ = ["run"]
