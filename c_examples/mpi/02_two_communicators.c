/* Two communicators at once: the rows and the columns of a grid of ranks, as pencil solvers use them.
 *
 * From x-pencils to y-pencils only the ranks of one row exchange data, from y-pencils to z-pencils only those of one
 * column. Each reshape is planned among the ranks that it concerns; boxes are in the coordinates of the whole array.
 *
 *   mpicc 02_two_communicators.c -lboxwise -o 02_two_communicators && mpirun -n 6 ./02_two_communicators
 */
#include "../check.h"

#include <mpi.h>

enum { NZ = 20, NY = 24, NX = 16, STEPS = 3 };

static boxwise_handle_t plan(const box_t *from, const box_t *to, const MPI_Comm *ranks)
{
    boxwise_handle_t handle;
    CHECK(boxwise_create(&handle));
    CHECK(boxwise_make(handle, sizeof(double), 3, from->lower, from->upper, NULL, to->lower, to->upper, NULL, ranks,
                       BOXWISE_COMM_MPI));
    return handle;
}

/* Moves into poisoned memory and looks at what came. */
static int64_t move(boxwise_handle_t handle, double *out, const box_t *wanted, const double *in)
{
    poison(out, box_elements(wanted));
    CHECK(boxwise_exec_async(handle, out, in, NULL, NULL));
    return verify(out, box_elements(wanted), wanted, NULL);
}

static double *room_for(const box_t *box)
{
    double *data = malloc((box_elements(box) + 1) * sizeof *data);
    if (data == NULL)
        exit(EXIT_FAILURE);
    return data;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm world = MPI_COMM_WORLD, row_ranks, column_ranks;
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    const int rows = grid_rows(size), columns = size / rows, row = rank / columns, column = rank % columns;
    MPI_Comm_split(world, row, column, &row_ranks);
    MPI_Comm_split(world, column, row, &column_ranks);

    /* A row of ranks shares a range of z, a column of ranks a range of x. */
    box_t x_pencil = {{0, 0, 0}, {NZ, NY, NX}}, y_pencil = x_pencil, z_pencil = x_pencil;
    box_split(&x_pencil, 0, NZ, rows, row);
    box_split(&x_pencil, 1, NY, columns, column);
    box_split(&y_pencil, 0, NZ, rows, row);
    box_split(&y_pencil, 2, NX, columns, column);
    box_split(&z_pencil, 1, NY, rows, row);
    box_split(&z_pencil, 2, NX, columns, column);

    /* A reshape keeps what it needs: the communicators may be freed as soon as make has returned. */
    boxwise_handle_t along_row = plan(&x_pencil, &y_pencil, &row_ranks);
    boxwise_handle_t along_column = plan(&y_pencil, &z_pencil, &column_ranks);
    MPI_Comm_free(&row_ranks);
    MPI_Comm_free(&column_ranks);

    double *x_data = room_for(&x_pencil), *y_data = room_for(&y_pencil), *z_data = room_for(&z_pencil);
    fill(x_data, &x_pencil, NULL);
    int64_t checked = 0;
    for (int step = 0; step < STEPS; step++) {
        checked += move(along_row, y_data, &y_pencil, x_data);
        checked += move(along_column, z_data, &z_pencil, y_data);
    }

    /* The end of one is nothing to the other. */
    CHECK(boxwise_destroy(along_row));
    checked += move(along_column, z_data, &z_pencil, y_data);
    CHECK(boxwise_destroy(along_column));

    boxwise_comm_t comm;
    CHECK(boxwise_comm_create(&world, BOXWISE_COMM_MPI, &comm));
    report(comm, checked, "x-, y- and z-pencils, by communicators of rows and columns");
    CHECK(boxwise_comm_destroy(comm));
    free(z_data);
    free(y_data);
    free(x_data);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
