/* What the examples share: stop at a failed call, cut a dimension, know every element's value, check all of memory.
 *
 * Arrays are 3-D with dimensions (z, y, x). Memory is poisoned before anything arrives in it, and afterwards every
 * place of it is looked at: an element must have its value, everything else must still be poison.
 */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boxwise.h"

/* Ends the program where a call fails, in the library's own words. 07_errors.c shows what a solver does instead. */
#define CHECK(call) check_status((call), #call, __FILE__, __LINE__)

static inline void check_status(boxwise_status_t status, const char *call, const char *file, int line)
{
    if (status == BOXWISE_SUCCESS)
        return;
    fprintf(stderr, "%s:%d: %s\n  %s: %s\n", file, line, call, boxwise_status_string(status), boxwise_last_error());
    exit(EXIT_FAILURE);
}

/* The elements lower[d] <= g[d] < upper[d] of the global array. */
typedef struct {
    int64_t lower[3], upper[3];
} box_t;

static inline size_t box_elements(const box_t *box)
{
    size_t elements = 1;
    for (int d = 0; d < 3; d++)
        elements *= (size_t)(box->upper[d] - box->lower[d]);
    return elements;
}

/* Cuts [0, n) of dimension d into nearly equal parts and gives the box one of them. */
static inline void box_split(box_t *box, int d, int64_t n, int32_t parts, int32_t part)
{
    box->lower[d] = n * part / parts;
    box->upper[d] = n * (part + 1) / parts;
}

/* How many rows a grid of this many ranks has when it is as square as can be; it has ranks / rows columns. */
static inline int32_t grid_rows(int32_t ranks)
{
    int32_t rows = 1;
    for (int32_t divisor = 1; divisor <= ranks / divisor; divisor++)
        if (ranks % divisor == 0)
            rows = divisor;
    return rows;
}

/* Every element of the global array has a value of its own. */
static inline double value_at(int64_t z, int64_t y, int64_t x)
{
    return 1e6 * (double)z + 1e3 * (double)y + (double)x;
}

static inline void poison(double *data, size_t places)
{
    if (places > 0)
        memset(data, 0xA5, places * sizeof *data);
}

/* Gives the elements of a box their values; strides as in boxwise_make, NULL for packed with x fastest. */
static inline void fill(double *data, const box_t *box, const int64_t *strides)
{
    const int64_t ny = box->upper[1] - box->lower[1], nx = box->upper[2] - box->lower[2];
    const int64_t packed[3] = {ny * nx, nx, 1};
    const int64_t *s = strides != NULL ? strides : packed;
    for (int64_t z = box->lower[0]; z < box->upper[0]; z++)
        for (int64_t y = box->lower[1]; y < box->upper[1]; y++)
            for (int64_t x = box->lower[2]; x < box->upper[2]; x++)
                data[(z - box->lower[0]) * s[0] + (y - box->lower[1]) * s[1] + (x - box->lower[2]) * s[2]] =
                    value_at(z, y, x);
}

/* Stops unless `data`, `places` long, holds the elements of the box and poison everywhere else. Returns how many
 * elements that were. */
static inline int64_t verify(const double *data, size_t places, const box_t *box, const int64_t *strides)
{
    double *expected = malloc((places + 1) * sizeof *expected);
    if (expected == NULL)
        exit(EXIT_FAILURE);
    poison(expected, places);
    fill(expected, box, strides);
    for (size_t i = 0; i < places; i++)
        if (memcmp(&data[i], &expected[i], sizeof *data) != 0) {
            fprintf(stderr, "wrong at place %zu of %zu: %.17g instead of %.17g\n", i, places, data[i], expected[i]);
            exit(EXIT_FAILURE);
        }
    free(expected);
    return (int64_t)box_elements(box);
}

/* Brings `count` 8-byte words from everybody to rank 0, one row a rank: also a reshape. `all` may be NULL elsewhere. */
static inline void gather(boxwise_comm_t comm, const void *mine, int64_t count, void *all)
{
    int32_t rank, size;
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));
    const int64_t lower_input[2] = {rank, 0}, upper_input[2] = {rank + 1, count};
    const int64_t lower_output[2] = {0, 0}, upper_output[2] = {rank == 0 ? size : 0, count};
    boxwise_handle_t handle;
    CHECK(boxwise_create(&handle));
    CHECK(boxwise_set_option(handle, BOXWISE_OPTION_BACKEND, BOXWISE_BACKEND_HOST)); /* also where others use GPUs */
    CHECK(boxwise_make(handle, 8, 2, lower_input, upper_input, NULL, lower_output, upper_output, NULL, &comm,
                       BOXWISE_COMM_OBJECT));
    CHECK(boxwise_exec_async(handle, all, mine, NULL, NULL));
    CHECK(boxwise_destroy(handle));
}

/* Rank 0 says what all ranks have checked. A rank that found a fault has left before, and this call fails. */
static inline void report(boxwise_comm_t comm, int64_t checked, const char *what)
{
    int32_t rank, size;
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));
    int64_t *all = calloc((size_t)size, sizeof *all), sum = 0;
    if (all == NULL)
        exit(EXIT_FAILURE);
    gather(comm, &checked, 1, all);
    for (int32_t r = 0; r < size; r++)
        sum += all[r];
    if (rank == 0)
        printf("checked %" PRId64 " elements on %" PRId32 " rank%s: %s\n", sum, size, size == 1 ? "" : "s", what);
    free(all);
}

#endif
