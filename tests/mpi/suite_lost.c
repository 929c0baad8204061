/* A rank goes away while the others, on nodes of their own, wait for it: with a timeout they return.
 *     run: env BOXWISE_NODE=0,1,2 mpirun -n 3 {} stays-away
 *     run: env BOXWISE_NODE=0,1,1 mpirun -n 3 {} stays-away
 *     run: mpirun -n 3 {} stays-away
 *     run: env BOXWISE_NODE=0,1 mpirun -n 2 {} is-late
 *     run: env BOXWISE_NODE=0,1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self mpirun -n 2 {} is-late
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

static int says_that_it_failed(boxwise_status_t status, double start)
{
    const int failed = status == BOXWISE_ERROR_TIMEOUT || status == BOXWISE_ERROR_PEER_LOST;
    printf("rank %d: after %.1f s %s: %s: %s\n", me, MPI_Wtime() - start, failed ? "lost" : "not as it must",
           boxwise_status_string(status), status == BOXWISE_SUCCESS ? "" : boxwise_last_error());
    fflush(stdout);
    return failed;
}

/* Executes, and says whether that failed as it must when a rank is missing. */
static int fails(boxwise_handle_t handle)
{
    const double start = MPI_Wtime();
    return says_that_it_failed(exec_gather(handle, me, ranks, 2), start);
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

/* Rank 0 gives up and then does without MPI for a while. The other comes meanwhile, and finds long messages that only
 * rank 0 could bring to their end. */
static int is_late(void)
{
    enum { BYTES = 4 << 20, ASLEEP_SECONDS = 5, MOST_SECONDS = 2 };
    unsigned char *mine = malloc(BYTES), *other = malloc(BYTES);
    CHECK(mine != NULL && other != NULL);
    memset(mine, me, BYTES);
    const int64_t held[2] = {(int64_t)me * BYTES, (int64_t)(me + 1) * BYTES};
    const int64_t wanted[2] = {(int64_t)(1 - me) * BYTES, (int64_t)(2 - me) * BYTES};
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(boxwise_set_option(handle, BOXWISE_OPTION_TIMEOUT_MS, 300));
    CHECK_OK(boxwise_make(handle, 1, 1, &held[0], &held[1], NULL, &wanted[0], &wanted[1], NULL, &world,
                          BOXWISE_COMM_MPI));
    CHECK_OK(boxwise_exec_async(handle, other, mine, NULL, NULL));
    CHECK(other[0] == 1 - me && other[BYTES - 1] == 1 - me);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 1)
        sleep(1);
    const double start = MPI_Wtime();
    CHECK(says_that_it_failed(boxwise_exec_async(handle, other, mine, NULL, NULL), start));
    CHECK(MPI_Wtime() - start < MOST_SECONDS);
    if (me == 0)
        sleep(ASLEEP_SECONDS);
    /* MPI may still read what was sent. */
    CHECK_OK(boxwise_destroy(handle));
    /* Open MPI, which ends while one rank still sends, can end the other by SIGPIPE. */
    MPI_Barrier(MPI_COMM_WORLD);
    return end_mpi();
}

int main(int argc, char **argv)
{
    start_mpi(MPI_THREAD_FUNNELED);
    world = MPI_COMM_WORLD;
    if (argc == 2)
        return strcmp(argv[1], "is-late") == 0 ? is_late() : stays_away();
    CHECK(argc == 3);
    boxwise_handle_t handle = made(atoi(argv[2]));
    printf("rank %d: all are there\n", me);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == ranks - 1) {
        if (strcmp(argv[1], "killed") == 0)
            raise(SIGKILL);
        _exit(7);
    }
    /* MPI cannot be ended without the rank that is gone. */
    _exit(fails(handle) ? 3 : 4);
}
