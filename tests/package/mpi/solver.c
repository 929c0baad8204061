/* A user's library: an 8 x 6 array goes from blocks of rows to blocks of columns among the ranks of a communicator. */
#include "solver.h"

#include <boxwise.h>

#include <stdint.h>
#include <stdio.h>

enum { ROWS = 8, COLUMNS = 6 };

static double element(int64_t row, int64_t column) { return (double)(100 * row + column); }

static int failed(boxwise_status_t status, const char *call) {
    if (status != BOXWISE_SUCCESS)
        fprintf(stderr, "%s: %s: %s\n", call, boxwise_status_string(status), boxwise_last_error());
    return status != BOXWISE_SUCCESS;
}

int rows_to_columns(MPI_Comm comm) {
    boxwise_handle_t reshape;
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);

    int64_t lower_rows[2] = {rank * ROWS / size, 0}, upper_rows[2] = {(rank + 1) * ROWS / size, COLUMNS};
    int64_t lower_columns[2] = {0, rank * COLUMNS / size}, upper_columns[2] = {ROWS, (rank + 1) * COLUMNS / size};
    double rows[ROWS * COLUMNS], columns[ROWS * COLUMNS], *next = rows;
    for (int64_t i = lower_rows[0]; i < upper_rows[0]; i++)
        for (int64_t j = 0; j < COLUMNS; j++) *next++ = element(i, j);

    if (failed(boxwise_create(&reshape), "create") ||
        failed(boxwise_make(reshape, sizeof(double), 2, lower_rows, upper_rows, NULL, lower_columns, upper_columns,
                            NULL, &comm, BOXWISE_COMM_MPI), "make") ||
        failed(boxwise_exec_async(reshape, columns, rows, NULL, NULL), "exec_async") ||
        failed(boxwise_destroy(reshape), "destroy"))
        return 1;

    next = columns;
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = lower_columns[1]; j < upper_columns[1]; j++)
            if (*next++ != element(i, j)) {
                fprintf(stderr, "rank %d: wrong element (%d, %d)\n", rank, (int)i, (int)j);
                return 1;
            }
    return 0;
}
