/* A pseudo-spectral solver: Poisson's equation in a periodic box, by a distributed 3-D FFT of FFTW's 1-D transforms.
 *
 * Each rank transforms whole lines along x, y and z in turn, and reshapes move the data from pencil to pencil between.
 * They also change the order in memory, so that the lines of every pencil lie one after another. The spectrum is
 * compared with that of a serial 3-D FFT, the solution with the exact one.
 *
 *   mpicc 03_pseudo_spectral.c -lboxwise -lfftw3 -lm -o 03_pseudo_spectral && mpirun -n 4 ./03_pseudo_spectral
 */
#include "../check.h"

#include <fftw3.h>
#include <math.h>
#include <mpi.h>

/* The box is [0, 2 pi) in each dimension. The data is real, so that half of the spectrum along x is enough. */
enum { NZ = 18, NY = 20, NX = 24, MX = NX / 2 + 1, Z = 0, Y = 1, X = 2 };

/* Lines along one dimension, whole; the other two dimensions are cut by the grid of ranks. */
typedef struct {
    box_t box;
    int64_t strides[3]; /* elements of a line are neighbours */
    int length, lines;
} pencil_t;

static pencil_t pencil(int along, int64_t nx, int rows, int row, int columns, int column)
{
    pencil_t p = {{{0, 0, 0}, {NZ, NY, nx}}, {0, 0, 0}, 0, 0};
    const int first_cut = along == Z ? Y : Z, second_cut = along == X ? Y : X;
    box_split(&p.box, first_cut, p.box.upper[first_cut], rows, row);
    box_split(&p.box, second_cut, p.box.upper[second_cut], columns, column);
    p.length = (int)p.box.upper[along];
    p.strides[along] = 1;
    p.strides[second_cut] = p.length;
    p.strides[first_cut] = p.length * (p.box.upper[second_cut] - p.box.lower[second_cut]);
    p.lines = p.length > 0 ? (int)(box_elements(&p.box) / (size_t)p.length) : 0;
    return p;
}

static void *room_for(size_t elements)
{
    fftw_complex *data = fftw_alloc_complex(elements + 1);
    if (data == NULL)
        exit(EXIT_FAILURE);
    return data;
}

static boxwise_handle_t plan_move(const pencil_t *from, const pencil_t *to, boxwise_comm_t comm)
{
    boxwise_handle_t handle;
    CHECK(boxwise_create(&handle));
    CHECK(boxwise_make(handle, sizeof(fftw_complex), 3, from->box.lower, from->box.upper, from->strides, to->box.lower,
                       to->box.upper, to->strides, &comm, BOXWISE_COMM_OBJECT));
    return handle;
}

/* Transforms the lines in place. */
static fftw_plan plan_lines(const pencil_t *p, fftw_complex *data, int sign)
{
    return fftw_plan_many_dft(1, &p->length, p->lines, data, NULL, 1, p->length, data, NULL, 1, p->length, sign,
                              FFTW_ESTIMATE);
}

/* The solution u, and the right-hand side f = u_xx + u_yy + u_zz. */
static void exact(int64_t z, int64_t y, int64_t x, double *u, double *f)
{
    const double h = 8 * atan(1);
    const double a = sin(h * x / NX) * cos(2 * h * y / NY) * sin(3 * h * z / NZ);
    const double b = cos(h * (2. * x / NX + 1. * y / NY - 1. * z / NZ));
    *u = a + b;
    *f = -14 * a - 6 * b;
}

/* The right-hand side, or the solution, of the box of an x-pencil. */
static void fill_lines(const box_t *box, double *data, int solution)
{
    for (int64_t z = box->lower[Z]; z < box->upper[Z]; z++)
        for (int64_t y = box->lower[Y]; y < box->upper[Y]; y++)
            for (int64_t x = 0; x < NX; x++) {
                double u, f;
                exact(z, y, x, &u, &f);
                *data++ = solution ? u : f;
            }
}

static int64_t verify_close(const double *data, const double *expected, size_t count, double tolerance)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs(data[i] - expected[i]) <= tolerance)) {
            fprintf(stderr, "place %zu of %zu: %.17g instead of %.17g\n", i, count, data[i], expected[i]);
            exit(EXIT_FAILURE);
        }
    return (int64_t)count;
}

/* Brings the spectrum to rank 0, which compares it with a serial 3-D transform of the whole array. */
static int64_t verify_spectrum(const pencil_t *from, fftw_complex *mine, boxwise_comm_t comm, int rank)
{
    const int64_t share = rank == 0;
    const pencil_t whole = pencil(X, share * MX, 1, 0, 1, 0);
    fftw_complex *all = room_for(NZ * NY * MX), *expected = room_for(NZ * NY * MX);
    double *f = room_for(NZ * NY * NX);
    boxwise_handle_t handle = plan_move(from, &whole, comm);
    CHECK(boxwise_exec_async(handle, all, mine, NULL, NULL));
    CHECK(boxwise_destroy(handle));
    int64_t checked = 0;
    if (rank == 0) {
        const box_t everything = {{0, 0, 0}, {NZ, NY, NX}};
        fftw_plan serial = fftw_plan_dft_r2c_3d(NZ, NY, NX, f, expected, FFTW_ESTIMATE);
        fill_lines(&everything, f, 0);
        fftw_execute(serial);
        fftw_destroy_plan(serial);
        checked = verify_close(all[0], expected[0], 2 * NZ * NY * MX, 1e-14 * NZ * NY * NX) / 2;
    }
    fftw_free(f);
    fftw_free(expected);
    fftw_free(all);
    return checked;
}

