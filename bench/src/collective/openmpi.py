"""One rank of Open MPI: in-place sums of float32, timed. Needs libmpi and nothing else."""

import ctypes
import sys
import time


def main():
    library = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)

    def known(name):
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, name)))

    world, float32, total = known("ompi_mpi_comm_world"), known("ompi_mpi_float"), known("ompi_mpi_op_sum")
    in_place = ctypes.c_void_p(1)
    library.MPI_Init(None, None)
    rank = ctypes.c_int()
    library.MPI_Comm_rank(world, ctypes.byref(rank))
    for argument in sys.argv[1:]:
        size, rounds = map(int, argument.split(":"))
        data = ctypes.create_string_buffer(size)
        count = ctypes.c_int(size // 4)
        times = []
        for number in range(rounds + 3):
            begun = time.perf_counter_ns()
            library.MPI_Allreduce(in_place, data, count, float32, total, world)
            if number >= 3:
                times.append(time.perf_counter_ns() - begun)
        if rank.value == 0:
            times.sort()
            print(size, times[len(times) // 2] / 1000, flush=True)
    library.MPI_Finalize()


main()
