/* Another order in memory, and padding: strides say where the elements of a box lie, on either side.
 *
 * The input is a real array padded for an in-place real-to-complex transform along x. The output has z fastest,
 * so that the transform along z runs over neighbours in memory: the transposition costs no extra pass.
 */
#include "check.h"

enum { NZ = 20, NY = 9, NX = 14 };

int main(void)
{
    boxwise_comm_t comm;
    int32_t rank, size;
    CHECK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));

    /* Input: z-slabs in the order z, y, x, each row padded to 2 (NX / 2 + 1). Element (z, y, x) of the box lies at
     * (z - lower[0]) * strides[0] + (y - lower[1]) * strides[1] + (x - lower[2]) * strides[2]. */
    const int64_t row = 2 * (NX / 2 + 1);
    const int64_t slab_strides[3] = {NY * row, row, 1};
    box_t slab = {{0, 0, 0}, {NZ, NY, NX}};
    box_split(&slab, 0, NZ, size, rank);
    const size_t slab_places = (size_t)((slab.upper[0] - slab.lower[0]) * slab_strides[0]);

    /* Output: x-slabs in the order x, y, z, each column padded to a multiple of 8. The dimensions of the boxes keep
     * their order (z, y, x); only the strides differ. */
    const int64_t column = (NZ + 7) / 8 * 8;
    const int64_t turned_strides[3] = {1, column, NY * column};
    box_t turned = {{0, 0, 0}, {NZ, NY, NX}};
    box_split(&turned, 2, NX, size, rank);
    const size_t turned_places = (size_t)((turned.upper[2] - turned.lower[2]) * turned_strides[2]);

    boxwise_handle_t forward, backward;
    CHECK(boxwise_create(&forward));
    CHECK(boxwise_create(&backward));
    CHECK(boxwise_make(forward, sizeof(double), 3, slab.lower, slab.upper, slab_strides, turned.lower, turned.upper,
                       turned_strides, &comm, BOXWISE_COMM_OBJECT));
    CHECK(boxwise_make(backward, sizeof(double), 3, turned.lower, turned.upper, turned_strides, slab.lower, slab.upper,
                       slab_strides, &comm, BOXWISE_COMM_OBJECT));

    void *slab_memory, *turned_memory;
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, slab_places * sizeof(double), &slab_memory));
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, turned_places * sizeof(double), &turned_memory));
    double *slab_data = slab_memory, *turned_data = turned_memory;
    poison(slab_data, slab_places);
    poison(turned_data, turned_places);
    fill(slab_data, &slab, slab_strides);

    /* Only elements move; the padding of the output is left as it was. */
    CHECK(boxwise_exec_async(forward, turned_data, slab_data, NULL, NULL));
    int64_t checked = verify(turned_data, turned_places, &turned, turned_strides);

    poison(slab_data, slab_places);
    CHECK(boxwise_exec_async(backward, slab_data, turned_data, NULL, NULL));
    checked += verify(slab_data, slab_places, &slab, slab_strides);

    report(comm, checked, "padded slabs with x fastest to padded slabs with z fastest and back");
    CHECK(boxwise_free(comm, turned_data));
    CHECK(boxwise_free(comm, slab_data));
    CHECK(boxwise_destroy(backward));
    CHECK(boxwise_destroy(forward));
    CHECK(boxwise_comm_destroy(comm));
    return EXIT_SUCCESS;
}
