/* Every wrong pointer, handle and order of calls has a definite status and an explanation. A world of one. */

#include "check.h"

#include <limits.h>

enum { ARGUMENT = BOXWISE_ERROR_INVALID_ARGUMENT, STATE = BOXWISE_ERROR_INVALID_STATE };
enum { ROWS = 4, COLUMNS = 6, ELEMENTS = ROWS * COLUMNS };

static const int64_t lower[2] = {0, 0};
static const int64_t upper[2] = {ROWS, COLUMNS};
static const int64_t transposed[2] = {1, ROWS};

/* Objects of every kind, alive and gone, to be passed where they do not belong. */
static boxwise_handle_t fresh, made, stale_handle;
static boxwise_comm_t comm, stale_comm;
static boxwise_stream_t stream, stale_stream;
static int64_t not_an_object;

static boxwise_status_t make(boxwise_handle_t handle) {
    return boxwise_make(handle, sizeof(int32_t), 2, lower, upper, NULL, lower, upper, transposed, NULL,
                        BOXWISE_COMM_NONE);
}

static void check_transposes(boxwise_handle_t handle, void *queue) {
    int32_t in[ELEMENTS], out[ELEMENTS];
    for (int i = 0; i < ELEMENTS; ++i) {
        in[i] = i + 1;
        out[i] = -1;
    }
    CHECK_OK(boxwise_exec_async(handle, out, in, NULL, queue));
    if (queue != NULL) {
        CHECK_OK(boxwise_stream_synchronize((boxwise_stream_t)queue));
    }
    int right = 1;
    for (int r = 0; r < ROWS; ++r) {
        for (int c = 0; c < COLUMNS; ++c) {
            right &= out[c * ROWS + r] == in[r * COLUMNS + c];
        }
    }
    CHECK(right);
}

static void constants(void) {
    CHECK(strcmp(boxwise_last_error(), "") == 0);
    CHECK(boxwise_version() == BOXWISE_VERSION);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", BOXWISE_VERSION_MAJOR, BOXWISE_VERSION_MINOR, BOXWISE_VERSION_PATCH);
    CHECK(strcmp(boxwise_version_string(), version) == 0);
    for (int a = BOXWISE_SUCCESS; a <= BOXWISE_ERROR_INTERNAL; ++a) {
        CHECK(strlen(boxwise_status_string(a)) > 0);
        for (int b = BOXWISE_SUCCESS; b < a; ++b) {
            CHECK(strcmp(boxwise_status_string(a), boxwise_status_string(b)) != 0);
        }
    }
    const int32_t unknown[] = {-1, 12, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; ++i) {
        CHECK(strcmp(boxwise_status_string(unknown[i]), "unknown status") == 0);
    }
}

static void create_objects(void) {
    CHECK_OK(boxwise_create(&fresh));
    CHECK_OK(boxwise_create(&made));
    CHECK_OK(boxwise_create(&stale_handle));
    CHECK_OK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    CHECK_OK(boxwise_comm_create(&comm, BOXWISE_COMM_OBJECT, &stale_comm));
    CHECK_OK(boxwise_stream_create(&stream));
    CHECK_OK(boxwise_stream_create(&stale_stream));
    CHECK_OK(make(made));
    CHECK_OK(boxwise_destroy(stale_handle));
    CHECK_OK(boxwise_comm_destroy(stale_comm));
    CHECK_OK(boxwise_stream_destroy(stale_stream));
}

static void destroy_objects(void) {
    CHECK_OK(boxwise_destroy(fresh));
    CHECK_OK(boxwise_destroy(made));
    CHECK_OK(boxwise_comm_destroy(comm));
    CHECK_OK(boxwise_stream_destroy(stream));
    CHECK_DETAIL(STATE, "already destroyed", boxwise_destroy(made));
    CHECK_DETAIL(STATE, "already destroyed", boxwise_comm_destroy(comm));
    CHECK_DETAIL(STATE, "already destroyed", boxwise_stream_destroy(stream));
    CHECK_OK(boxwise_destroy(NULL));
    CHECK_OK(boxwise_comm_destroy(NULL));
    CHECK_OK(boxwise_stream_destroy(NULL));
}

