/* A boot table whose isend fails once: its text is told, the other rank hears of it, and the table is never released.
 *     run: env BOXWISE_NODE=0,1 {}
 *     skip: valgrind, messages of a broken communicator are never given back
 *     skip: sanitizers, as valgrind */

#define _POSIX_C_SOURCE 200809L

#include "mailbox.h"

#include <unistd.h>

static void *fail(void *argument) {
    seat_t *seat = argument;
    boxwise_boot_t boot = seat_table(seat);
    const int64_t mine[1] = {seat->rank}, lower_in[1] = {seat->rank}, upper_in[1] = {seat->rank + 1};
    const int64_t lower_out[1] = {1 - seat->rank}, upper_out[1] = {2 - seat->rank};
    int64_t other[1] = {-1};
    boxwise_comm_t comm;
    boxwise_handle_t handle;
    CHECK_OK(boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm));
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(boxwise_make(handle, sizeof(int64_t), 1, lower_in, upper_in, NULL, lower_out, upper_out, NULL, &comm,
                          BOXWISE_COMM_OBJECT));
    CHECK_OK(boxwise_exec_async(handle, other, mine, NULL, NULL));
    CHECK(other[0] == 1 - seat->rank);

    seat->shuts = seat->rank == 0;
    if (seat->rank == 0) {
        CHECK_DETAIL(BOXWISE_ERROR_TRANSPORT, "rank 0: the isend of boxwise_boot_t returned 42: the mailbox is shut",
                     boxwise_exec_async(handle, other, mine, NULL, NULL));
    } else {
        CHECK_DETAIL(BOXWISE_ERROR_PEER_LOST, "rank 0 could not do its part",
                     boxwise_exec_async(handle, other, mine, NULL, NULL));
    }
    CHECK_DETAIL(BOXWISE_ERROR_PEER_LOST, "rank 0 could not do its part", boxwise_comm_barrier(comm));
    CHECK_OK(boxwise_destroy(handle));
    CHECK_OK(boxwise_comm_destroy(comm));
    CHECK(seat->released == 0);
    return NULL;
}

int main(void) {
    alarm(30); /* a rank that is not told waits without end */
    play_in_office(fail);
    return checks_done();
}
