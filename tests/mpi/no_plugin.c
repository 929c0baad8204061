/* Without a plugin for this MPI the detail says what was tried, and how one is made. The word given must be in it.
 *     run: env BOXWISE_MPI_PLUGIN=$OTHER_PLUGIN mpirun -n 2 {} compiled
 *     run: env BOXWISE_MPI_PLUGIN=/nonexistent mpirun -n 2 {} /nonexistent:
 *     run: env BOXWISE_MPI_PLUGIN=libm.so.6 mpirun -n 2 {} boxwise_mpi_boot */

#include "suite.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    start_mpi(MPI_THREAD_SINGLE);
    const MPI_Comm world = MPI_COMM_WORLD;
    boxwise_comm_t comm = NULL;
    for (int i = 0; i < 2; i++) {
        CHECK_DETAIL(BOXWISE_ERROR_UNAVAILABLE, argv[1], boxwise_comm_create(&world, BOXWISE_COMM_MPI, &comm));
        CHECK(strstr(boxwise_last_error(), "mpicc -shared -fPIC") != NULL);
        CHECK(strstr(boxwise_last_error(), "BOXWISE_MPI_PLUGIN=") != NULL);
    }
    CHECK(comm == NULL);
    return end_mpi();
}
