/* One rank does something wrong: all ranks return the same status, the detail names the guilty one, and afterwards
 * everything works as if nothing had been.
 *     run: boxwise-run -n 3
 *     run: env BOXWISE_CMA=0 boxwise-run -n 3 */

#include "check.h"

enum { ARGUMENT = BOXWISE_ERROR_INVALID_ARGUMENT, STATE = BOXWISE_ERROR_INVALID_STATE };
enum { RANKS = 3, N = 6, SHARE = N / RANKS };

static int32_t me;
static boxwise_comm_t world;
static boxwise_handle_t stale_handle, made_handle;
static boxwise_stream_t stream, stale_stream;

/* The arguments of boxwise_make: rank r holds rows 2r and 2r + 1 of a 6 x 6 array, and wants those columns. */
typedef struct {
    boxwise_handle_t handle;
    size_t element_size;
    int32_t ndims;
    int64_t lower_in[2], upper_in[2], lower_out[2], upper_out[2], strides_out[2];
    const int64_t *no_lower_in, *no_upper_in, *no_lower_out, *no_upper_out; /* NULL, to be passed as they are */
    const void *comm_handle;
    int32_t comm_type;
} arguments_t;

static arguments_t sound_arguments(boxwise_handle_t handle, const void *comm_handle, int32_t comm_type) {
    arguments_t a = {handle, sizeof(int32_t), 2, {me * SHARE, 0}, {(me + 1) * SHARE, N}, {0, me * SHARE},
                     {N, (me + 1) * SHARE}, {SHARE, 1}, NULL, NULL, NULL, NULL, comm_handle, comm_type};
    a.no_lower_in = a.no_upper_in = a.no_lower_out = a.no_upper_out = &a.lower_in[0]; /* anything but NULL */
    return a;
}

static boxwise_status_t make(const arguments_t *a) {
    return boxwise_make(a->handle, a->element_size, a->ndims, a->no_lower_in ? a->lower_in : NULL,
                        a->no_upper_in ? a->upper_in : NULL, NULL, a->no_lower_out ? a->lower_out : NULL,
                        a->no_upper_out ? a->upper_out : NULL, a->strides_out, a->comm_handle, a->comm_type);
}

static void fill(int32_t *in, int32_t *out, int32_t seed) {
    for (int i = 0; i < SHARE * N; ++i) {
        in[i] = seed + (int32_t)(me * SHARE * N) + i;
        out[i] = -1;
    }
}

static void check_moved(const int32_t *out, int32_t seed) {
    int right = 1;
    for (int row = 0; row < N; ++row) {
        for (int column = 0; column < SHARE; ++column) {
            right &= out[row * SHARE + column] == seed + row * N + me * SHARE + column;
        }
    }
    CHECK(right);
}

static void check_works(boxwise_handle_t handle) {
    static int32_t seed = 0;
    int32_t in[SHARE * N], out[SHARE * N];
    seed += 1000;
    fill(in, out, seed);
    CHECK_OK(boxwise_exec_async(handle, out, in, NULL, NULL));
    check_moved(out, seed);
}

/* Every fault of one rank's arguments, with the status that all ranks must return and a text of the detail. */
enum fault {
    ELEMENT_SIZE_0, ELEMENT_SIZE_HUGE, NDIMS_0, NDIMS_9, NDIMS_NEGATIVE, NO_LOWER_IN, NO_UPPER_IN, NO_LOWER_OUT,
    NO_UPPER_OUT, UPPER_IN_BELOW, UPPER_OUT_BELOW, OVERFLOW, STRIDES_COLLIDE, NO_HANDLE, STALE_HANDLE, WRONG_HANDLE,
    MADE_HANDLE, NVSHMEM_BACKEND,
    LAST_OWN_FAULT = NVSHMEM_BACKEND,
    OTHER_ELEMENT_SIZE, OTHER_NDIMS, OTHER_IN_PLACE, OTHER_REPLICAS, OTHER_UNCOVERED, OTHER_ENTRY_SYNC, OTHER_EXIT_SYNC,
    OTHER_THREADS, OTHER_TIMEOUT, OVERLAP, HOLE, OVERLAP_PLUS_HOLE, OUTPUT_OUTSIDE,
    FAULTS
};