static void use_wrong_handle(int expected, const char *text, void *wrong) {
    boxwise_handle_t handle = (boxwise_handle_t)wrong;
    size_t size = 77;
    boxwise_info_t info;
    info.struct_size = sizeof info;
    char buffer[4] = "abc";
    CHECK_DETAIL(expected, text, boxwise_set_option(handle, BOXWISE_OPTION_THREADS, 1));
    CHECK_DETAIL(expected, text, make(handle));
    CHECK_DETAIL(expected, text, boxwise_get_size(handle, &size));
    CHECK_DETAIL(expected, text, boxwise_exec_async(handle, buffer, buffer, NULL, NULL));
    CHECK_DETAIL(expected, text, boxwise_get_info(handle, &info));
    CHECK_DETAIL(expected, text, boxwise_describe(handle, BOXWISE_FORMAT_TEXT, buffer, sizeof buffer, &size));
    CHECK(size == 77 && strcmp(buffer, "abc") == 0);
    if (wrong != NULL) {
        CHECK_DETAIL(expected, text, boxwise_destroy(handle));
    }
}

static void use_wrong_comm(int expected, const char *text, void *wrong) {
    boxwise_comm_t handle = (boxwise_comm_t)wrong;
    boxwise_comm_t other = NULL;
    int32_t number = 77;
    void *pointer = &number;
    CHECK_DETAIL(expected, text, boxwise_comm_rank(handle, &number));
    CHECK_DETAIL(expected, text, boxwise_comm_size(handle, &number));
    CHECK_DETAIL(expected, text, boxwise_comm_barrier(handle));
    CHECK_DETAIL(expected, text, boxwise_malloc(handle, BOXWISE_MEMORY_HOST, 64, &pointer));
    CHECK_DETAIL(expected, text, boxwise_free(handle, pointer));
    CHECK_DETAIL(expected, text, boxwise_comm_create(&handle, BOXWISE_COMM_OBJECT, &other));
    CHECK_DETAIL(expected, text, boxwise_make(fresh, 4, 2, lower, upper, NULL, lower, upper, NULL, &handle,
                                              BOXWISE_COMM_OBJECT));
    CHECK(number == 77 && pointer == &number && other == NULL);
    if (wrong != NULL) {
        CHECK_DETAIL(expected, text, boxwise_comm_destroy(handle));
    }
}

static void use_wrong_stream(int expected, const char *text, void *wrong) {
    boxwise_stream_t handle = (boxwise_stream_t)wrong;
    int32_t idle = 77;
    int32_t in[ELEMENTS] = {0}, out[ELEMENTS];
    CHECK_DETAIL(expected, text, boxwise_stream_synchronize(handle));
    CHECK_DETAIL(expected, text, boxwise_stream_query(handle, &idle));
    CHECK(idle == 77);
    if (wrong != NULL) {
        CHECK_DETAIL(expected, text, boxwise_exec_async(made, out, in, NULL, wrong));
        CHECK_DETAIL(expected, text, boxwise_stream_destroy(handle));
    }
}

