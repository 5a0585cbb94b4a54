"""Horovod's module names for Ronde: existing training scripts run unchanged."""

__version__ = "0.28.1"
