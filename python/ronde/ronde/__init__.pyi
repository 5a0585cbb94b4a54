from ronde._basics import *
from ronde._objects import allgather_object as allgather_object
from ronde._objects import broadcast_object as broadcast_object
from ronde.exceptions import HorovodInternalError as HorovodInternalError
from ronde.exceptions import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from ronde.exceptions import MismatchError as MismatchError
from ronde.process_sets import ProcessSet as ProcessSet
from ronde.process_sets import add_process_set as add_process_set
from ronde.process_sets import global_process_set as global_process_set
from ronde.process_sets import remove_process_set as remove_process_set

__version__: str
Average: int
Sum: int
Adasum: int
Min: int
Max: int
Product: int

def barrier(process_set: ProcessSet = ...) -> None: ...
def join() -> int: ...