static void wrong_handles(void) {
    use_wrong_handle(ARGUMENT, "handle is NULL", NULL);
    use_wrong_handle(ARGUMENT, "not a boxwise_handle_t", &not_an_object);
    use_wrong_handle(ARGUMENT, "not a boxwise_handle_t", (void *)1);
    use_wrong_handle(ARGUMENT, "not a boxwise_handle_t", (void *)UINTPTR_MAX);
    use_wrong_handle(ARGUMENT, "is a boxwise_comm_t", comm);
    use_wrong_handle(ARGUMENT, "is a boxwise_stream_t", stream);
    use_wrong_handle(STATE, "already destroyed", stale_handle);

    use_wrong_comm(ARGUMENT, "is NULL", NULL);
    use_wrong_comm(ARGUMENT, "not a boxwise_comm_t", &not_an_object);
    use_wrong_comm(ARGUMENT, "not a boxwise_comm_t", (void *)1);
    use_wrong_comm(ARGUMENT, "is a boxwise_handle_t", made);
    use_wrong_comm(ARGUMENT, "is a boxwise_stream_t", stream);
    use_wrong_comm(STATE, "already destroyed", stale_comm);

    use_wrong_stream(ARGUMENT, "stream is NULL", NULL);
    use_wrong_stream(ARGUMENT, "not a boxwise_stream_t", &not_an_object);
    use_wrong_stream(ARGUMENT, "not a boxwise_stream_t", (void *)1);
    use_wrong_stream(ARGUMENT, "is a boxwise_handle_t", made);
    use_wrong_stream(ARGUMENT, "is a boxwise_comm_t", comm);
    use_wrong_stream(STATE, "already destroyed", stale_stream);

    /* None of it did the living any harm. */
    check_transposes(made, NULL);
    check_transposes(made, stream);
}

static void null_outputs(void) {
    CHECK_DETAIL(ARGUMENT, "handle is NULL", boxwise_create(NULL));
    CHECK_DETAIL(ARGUMENT, "stream is NULL", boxwise_stream_create(NULL));
    CHECK_DETAIL(ARGUMENT, "comm is NULL", boxwise_comm_create(NULL, BOXWISE_COMM_NONE, NULL));
    CHECK_DETAIL(ARGUMENT, "rank is NULL", boxwise_comm_rank(comm, NULL));
    CHECK_DETAIL(ARGUMENT, "size is NULL", boxwise_comm_size(comm, NULL));
    CHECK_DETAIL(ARGUMENT, "pointer is NULL", boxwise_malloc(comm, BOXWISE_MEMORY_HOST, 8, NULL));
    CHECK_DETAIL(ARGUMENT, "idle is NULL", boxwise_stream_query(stream, NULL));
    CHECK_DETAIL(ARGUMENT, "workspace_bytes is NULL", boxwise_get_size(made, NULL));
    CHECK_DETAIL(ARGUMENT, "info is NULL", boxwise_get_info(made, NULL));
    CHECK_DETAIL(ARGUMENT, "needed is NULL", boxwise_describe(made, BOXWISE_FORMAT_TEXT, NULL, 0, NULL));
}

static void options(void) {
    CHECK_DETAIL(ARGUMENT, "option is -1", boxwise_set_option(fresh, -1, 0));
    CHECK_DETAIL(ARGUMENT, "option is 100", boxwise_set_option(fresh, 100, 0));
    static const struct {
        int32_t option;
        int64_t good, low, high;
    } ranges[] = {
        {BOXWISE_OPTION_BACKEND, BOXWISE_BACKEND_AUTO, -1, 3},
        {BOXWISE_OPTION_IN_PLACE, 0, -1, 2},
        {BOXWISE_OPTION_ALLOW_REPLICAS, 0, -1, 2},
        {BOXWISE_OPTION_ALLOW_UNCOVERED, 0, -1, 2},
        {BOXWISE_OPTION_ENTRY_SYNC, 1, -1, 2},
        {BOXWISE_OPTION_EXIT_SYNC, 1, -1, 3},
        {BOXWISE_OPTION_THREADS, 1, 0, 1025},
        {BOXWISE_OPTION_TIMEOUT_MS, 0, -1, INT64_MIN},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; ++i) {
        CHECK_DETAIL(ARGUMENT, "BOXWISE_OPTION_", boxwise_set_option(fresh, ranges[i].option, ranges[i].low));
        CHECK_DETAIL(ARGUMENT, "BOXWISE_OPTION_", boxwise_set_option(fresh, ranges[i].option, ranges[i].high));
        CHECK_OK(boxwise_set_option(fresh, ranges[i].option, ranges[i].good));
        CHECK_DETAIL(STATE, "made already", boxwise_set_option(made, ranges[i].option, ranges[i].good));
    }
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(boxwise_set_option(handle, BOXWISE_OPTION_BACKEND, BOXWISE_BACKEND_NVSHMEM));
    const boxwise_status_t status = make(handle);
    CHECK(status == BOXWISE_ERROR_NOT_SUPPORTED || status == BOXWISE_ERROR_UNAVAILABLE);
    CHECK_OK(boxwise_set_option(handle, BOXWISE_OPTION_BACKEND, BOXWISE_BACKEND_HOST));
    CHECK_OK(make(handle));
    check_transposes(handle, NULL);
    CHECK_OK(boxwise_destroy(handle));
}

