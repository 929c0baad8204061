/* A boot table with messages: two ranks on pretended nodes, which exchange data through a mailbox of this program.
 *     run: env BOXWISE_NODE=0,1 {} */

#define _POSIX_C_SOURCE 200809L

#include "mailbox.h"

/* The longest is several pieces, more than there are buffers for. */
static const int64_t counts[] = {1, 2, 1000, 700001};
enum { ROUNDS = 5 };

typedef struct {
    boxwise_handle_t handle;
    int64_t rank, count;
    int64_t *in, *out;
} swap_t;

/* Each rank gets what the other holds. */
static swap_t begin(const void *comm_handle, int32_t comm_type, int64_t rank, int64_t count) {
    swap_t t = {NULL, rank, count, malloc((size_t)count * sizeof(int64_t)), malloc((size_t)count * sizeof(int64_t))};
    const int64_t other = 1 - rank, lower_in = rank * count, lower_out = other * count;
    const int64_t upper_in = lower_in + count, upper_out = lower_out + count;
    CHECK(t.in != NULL && t.out != NULL);
    CHECK_OK(boxwise_create(&t.handle));
    CHECK_OK(boxwise_make(t.handle, sizeof(int64_t), 1, &lower_in, &upper_in, NULL, &lower_out, &upper_out, NULL,
                          comm_handle, comm_type));
    return t;
}

static void run(swap_t *t, int64_t seed, boxwise_stream_t stream) {
    for (int64_t i = 0; i < t->count; ++i) {
        t->in[i] = seed + t->rank * t->count + i;
        t->out[i] = -1;
    }
    CHECK_OK(boxwise_exec_async(t->handle, t->out, t->in, NULL, stream));
    CHECK_OK(stream == NULL ? BOXWISE_SUCCESS : boxwise_stream_synchronize(stream));
    int right = 1;
    for (int64_t i = 0; i < t->count; ++i)
        right &= t->out[i] == seed + (1 - t->rank) * t->count + i;
    CHECK(right);
}

static void end(swap_t *t) {
    CHECK_OK(boxwise_destroy(t->handle));
    free(t->in);
    free(t->out);
}

static void *exchange(void *argument) {
    seat_t *seat = argument;
    boxwise_boot_t boot = seat_table(seat);
    boxwise_comm_t comm;
    boxwise_stream_t stream;
    CHECK_OK(boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &comm));
    CHECK_OK(boxwise_stream_create(&stream));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
        swap_t t = begin(&comm, BOXWISE_COMM_OBJECT, seat->rank, counts[i]);
        for (int round = 0; round < ROUNDS; ++round)
            run(&t, 1000 * round, round % 2 == 0 ? NULL : stream);
        boxwise_info_t info = {.struct_size = sizeof info};
        CHECK_OK(boxwise_get_info(t.handle, &info));
        CHECK(info.methods == BOXWISE_METHOD_MESSAGE);
        end(&t);
    }
    CHECK_OK(boxwise_stream_destroy(stream));
    CHECK_OK(boxwise_comm_barrier(comm));

    /* The table serves until the last that was made with it is gone. */
    swap_t last = begin(&comm, BOXWISE_COMM_OBJECT, seat->rank, 10);
    CHECK_OK(boxwise_comm_destroy(comm));
    run(&last, 7, NULL);
    CHECK(seat->released == 0);
    end(&last);
    CHECK(seat->released == 1);

    /* For make alone. */
    last = begin(&boot, BOXWISE_COMM_BOOT, seat->rank, 10);
    run(&last, 8, NULL);
    CHECK(seat->released == 1);
    end(&last);
    CHECK(seat->released == 2);

    seat_barrier(seat);
    CHECK(seat->office->first == NULL && seat->office->open == 0);
    return NULL;
}

/* A rank alone is told, and its table released; the other has not called. */
static void *refused(void *argument) {
    seat_t *seat = argument;
    const boxwise_boot_t good = seat_table(seat);
    boxwise_comm_t none = NULL;
    for (int which = 0; which < 5; ++which) {
        boxwise_boot_t boot = good;
        switch (which) {
        case 0: boot.isend = NULL; break;
        case 1: boot.irecv = NULL; break;
        case 2: boot.test = NULL; break;
        case 3: boot.cancel = NULL; break;
        case 4: boot.probe = NULL; break;
        }
        CHECK_DETAIL(BOXWISE_ERROR_INVALID_ARGUMENT, "must be given together",
                     boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &none));
        CHECK(seat->released == which + 1);
    }
    boxwise_boot_t boot = good;
    boot.most_tag = 32766;
    CHECK_DETAIL(BOXWISE_ERROR_INVALID_ARGUMENT, "most_tag is 32766",
                 boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &none));
    CHECK(seat->released == 6);
    boot = good, boot.rank = SEATS;
    CHECK_DETAIL(BOXWISE_ERROR_INVALID_ARGUMENT, "rank is 2 of 2",
                 boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &none));
    CHECK(seat->released == 7 && none == NULL);
    return NULL;
}

static void without_messages(boxwise_boot_t *boot) {
    boot->isend = NULL, boot->irecv = NULL, boot->test = NULL, boot->cancel = NULL, boot->probe = NULL;
}

/* Two nodes need messages, on every rank: all are told. */
static void *not_supported(void *argument) {
    seat_t *seat = argument;
    boxwise_comm_t none = NULL;
    for (int32_t silent = 0; silent < SEATS; ++silent) {
        boxwise_boot_t boot = seat_table(seat);
        if (seat->rank == silent)
            without_messages(&boot);
        CHECK_DETAIL(BOXWISE_ERROR_NOT_SUPPORTED, "on different nodes",
                     boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &none));
        CHECK(seat->released == silent + 1);
    }
    /* The table of version 0.1.0: the rest, `release` too, is not looked at. */
    boxwise_boot_t boot = seat_table(seat);
    boot.struct_size = offsetof(boxwise_boot_t, isend);
    CHECK_DETAIL(BOXWISE_ERROR_NOT_SUPPORTED, "on different nodes",
                 boxwise_comm_create(&boot, BOXWISE_COMM_BOOT, &none));
    CHECK(seat->released == SEATS && none == NULL);
    return NULL;
}

int main(void) {
    play_in_office(exchange);
    play_in_office(refused);
    play_in_office(not_supported);
    return checks_done();
}
