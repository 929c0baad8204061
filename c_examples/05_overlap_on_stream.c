/* Compute while data travels: moves are queued on a stream, and the next field is computed meanwhile.
 *
 * A stream of the host runs what is queued on it in order, on a thread of its own.
 */
#include "check.h"

enum { NZ = 32, NY = 24, NX = 20, FIELDS = 3 };

/* Stands for the work of a solver. */
static void scale(double *data, size_t elements, double factor)
{
    for (size_t i = 0; i < elements; i++)
        data[i] *= factor;
}

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

    /* One plan serves all fields: the pointers come with each run. */
    boxwise_handle_t handle;
    CHECK(boxwise_create(&handle));
    CHECK(boxwise_make(handle, sizeof(double), 3, z_slab.lower, z_slab.upper, NULL, y_slab.lower, y_slab.upper, NULL,
                       &comm, BOXWISE_COMM_OBJECT));

    const size_t in_z_slab = box_elements(&z_slab), in_y_slab = box_elements(&y_slab);
    double *before[FIELDS], *after[FIELDS];
    for (int f = 0; f < FIELDS; f++) {
        void *memory;
        CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, in_z_slab * sizeof(double), &memory));
        before[f] = memory;
        CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, in_y_slab * sizeof(double), &memory));
        after[f] = memory;
        poison(after[f], in_y_slab);
    }

    boxwise_stream_t stream;
    CHECK(boxwise_stream_create(&stream));
    for (int f = 0; f < FIELDS; f++) {
        /* While field f is computed, field f - 1 is on its way. */
        fill(before[f], &z_slab, NULL);
        scale(before[f], in_z_slab, (double)(1 << f));
        CHECK(boxwise_exec_async(handle, after[f], before[f], NULL, stream));
        /* From here to the synchronisation, before[f] is not to be written and after[f] not to be touched. */
    }

    /* Waits for all that was queued. If one of the moves failed, this is the call that says so. */
    CHECK(boxwise_stream_synchronize(stream));

    int64_t checked = 0;
    for (int f = 0; f < FIELDS; f++) {
        scale(after[f], in_y_slab, 1.0 / (double)(1 << f));
        checked += verify(after[f], in_y_slab, &y_slab, NULL);
    }

    report(comm, checked, "three fields moved on a stream, each while the next was computed");
    CHECK(boxwise_stream_destroy(stream));
    for (int f = 0; f < FIELDS; f++) {
        CHECK(boxwise_free(comm, after[f]));
        CHECK(boxwise_free(comm, before[f]));
    }
    CHECK(boxwise_destroy(handle));
    CHECK(boxwise_comm_destroy(comm));
    return EXIT_SUCCESS;
}