static void order_of_calls(void) {
    size_t size = 77;
    boxwise_info_t info;
    info.struct_size = sizeof info;
    char buffer[4] = "abc";
    CHECK_DETAIL(STATE, "not made", boxwise_get_size(fresh, &size));
    CHECK_DETAIL(STATE, "not made", boxwise_exec_async(fresh, buffer, buffer, NULL, NULL));
    CHECK_DETAIL(STATE, "not made", boxwise_exec_async(fresh, buffer, buffer, NULL, stream));
    CHECK_DETAIL(STATE, "not made", boxwise_get_info(fresh, &info));
    CHECK_DETAIL(STATE, "not made", boxwise_describe(fresh, BOXWISE_FORMAT_JSON, buffer, sizeof buffer, &size));
    CHECK(size == 77 && strcmp(buffer, "abc") == 0);
    CHECK_DETAIL(STATE, "made already", make(made));
    check_transposes(made, NULL);
    /* A success leaves the last error alone. */
    CHECK(strstr(boxwise_last_error(), "made already") != NULL);
}

/* Each faulty make, after which the same handle is made properly and moves data. */
static void make_after_failed_make(void) {
    const int64_t below[2] = {ROWS, -1}, collide[2] = {1, 1}, beyond[2] = {INT64_MAX, INT64_MAX};
    const int64_t least[2] = {INT64_MIN, 0};
    const struct {
        const char *text;
        size_t element_size;
        int32_t ndims;
        const int64_t *lower_in, *upper_in, *strides_in, *lower_out, *upper_out, *strides_out;
        const void *comm_handle;
        int32_t comm_type, status;
    } faults[] = {
        {"rank 0: element_size is 0", 0, 2, lower, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE,
         ARGUMENT},
        {"rank 0: element_size is 65537", 65537, 2, lower, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE,
         ARGUMENT},
        {"element_size", SIZE_MAX, 2, lower, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"ndims is 0", 4, 0, lower, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"ndims is 9", 4, 9, lower, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"ndims is -1", 4, -1, lower, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"ndims is", 4, INT32_MAX, lower, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"lower_input is NULL", 4, 2, NULL, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"upper_input is NULL", 4, 2, lower, NULL, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"lower_output is NULL", 4, 2, lower, upper, NULL, NULL, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"upper_output is NULL", 4, 2, lower, upper, NULL, lower, NULL, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"upper[1] = -1", 4, 2, lower, below, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"output: upper[1]", 4, 2, lower, upper, NULL, lower, below, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"overflows", 4, 2, lower, beyond, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"overflows", 4, 2, least, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"overflow", 4, 2, lower, upper, beyond, lower, upper, NULL, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"at one place", 4, 2, lower, upper, NULL, lower, upper, collide, NULL, BOXWISE_COMM_NONE, ARGUMENT},
        {"must be NULL", 4, 2, lower, upper, NULL, lower, upper, NULL, lower, BOXWISE_COMM_NONE, ARGUMENT},
        {"comm_handle is NULL", 4, 2, lower, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_OBJECT, ARGUMENT},
        {"comm_handle is NULL", 4, 2, lower, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_BOOT, ARGUMENT},
        {"pass &comm", 4, 2, lower, upper, NULL, lower, upper, NULL, comm, BOXWISE_COMM_OBJECT, ARGUMENT},
        {"comm_type is 99", 4, 2, lower, upper, NULL, lower, upper, NULL, NULL, 99, ARGUMENT},
        {"comm_handle is NULL", 4, 2, lower, upper, NULL, lower, upper, NULL, NULL, BOXWISE_COMM_MPI, ARGUMENT},
        {"there is no MPI", 4, 2, lower, upper, NULL, lower, upper, NULL, lower, BOXWISE_COMM_MPI,
         BOXWISE_ERROR_UNAVAILABLE},
        {"rank 0", 4, 1, lower, upper, NULL, lower, upper + 1, NULL, NULL, BOXWISE_COMM_NONE,
         BOXWISE_ERROR_INCONSISTENT},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
        boxwise_handle_t handle;
        CHECK_OK(boxwise_create(&handle));
        for (int twice = 0; twice < 2; ++twice) {
            CHECK_DETAIL(faults[i].status, faults[i].text,
                         boxwise_make(handle, faults[i].element_size, faults[i].ndims, faults[i].lower_in,
                                      faults[i].upper_in, faults[i].strides_in, faults[i].lower_out,
                                      faults[i].upper_out, faults[i].strides_out, faults[i].comm_handle,
                                      faults[i].comm_type));
        }
        CHECK_OK(make(handle));
        check_transposes(handle, NULL);
        CHECK_OK(boxwise_destroy(handle));
    }
}

