/* One buffer instead of two: the output takes the place of the input.
 *
 * The buffer must be large enough for both boxes. The library says how much workspace it needs besides.
 */
#include "check.h"

enum { NZ = 13, NY = 26, NX = 10, GUARD = 16 };

int main(void)
{
    boxwise_comm_t comm;
    int32_t rank, size;
    CHECK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));

    box_t z_slab = {{0, 0, 0}, {NZ, NY, NX}}, y_slab = {{0, 0, 0}, {NZ, NY, NX}};
    box_split(&z_slab, 0, NZ, size, rank);
    box_split(&y_slab, 1, NY, size, rank);

    /* Options are set between create and make, to the same value on every rank. */
    boxwise_handle_t forward, backward;
    CHECK(boxwise_create(&forward));
    CHECK(boxwise_create(&backward));
    CHECK(boxwise_set_option(forward, BOXWISE_OPTION_IN_PLACE, 1));
    CHECK(boxwise_set_option(backward, BOXWISE_OPTION_IN_PLACE, 1));
    CHECK(boxwise_make(forward, sizeof(double), 3, z_slab.lower, z_slab.upper, NULL, y_slab.lower, y_slab.upper, NULL,
                       &comm, BOXWISE_COMM_OBJECT));
    CHECK(boxwise_make(backward, sizeof(double), 3, y_slab.lower, y_slab.upper, NULL, z_slab.lower, z_slab.upper, NULL,
                       &comm, BOXWISE_COMM_OBJECT));

    /* The larger of the two boxes, and a guard behind it that nobody may touch. */
    const size_t in_z_slab = box_elements(&z_slab), in_y_slab = box_elements(&y_slab);
    const size_t places = in_z_slab > in_y_slab ? in_z_slab : in_y_slab;
    void *memory;
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, (places + GUARD) * sizeof(double), &memory));
    double *data = memory;

    /* Both moves can share one workspace, since they do not run at the same time. */
    size_t forward_bytes, backward_bytes;
    CHECK(boxwise_get_size(forward, &forward_bytes));
    CHECK(boxwise_get_size(backward, &backward_bytes));
    void *workspace;
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, forward_bytes > backward_bytes ? forward_bytes : backward_bytes,
                         &workspace));

    poison(data, places + GUARD);
    fill(data, &z_slab, NULL);

    const box_t nothing = {{0, 0, 0}, {0, 0, 0}};
    CHECK(boxwise_exec_async(forward, data, data, workspace, NULL));
    int64_t checked = verify(data, in_y_slab, &y_slab, NULL);
    verify(data + places, GUARD, &nothing, NULL);

    CHECK(boxwise_exec_async(backward, data, data, workspace, NULL));
    checked += verify(data, in_z_slab, &z_slab, NULL);
    verify(data + places, GUARD, &nothing, NULL);

    report(comm, checked, "z-slabs to y-slabs and back in one buffer");
    CHECK(boxwise_free(comm, workspace));
    CHECK(boxwise_free(comm, data));
    CHECK(boxwise_destroy(backward));
    CHECK(boxwise_destroy(forward));
    CHECK(boxwise_comm_destroy(comm));
    return EXIT_SUCCESS;
}
