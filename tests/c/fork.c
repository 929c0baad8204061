/* A forked child has copies of the handles but is no rank: what it does with them must not reach the others.
 * skip: valgrind (it would count the child's copies as leaks) */

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Two ranks with a socket between them: a boot table for processes. */
struct pair {
    int socket, rank;
};

static int32_t allgather(void *context, const void *mine, void *all, size_t bytes)
{
    const struct pair *pair = context;
    memcpy((char *)all + (size_t)pair->rank * bytes, mine, bytes);
    if (write(pair->socket, mine, bytes) != (ssize_t)bytes)
        return 1;
    return read(pair->socket, (char *)all + (size_t)(1 - pair->rank) * bytes, bytes) != (ssize_t)bytes;
}

static int32_t barrier(void *context)
{
    char all[2];
    return allgather(context, "x", all, 1);
}

int main(void)
{
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    const pid_t other = fork();
    CHECK(other >= 0);
    struct pair pair = {sockets[other == 0], other == 0};
    const boxwise_boot_t boot = {
        .struct_size = sizeof boot,
        .context = &pair,
        .rank = pair.rank,
        .size = 2,
        .allgather = allgather,
        .barrier = barrier};
    boxwise_comm_t comm;
    CHECK(boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm) == BOXWISE_SUCCESS);

    if (pair.rank == 0) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(boxwise_comm_destroy(comm) == BOXWISE_SUCCESS ? 0 : 1);
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    CHECK(boxwise_comm_barrier(comm) == BOXWISE_SUCCESS);
    CHECK(boxwise_comm_barrier(comm) == BOXWISE_SUCCESS);
    CHECK(boxwise_comm_destroy(comm) == BOXWISE_SUCCESS);
    if (pair.rank == 1)
        return 0;
    int status = 1;
    CHECK(waitpid(other, &status, 0) == other && status == 0);
    return checks_done();
}