static void execution(void) {
    int32_t in[ELEMENTS] = {0}, out[ELEMENTS];
    CHECK_STATUS(ARGUMENT, boxwise_exec_async(made, NULL, in, NULL, NULL));
    CHECK_STATUS(ARGUMENT, boxwise_exec_async(made, out, NULL, NULL, NULL));
    CHECK_STATUS(ARGUMENT, boxwise_exec_async(made, in, in, NULL, NULL));
    CHECK_STATUS(ARGUMENT, boxwise_exec_async(made, in + 1, in, NULL, NULL));
    check_transposes(made, NULL);

    /* Any alignment will do. */
    unsigned char bytes_in[sizeof in + 1], bytes_out[sizeof out + 1];
    int32_t seen, wanted = 99;
    memset(bytes_in, 0, sizeof bytes_in);
    memcpy(bytes_in + 1 + COLUMNS * sizeof wanted, &wanted, sizeof wanted);
    CHECK_OK(boxwise_exec_async(made, bytes_out + 1, bytes_in + 1, NULL, NULL));
    memcpy(&seen, bytes_out + 1 + sizeof seen, sizeof seen);
    CHECK(seen == wanted);

    /* An empty box needs no pointers. */
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(boxwise_make(handle, 4, 2, lower, lower, NULL, upper, upper, NULL, NULL, BOXWISE_COMM_NONE));
    CHECK_OK(boxwise_exec_async(handle, NULL, NULL, NULL, NULL));
    CHECK_OK(boxwise_destroy(handle));

    /* In place: a workspace is needed, and missing. */
    size_t bytes = 77;
    CHECK_OK(boxwise_get_size(made, &bytes));
    CHECK(bytes == 0);
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(boxwise_set_option(handle, BOXWISE_OPTION_IN_PLACE, 1));
    CHECK_OK(make(handle));
    CHECK_OK(boxwise_get_size(handle, &bytes));
    CHECK(bytes > 0 && bytes <= 4096);
    CHECK_STATUS(ARGUMENT, boxwise_exec_async(handle, in, in, NULL, NULL));
    void *workspace = malloc(bytes);
    for (int i = 0; i < ELEMENTS; ++i) {
        in[i] = i;
    }
    CHECK_OK(boxwise_exec_async(handle, in, in, workspace, NULL));
    CHECK(in[1] == COLUMNS && in[ROWS] == 1);
    free(workspace);
    CHECK_OK(boxwise_destroy(handle));
}

