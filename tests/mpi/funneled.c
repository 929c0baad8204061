/* With MPI_THREAD_FUNNELED another thread than MPI's main one may not use MPI: told, not tried.
 *     run: mpirun -n 2
 *     run: env BOXWISE_NODE=0,1 mpirun -n 2 */

#include "suite.h"

#include <pthread.h>

static MPI_Comm world;
static boxwise_handle_t made;
static int is_remote;

static void *on_another_thread(void *context)
{
    (void)context;
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    CHECK_DETAIL(BOXWISE_ERROR_NOT_SUPPORTED, "MPI_THREAD_FUNNELED",
                 make_gather(handle, me, ranks, &world, BOXWISE_COMM_MPI));
    CHECK_OK(boxwise_destroy(handle));
    /* On one node MPI is not needed. */
    if (is_remote)
        CHECK_DETAIL(BOXWISE_ERROR_TRANSPORT, "main thread", exec_gather(made, me, ranks, 1));
    else
        CHECK_OK(exec_gather(made, me, ranks, 1));
    CHECK_OK(boxwise_destroy(made));
    return NULL;
}

/* Only the last rank uses another thread: it cannot tell the others there that it failed, but it does when it can. */
static void *fail_there(void *context)
{
    (void)context;
    CHECK_DETAIL(BOXWISE_ERROR_TRANSPORT, "main thread", exec_gather(made, me, ranks, 1));
    return NULL;
}

static void fail_elsewhere_alone(void)
{
    pthread_t thread;
    boxwise_comm_t comm;
    CHECK_OK(boxwise_comm_create(&world, BOXWISE_COMM_MPI, &comm));
    CHECK_OK(boxwise_create(&made));
    CHECK_OK(make_gather(made, me, ranks, &comm, BOXWISE_COMM_OBJECT));
    if (me == ranks - 1) {
        CHECK(pthread_create(&thread, NULL, fail_there, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_STATUS(BOXWISE_ERROR_PEER_LOST, boxwise_comm_barrier(comm));
    } else {
        CHECK_STATUS(BOXWISE_ERROR_PEER_LOST, exec_gather(made, me, ranks, 1));
    }
    CHECK_OK(boxwise_destroy(made));
    CHECK_OK(boxwise_comm_destroy(comm));
}

static void make_and_use_elsewhere(void)
{
    pthread_t thread;
    MPI_Comm copy;
    MPI_Comm_dup(world, &copy);
    CHECK_OK(boxwise_create(&made));
    CHECK_OK(make_gather(made, me, ranks, &copy, BOXWISE_COMM_MPI));
    CHECK_OK(exec_gather(made, me, ranks, 0));
    /* The last to use our duplicate is then a thread that may not free it. */
    MPI_Comm_free(&copy);
    CHECK(pthread_create(&thread, NULL, on_another_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(provided == MPI_THREAD_FUNNELED);
    world = MPI_COMM_WORLD;
    is_remote = getenv("BOXWISE_NODE") != NULL;
    for (int i = 0; i < 20; i++)
        make_and_use_elsewhere();
    if (is_remote)
        fail_elsewhere_alone();
    return end_mpi();
}