static const struct {
    boxwise_status_t status;
    const char *text;
} expected[FAULTS] = {
    [ELEMENT_SIZE_0] = {ARGUMENT, "element_size is 0"},
    [ELEMENT_SIZE_HUGE] = {ARGUMENT, "element_size is 65537"},
    [NDIMS_0] = {ARGUMENT, "ndims is 0"},
    [NDIMS_9] = {ARGUMENT, "ndims is 9"},
    [NDIMS_NEGATIVE] = {ARGUMENT, "ndims is -7"},
    [NO_LOWER_IN] = {ARGUMENT, "lower_input is NULL"},
    [NO_UPPER_IN] = {ARGUMENT, "upper_input is NULL"},
    [NO_LOWER_OUT] = {ARGUMENT, "lower_output is NULL"},
    [NO_UPPER_OUT] = {ARGUMENT, "upper_output is NULL"},
    [UPPER_IN_BELOW] = {ARGUMENT, "input: upper[1] = -1 is below lower[1] = 0"},
    [UPPER_OUT_BELOW] = {ARGUMENT, "output: upper[0] = -1 is below lower[0] = 0"},
    [OVERFLOW] = {ARGUMENT, "overflows"},
    [STRIDES_COLLIDE] = {ARGUMENT, "at one place"},
    [NO_HANDLE] = {ARGUMENT, "handle is NULL"},
    [STALE_HANDLE] = {STATE, "already destroyed"},
    [WRONG_HANDLE] = {ARGUMENT, "handle is a boxwise_stream_t"},
    [MADE_HANDLE] = {STATE, "made already"},
    [NVSHMEM_BACKEND] = {BOXWISE_ERROR_NOT_SUPPORTED, "BOXWISE_BACKEND_NVSHMEM"},
    [OTHER_ELEMENT_SIZE] = {BOXWISE_ERROR_INCONSISTENT, "element_size is"},
    [OTHER_NDIMS] = {BOXWISE_ERROR_INCONSISTENT, "ndims is"},
    [OTHER_IN_PLACE] = {BOXWISE_ERROR_INCONSISTENT, "BOXWISE_OPTION_IN_PLACE is"},
    [OTHER_REPLICAS] = {BOXWISE_ERROR_INCONSISTENT, "BOXWISE_OPTION_ALLOW_REPLICAS is"},
    [OTHER_UNCOVERED] = {BOXWISE_ERROR_INCONSISTENT, "BOXWISE_OPTION_ALLOW_UNCOVERED is"},
    [OTHER_ENTRY_SYNC] = {BOXWISE_ERROR_INCONSISTENT, "BOXWISE_OPTION_ENTRY_SYNC is"},
    [OTHER_EXIT_SYNC] = {BOXWISE_ERROR_INCONSISTENT, "BOXWISE_OPTION_EXIT_SYNC is"},
    [OTHER_THREADS] = {BOXWISE_ERROR_INCONSISTENT, "BOXWISE_OPTION_THREADS is"},
    [OTHER_TIMEOUT] = {BOXWISE_ERROR_INCONSISTENT, "BOXWISE_OPTION_TIMEOUT_MS is"},
    [OVERLAP] = {BOXWISE_ERROR_INCONSISTENT, "overlaps rank"},
    [HOLE] = {BOXWISE_ERROR_INCONSISTENT, "which no rank's input holds"},
    [OVERLAP_PLUS_HOLE] = {BOXWISE_ERROR_INCONSISTENT, "rank"},
    [OUTPUT_OUTSIDE] = {BOXWISE_ERROR_INCONSISTENT, "which no rank's input holds"},
};

