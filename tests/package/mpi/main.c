/* A user's program that leaves the work to a library. Argument: the number of ranks. */
#include "solver.h"

#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Comm some;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &some);
    if (argc < 2 || size != atoi(argv[1]) || rows_to_columns(MPI_COMM_WORLD) != 0 || rows_to_columns(some) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_free(&some);
    MPI_Finalize();
    return 0;
}
