/* Ten thousand reshapes made, executed and destroyed between nodes, and thousands of communicators: memory, descriptors
 * and MPI's communicators stay as few as they were.
 *     run: env BOXWISE_NODE=0,1 mpirun -n 2 {} 10000
 *     run: env BOXWISE_NODE=0,0,1 mpirun -n 3 {} 300 */

#include "suite.h"

/* How many communicators exist beside those that MPI starts with: MPI lets a program stand before its functions. */
static int alive = 0;

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
    alive++;
    return PMPI_Comm_dup(comm, copy);
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *copy)
{
    alive++;
    return PMPI_Comm_dup_with_info(comm, info, copy);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *part)
{
    alive++;
    return PMPI_Comm_split(comm, color, key, part);
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *part)
{
    alive++;
    return PMPI_Comm_create(comm, group, part);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    alive--;
    return PMPI_Comm_free(comm);
}

/* What may not grow. */
typedef struct {
    size_t resident_bytes;
    int descriptors, communicators;
} use_t;

static use_t used_now(void)
{
    const use_t use = {status_bytes("VmRSS:"), descriptors(), alive};
    return use;
}

/* Some messages of MPI's and its pools are still to come when `first` is measured. */
static const size_t MOST_GROWTH = (size_t)4 << 20;

static void check_growth(const char *what, use_t first, use_t last)
{
    printf("rank %d, %s: %zu KiB, %d descriptors, %d communicators, and then %zu KiB, %d, %d\n", me, what,
           first.resident_bytes >> 10, first.descriptors, first.communicators, last.resident_bytes >> 10,
           last.descriptors, last.communicators);
    CHECK(last.resident_bytes <= first.resident_bytes + MOST_GROWTH);
    CHECK(last.descriptors == first.descriptors);
    CHECK(last.communicators == first.communicators && last.communicators <= 2);
}

static void one_reshape(const void *comm_handle, int32_t comm_type, int64_t seed)
{
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(make_gather(handle, me, ranks, comm_handle, comm_type));
    CHECK_OK(exec_gather(handle, me, ranks, seed));
    CHECK_OK(boxwise_destroy(handle));
}

/* Does it `count` times, and compares with what was in use after the first tenth. */
static void many(const char *what, int count, void (*once)(int64_t seed))
{
    use_t first = used_now();
    for (int i = 0; i < count; i++) {
        once(i);
        if (i == count / 10)
            first = used_now();
    }
    check_growth(what, first, used_now());
}

static MPI_Comm world;
static boxwise_comm_t object;

static void on_mpi_communicator(int64_t seed)
{
    one_reshape(&world, BOXWISE_COMM_MPI, seed);
}

static void on_object(int64_t seed)
{
    one_reshape(&object, BOXWISE_COMM_OBJECT, seed);
}

/* Of a communicator that is gone as soon as boxwise has it. */
static void with_communicator(int64_t seed)
{
    MPI_Comm copy;
    boxwise_comm_t comm;
    MPI_Comm_dup(world, &copy);
    CHECK_OK(boxwise_comm_create(&copy, BOXWISE_COMM_MPI, &comm));
    MPI_Comm_free(&copy);
    one_reshape(&comm, BOXWISE_COMM_OBJECT, seed);
    CHECK_OK(boxwise_comm_destroy(comm));
}

int main(int argc, char **argv)
{
    start_mpi(MPI_THREAD_FUNNELED);
    CHECK(argc == 2);
    const int count = atoi(argv[1]);
    world = MPI_COMM_WORLD;
    CHECK_OK(boxwise_comm_create(&world, BOXWISE_COMM_MPI, &object));
    many("reshapes on one communicator", count, on_object);
    CHECK_OK(boxwise_comm_destroy(object));
    many("reshapes on MPI_COMM_WORLD", count / 2, on_mpi_communicator);
    many("communicators", count / 2, with_communicator);
    CHECK(alive <= 1);
    return end_mpi();
}
