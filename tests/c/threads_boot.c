/* Ranks that are threads of one process: communicators from a boot table over pthread barriers, of all ranks and of
 * subsets, several handles from several threads at once. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

#include <pthread.h>

enum { RANKS = 4, ROUNDS = 20, SPLIT = 12, MOST_BYTES = 1 << 16 };

/* The meeting place of one group of threads, which fills a boot table for each of them. */
typedef struct {
    pthread_barrier_t barrier;
    int32_t size;
    int32_t failures; /* how many allgathers are still to fail */
    unsigned char space[RANKS * MOST_BYTES];
} meeting_t;

typedef struct {
    meeting_t *meeting;
    int32_t rank;
} seat_t;

static int32_t meet(void *context) {
    const int outcome = pthread_barrier_wait(&((seat_t *)context)->meeting->barrier);
    return outcome == 0 || outcome == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : 1;
}

static int32_t gather(void *context, const void *mine, void *all, size_t bytes) {
    const seat_t *seat = context;
    meeting_t *meeting = seat->meeting;
    if (meeting->failures > 0 || bytes > MOST_BYTES) {
        return 42;
    }
    memcpy(meeting->space + (size_t)seat->rank * bytes, mine, bytes);
    int32_t failed = meet(context);
    memcpy(all, meeting->space, (size_t)meeting->size * bytes);
    failed |= meet(context);
    return failed;
}

static boxwise_boot_t table_for(seat_t *seat) {
    boxwise_boot_t boot = {
        .struct_size = sizeof boot,
        .context = seat,
        .rank = seat->rank,
        .size = seat->meeting->size,
        .allgather = gather,
        .barrier = meet};
    return boot;
}

static meeting_t *open_meeting(int32_t size) {
    meeting_t *meeting = calloc(1, sizeof *meeting);
    CHECK(meeting != NULL && pthread_barrier_init(&meeting->barrier, NULL, (unsigned)size) == 0);
    meeting->size = size;
    return meeting;
}

static void close_meeting(meeting_t *meeting) {
    CHECK(pthread_barrier_destroy(&meeting->barrier) == 0);
    free(meeting);
}

static boxwise_comm_t join(meeting_t *meeting, int32_t rank) {
    seat_t seat = {meeting, rank};
    boxwise_boot_t boot = table_for(&seat);
    boxwise_comm_t comm = NULL;
    CHECK_OK(boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm));
    int32_t told_rank = -1, told_size = -1;
    CHECK_OK(boxwise_comm_rank(comm, &told_rank));
    CHECK_OK(boxwise_comm_size(comm, &told_size));
    CHECK(told_rank == rank && told_size == meeting->size);
    return comm;
}

/* A square array of SPLIT * size rows: rank r of the group holds a slab of rows and wants a slab of columns. */
typedef struct {
    boxwise_handle_t handle;
    int64_t rank, size, side;
    double *in, *out;
} transfer_t;

static transfer_t begin(const void *comm_handle, int32_t comm_type, int64_t rank, int64_t size) {
    transfer_t t = {NULL, rank, size, SPLIT * size, NULL, NULL};
    const int64_t lower_in[2] = {rank * SPLIT, 0}, upper_in[2] = {(rank + 1) * SPLIT, t.side};
    const int64_t lower_out[2] = {0, rank * SPLIT}, upper_out[2] = {t.side, (rank + 1) * SPLIT};
    CHECK_OK(boxwise_create(&t.handle));
    CHECK_OK(boxwise_make(t.handle, sizeof(double), 2, lower_in, upper_in, NULL, lower_out, upper_out, NULL,
                          comm_handle, comm_type));
    t.in = malloc((size_t)(SPLIT * t.side) * sizeof(double));
    t.out = malloc((size_t)(SPLIT * t.side) * sizeof(double));
    CHECK(t.in != NULL && t.out != NULL);
    return t;
}

static void end(transfer_t *t) {
    CHECK_OK(boxwise_destroy(t->handle));
    free(t->in);
    free(t->out);
}

static void fill(transfer_t *t, double seed) {
    for (int64_t i = 0; i < SPLIT * t->side; ++i) {
        t->in[i] = seed + (double)(t->rank * SPLIT * t->side + i);
        t->out[i] = -1;
    }
}

