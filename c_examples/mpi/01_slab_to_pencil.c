/* From slabs to pencils and back in an MPI program: boxwise takes the ranks of an MPI communicator.
 *
 *   mpicc 01_slab_to_pencil.c -lboxwise -o 01_slab_to_pencil && mpirun -n 4 ./01_slab_to_pencil
 */
#include "../check.h"

#include <mpi.h>

enum { NZ = 30, NY = 22, NX = 18 };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);

    /* The communicator is passed by its address, whatever an MPI_Comm is in this MPI. It is not kept. */
    MPI_Comm world = MPI_COMM_WORLD;
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);

    /* What this rank has, and what it wants: some of the planes, then whole columns along z. */
    box_t slab = {{0, 0, 0}, {NZ, NY, NX}}, pencil = slab;
    const int rows = grid_rows(size), columns = size / rows;
    box_split(&slab, 0, NZ, size, rank);
    box_split(&pencil, 1, NY, rows, rank / columns);
    box_split(&pencil, 2, NX, columns, rank % columns);

    /* The short way: make takes the MPI communicator itself. Like all collective calls of boxwise it is called by all
     * ranks of the communicator, and its own messages never mix with the program's. */
    boxwise_handle_t forward, backward;
    CHECK(boxwise_create(&forward));
    CHECK(boxwise_make(forward, sizeof(double), 3, slab.lower, slab.upper, NULL, pencil.lower, pencil.upper, NULL,
                       &world, BOXWISE_COMM_MPI));

    /* With several reshapes, set up once what they have in common; memory that the ranks of a node share needs it. */
    boxwise_comm_t comm;
    CHECK(boxwise_comm_create(&world, BOXWISE_COMM_MPI, &comm));
    CHECK(boxwise_create(&backward));
    CHECK(boxwise_make(backward, sizeof(double), 3, pencil.lower, pencil.upper, NULL, slab.lower, slab.upper, NULL,
                       &comm, BOXWISE_COMM_OBJECT));

    /* Any memory will do. */
    const size_t in_slab = box_elements(&slab), in_pencil = box_elements(&pencil);
    double *slab_data = malloc((in_slab + 1) * sizeof(double));
    void *pencil_memory;
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, in_pencil * sizeof(double), &pencil_memory));
    double *pencil_data = pencil_memory;
    if (slab_data == NULL)
        return EXIT_FAILURE;
    fill(slab_data, &slab, NULL);
    poison(pencil_data, in_pencil);

    CHECK(boxwise_exec_async(forward, pencil_data, slab_data, NULL, NULL));
    int64_t checked = verify(pencil_data, in_pencil, &pencil, NULL);

    poison(slab_data, in_slab);
    CHECK(boxwise_exec_async(backward, slab_data, pencil_data, NULL, NULL));
    checked += verify(slab_data, in_slab, &slab, NULL);

    report(comm, checked, "z-slabs to z-pencils and back, with MPI_COMM_WORLD");
    CHECK(boxwise_free(comm, pencil_data));
    free(slab_data);
    CHECK(boxwise_destroy(backward));
    CHECK(boxwise_destroy(forward));
    CHECK(boxwise_comm_destroy(comm));

    /* Everything made with an MPI communicator ends before MPI does. */
    MPI_Finalize();
    return EXIT_SUCCESS;
}