static void streams(void) {
    int32_t idle = -1;
    CHECK_OK(boxwise_stream_query(stream, &idle));
    CHECK(idle == 1);
    CHECK_OK(boxwise_stream_synchronize(stream));

    /* The handle may go while its operation is queued. */
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(make(handle));
    int32_t in[ELEMENTS], out[ELEMENTS] = {0};
    for (int i = 0; i < ELEMENTS; ++i) {
        in[i] = i;
    }
    boxwise_stream_t own;
    CHECK_OK(boxwise_stream_create(&own));
    CHECK_OK(boxwise_exec_async(handle, out, in, NULL, own));
    CHECK_OK(boxwise_destroy(handle));
    CHECK_STATUS(STATE, boxwise_exec_async(handle, out, in, NULL, own));
    CHECK_OK(boxwise_stream_destroy(own));
    CHECK(out[1] == COLUMNS && out[ROWS] == 1);
    CHECK_STATUS(STATE, boxwise_stream_synchronize(own));
}

static void reports(void) {
    union {
        boxwise_info_t info;
        unsigned char bytes[sizeof(boxwise_info_t) + 64];
    } space;
    memset(&space, 0xee, sizeof space);
    const size_t short_sizes[] = {0, 1, sizeof(size_t) - 1};
    for (size_t i = 0; i < 3; ++i) {
        space.info.struct_size = short_sizes[i];
        CHECK_DETAIL(ARGUMENT, "struct_size", boxwise_get_info(made, &space.info));
    }
    CHECK(space.bytes[sizeof(size_t)] == 0xee);
    space.info.struct_size = sizeof(size_t) + 4;
    CHECK_OK(boxwise_get_info(made, &space.info));
    CHECK(space.info.struct_size == sizeof(size_t) + 4 && space.info.backend == BOXWISE_BACKEND_HOST);
    CHECK(space.bytes[sizeof(size_t) + 4] == 0xee);
    space.info.struct_size = sizeof space;
    CHECK_OK(boxwise_get_info(made, &space.info));
    CHECK(space.info.struct_size == sizeof(boxwise_info_t));
    CHECK(space.bytes[sizeof(boxwise_info_t)] == 0xee);
    CHECK(space.info.rank == 0 && space.info.size == 1 && space.info.ndims == 2);
    CHECK(space.info.element_size == 4 && space.info.workspace_bytes == 0 && space.info.copies == 1);
    CHECK(space.info.bytes_kept == ELEMENTS * 4 && space.info.bytes_sent == 0 && space.info.bytes_received == 0);
    CHECK(space.info.peers_sent_to == 0 && space.info.peers_received_from == 0);

    for (int32_t format = BOXWISE_FORMAT_TEXT; format <= BOXWISE_FORMAT_JSON; ++format) {
        size_t needed = 0;
        CHECK_OK(boxwise_describe(made, format, NULL, 0, &needed));
        CHECK(needed > 16 && needed < 1 << 20);
        char *buffer = malloc(needed + 1);
        memset(buffer, 'x', needed + 1);
        size_t again = 0;
        CHECK_DETAIL(ARGUMENT, "capacity is 0", boxwise_describe(made, format, buffer, 0, &again));
        CHECK(again == needed && buffer[0] == 'x');
        again = 0;
        CHECK_DETAIL(ARGUMENT, "capacity is", boxwise_describe(made, format, buffer, needed - 1, &again));
        CHECK(again == needed && buffer[0] == 'x');
        CHECK_DETAIL(ARGUMENT, "buffer is NULL", boxwise_describe(made, format, NULL, 10, &again));
        CHECK_OK(boxwise_describe(made, format, buffer, needed, &again));
        CHECK(again == needed && strlen(buffer) == needed - 1 && buffer[needed] == 'x');
        CHECK(format != BOXWISE_FORMAT_JSON || buffer[0] == '{');
        free(buffer);
    }
    size_t needed = 77;
    CHECK_DETAIL(ARGUMENT, "format is 2", boxwise_describe(made, 2, NULL, 0, &needed));
    CHECK_DETAIL(ARGUMENT, "format is -1", boxwise_describe(made, -1, NULL, 0, &needed));
    CHECK(needed == 77);
}

int main(void) {
    constants();
    create_objects();
    wrong_handles();
    null_outputs();
    options();
    order_of_calls();
    make_after_failed_make();
    execution();
    streams();
    reports();
    destroy_objects();
    return checks_done();
}
