/* Reshapes on overlapping communicators, in turn and from two threads at once, and two of one communicator at once.
 *     run: env BOXWISE_NODE=0,1,2 mpirun -n 3
 *     run: env BOXWISE_NODE=0,0,1 mpirun -n 3
 *     run: mpirun -n 3 */

#include "suite.h"

#include <pthread.h>

enum { RANKS = 3, ROUNDS = 100, REMAKE = 20 };

/* A communicator of some ranks; `comm` is MPI_COMM_NULL on the others. */
typedef struct {
    MPI_Comm comm;
    int32_t rank, size;
    int64_t seed;
    boxwise_handle_t handle;
} group_t;

static group_t open_group(int is_member, int key, int64_t seed)
{
    group_t group = {MPI_COMM_NULL, 0, 0, seed, NULL};
    MPI_Comm_split(MPI_COMM_WORLD, is_member ? 0 : MPI_UNDEFINED, key, &group.comm);
    if (is_member) {
        int rank, size;
        MPI_Comm_rank(group.comm, &rank);
        MPI_Comm_size(group.comm, &size);
        group.rank = rank;
        group.size = size;
    }
    return group;
}

static void make(group_t *group)
{
    CHECK_OK(boxwise_create(&group->handle));
    CHECK_OK(make_gather(group->handle, group->rank, group->size, &group->comm, BOXWISE_COMM_MPI));
}

static void once(group_t *group)
{
    if (group->comm == MPI_COMM_NULL)
        return;
    if (group->handle == NULL)
        make(group);
    CHECK_OK(exec_gather(group->handle, group->rank, group->size, group->seed++));
}

static void close_group(group_t *group)
{
    CHECK_OK(boxwise_destroy(group->handle));
    if (group->comm != MPI_COMM_NULL)
        MPI_Comm_free(&group->comm);
}

/* What one thread does: plans anew now and then, and executes. */
static void *many(void *context)
{
    group_t *group = context;
    for (int round = 0; round < ROUNDS; round++) {
        once(group);
        if (round % REMAKE == 0) {
            CHECK_OK(boxwise_destroy(group->handle));
            group->handle = NULL;
        }
    }
    return NULL;
}

/* Plans made before, executed only. */
static void *execute(void *context)
{
    for (int round = 0; round < ROUNDS; round++)
        once(context);
    return NULL;
}

static void at_once(void *(*first)(void *), group_t *one, void *(*second)(void *), group_t *other)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, first, one) == 0);
    second(other);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    start_mpi(MPI_THREAD_MULTIPLE);
    CHECK(ranks == RANKS);
    /* Rank 1 is in both pairs. */
    group_t left = open_group(me <= 1, 0, 1000), right = open_group(me >= 1, -me, 2000);
    group_t all = open_group(1, 0, 3000), reversed = open_group(1, -me, 4000);

    for (int round = 0; round < ROUNDS; round++) {
        once(&left);
        once(&all);
        once(&right);
        once(&reversed);
    }
    at_once(many, &left, many, &right);
    at_once(many, &all, many, &left);
    at_once(many, &reversed, many, &all);

    /* Two reshapes of one communicator. Making them is collective, so that is for one thread. */
    group_t second = all;
    second.handle = NULL;
    once(&all);
    once(&second);
    at_once(execute, &all, execute, &second);
    CHECK_OK(boxwise_destroy(second.handle));

    close_group(&reversed);
    close_group(&all);
    close_group(&right);
    close_group(&left);
    return end_mpi();
}
