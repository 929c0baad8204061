/* A rank goes away while the others, on nodes of their own, wait for it: with a timeout they return.
 *     run: env BOXWISE_NODE=0,1,2 mpirun -n 3 {} stays-away
 *     run: env BOXWISE_NODE=0,1,1 mpirun -n 3 {} stays-away
 *     run: mpirun -n 3 {} stays-away
 *
 * What a launcher does with a job that has lost a rank is its own affair; scripts/tests/mpi.sh looks at these:
 *     {} killed TIMEOUT_MS     the last rank kills itself; TIMEOUT_MS may be 0
 *     {} leaves TIMEOUT_MS     it exits, without a word to MPI */

#include <signal.h>
#include <unistd.h>

#include "suite.h"

static MPI_Comm world;

static boxwise_handle_t made(int64_t timeout_ms)
{
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(boxwise_set_option(handle, BOXWISE_OPTION_TIMEOUT_MS, timeout_ms));
    CHECK_OK(make_gather(handle, me, ranks, &world, BOXWISE_COMM_MPI));
    CHECK_OK(exec_gather(handle, me, ranks, 1));
    return handle;
}

/* Executes, and says whether that failed as it must when a rank is missing. */
static int fails(boxwise_handle_t handle)
{
    const double start = MPI_Wtime();
    const boxwise_status_t status = exec_gather(handle, me, ranks, 2);
    printf("rank %d: after %.1f s %s: %s\n", me, MPI_Wtime() - start, boxwise_status_string(status),
           status == BOXWISE_SUCCESS ? "" : boxwise_last_error());
    fflush(stdout);
    return status == BOXWISE_ERROR_TIMEOUT || status == BOXWISE_ERROR_PEER_LOST;
}

static int stays_away(void)
{
    boxwise_handle_t handle = made(500);
    const int missing = me == ranks - 1;
    if (!missing)
        CHECK(fails(handle));
    /* By now the others have given up, and the last one learns of it. What they had sent before may be enough for the
     * operation that they gave up, but not for another. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (missing)
        CHECK(fails(handle) || fails(handle));
    CHECK_STATUS(BOXWISE_ERROR_PEER_LOST, exec_gather(handle, me, ranks, 3));
    CHECK_OK(boxwise_destroy(handle));
    /* Another communicator knows nothing of that. */
    for (int i = 0; i < 3; i++) {
        handle = made(60000);
        CHECK_OK(boxwise_destroy(handle));
    }
    return end_mpi();
}

int main(int argc, char **argv)
{
    start_mpi(MPI_THREAD_FUNNELED);
    world = MPI_COMM_WORLD;
    if (argc == 2)
        return stays_away();
    CHECK(argc == 3);
    boxwise_handle_t handle = made(atoi(argv[2]));
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == ranks - 1) {
        if (strcmp(argv[1], "killed") == 0)
            raise(SIGKILL);
        _exit(7);
    }
    /* MPI cannot be ended without the rank that is gone. */
    _exit(fails(handle) ? 3 : 4);
}
