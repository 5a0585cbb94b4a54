"""Fits a line with several processes: each has its own part of the data, gradients are averaged by MPI.

Started by mpiexec; needs Open MPI's library and nothing else.
    mpiexec -np 3 python mpi_line.py [STEPS]
While there is a file called `hold` beside it, the last step is not done: there is time to look.
"""

import ctypes
import os
import random
import socket
import sys
import time

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
SAMPLES = 500
RATE = 0.1
HOLD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hold")


class Mpi:
    """The few calls that are needed, straight from Open MPI's library."""

    def __init__(self):
        self.library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.world = self._handle("ompi_mpi_comm_world")
        self.double = self._handle("ompi_mpi_double")
        self.sum = self._handle("ompi_mpi_op_sum")
        self.library.MPI_Init(None, None)
        self.rank = self._ask(self.library.MPI_Comm_rank)
        self.size = self._ask(self.library.MPI_Comm_size)

    def _handle(self, name):
        return ctypes.byref(ctypes.c_char.in_dll(self.library, name))

    def _ask(self, call):
        answer = ctypes.c_int()
        call(self.world, ctypes.byref(answer))
        return answer.value

    def average(self, values):
        """Returns the average of every process's values."""
        mine = (ctypes.c_double * len(values))(*values)
        total = (ctypes.c_double * len(values))()
        failed = self.library.MPI_Allreduce(mine, total, len(values), self.double, self.sum, self.world)
        if failed:
            raise RuntimeError(f"MPI_Allreduce failed with {failed}")
        return [value / self.size for value in total]

    def finish(self):
        self.library.MPI_Finalize()


def is_held(mpi):
    """Whether to wait; the ranks agree on it, because each looks at another moment."""
    return mpi.average([1.0 if os.path.exists(HOLD) else 0.0])[0] > 0


def main():
    mpi = Mpi()
    print(f"rank {mpi.rank} of {mpi.size} on {socket.gethostname()}", flush=True)
    numbers = random.Random(mpi.rank)
    xs = [numbers.uniform(-1, 1) for _ in range(SAMPLES)]
    ys = [3 * x + 2 + numbers.gauss(0, 0.1) for x in xs]
    slope = offset = 0.0
    for step in range(STEPS):
        while step == STEPS - 1 and is_held(mpi):
            time.sleep(0.05)
        errors = [slope * x + offset - y for x, y in zip(xs, ys)]
        gradient = [2 * sum(e * x for e, x in zip(errors, xs)) / SAMPLES, 2 * sum(errors) / SAMPLES]
        gradient = mpi.average(gradient)
        slope -= RATE * gradient[0]
        offset -= RATE * gradient[1]
        if mpi.rank == 0 and step % 50 == 0:
            print(f"step {step}: y = {slope:.2f} x + {offset:.2f}", flush=True)
        time.sleep(0.01)
    if mpi.rank == 0:
        print(f"done: y = {slope:.1f} x + {offset:.1f}", flush=True)
    mpi.finish()


if __name__ == "__main__":
    main()
