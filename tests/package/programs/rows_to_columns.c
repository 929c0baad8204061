/* A user's program: an 8 x 6 array goes from blocks of rows to blocks of columns. Argument: the number of ranks. */
#include <boxwise.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 8, COLUMNS = 6 };

static void check(boxwise_status_t status, const char *call) {
    if (status != BOXWISE_SUCCESS) {
        fprintf(stderr, "%s: %s: %s\n", call, boxwise_status_string(status), boxwise_last_error());
        exit(1);
    }
}

static double element(int64_t row, int64_t column) { return (double)(100 * row + column); }

int main(int argc, char **argv) {
    boxwise_comm_t comm;
    boxwise_handle_t reshape;
    int32_t rank, size;
    size_t workspace_bytes;

    check(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm), "comm_create");
    check(boxwise_comm_rank(comm, &rank), "comm_rank");
    check(boxwise_comm_size(comm, &size), "comm_size");
    if (argc < 2 || size != atoi(argv[1])) {
        fprintf(stderr, "the world has %d ranks\n", (int)size);
        return 1;
    }

    int64_t lower_rows[2] = {rank * ROWS / size, 0}, upper_rows[2] = {(rank + 1) * ROWS / size, COLUMNS};
    int64_t lower_columns[2] = {0, rank * COLUMNS / size}, upper_columns[2] = {ROWS, (rank + 1) * COLUMNS / size};
    int64_t width = upper_columns[1] - lower_columns[1];
    double rows[ROWS * COLUMNS], columns[ROWS * COLUMNS];

    for (int64_t i = lower_rows[0]; i < upper_rows[0]; i++)
        for (int64_t j = 0; j < COLUMNS; j++) rows[(i - lower_rows[0]) * COLUMNS + j] = element(i, j);

    check(boxwise_create(&reshape), "create");
    check(boxwise_make(reshape, sizeof(double), 2, lower_rows, upper_rows, NULL, lower_columns, upper_columns, NULL,
                       &comm, BOXWISE_COMM_OBJECT), "make");
    check(boxwise_get_size(reshape, &workspace_bytes), "get_size");
    check(boxwise_exec_async(reshape, columns, rows, NULL, NULL), "exec_async");
    check(boxwise_destroy(reshape), "destroy");
    check(boxwise_comm_destroy(comm), "comm_destroy");

    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = lower_columns[1]; j < upper_columns[1]; j++)
            if (columns[i * width + j - lower_columns[1]] != element(i, j)) {
                fprintf(stderr, "rank %d: wrong element (%d, %d)\n", (int)rank, (int)i, (int)j);
                return 1;
            }
    if (workspace_bytes != 0) {
        fprintf(stderr, "rank %d: a workspace of %zu bytes\n", (int)rank, workspace_bytes);
        return 1;
    }
    return 0;
}