/* Divides the spectrum of f by -k^2, and by what the transforms multiply with. The mean of u is free: 0. */
static void solve(const pencil_t *p, fftw_complex *data)
{
    for (int64_t z = 0; z < NZ; z++)
        for (int64_t y = p->box.lower[Y]; y < p->box.upper[Y]; y++)
            for (int64_t x = p->box.lower[X]; x < p->box.upper[X]; x++) {
                const double kz = z <= NZ / 2 ? z : z - NZ, ky = y <= NY / 2 ? y : y - NY, kx = x;
                const double k2 = kx * kx + ky * ky + kz * kz, factor = k2 > 0 ? -1 / (k2 * NZ * NY * NX) : 0;
                double *value = data[z + (y - p->box.lower[Y]) * p->strides[Y] + (x - p->box.lower[X]) * p->strides[X]];
                value[0] *= factor;
                value[1] *= factor;
            }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm world = MPI_COMM_WORLD;
    boxwise_comm_t comm;
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    CHECK(boxwise_comm_create(&world, BOXWISE_COMM_MPI, &comm));

    const int rows = grid_rows(size), columns = size / rows, row = rank / columns, column = rank % columns;
    const pencil_t real = pencil(X, NX, rows, row, columns, column); /* before the transform along x, and after it */
    const pencil_t along_x = pencil(X, MX, rows, row, columns, column);
    const pencil_t along_y = pencil(Y, MX, rows, row, columns, column);
    const pencil_t along_z = pencil(Z, MX, rows, row, columns, column);
    const size_t points = box_elements(&real.box);
    double *values = room_for(points), *expected = room_for(points);
    fftw_complex *x_lines = room_for(box_elements(&along_x.box));
    fftw_complex *y_lines = room_for(box_elements(&along_y.box));
    fftw_complex *z_lines = room_for(box_elements(&along_z.box));

    /* All plans, FFTW's and boxwise's, are made once. */
    const int n = NX;
    fftw_plan forward_x = fftw_plan_many_dft_r2c(1, &n, real.lines, values, NULL, 1, NX, x_lines, NULL, 1, MX,
                                                 FFTW_ESTIMATE);
    fftw_plan backward_x = fftw_plan_many_dft_c2r(1, &n, real.lines, x_lines, NULL, 1, MX, values, NULL, 1, NX,
                                                  FFTW_ESTIMATE);
    fftw_plan forward_y = plan_lines(&along_y, y_lines, FFTW_FORWARD);
    fftw_plan backward_y = plan_lines(&along_y, y_lines, FFTW_BACKWARD);
    fftw_plan forward_z = plan_lines(&along_z, z_lines, FFTW_FORWARD);
    fftw_plan backward_z = plan_lines(&along_z, z_lines, FFTW_BACKWARD);
    boxwise_handle_t x_to_y = plan_move(&along_x, &along_y, comm), y_to_z = plan_move(&along_y, &along_z, comm);
    boxwise_handle_t z_to_y = plan_move(&along_z, &along_y, comm), y_to_x = plan_move(&along_y, &along_x, comm);

    /* Forward. */
    fill_lines(&real.box, values, 0);
    fftw_execute(forward_x);
    CHECK(boxwise_exec_async(x_to_y, y_lines, x_lines, NULL, NULL));
    fftw_execute(forward_y);
    CHECK(boxwise_exec_async(y_to_z, z_lines, y_lines, NULL, NULL));
    fftw_execute(forward_z);
    int64_t checked = verify_spectrum(&along_z, z_lines, comm, rank);

    /* Solve, and backward. */
    solve(&along_z, z_lines);
    fftw_execute(backward_z);
    CHECK(boxwise_exec_async(z_to_y, y_lines, z_lines, NULL, NULL));
    fftw_execute(backward_y);
    CHECK(boxwise_exec_async(y_to_x, x_lines, y_lines, NULL, NULL));
    fftw_execute(backward_x);
    fill_lines(&real.box, expected, 1);
    checked += verify_close(values, expected, points, 1e-13);

    report(comm, checked, "spectrum and solution of Poisson's equation");
    boxwise_handle_t handles[] = {x_to_y, y_to_z, z_to_y, y_to_x};
    for (int i = 0; i < 4; i++)
        CHECK(boxwise_destroy(handles[i]));
    fftw_plan plans[] = {forward_x, backward_x, forward_y, backward_y, forward_z, backward_z};
    for (int i = 0; i < 6; i++)
        fftw_destroy_plan(plans[i]);
    void *memory[] = {values, expected, x_lines, y_lines, z_lines};
    for (int i = 0; i < 5; i++)
        fftw_free(memory[i]);
    CHECK(boxwise_comm_destroy(comm));
    MPI_Finalize();
    return EXIT_SUCCESS;
}
