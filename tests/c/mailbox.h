/* A runtime for boot tables: ranks that are threads of one process, with a barrier and a mailbox between them. */

#ifndef MAILBOX_H
#define MAILBOX_H

#include <pthread.h>

#include "check.h"

enum { SEATS = 2, GATHER_BYTES = 1 << 16, SHUT = 42 };

/* A message that no receive has met yet, or a receive that no message has met. */
typedef struct letter {
    struct letter *next;
    int32_t from, to, tag;
    int is_receive, is_complete;
    size_t bytes;
    unsigned char *data; /* a message's own, a receive's the caller's */
} letter_t;

typedef struct {
    pthread_barrier_t barrier;
    unsigned char space[SEATS * GATHER_BYTES];
    pthread_mutex_t lock;
    letter_t *first; /* in the order of the calls */
    int open;        /* receives that are neither tested to their end nor cancelled */
} office_t;

/* A rank's place. */
typedef struct {
    office_t *office;
    int32_t rank;
    int released;
    int shuts; /* how many of the next isend fail */
} seat_t;

/* What isend gives: the message is a copy, so it has left at once. */
static const uint64_t SENT = 1;

static inline void open_office(office_t *office) {
    memset(office, 0, sizeof *office);
    CHECK(pthread_barrier_init(&office->barrier, NULL, SEATS) == 0);
    CHECK(pthread_mutex_init(&office->lock, NULL) == 0);
}

static inline int32_t seat_barrier(void *context) {
    const int outcome = pthread_barrier_wait(&((seat_t *)context)->office->barrier);
    return outcome == 0 || outcome == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : 1;
}

static inline int32_t seat_allgather(void *context, const void *mine, void *all, size_t bytes) {
    const seat_t *seat = context;
    CHECK(bytes <= GATHER_BYTES);
    memcpy(seat->office->space + (size_t)seat->rank * bytes, mine, bytes);
    int32_t failed = seat_barrier(context);
    memcpy(all, seat->office->space, SEATS * bytes);
    failed |= seat_barrier(context);
    return failed;
}

/* Takes the oldest that `wanted` can meet out of the office. */
static inline letter_t *take_match(office_t *office, const letter_t *wanted) {
    for (letter_t **place = &office->first; *place != NULL; place = &(*place)->next) {
        letter_t *letter = *place;
        if (letter->is_receive != wanted->is_receive && letter->from == wanted->from && letter->to == wanted->to
            && letter->tag == wanted->tag) {
            *place = letter->next;
            return letter;
        }
    }
    return NULL;
}

static inline void hand_over(letter_t *message, letter_t *receive) {
    CHECK(message->bytes <= receive->bytes);
    memcpy(receive->data, message->data, message->bytes);
    receive->bytes = message->bytes;
    receive->is_complete = 1;
    free(message->data);
    free(message);
}

static inline void post_letter(office_t *office, letter_t *letter) {
    pthread_mutex_lock(&office->lock);
    letter_t *match = take_match(office, letter);
    if (letter->is_receive)
        office->open++;
    if (match != NULL) {
        hand_over(letter->is_receive ? match : letter, letter->is_receive ? letter : match);
    } else {
        letter_t **place = &office->first;
        while (*place != NULL)
            place = &(*place)->next;
        *place = letter;
    }
    pthread_mutex_unlock(&office->lock);
}

static inline letter_t *new_letter(int32_t from, int32_t to, int32_t tag, size_t bytes) {
    letter_t *letter = calloc(1, sizeof *letter);
    CHECK(letter != NULL && from != to && tag >= 0 && tag <= 32767);
    letter->from = from, letter->to = to, letter->tag = tag, letter->bytes = bytes;
    return letter;
}

