/* How fast boxwise is next to MPI_Alltoallw on subarray types: three changes of slabs, both in one run, in turn.
 *     run: mpirun -n 2 {} --shape 40,36,32 --repeat 3
 *     run: env BOXWISE_NODE=0,1 mpirun -n 2 {} --shape 40,36,32 --element-size 4 --repeat 3
 *
 *   mpirun -n 2 speed --shape 256,256,256 --element-size 16 --repeat 11
 *
 * GB/s are 2 x bytes of the global array / T: every byte is read once and written once. T is from the first rank's
 * start to the last rank's end, the median of all repetitions. Memory is from malloc. */

#include <inttypes.h>

#include "suite.h"

enum { NDIMS = 3, MOST_REPEATS = 1001 };

static int64_t shape[NDIMS] = {256, 256, 256};
static size_t element_size = 8;
static int repeats = 11;

/* A change of slabs: cut along one dimension before, along another afterwards. */
typedef struct {
    const char *name;
    int from, to;
} change_t;

static const change_t changes[] = {{"S1 z-slabs to y-slabs", 0, 1}, {"S2 y-slabs to x-slabs", 1, 2},
                                   {"S3 x-slabs to z-slabs", 2, 0}};

typedef struct {
    int64_t lower[NDIMS], upper[NDIMS];
} box_t;

static box_t slab(int dimension, int rank)
{
    box_t box = {{0, 0, 0}, {shape[0], shape[1], shape[2]}};
    box.lower[dimension] = shape[dimension] * rank / ranks;
    box.upper[dimension] = shape[dimension] * (rank + 1) / ranks;
    return box;
}

static size_t bytes_of(const box_t *box)
{
    size_t bytes = element_size;
    for (int d = 0; d < NDIMS; d++)
        bytes *= (size_t)(box->upper[d] - box->lower[d]);
    return bytes;
}

/* Every byte of the array depends on where its element is and on its place in it. */
static unsigned char byte_at(uint64_t element, size_t byte)
{
    return (unsigned char)(((element + 1) * UINT64_C(0x9E3779B97F4A7C15)) >> (8 * (byte % 7)));
}

static void fill(unsigned char *data, const box_t *box)
{
    for (int64_t z = box->lower[0]; z < box->upper[0]; z++)
        for (int64_t y = box->lower[1]; y < box->upper[1]; y++)
            for (int64_t x = box->lower[2]; x < box->upper[2]; x++)
                for (size_t byte = 0; byte < element_size; byte++)
                    *data++ = byte_at((uint64_t)((z * shape[1] + y) * shape[2] + x), byte);
}

/* The way of MPI: for every peer a subarray type of what it gets, and one of what it gives. */
typedef struct {
    MPI_Datatype *send, *receive;
    int *counts, *displacements;
} types_t;

/* The part of a box that a peer's box has too, as a type; `count` is 0 where there is none. */
static void common_part(const box_t *mine, const box_t *theirs, MPI_Datatype *type, int *count)
{
    int sizes[NDIMS], subsizes[NDIMS], starts[NDIMS];
    *count = 1;
    for (int d = 0; d < NDIMS; d++) {
        const int64_t lower = mine->lower[d] > theirs->lower[d] ? mine->lower[d] : theirs->lower[d];
        const int64_t upper = mine->upper[d] < theirs->upper[d] ? mine->upper[d] : theirs->upper[d];
        sizes[d] = (int)(mine->upper[d] - mine->lower[d]);
        subsizes[d] = (int)(upper - lower);
        starts[d] = (int)(lower - mine->lower[d]);
        if (upper <= lower)
            *count = 0;
    }
    *type = MPI_BYTE;
    if (*count == 0)
        return;
    MPI_Datatype element;
    MPI_Type_contiguous((int)element_size, MPI_BYTE, &element);
    MPI_Type_create_subarray(NDIMS, sizes, subsizes, starts, MPI_ORDER_C, element, type);
    MPI_Type_commit(type);
    MPI_Type_free(&element);
}

static types_t types_for(const change_t *change)
{
    const size_t n = (size_t)ranks;
    types_t types = {malloc(n * sizeof *types.send), malloc(n * sizeof *types.receive),
                     malloc(2 * n * sizeof *types.counts), calloc(n, sizeof *types.displacements)};
    CHECK(types.send != NULL && types.receive != NULL && types.counts != NULL && types.displacements != NULL);
    const box_t before = slab(change->from, me), after = slab(change->to, me);
    for (int peer = 0; peer < ranks; peer++) {
        const box_t gets = slab(change->to, peer), gives = slab(change->from, peer);
        common_part(&before, &gets, &types.send[peer], &types.counts[peer]);
        common_part(&after, &gives, &types.receive[peer], &types.counts[ranks + peer]);
    }
    return types;
}

