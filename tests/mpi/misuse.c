/* What is no communicator of a running MPI: before MPI_Init, MPI_COMM_NULL, an inter-communicator. What a communicator
 * of ours leaves as it was. What becomes of plans when MPI has ended.
 *     run: mpirun -n 2
 *     run: env BOXWISE_NODE=0,1 mpirun -n 2 */

#include "suite.h"

enum { ARGUMENT = BOXWISE_ERROR_INVALID_ARGUMENT, STATE = BOXWISE_ERROR_INVALID_STATE };

static boxwise_comm_t comm;
static MPI_Comm world;

static void arguments(void)
{
    CHECK_DETAIL(ARGUMENT, "comm_handle is NULL", boxwise_comm_create(NULL, BOXWISE_COMM_MPI, &comm));
    const MPI_Comm null = MPI_COMM_NULL;
    CHECK_DETAIL(ARGUMENT, "MPI_COMM_NULL", boxwise_comm_create(&null, BOXWISE_COMM_MPI, &comm));
    CHECK_DETAIL(ARGUMENT, "pass &comm",
                 boxwise_comm_create((const void *)(uintptr_t)MPI_COMM_WORLD, BOXWISE_COMM_MPI, &comm));
    CHECK_DETAIL(ARGUMENT, "MPI_COMM_NULL",
                 boxwise_comm_create_from_fortran((int32_t)MPI_Comm_c2f(MPI_COMM_NULL), &comm));

    MPI_Comm half, between;
    MPI_Comm_split(world, me % 2, 0, &half);
    MPI_Intercomm_create(half, 0, world, 1 - me % 2, 0, &between);
    CHECK_DETAIL(ARGUMENT, "inter-communicator", boxwise_comm_create(&between, BOXWISE_COMM_MPI, &comm));
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    CHECK(comm == NULL);
}

static void on_error(MPI_Comm *failed, int *code, ...)
{
    (void)failed, (void)code;
}

/* The handler of errors is the program's. */
static void parent_stays_as_it_was(void)
{
    MPI_Errhandler handler, seen;
    MPI_Comm parent;
    MPI_Comm_dup(world, &parent);
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(parent, handler);
    CHECK_OK(boxwise_comm_create(&parent, BOXWISE_COMM_MPI, &comm));
    MPI_Comm_get_errhandler(parent, &seen);
    CHECK(seen == handler);
    MPI_Errhandler_free(&seen);
    MPI_Errhandler_free(&handler);
    CHECK_OK(boxwise_comm_destroy(comm));
    MPI_Comm_free(&parent);
    MPI_Comm_get_errhandler(world, &seen);
    CHECK(seen == MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&seen);
}

int main(void)
{
    const int is_remote = getenv("BOXWISE_NODE") != NULL;
    world = MPI_COMM_WORLD;
    CHECK_DETAIL(STATE, "not initialised", boxwise_comm_create(&world, BOXWISE_COMM_MPI, &comm));
    start_mpi(MPI_THREAD_FUNNELED);
    arguments();
    parent_stays_as_it_was();

    boxwise_handle_t executed, unexecuted, unmade;
    MPI_Comm freed;
    MPI_Comm_dup(world, &freed);
    CHECK_OK(boxwise_create(&executed));
    CHECK_OK(boxwise_create(&unexecuted));
    CHECK_OK(boxwise_create(&unmade));
    CHECK_OK(boxwise_comm_create(&world, BOXWISE_COMM_MPI, &comm));
    CHECK_OK(make_gather(executed, me, ranks, &world, BOXWISE_COMM_MPI));
    CHECK_OK(make_gather(unexecuted, me, ranks, &freed, BOXWISE_COMM_MPI));
    CHECK_OK(exec_gather(executed, me, ranks, 1));
    MPI_Comm_free(&freed);
    MPI_Finalize();

    /* Ranks of one node need no MPI any more. */
    boxwise_handle_t both[] = {executed, unexecuted};
    for (int i = 0; i < 2; i++) {
        if (is_remote)
            CHECK_DETAIL(BOXWISE_ERROR_TRANSPORT, "MPI was finalised", exec_gather(both[i], me, ranks, 2));
        else
            CHECK_OK(exec_gather(both[i], me, ranks, 2));
    }
    CHECK_DETAIL(STATE, "finalised", make_gather(unmade, me, ranks, &world, BOXWISE_COMM_MPI));
    CHECK_OK(boxwise_destroy(executed));
    CHECK_OK(boxwise_destroy(unexecuted));
    CHECK_OK(boxwise_destroy(unmade));
    CHECK_OK(boxwise_comm_destroy(comm));
    return me == 0 ? checks_done() : 0;
}