static void set(boxwise_handle_t handle, int32_t option, int64_t value) {
    CHECK_OK(boxwise_set_option(handle, option, value));
}

/* What the guilty rank does instead. Options are set on a handle of their own, which may be made but once. */
static void commit(enum fault fault, arguments_t *a) {
    switch (fault) {
    case ELEMENT_SIZE_0: a->element_size = 0; break;
    case ELEMENT_SIZE_HUGE: a->element_size = 65537; break;
    case NDIMS_0: a->ndims = 0; break;
    case NDIMS_9: a->ndims = 9; break;
    case NDIMS_NEGATIVE: a->ndims = -7; break;
    case NO_LOWER_IN: a->no_lower_in = NULL; break;
    case NO_UPPER_IN: a->no_upper_in = NULL; break;
    case NO_LOWER_OUT: a->no_lower_out = NULL; break;
    case NO_UPPER_OUT: a->no_upper_out = NULL; break;
    case UPPER_IN_BELOW: a->upper_in[1] = -1; break;
    case UPPER_OUT_BELOW: a->upper_out[0] = -1; break;
    case OVERFLOW: a->lower_in[1] = INT64_MIN; break;
    case STRIDES_COLLIDE: a->strides_out[0] = 1; break;
    case NO_HANDLE: a->handle = NULL; break;
    case STALE_HANDLE: a->handle = stale_handle; break;
    case WRONG_HANDLE: a->handle = (boxwise_handle_t)(void *)stream; break;
    case MADE_HANDLE: a->handle = made_handle; break;
    case NVSHMEM_BACKEND: set(a->handle, BOXWISE_OPTION_BACKEND, BOXWISE_BACKEND_NVSHMEM); break;
    case OTHER_ELEMENT_SIZE: a->element_size = 8; break;
    case OTHER_NDIMS: a->ndims = 1; break;
    case OTHER_IN_PLACE: set(a->handle, BOXWISE_OPTION_IN_PLACE, 1); break;
    case OTHER_REPLICAS: set(a->handle, BOXWISE_OPTION_ALLOW_REPLICAS, 1); break;
    case OTHER_UNCOVERED: set(a->handle, BOXWISE_OPTION_ALLOW_UNCOVERED, 1); break;
    case OTHER_ENTRY_SYNC: set(a->handle, BOXWISE_OPTION_ENTRY_SYNC, 0); break;
    case OTHER_EXIT_SYNC: set(a->handle, BOXWISE_OPTION_EXIT_SYNC, 2); break;
    case OTHER_THREADS: set(a->handle, BOXWISE_OPTION_THREADS, 2); break;
    case OTHER_TIMEOUT: set(a->handle, BOXWISE_OPTION_TIMEOUT_MS, 60000); break;
    case OVERLAP:
        if (me == 0) {
            a->upper_in[0] += 1;
        } else {
            a->lower_in[0] -= 1;
        }
        break;
    case HOLE: a->upper_in[0] -= 1; break;
    case OVERLAP_PLUS_HOLE: /* as many elements as before, but those of a neighbour */
        a->lower_in[0] = (me + 1) % RANKS * SHARE;
        a->upper_in[0] = a->lower_in[0] + SHARE;
        break;
    case OUTPUT_OUTSIDE: a->upper_out[0] += 1; break;
    case FAULTS: break;
    }
}

/* What undoes the options of `commit`, so that the same handle can be made. */
static void repent(boxwise_handle_t handle) {
    set(handle, BOXWISE_OPTION_BACKEND, BOXWISE_BACKEND_AUTO);
    set(handle, BOXWISE_OPTION_IN_PLACE, 0);
    set(handle, BOXWISE_OPTION_ALLOW_REPLICAS, 0);
    set(handle, BOXWISE_OPTION_ALLOW_UNCOVERED, 0);
    set(handle, BOXWISE_OPTION_ENTRY_SYNC, 1);
    set(handle, BOXWISE_OPTION_EXIT_SYNC, 1);
    set(handle, BOXWISE_OPTION_THREADS, 1);
    set(handle, BOXWISE_OPTION_TIMEOUT_MS, 0);
}

