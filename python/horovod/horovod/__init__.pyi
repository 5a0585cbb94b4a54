from ronde._launch import run as run

__version__: str