static inline int32_t seat_isend(void *context, int32_t peer, int32_t tag, const void *data, size_t bytes,
                                 uint64_t *request) {
    seat_t *seat = context;
    if (seat->shuts > 0) {
        seat->shuts--;
        return SHUT;
    }
    letter_t *message = new_letter(seat->rank, peer, tag, bytes);
    message->data = malloc(bytes + 1);
    CHECK(message->data != NULL);
    memcpy(message->data, data, bytes);
    post_letter(seat->office, message);
    *request = SENT;
    return 0;
}

static inline int32_t seat_irecv(void *context, int32_t peer, int32_t tag, void *data, size_t bytes,
                                 uint64_t *request) {
    const seat_t *seat = context;
    letter_t *receive = new_letter(peer, seat->rank, tag, bytes);
    receive->is_receive = 1;
    receive->data = data;
    *request = (uintptr_t)receive;
    post_letter(seat->office, receive);
    return 0;
}

static inline int32_t seat_test(void *context, uint64_t *request, int32_t *complete, size_t *bytes) {
    office_t *office = ((seat_t *)context)->office;
    if (*request == SENT) {
        *request = 0;
        *complete = 1;
        return 0;
    }
    letter_t *receive = (letter_t *)(uintptr_t)*request;
    pthread_mutex_lock(&office->lock);
    *complete = receive->is_complete;
    if (receive->is_complete) {
        *bytes = receive->bytes;
        office->open--;
        free(receive);
        *request = 0;
    }
    pthread_mutex_unlock(&office->lock);
    return 0;
}

static inline int32_t seat_cancel(void *context, uint64_t *request) {
    office_t *office = ((seat_t *)context)->office;
    letter_t *receive = (letter_t *)(uintptr_t)*request;
    CHECK(*request != 0 && *request != SENT);
    pthread_mutex_lock(&office->lock);
    for (letter_t **place = &office->first; *place != NULL;) {
        if (*place == receive)
            *place = receive->next;
        else
            place = &(*place)->next;
    }
    office->open--;
    free(receive);
    pthread_mutex_unlock(&office->lock);
    return 0;
}

static inline int32_t seat_probe(void *context, int32_t tag, int32_t *peer) {
    const seat_t *seat = context;
    *peer = -1;
    pthread_mutex_lock(&seat->office->lock);
    for (letter_t *letter = seat->office->first; letter != NULL && *peer < 0; letter = letter->next)
        if (!letter->is_receive && letter->to == seat->rank && letter->tag == tag)
            *peer = letter->from;
    pthread_mutex_unlock(&seat->office->lock);
    return 0;
}

static inline void seat_release(void *context) {
    ((seat_t *)context)->released++;
}

static inline void seat_error_text(void *context, int32_t code, char *text, size_t capacity) {
    (void)context;
    snprintf(text, capacity, code == SHUT ? "the mailbox is shut" : "what is %d?", (int)code);
}

static inline boxwise_boot_t seat_table(seat_t *seat) {
    const boxwise_boot_t boot = {
        .struct_size = sizeof boot,
        .context = seat,
        .rank = seat->rank,
        .size = SEATS,
        .allgather = seat_allgather,
        .barrier = seat_barrier,
        .isend = seat_isend,
        .irecv = seat_irecv,
        .test = seat_test,
        .cancel = seat_cancel,
        .probe = seat_probe,
        .release = seat_release,
        .error_text = seat_error_text,
        .most_tag = 32767,
        .any_thread = 1};
    return boot;
}

/* Runs `play` on a thread for each rank of a new office. */
static inline void play_in_office(void *(*play)(void *)) {
    static office_t office;
    seat_t seats[SEATS];
    pthread_t threads[SEATS];
    open_office(&office);
    for (int32_t rank = 0; rank < SEATS; ++rank) {
        const seat_t seat = {&office, rank, 0, 0};
        seats[rank] = seat;
        CHECK(pthread_create(&threads[rank], NULL, play, &seats[rank]) == 0);
    }
    for (int rank = 0; rank < SEATS; ++rank)
        CHECK(pthread_join(threads[rank], NULL) == 0);
}

#endif