static void bad_make(int32_t guilty, enum fault fault) {
    const int as_object = (guilty + (int32_t)fault) % 2;
    const void *comm_handle = as_object ? &world : NULL;
    const int32_t comm_type = as_object ? BOXWISE_COMM_OBJECT : BOXWISE_COMM_NONE;
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    arguments_t a = sound_arguments(handle, comm_handle, comm_type);
    if (me == guilty) {
        commit(fault, &a);
    }
    CHECK_DETAIL(expected[fault].status, expected[fault].text, make(&a));
    CHECK(strncmp(boxwise_last_error(), "boxwise_make: rank ", 19) == 0);
    if (fault <= LAST_OWN_FAULT) {
        CHECK(boxwise_last_error()[19] == '0' + guilty);
    } else if (fault < OVERLAP) {
        /* Where rank 0 strays, the first that differs from it is named. */
        CHECK(boxwise_last_error()[19] == '0' + (guilty == 0 ? 1 : guilty));
    }
    repent(handle);
    a = sound_arguments(handle, comm_handle, comm_type);
    CHECK_OK(make(&a));
    check_works(handle);
    CHECK_OK(boxwise_destroy(handle));
}

static void two_guilty_ranks(void) {
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    arguments_t a = sound_arguments(handle, NULL, BOXWISE_COMM_NONE);
    if (me > 0) {
        commit(me == 1 ? NDIMS_9 : STALE_HANDLE, &a);
    }
    CHECK_DETAIL(ARGUMENT, "rank 1: ndims is 9", make(&a));
    a = sound_arguments(handle, NULL, BOXWISE_COMM_NONE);
    CHECK_OK(make(&a));
    check_works(handle);
    CHECK_OK(boxwise_destroy(handle));
}

static void pointer_with_comm_none(int32_t guilty) {
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    arguments_t a = sound_arguments(handle, me == guilty ? &world : NULL, BOXWISE_COMM_NONE);
    CHECK_DETAIL(ARGUMENT, "comm_handle must be NULL with BOXWISE_COMM_NONE", make(&a));
    a.comm_handle = NULL;
    CHECK_OK(make(&a));
    check_works(handle);
    CHECK_OK(boxwise_destroy(handle));
}

/* Faults at execution: whoever exchanges data with the guilty rank gets its status. */
static void bad_exec(int32_t guilty) {
    char name[16];
    snprintf(name, sizeof name, "rank %d", (int)guilty);
    int32_t in[SHARE * N], out[SHARE * N];
    for (int what = 0; what < 4; ++what) {
        fill(in, out, 5);
        const int bad = me == guilty;
        const boxwise_status_t status = what < 3 ? ARGUMENT : STATE;
        CHECK_DETAIL(status, name,
                     boxwise_exec_async(made_handle, bad && what == 0 ? NULL : bad && what == 2 ? in : out,
                                        bad && what == 1 ? NULL : in, NULL, bad && what == 3 ? stale_stream : NULL));
        check_works(made_handle);
    }
    /* On streams the others learn it when they synchronize. */
    fill(in, out, 6);
    if (me == guilty) {
        CHECK_DETAIL(STATE, name, boxwise_exec_async(made_handle, out, in, NULL, stale_stream));
        CHECK_OK(boxwise_stream_synchronize(stream));
    } else {
        CHECK_OK(boxwise_exec_async(made_handle, out, in, NULL, stream));
        CHECK_DETAIL(STATE, name, boxwise_stream_synchronize(stream));
        CHECK_OK(boxwise_stream_synchronize(stream));
    }
    check_works(made_handle);
}

