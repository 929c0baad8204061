/* What the system refuses is a status: going beyond the limit on files would end the process by a signal. */

#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

/* Sets the soft limit and returns the one before. */
static rlim_t limit(int resource, rlim_t most)
{
    struct rlimit now;
    CHECK(getrlimit(resource, &now) == 0);
    const rlim_t before = now.rlim_cur;
    now.rlim_cur = most;
    CHECK(setrlimit(resource, &now) == 0);
    return before;
}

static boxwise_status_t make(boxwise_handle_t handle, boxwise_comm_t comm)
{
    const int64_t lower[1] = {0}, upper[1] = {8};
    return boxwise_make(handle, 4, 1, lower, upper, NULL, lower, upper, NULL, &comm, BOXWISE_COMM_OBJECT);
}

int main(void)
{
    boxwise_comm_t comm;
    boxwise_handle_t handle;
    void *pointer = NULL;
    CHECK_OK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    CHECK_OK(boxwise_create(&handle));

    rlim_t before = limit(RLIMIT_FSIZE, 16384);
    CHECK_DETAIL(BOXWISE_ERROR_OUT_OF_MEMORY, "RLIMIT_FSIZE", boxwise_malloc(comm, BOXWISE_MEMORY_HOST, 1 << 20, &pointer));
    CHECK_DETAIL(BOXWISE_ERROR_OUT_OF_MEMORY, "RLIMIT_FSIZE", make(handle, comm));
    limit(RLIMIT_FSIZE, before);

    /* Every descriptor below the limit is in use. */
    int taken[64], count = 0;
    before = limit(RLIMIT_NOFILE, 64);
    while (count < 64 && (taken[count] = dup(0)) >= 0)
        count++;
    CHECK_STATUS(BOXWISE_ERROR_TRANSPORT, boxwise_malloc(comm, BOXWISE_MEMORY_HOST, 4096, &pointer));
    CHECK_STATUS(BOXWISE_ERROR_TRANSPORT, make(handle, comm));
    while (count > 0)
        CHECK(close(taken[--count]) == 0);
    limit(RLIMIT_NOFILE, before);

    CHECK(pointer == NULL);
    CHECK_OK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, 1 << 20, &pointer));
    CHECK_OK(boxwise_free(comm, pointer));
    CHECK_OK(make(handle, comm));
    CHECK_OK(boxwise_destroy(handle));
    CHECK_OK(boxwise_comm_destroy(comm));
    return checks_done();
}
