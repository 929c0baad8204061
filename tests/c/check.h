/* Checks that count themselves, stop at the first failure with its place, and may run on several threads. */

#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boxwise.h"

static int checks_passed = 0;

#define CHECK(condition) check_condition((condition) ? 1 : 0, #condition, __FILE__, __LINE__)

/* The call returns this status; a failure explains itself, starting with the name of the function. */
#define CHECK_STATUS(expected, call) check_status((expected), (call), #call, __FILE__, __LINE__)

/* The same, and the detail contains this text. */
#define CHECK_DETAIL(expected, text, call)                                 \
    do {                                                                   \
        check_status((expected), (call), #call, __FILE__, __LINE__);       \
        check_text(boxwise_last_error(), (text), #call, __FILE__, __LINE__); \
    } while (0)

#define CHECK_OK(call) CHECK_STATUS(BOXWISE_SUCCESS, call)

static inline void check_condition(int holds, const char *text, const char *file, int line) {
    if (!holds) {
        fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, text);
        exit(1);
    }
    __atomic_fetch_add(&checks_passed, 1, __ATOMIC_RELAXED);
}

static inline void check_text(const char *seen, const char *wanted, const char *call, const char *file, int line) {
    if (strstr(seen, wanted) == NULL) {
        fprintf(stderr, "%s:%d: %s\n  says: %s\n  not:  %s\n", file, line, call, seen, wanted);
        exit(1);
    }
    __atomic_fetch_add(&checks_passed, 1, __ATOMIC_RELAXED);
}

static inline void check_status(int expected, boxwise_status_t status, const char *call, const char *file, int line) {
    if (status != expected) {
        fprintf(stderr, "%s:%d: %s\n  returned %d (%s): %s\n  not %d (%s)\n", file, line, call, (int)status,
                boxwise_status_string(status), boxwise_last_error(), expected, boxwise_status_string(expected));
        exit(1);
    }
    if (status != BOXWISE_SUCCESS) {
        size_t name = strcspn(call, "(");
        const char *detail = boxwise_last_error();
        if (strncmp(call, "boxwise_", 8) == 0 && (strncmp(detail, call, name) != 0 || detail[name] != ':')) {
            fprintf(stderr, "%s:%d: %s\n  says: %s\n  which does not begin with the function\n", file, line, call,
                    detail);
            exit(1);
        }
        if (strlen(detail) < 12) {
            fprintf(stderr, "%s:%d: %s\n  says too little: \"%s\"\n", file, line, call, detail);
            exit(1);
        }
    }
    __atomic_fetch_add(&checks_passed, 1, __ATOMIC_RELAXED);
}

static inline int checks_done(void) {
    printf("%d checks passed\n", checks_passed);
    return 0;
}

#endif