static void bad_malloc(int32_t guilty) {
    char name[16];
    snprintf(name, sizeof name, "rank %d", (int)guilty);
    void *pointer = &pointer;
    const int bad = me == guilty;
    CHECK_DETAIL(ARGUMENT, name, boxwise_malloc(world, bad ? 7 : BOXWISE_MEMORY_HOST, 64, &pointer));
    CHECK_DETAIL(ARGUMENT, name, boxwise_malloc(world, BOXWISE_MEMORY_HOST, 64, bad ? NULL : &pointer));
    CHECK_DETAIL(BOXWISE_ERROR_NOT_SUPPORTED, name,
                 boxwise_malloc(world, bad ? BOXWISE_MEMORY_DEVICE : BOXWISE_MEMORY_HOST, 64, &pointer));
    CHECK_STATUS(BOXWISE_ERROR_OUT_OF_MEMORY,
                 boxwise_malloc(world, BOXWISE_MEMORY_HOST, bad ? SIZE_MAX / 2 : 64, &pointer));
    CHECK(pointer == &pointer);
}

/* Sound memory of both kinds, and how the library says that it moved the data. */
static void good_memory(void) {
    void *in, *out;
    CHECK_OK(boxwise_malloc(world, BOXWISE_MEMORY_HOST, SHARE * N * sizeof(int32_t), &in));
    CHECK_OK(boxwise_malloc(world, BOXWISE_MEMORY_HOST, SHARE * N * sizeof(int32_t), &out));
    fill(in, out, 77);
    CHECK_OK(boxwise_exec_async(made_handle, out, in, NULL, NULL));
    check_moved(out, 77);
    boxwise_info_t info;
    info.struct_size = sizeof info;
    CHECK_OK(boxwise_get_info(made_handle, &info));
    CHECK(info.methods == BOXWISE_METHOD_DIRECT);
    CHECK(info.rank == me && info.size == RANKS && info.peers_sent_to == 2 && info.peers_received_from == 2);
    CHECK(info.bytes_kept == SHARE * SHARE * 4 && info.bytes_sent == 2 * SHARE * SHARE * 4);
    CHECK(info.bytes_received == info.bytes_sent);
    check_works(made_handle);
    CHECK_OK(boxwise_get_info(made_handle, &info));
    CHECK(info.methods == BOXWISE_METHOD_RING || info.methods == BOXWISE_METHOD_CROSS_MEMORY);
    CHECK_OK(boxwise_comm_barrier(world));
    CHECK_OK(boxwise_free(world, in));
    CHECK_OK(boxwise_free(world, out));
}

int main(void) {
    int32_t size;
    CHECK_OK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &world));
    CHECK_OK(boxwise_comm_rank(world, &me));
    CHECK_OK(boxwise_comm_size(world, &size));
    CHECK(size == RANKS);
    CHECK_OK(boxwise_create(&stale_handle));
    CHECK_OK(boxwise_destroy(stale_handle));
    CHECK_OK(boxwise_stream_create(&stale_stream));
    CHECK_OK(boxwise_stream_destroy(stale_stream));
    CHECK_OK(boxwise_stream_create(&stream));
    CHECK_OK(boxwise_create(&made_handle));
    arguments_t a = sound_arguments(made_handle, &world, BOXWISE_COMM_OBJECT);
    CHECK_OK(make(&a));
    check_works(made_handle);

    good_memory();
    for (int32_t guilty = 0; guilty < RANKS; ++guilty) {
        for (enum fault fault = ELEMENT_SIZE_0; fault < FAULTS; ++fault) {
            bad_make(guilty, fault);
        }
        pointer_with_comm_none(guilty);
        bad_exec(guilty);
        bad_malloc(guilty);
    }
    two_guilty_ranks();
    good_memory();

    CHECK_OK(boxwise_destroy(made_handle));
    CHECK_OK(boxwise_stream_destroy(stream));
    CHECK_OK(boxwise_comm_barrier(world));
    CHECK_OK(boxwise_comm_destroy(world));
    return me == 0 ? checks_done() : 0;
}