static void check_moved(const transfer_t *t, double seed) {
    int right = 1;
    for (int64_t row = 0; row < t->side; ++row) {
        for (int64_t column = 0; column < SPLIT; ++column) {
            right &= t->out[row * SPLIT + column] == seed + (double)(row * t->side + t->rank * SPLIT + column);
        }
    }
    CHECK(right);
}

static void run(transfer_t *t, double seed) {
    fill(t, seed);
    CHECK_OK(boxwise_exec_async(t->handle, t->out, t->in, NULL, NULL));
    check_moved(t, seed);
}

/* What the threads of all ranks share. */
static meeting_t *everyone, *pairs[2], *alone[RANKS], *for_make, *failing, *workers[2];

typedef struct {
    int32_t rank;
    int32_t which;
} task_t;

static void subsets(boxwise_comm_t world, int32_t rank) {
    /* {0, 2} and {1, 3}, each with its own ranks; then everyone by oneself. */
    boxwise_comm_t pair = join(pairs[rank % 2], rank / 2);
    boxwise_comm_t single = join(alone[rank], 0);
    transfer_t of_world = begin(&world, BOXWISE_COMM_OBJECT, rank, RANKS);
    transfer_t of_pair = begin(&pair, BOXWISE_COMM_OBJECT, rank / 2, 2);
    transfer_t of_one = begin(&single, BOXWISE_COMM_OBJECT, 0, 1);
    for (int round = 0; round < ROUNDS; ++round) {
        run(&of_pair, 100 * round + rank % 2);
        run(&of_world, 10000 * round);
        run(&of_one, rank);
    }
    /* The communicator may go before the handle that was made with it. */
    CHECK_OK(boxwise_comm_destroy(pair));
    run(&of_pair, -5);
    end(&of_pair);
    end(&of_one);
    CHECK_OK(boxwise_comm_destroy(single));
    end(&of_world);
}

/* A second thread of each rank works on a communicator of its own at the same time as the first. */
static void *worker(void *argument) {
    const task_t *task = argument;
    CHECK(strcmp(boxwise_last_error(), "") == 0);
    boxwise_comm_t comm = join(workers[task->which], task->rank);
    transfer_t a = begin(&comm, BOXWISE_COMM_OBJECT, task->rank, RANKS);
    transfer_t b = begin(&comm, BOXWISE_COMM_OBJECT, task->rank, RANKS);
    for (int round = 0; round < ROUNDS; ++round) {
        run(&a, round);
        run(&b, -round);
    }
    end(&a);
    end(&b);
    CHECK_OK(boxwise_comm_destroy(comm));
    return NULL;
}

static void several_threads_per_rank(int32_t rank) {
    pthread_t threads[2];
    task_t tasks[2] = {{rank, 0}, {rank, 1}};
    for (int i = 0; i < 2; ++i) {
        CHECK(pthread_create(&threads[i], NULL, worker, &tasks[i]) == 0);
    }
    for (int i = 0; i < 2; ++i) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

/* Handles of one communicator on two streams, queued in a different order on each rank. */
static void streams(boxwise_comm_t world, int32_t rank) {
    transfer_t t[2];
    boxwise_stream_t queue[2];
    for (int i = 0; i < 2; ++i) {
        t[i] = begin(&world, BOXWISE_COMM_OBJECT, rank, RANKS);
        CHECK_OK(boxwise_stream_create(&queue[i]));
    }
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < 2; ++i) {
            fill(&t[i], 7 * round + i);
        }
        for (int i = 0; i < 2; ++i) {
            const int which = (i + rank + round) % 2;
            CHECK_OK(boxwise_exec_async(t[which].handle, t[which].out, t[which].in, NULL, queue[which]));
        }
        for (int i = 0; i < 2; ++i) {
            CHECK_OK(boxwise_stream_synchronize(queue[i]));
            int32_t idle = -1;
            CHECK_OK(boxwise_stream_query(queue[i], &idle));
            CHECK(idle == 1);
            check_moved(&t[i], 7 * round + i);
        }
    }
    for (int i = 0; i < 2; ++i) {
        CHECK_OK(boxwise_stream_destroy(queue[i]));
        end(&t[i]);
    }
}

