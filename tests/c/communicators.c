/* Communicators of one rank: by which arguments they are made, what is wrong with a boot table, shared memory. */

#include <stddef.h>
#include "check.h"

enum { ARGUMENT = BOXWISE_ERROR_INVALID_ARGUMENT };

static boxwise_comm_t comm;

static void handles(void) {
    boxwise_comm_t other = NULL;
    int32_t rank = -1, size = -1;
    CHECK_OK(boxwise_comm_rank(comm, &rank));
    CHECK_OK(boxwise_comm_size(comm, &size));
    CHECK(rank == 0 && size == 1);
    CHECK_OK(boxwise_comm_barrier(comm));
    CHECK_DETAIL(BOXWISE_ERROR_UNAVAILABLE, "there is no MPI", boxwise_comm_create(&rank, BOXWISE_COMM_MPI, &other));
    CHECK_DETAIL(ARGUMENT, "must be NULL", boxwise_comm_create(&rank, BOXWISE_COMM_NONE, &other));
    CHECK_DETAIL(ARGUMENT, "comm_handle is NULL", boxwise_comm_create(NULL, BOXWISE_COMM_BOOT, &other));
    CHECK_DETAIL(ARGUMENT, "comm_handle is NULL", boxwise_comm_create(NULL, BOXWISE_COMM_OBJECT, &other));
    CHECK_DETAIL(ARGUMENT, "pass &comm", boxwise_comm_create(comm, BOXWISE_COMM_OBJECT, &other));
    const int32_t unknown[] = {-1, 2, 15, 18, INT32_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; ++i) {
        CHECK_DETAIL(ARGUMENT, "comm_type is", boxwise_comm_create(NULL, unknown[i], &other));
    }
    CHECK(other == NULL);
}

static void shared_memory(void) {
    int32_t rank = 0;
    boxwise_comm_t other = NULL;
    /* A second handle to the same communicator works on its own. */
    CHECK_OK(boxwise_comm_create(&comm, BOXWISE_COMM_OBJECT, &other));
    void *pointer = NULL;
    CHECK_OK(boxwise_malloc(other, BOXWISE_MEMORY_HOST, 100, &pointer));
    memset(pointer, 1, 100);
    CHECK_OK(boxwise_comm_destroy(other));
    CHECK_OK(boxwise_free(comm, pointer));
    CHECK_STATUS(ARGUMENT, boxwise_free(comm, pointer));
    CHECK_STATUS(ARGUMENT, boxwise_free(comm, &rank));
    CHECK_OK(boxwise_free(comm, NULL));

    pointer = &rank;
    CHECK_DETAIL(BOXWISE_ERROR_NOT_SUPPORTED, "BOXWISE_MEMORY_HOST",
                 boxwise_malloc(comm, BOXWISE_MEMORY_DEVICE, 8, &pointer));
    CHECK_DETAIL(ARGUMENT, "memory is 2", boxwise_malloc(comm, 2, 8, &pointer));
    CHECK_DETAIL(ARGUMENT, "memory is -1", boxwise_malloc(comm, -1, 8, &pointer));
    CHECK_STATUS(BOXWISE_ERROR_OUT_OF_MEMORY, boxwise_malloc(comm, BOXWISE_MEMORY_HOST, SIZE_MAX, &pointer));
    CHECK_STATUS(BOXWISE_ERROR_OUT_OF_MEMORY, boxwise_malloc(comm, BOXWISE_MEMORY_HOST, SIZE_MAX / 4, &pointer));
    CHECK(pointer == &rank);
    CHECK_OK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, 0, &pointer));
    CHECK_OK(boxwise_free(comm, pointer));
}

static int32_t copy_one(void *context, const void *mine, void *all, size_t bytes) {
    (void)context;
    memcpy(all, mine, bytes);
    return 0;
}
static int32_t wait_for_one(void *context) {
    (void)context;
    return 0;
}
static int32_t refuse_allgather(void *context, const void *mine, void *all, size_t bytes) {
    (void)mine, (void)all, (void)bytes;
    return *(int32_t *)context;
}

static void count_release(void *context) { ++*(int *)context; }
static void say_moon(void *context, int32_t code, char *text, size_t capacity) {
    (void)context;
    snprintf(text, capacity, "moon %d", (int)code);
}
static int32_t no_send(void *context, int32_t peer, int32_t tag, const void *data, size_t bytes, uint64_t *request) {
    (void)context, (void)peer, (void)tag, (void)data, (void)bytes, (void)request;
    return 1;
}
static int32_t no_receive(void *context, int32_t peer, int32_t tag, void *data, size_t bytes, uint64_t *request) {
    (void)context, (void)peer, (void)tag, (void)data, (void)bytes, (void)request;
    return 1;
}
static int32_t no_test(void *context, uint64_t *request, int32_t *complete, size_t *bytes) {
    (void)context, (void)request, (void)complete, (void)bytes;
    return 1;
}
static int32_t no_cancel(void *context, uint64_t *request) {
    (void)context, (void)request;
    return 1;
}
static int32_t no_probe(void *context, int32_t tag, int32_t *peer) {
    (void)context, (void)tag, (void)peer;
    return 1;
}