static void free_types(types_t *types)
{
    for (int peer = 0; peer < ranks; peer++) {
        if (types->counts[peer] != 0)
            MPI_Type_free(&types->send[peer]);
        if (types->counts[ranks + peer] != 0)
            MPI_Type_free(&types->receive[peer]);
    }
    free(types->send);
    free(types->receive);
    free(types->counts);
    free(types->displacements);
}

/* One change under way, by either of the two. */
typedef struct {
    boxwise_handle_t handle;
    types_t types;
    unsigned char *in, *out;
} work_t;

static void by_boxwise(work_t *work)
{
    CHECK_OK(boxwise_exec_async(work->handle, work->out, work->in, NULL, NULL));
}

static void by_alltoallw(work_t *work)
{
    MPI_Alltoallw(work->in, work->types.counts, work->types.displacements, work->types.send, work->out,
                  work->types.counts + ranks, work->types.displacements, work->types.receive, MPI_COMM_WORLD);
}

/* From the first rank's start to the last rank's end; the ranks of one machine have one clock. */
static double seconds_of(void (*way)(work_t *), work_t *work)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double times[2] = {-MPI_Wtime(), 0};
    way(work);
    times[1] = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, times, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return times[1] + times[0];
}

static void check_way(void (*way)(work_t *), work_t *work, const unsigned char *right, size_t bytes)
{
    memset(work->out, 0xA5, bytes);
    way(work);
    CHECK(memcmp(work->out, right, bytes) == 0);
}

static int compare(const void *one, const void *other)
{
    const double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

/* Median GB/s. */
static double rate(double *seconds)
{
    qsort(seconds, (size_t)repeats, sizeof *seconds, compare);
    const double bytes = (double)shape[0] * (double)shape[1] * (double)shape[2] * (double)element_size;
    return 2 * bytes / seconds[repeats / 2] / 1e9;
}

static void measure(const change_t *change)
{
    static double ours[MOST_REPEATS], theirs[MOST_REPEATS];
    const box_t before = slab(change->from, me), after = slab(change->to, me);
    const size_t in_bytes = bytes_of(&before), out_bytes = bytes_of(&after);
    const MPI_Comm world = MPI_COMM_WORLD;
    work_t work = {NULL, types_for(change), malloc(in_bytes + 1), malloc(out_bytes + 1)};
    unsigned char *right = malloc(out_bytes + 1);
    CHECK(work.in != NULL && work.out != NULL && right != NULL);
    CHECK_OK(boxwise_create(&work.handle));
    CHECK_OK(boxwise_make(work.handle, element_size, NDIMS, before.lower, before.upper, NULL, after.lower, after.upper,
                          NULL, &world, BOXWISE_COMM_MPI));
    fill(work.in, &before);
    fill(right, &after);
    check_way(by_boxwise, &work, right, out_bytes);
    check_way(by_alltoallw, &work, right, out_bytes);
    for (int i = 0; i < repeats; i++) {
        ours[i] = seconds_of(by_boxwise, &work);
        theirs[i] = seconds_of(by_alltoallw, &work);
    }
    const double our_rate = rate(ours), their_rate = rate(theirs);
    if (me == 0)
        printf("%s, %zu bytes an element: boxwise %6.2f GB/s, MPI_Alltoallw %6.2f GB/s, ratio %.2f\n", change->name,
               element_size, our_rate, their_rate, our_rate / their_rate);
    CHECK_OK(boxwise_destroy(work.handle));
    free_types(&work.types);
    free(work.in);
    free(work.out);
    free(right);
}

static int read_arguments(int argc, char **argv)
{
    int right = argc % 2 == 1;
    for (int i = 1; right && i < argc; i += 2) {
        if (strcmp(argv[i], "--shape") == 0)
            right = sscanf(argv[i + 1], "%" SCNd64 ",%" SCNd64 ",%" SCNd64, &shape[0], &shape[1], &shape[2]) == NDIMS;
        else if (strcmp(argv[i], "--element-size") == 0)
            right = (element_size = strtoull(argv[i + 1], NULL, 10)) > 0;
        else if (strcmp(argv[i], "--repeat") == 0)
            right = (repeats = atoi(argv[i + 1])) > 0 && repeats <= MOST_REPEATS;
        else
            right = 0;
    }
    return right;
}

int main(int argc, char **argv)
{
    start_mpi(MPI_THREAD_FUNNELED);
    if (!read_arguments(argc, argv)) {
        fprintf(stderr, "usage: speed [--shape Z,Y,X] [--element-size BYTES] [--repeat N]\n");
        return 2;
    }
    if (me == 0)
        printf("%d ranks, %d x %d x %d elements\n", ranks, (int)shape[0], (int)shape[1], (int)shape[2]);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        measure(&changes[i]);
    MPI_Finalize();
    return 0;
}
