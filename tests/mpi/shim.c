/* MPI for tests/differential_mpi.rs, which is Rust and links none: communicators are pointers to MPI_Comm.
 *
 * Compiled per MPI into a shared library. Errors of MPI end the job, as MPI does by itself. */

#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>

/* The order of the names funneled, serialized, multiple. */
static const int levels[] = {MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};

/* Starts MPI. Returns 1 if any thread may call it, else 0. */
int32_t shim_init(int32_t level)
{
    int provided;
    MPI_Init_thread(NULL, NULL, levels[level], &provided);
    if (provided < levels[level])
        MPI_Abort(MPI_COMM_WORLD, 3);
    return provided == MPI_THREAD_MULTIPLE;
}

void shim_finalize(void)
{
    MPI_Finalize();
}

/* Ends all ranks of the job. */
void shim_abort(void)
{
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_Comm *keep(MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL)
        return NULL;
    MPI_Comm *kept = malloc(sizeof *kept);
    if (kept == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    *kept = comm;
    return kept;
}

MPI_Comm *shim_world(void)
{
    return keep(MPI_COMM_WORLD);
}

MPI_Comm *shim_dup(const MPI_Comm *comm)
{
    MPI_Comm copy;
    MPI_Comm_dup(*comm, &copy);
    return keep(copy);
}

/* Collective; NULL for a rank with a negative colour. */
MPI_Comm *shim_split(const MPI_Comm *comm, int32_t color, int32_t key)
{
    MPI_Comm part;
    MPI_Comm_split(*comm, color < 0 ? MPI_UNDEFINED : color, key, &part);
    return keep(part);
}

void shim_free(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_WORLD)
        MPI_Comm_free(comm);
    free(comm);
}

int32_t shim_rank(const MPI_Comm *comm)
{
    int rank;
    MPI_Comm_rank(*comm, &rank);
    return rank;
}

int32_t shim_size(const MPI_Comm *comm)
{
    int size;
    MPI_Comm_size(*comm, &size);
    return size;
}

void shim_barrier(const MPI_Comm *comm)
{
    MPI_Barrier(*comm);
}

/* Collective: every rank gets the sums over all ranks. */
void shim_sum(const MPI_Comm *comm, uint64_t *values, int32_t count)
{
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_UINT64_T, MPI_SUM, *comm);
}