static void shared_memory(boxwise_comm_t world, int32_t rank) {
    transfer_t t = begin(&world, BOXWISE_COMM_OBJECT, rank, RANKS);
    void *in, *out;
    const size_t bytes = (size_t)(SPLIT * t.side) * sizeof(double);
    CHECK_OK(boxwise_malloc(world, BOXWISE_MEMORY_HOST, bytes, &in));
    CHECK_OK(boxwise_malloc(world, BOXWISE_MEMORY_HOST, rank == 1 ? bytes : bytes + 4096, &out));
    transfer_t shared = t;
    shared.in = in;
    shared.out = out;
    run(&shared, 3);
    boxwise_info_t info;
    info.struct_size = sizeof info;
    CHECK_OK(boxwise_get_info(t.handle, &info));
    CHECK(info.rank == rank && info.size == RANKS && info.methods == BOXWISE_METHOD_DIRECT);
    CHECK_OK(boxwise_comm_barrier(world));
    CHECK_OK(boxwise_free(world, in));
    CHECK_OK(boxwise_free(world, out));
    end(&t);
}

/* One rank gives a wrong ndims; each thread reads its own detail, which names that rank. */
static void bad_rank(boxwise_comm_t world, int32_t rank) {
    for (int32_t guilty = 0; guilty < RANKS; ++guilty) {
        const int64_t lower[1] = {rank}, upper[1] = {rank + 1};
        char text[64];
        snprintf(text, sizeof text, "boxwise_make: rank %d: ndims is 9", (int)guilty);
        boxwise_handle_t handle;
        CHECK_OK(boxwise_create(&handle));
        CHECK_DETAIL(BOXWISE_ERROR_INVALID_ARGUMENT, text,
                     boxwise_make(handle, 1, rank == guilty ? 9 : 1, lower, upper, NULL, lower, upper, NULL, &world,
                                  BOXWISE_COMM_OBJECT));
        CHECK_OK(boxwise_make(handle, 1, 1, lower, upper, NULL, lower, upper, NULL, &world, BOXWISE_COMM_OBJECT));
        CHECK_OK(boxwise_destroy(handle));
    }
}

static void *rank_main(void *argument) {
    const int32_t rank = ((const task_t *)argument)->rank;
    CHECK(strcmp(boxwise_last_error(), "") == 0);
    boxwise_comm_t world = join(everyone, rank);

    /* A boot table for make alone. */
    seat_t seat = {for_make, rank};
    boxwise_boot_t boot = table_for(&seat);
    transfer_t of_boot = begin(&boot, BOXWISE_COMM_BOOT, rank, RANKS);
    run(&of_boot, 1);

    subsets(world, rank);
    several_threads_per_rank(rank);
    streams(world, rank);
    shared_memory(world, rank);
    bad_rank(world, rank);

    /* A boot table whose allgather fails on all ranks. */
    seat.meeting = failing;
    boot = table_for(&seat);
    boxwise_comm_t none = NULL;
    CHECK_DETAIL(BOXWISE_ERROR_TRANSPORT, "returned 42", boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &none));
    CHECK(none == NULL);

    run(&of_boot, 2);
    end(&of_boot);
    CHECK_OK(boxwise_comm_barrier(world));
    CHECK_OK(boxwise_comm_destroy(world));
    return NULL;
}

int main(void) {
    everyone = open_meeting(RANKS);
    for_make = open_meeting(RANKS);
    failing = open_meeting(RANKS);
    failing->failures = 1;
    for (int i = 0; i < 2; ++i) {
        pairs[i] = open_meeting(2);
        workers[i] = open_meeting(RANKS);
    }
    for (int i = 0; i < RANKS; ++i) {
        alone[i] = open_meeting(1);
    }

    pthread_t threads[RANKS];
    task_t tasks[RANKS];
    for (int32_t rank = 0; rank < RANKS; ++rank) {
        tasks[rank].rank = rank;
        CHECK(pthread_create(&threads[rank], NULL, rank_main, &tasks[rank]) == 0);
    }
    for (int rank = 0; rank < RANKS; ++rank) {
        CHECK(pthread_join(threads[rank], NULL) == 0);
    }
    CHECK(strcmp(boxwise_last_error(), "") == 0);

    close_meeting(everyone);
    close_meeting(for_make);
    close_meeting(failing);
    for (int i = 0; i < 2; ++i) {
        close_meeting(pairs[i]);
        close_meeting(workers[i]);
    }
    for (int i = 0; i < RANKS; ++i) {
        close_meeting(alone[i]);
    }
    return checks_done();
}
