"""The engine of this process, under Horovod's name for it."""

from ronde._basics import Basics as HorovodBasics

__all__ = ["HorovodBasics"]