/* The part of the table that is for messages. Its functions are not called on one node. */
static void boot_tables_with_messages(void) {
    boxwise_comm_t comm = NULL;
    int released = 0;
    const boxwise_boot_t good = {
        .struct_size = sizeof(boxwise_boot_t), .context = &released, .size = 1, .allgather = copy_one,
        .barrier = wait_for_one, .isend = no_send, .irecv = no_receive, .test = no_test, .cancel = no_cancel,
        .probe = no_probe, .release = count_release, .error_text = say_moon, .most_tag = 32767};
    boxwise_boot_t boot = good;
    CHECK_OK(boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm));
    CHECK_OK(boxwise_comm_destroy(comm));
    CHECK(released == 1);
    /* A table that is refused is released all the same. */
    comm = NULL;
    boot = good, boot.probe = NULL;
    CHECK_DETAIL(ARGUMENT, "given together", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm));
    CHECK(released == 2);
    boot = good, boot.most_tag = 32766;
    CHECK_DETAIL(ARGUMENT, "most_tag is 32766", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm));
    CHECK(released == 3);
    /* Cut off, what is there does not count. */
    boot = good, boot.struct_size = offsetof(boxwise_boot_t, irecv);
    CHECK_DETAIL(ARGUMENT, "given together", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm));
    boot = good, boot.struct_size = offsetof(boxwise_boot_t, isend);
    CHECK_OK(boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm));
    CHECK_OK(boxwise_comm_destroy(comm));
    /* A member that is there in part is not there: half a function pointer is not called. */
    for (size_t cut = offsetof(boxwise_boot_t, release); cut < offsetof(boxwise_boot_t, error_text); cut++) {
        boot = good, boot.isend = NULL, boot.struct_size = cut;
        CHECK_DETAIL(ARGUMENT, "given together", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm));
    }
    CHECK(released == 3);
    comm = NULL;
    int32_t code = 123;
    boot = good, boot.allgather = refuse_allgather, boot.context = &code, boot.release = NULL;
    CHECK_DETAIL(BOXWISE_ERROR_TRANSPORT, "returned 123: moon 123", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm));
    CHECK(comm == NULL);
}

static void boot_tables(void) {
    boxwise_comm_t other = NULL;
    const int64_t lower[1] = {0}, upper[1] = {3};
    boxwise_handle_t handle;
    CHECK_OK(boxwise_create(&handle));
    const boxwise_boot_t good = {
        .struct_size = sizeof(boxwise_boot_t), .size = 1, .allgather = copy_one, .barrier = wait_for_one};
    boxwise_boot_t boot = good;
    boot.struct_size = 0;
    CHECK_DETAIL(ARGUMENT, "struct_size is 0", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &other));
    boot.struct_size = offsetof(boxwise_boot_t, isend) - 1;
    CHECK_DETAIL(ARGUMENT, "struct_size is", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &other));
    boot = good, boot.rank = -1;
    CHECK_DETAIL(ARGUMENT, "rank is -1", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &other));
    boot = good, boot.rank = 1;
    CHECK_DETAIL(ARGUMENT, "rank is 1 of 1", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &other));
    boot = good, boot.size = 0;
    CHECK_DETAIL(ARGUMENT, "rank is 0 of 0", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &other));
    boot = good, boot.size = INT32_MIN;
    CHECK_DETAIL(ARGUMENT, "negative", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &other));
    boot = good, boot.allgather = NULL;
    CHECK_DETAIL(ARGUMENT, "allgather is NULL", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &other));
    boot = good, boot.barrier = NULL;
    CHECK_DETAIL(ARGUMENT, "barrier is NULL", boxwise_make(handle, 1, 1, lower, upper, NULL, lower, upper, NULL, &boot,
                                                           BOXWISE_COMM_BOOT));
    int32_t code = 123;
    boot = good, boot.allgather = refuse_allgather, boot.context = &code;
    CHECK_DETAIL(BOXWISE_ERROR_TRANSPORT, "returned 123", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &other));
    CHECK(other == NULL);

    /* A table of a later version, and one for make alone, which ends before the handle does. */
    struct {
        boxwise_boot_t known;
        void *later[3];
    } grown = {good, {NULL, NULL, NULL}};
    grown.known.struct_size = sizeof grown;
    CHECK_OK(boxwise_comm_create(&grown, BOXWISE_COMM_BOOT, &other));
    CHECK_OK(boxwise_comm_destroy(other));
    boot = good;
    CHECK_OK(boxwise_make(handle, 1, 1, lower, upper, NULL, lower, upper, NULL, &boot, BOXWISE_COMM_BOOT));
    memset(&boot, 0xff, sizeof boot);
    const char in[3] = "ab";
    char out[3] = "";
    CHECK_OK(boxwise_exec_async(handle, out, in, NULL, NULL));
    CHECK(strcmp(out, "ab") == 0);
    CHECK_OK(boxwise_destroy(handle));
}

int main(void) {
    CHECK_OK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    handles();
    shared_memory();
    boot_tables();
    boot_tables_with_messages();
    CHECK_OK(boxwise_comm_destroy(comm));
    return checks_done();
}
