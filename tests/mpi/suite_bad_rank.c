/* One rank does something wrong, on a node of its own or not: make returns the same on all ranks, nobody is left
 * waiting, and what comes next works.
 *     run: env BOXWISE_NODE=0,1,2 mpirun -n 3
 *     run: env BOXWISE_NODE=0,0,1,1,1 mpirun -n 5
 *     run: mpirun -n 3 */

#include "suite.h"

enum fault { ELEMENT_SIZE_0, NDIMS_9, NO_BOX, UPPER_BELOW, NO_HANDLE, OTHER_ELEMENT_SIZE, OTHER_OPTION, OVERLAP, HOLE,
             FAULTS };

static const struct {
    boxwise_status_t status;
    const char *text;
} expected[FAULTS] = {
    [ELEMENT_SIZE_0] = {BOXWISE_ERROR_INVALID_ARGUMENT, "element_size"},
    [NDIMS_9] = {BOXWISE_ERROR_INVALID_ARGUMENT, "ndims is 9"},
    [NO_BOX] = {BOXWISE_ERROR_INVALID_ARGUMENT, "lower_input"},
    [UPPER_BELOW] = {BOXWISE_ERROR_INVALID_ARGUMENT, "upper"},
    [NO_HANDLE] = {BOXWISE_ERROR_INVALID_ARGUMENT, "handle"},
    [OTHER_ELEMENT_SIZE] = {BOXWISE_ERROR_INCONSISTENT, "element"},
    [OTHER_OPTION] = {BOXWISE_ERROR_INCONSISTENT, "rank"},
    [OVERLAP] = {BOXWISE_ERROR_INCONSISTENT, "rank"},
    [HOLE] = {BOXWISE_ERROR_INCONSISTENT, "rank"},
};

static MPI_Comm world;

/* The gather of suite.h, with a fault on this rank. */
static boxwise_status_t make_badly(boxwise_handle_t handle, enum fault fault)
{
    const int64_t lower_out = 0, upper_out = (int64_t)ranks * WORDS;
    int64_t lower_in = (int64_t)me * WORDS, upper_in = lower_in + WORDS;
    size_t element_size = sizeof(int64_t);
    int32_t ndims = 1;
    switch (fault) {
    case ELEMENT_SIZE_0: element_size = 0; break;
    case NDIMS_9: ndims = 9; break;
    case UPPER_BELOW: upper_in = lower_in - 1; break;
    case OTHER_ELEMENT_SIZE: element_size = 4; break;
    case OTHER_OPTION: CHECK_OK(boxwise_set_option(handle, BOXWISE_OPTION_IN_PLACE, 1)); break;
    case OVERLAP: me == 0 ? upper_in++ : lower_in--; break;
    case HOLE: upper_in--; break;
    case NO_BOX:
    case NO_HANDLE:
    case FAULTS: break;
    }
    return boxwise_make(fault == NO_HANDLE ? NULL : handle, element_size, ndims, fault == NO_BOX ? NULL : &lower_in,
                        &upper_in, NULL, &lower_out, &upper_out, NULL, &world, BOXWISE_COMM_MPI);
}

static void bad_make(int guilty, enum fault fault)
{
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    CHECK_DETAIL(expected[fault].status, expected[fault].text,
                 me == guilty ? make_badly(handle, fault) : make_gather(handle, me, ranks, &world, BOXWISE_COMM_MPI));
    if (me == guilty)
        CHECK_OK(boxwise_set_option(handle, BOXWISE_OPTION_IN_PLACE, 0));
    CHECK_OK(make_gather(handle, me, ranks, &world, BOXWISE_COMM_MPI));
    CHECK_OK(exec_gather(handle, me, ranks, guilty * FAULTS + fault));
    CHECK_OK(boxwise_destroy(handle));
}

/* Everybody exchanges data with everybody here, so all are told, whatever exit synchronisation there is. */
static void bad_exec(int guilty, int64_t exit_sync)
{
    int64_t mine[WORDS] = {0}, all[MOST_RANKS * WORDS];
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(boxwise_set_option(handle, BOXWISE_OPTION_EXIT_SYNC, exit_sync));
    CHECK_OK(make_gather(handle, me, ranks, &world, BOXWISE_COMM_MPI));
    for (int what = 0; what < 3; what++) {
        const int bad = me == guilty;
        void *out = bad && what == 0 ? NULL : bad && what == 2 ? mine : all;
        CHECK_DETAIL(BOXWISE_ERROR_INVALID_ARGUMENT, "rank",
                     boxwise_exec_async(handle, out, bad && what == 1 ? NULL : mine, NULL, NULL));
        CHECK_OK(exec_gather(handle, me, ranks, what));
        CHECK_OK(exec_gather(handle, me, ranks, what + 1));
    }
    CHECK_OK(boxwise_destroy(handle));
}

int main(void)
{
    start_mpi(MPI_THREAD_FUNNELED);
    world = MPI_COMM_WORLD;
    for (int guilty = 0; guilty < ranks; guilty++) {
        for (enum fault fault = 0; fault < FAULTS; fault++)
            bad_make(guilty, fault);
        for (int64_t exit_sync = 0; exit_sync <= 2; exit_sync++)
            bad_exec(guilty, exit_sync);
    }
    return end_mpi();
}
