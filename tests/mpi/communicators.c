/* Which communicators of MPI give which of ours: the same one for the same, of the ranks that it has, in its order, as
 * long as it is needed. Thousands of them leave nothing behind.
 *     run: mpirun -n 2
 *     run: env BOXWISE_NODE=0,0,1 mpirun -n 3
 *     run: env BOXWISE_NODE=0,1 mpirun -n 2 */

#include "suite.h"

/* More rounds than MPICH has numbers for communicators, of which each round takes two. */
enum { ON_WORLD = 1000, ROUNDS = 1100, WARM_UP = 200 };

static MPI_Comm world;

static boxwise_handle_t made_on(MPI_Comm parent, int32_t *rank, int32_t *size)
{
    int parent_rank, parent_size;
    boxwise_handle_t handle;
    MPI_Comm_rank(parent, &parent_rank);
    MPI_Comm_size(parent, &parent_size);
    *rank = parent_rank;
    *size = parent_size;
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(make_gather(handle, *rank, *size, &parent, BOXWISE_COMM_MPI));
    return handle;
}

/* Memory belongs to a communicator, whichever handle to it is used. */
static void same_parent_gives_the_same(void)
{
    boxwise_comm_t first, second, fortran, other;
    MPI_Comm copy;
    void *pointer;
    MPI_Comm_dup(world, &copy);
    CHECK_OK(boxwise_comm_create(&world, BOXWISE_COMM_MPI, &first));
    CHECK_OK(boxwise_comm_create(&world, BOXWISE_COMM_MPI, &second));
    CHECK_OK(boxwise_comm_create_from_fortran((int32_t)MPI_Comm_c2f(world), &fortran));
    CHECK_OK(boxwise_comm_create(&copy, BOXWISE_COMM_MPI, &other));
    CHECK_OK(boxwise_malloc(first, BOXWISE_MEMORY_HOST, 4096, &pointer));
    CHECK_STATUS(BOXWISE_ERROR_INVALID_ARGUMENT, boxwise_free(other, pointer));
    CHECK_OK(boxwise_free(second, pointer));
    CHECK_OK(boxwise_malloc(second, BOXWISE_MEMORY_HOST, 4096, &pointer));
    CHECK_OK(boxwise_comm_destroy(first));
    CHECK_OK(boxwise_free(fortran, pointer));
    CHECK_OK(boxwise_comm_destroy(second));
    CHECK_OK(boxwise_comm_destroy(fortran));
    CHECK_OK(boxwise_comm_destroy(other));
    MPI_Comm_free(&copy);
}

/* Two that overlap, in other orders than the world's, used in turn after both are freed. */
static void parts(void)
{
    int32_t rank[3], size[3];
    boxwise_handle_t handle[3];
    MPI_Comm left, reversed;
    MPI_Comm_split(world, me < ranks - 1 ? 0 : 1, -me, &left);
    MPI_Comm_split(world, 0, (me + 1) % ranks, &reversed);
    handle[0] = made_on(left, &rank[0], &size[0]);
    handle[1] = made_on(reversed, &rank[1], &size[1]);
    handle[2] = made_on(MPI_COMM_SELF, &rank[2], &size[2]);
    CHECK(rank[1] == (me + 1) % ranks && size[1] == ranks && size[0] == (me < ranks - 1 ? ranks - 1 : 1));
    MPI_Comm_free(&left);
    MPI_Comm_free(&reversed);
    for (int i = 0; i < 30; i++)
        CHECK_OK(exec_gather(handle[i % 3], rank[i % 3], size[i % 3], i));
    for (int i = 0; i < 3; i++)
        CHECK_OK(boxwise_destroy(handle[i]));
}

/* MPI's communicators would run out, and these two resources. */
static void many(void)
{
    int32_t rank, size;
    for (int i = 0; i < ON_WORLD; i++) {
        boxwise_handle_t handle = made_on(world, &rank, &size);
        CHECK_OK(exec_gather(handle, rank, size, i));
        CHECK_OK(boxwise_destroy(handle));
    }
    size_t bytes = 0;
    int files = 0;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm part;
        if (i == WARM_UP) {
            bytes = status_bytes("VmRSS:");
            files = descriptors();
        }
        MPI_Comm_split(world, me == i % ranks ? 1 : 0, me, &part);
        boxwise_handle_t handle = made_on(part, &rank, &size);
        CHECK_OK(exec_gather(handle, rank, size, i));
        if (i % 2 == 0) {
            MPI_Comm_free(&part);
            CHECK_OK(boxwise_destroy(handle));
        } else {
            CHECK_OK(boxwise_destroy(handle));
            MPI_Comm_free(&part);
        }
    }
    const size_t now = status_bytes("VmRSS:");
    printf("rank %d: %zu KiB after %d rounds, %zu KiB after %d\n", me, bytes >> 10, WARM_UP, now >> 10, ROUNDS);
    CHECK(now <= bytes + ((size_t)4 << 20));
    CHECK(descriptors() <= files);
}

int main(void)
{
    start_mpi(MPI_THREAD_FUNNELED);
    world = MPI_COMM_WORLD;
    same_parent_gives_the_same();
    parts();
    many();
    return end_mpi();
}
