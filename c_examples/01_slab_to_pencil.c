/* From slabs to pencils and back: the two moves of a distributed 3-D FFT.
 *
 * A solver that holds whole planes can transform y and x by itself. For z it needs whole columns: a pencil.
 *
 *   cc 01_slab_to_pencil.c -lboxwise -o 01_slab_to_pencil && boxwise-run -n 4 ./01_slab_to_pencil
 */
#include "check.h"

enum { NZ = 30, NY = 22, NX = 18 };

int main(void)
{
    /* The ranks that boxwise-run started; without it, a world of one. An MPI program passes its MPI_Comm instead. */
    boxwise_comm_t comm;
    int32_t rank, size;
    CHECK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));

    /* What this rank has: some of the planes. */
    box_t slab = {{0, 0, 0}, {NZ, NY, NX}};
    box_split(&slab, 0, NZ, size, rank);

    /* What it wants: z whole, y and x cut by a grid of ranks. */
    const int32_t rows = grid_rows(size), columns = size / rows;
    box_t pencil = {{0, 0, 0}, {NZ, NY, NX}};
    box_split(&pencil, 1, NY, rows, rank / columns);
    box_split(&pencil, 2, NX, columns, rank % columns);

    /* Both moves are planned once. Nobody says who sends what to whom: the boxes say it. */
    boxwise_handle_t forward, backward;
    CHECK(boxwise_create(&forward));
    CHECK(boxwise_create(&backward));
    CHECK(boxwise_make(forward, sizeof(double), 3, slab.lower, slab.upper, NULL, pencil.lower, pencil.upper, NULL,
                       &comm, BOXWISE_COMM_OBJECT));
    CHECK(boxwise_make(backward, sizeof(double), 3, pencil.lower, pencil.upper, NULL, slab.lower, slab.upper, NULL,
                       &comm, BOXWISE_COMM_OBJECT));

    /* Any memory will do. In this one the other ranks of the node reach the data themselves, in one pass. */
    const size_t in_slab = box_elements(&slab), in_pencil = box_elements(&pencil);
    void *slab_memory, *pencil_memory;
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, in_slab * sizeof(double), &slab_memory));
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, in_pencil * sizeof(double), &pencil_memory));
    double *slab_data = slab_memory, *pencil_data = pencil_memory;

    fill(slab_data, &slab, NULL);
    poison(pencil_data, in_pencil);

    /* ... transform y and x here ... */
    CHECK(boxwise_exec_async(forward, pencil_data, slab_data, NULL, NULL));
    int64_t checked = verify(pencil_data, in_pencil, &pencil, NULL);
    checked += verify(slab_data, in_slab, &slab, NULL); /* the input is never written */

    /* ... transform z here ... */
    poison(slab_data, in_slab);
    CHECK(boxwise_exec_async(backward, slab_data, pencil_data, NULL, NULL));
    checked += verify(slab_data, in_slab, &slab, NULL);

    report(comm, checked, "z-slabs to z-pencils and back");
    CHECK(boxwise_free(comm, pencil_data));
    CHECK(boxwise_free(comm, slab_data));
    CHECK(boxwise_destroy(backward));
    CHECK(boxwise_destroy(forward));
    CHECK(boxwise_comm_destroy(comm));
    return EXIT_SUCCESS;
}
