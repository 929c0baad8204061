/* What the suite_ programs share: MPI and its communicators, a reshape that has every rank wait for every other, and
 * what this process uses. */

#ifndef SUITE_H
#define SUITE_H

#include <dirent.h>
#include <mpi.h>

#include "../c/check.h"

static int me, ranks;

/* Starts MPI; the level of threads must be there. */
static inline void start_mpi(int level)
{
    int provided;
    CHECK(MPI_Init_thread(NULL, NULL, level, &provided) == MPI_SUCCESS && provided >= level);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

static inline int end_mpi(void)
{
    MPI_Finalize();
    return me == 0 ? checks_done() : 0;
}

/* The most ranks of a communicator that the following is made for, and words that each of them holds. */
enum { MOST_RANKS = 16, WORDS = 100 };

/* Everybody gets everything: a communicator's rank r holds the words from r * WORDS. */
static inline boxwise_status_t make_gather(boxwise_handle_t handle, int32_t rank, int32_t size, const void *comm_handle,
                                           int32_t comm_type)
{
    const int64_t lower_in = (int64_t)rank * WORDS, upper_in = lower_in + WORDS;
    const int64_t lower_out = 0, upper_out = (int64_t)size * WORDS;
    return boxwise_make(handle, sizeof(int64_t), 1, &lower_in, &upper_in, NULL, &lower_out, &upper_out, NULL,
                        comm_handle, comm_type);
}

/* Executes it; the contents depend on `seed`, which is the same on all ranks. Checks them where it succeeds. */
static inline boxwise_status_t exec_gather(boxwise_handle_t handle, int32_t rank, int32_t size, int64_t seed)
{
    int64_t mine[WORDS], all[MOST_RANKS * WORDS];
    memset(all, 0xA5, sizeof all);
    for (int64_t i = 0; i < WORDS; i++)
        mine[i] = seed * 1000003 + rank * WORDS + i;
    const boxwise_status_t status = boxwise_exec_async(handle, all, mine, NULL, NULL);
    if (status == BOXWISE_SUCCESS) {
        int right = 1;
        for (int64_t i = 0; i < (int64_t)size * WORDS; i++)
            right &= all[i] == seed * 1000003 + i;
        CHECK(right);
    }
    return status;
}

/* A line of /proc/self/status in bytes, such as "VmHWM:". */
static inline size_t status_bytes(const char *name)
{
    char line[256];
    size_t kibibytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            kibibytes = strtoull(line + strlen(name), NULL, 10);
    fclose(file);
    return kibibytes * 1024;
}

/* Open files, and the two of this look. */
static inline int descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory != NULL);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

#endif
