/* One transfer of more than 2^31 bytes between two nodes, which MPI's own counts of int cannot say.
 *     run: env BOXWISE_NODE=0,1 mpirun -n 2 {} 1
 *     run: env BOXWISE_NODE=0,1 mpirun -n 2 {} 8
 *     run: env BOXWISE_NODE=0,1 mpirun -n 2 {} transposed */

#include "suite.h"

enum { ROWS = 1 << 14, COLUMNS = ROWS + 1, GUARD = 8 };

/* What boxwise and MPI may take beside the array itself. */
static const size_t MOST_EXTRA = (size_t)128 << 20;

static uint64_t word_at(uint64_t i)
{
    return i * UINT64_C(0x9E3779B97F4A7C15);
}

int main(int argc, char **argv)
{
    start_mpi(MPI_THREAD_FUNNELED);
    CHECK(ranks == 2 && argc == 2);
    const int transposed = strcmp(argv[1], "transposed") == 0;
    const size_t element_size = transposed ? 8 : strtoull(argv[1], NULL, 10);
    const uint64_t words = transposed ? (uint64_t)ROWS * COLUMNS : (UINT64_C(1) << 28) + 3;
    const size_t bytes = words * 8;

    /* Rank 0 holds all of it, rank 1 wants all of it. */
    const int32_t ndims = transposed ? 2 : 1;
    const int64_t none[2] = {0, 0}, all[2] = {transposed ? ROWS : (int64_t)(bytes / element_size), COLUMNS};
    const int64_t by_columns[2] = {1, ROWS};
    boxwise_handle_t handle;
    const MPI_Comm world = MPI_COMM_WORLD;
    CHECK_OK(boxwise_create(&handle));
    CHECK_OK(boxwise_make(handle, element_size, ndims, none, me == 0 ? all : none, NULL, none, me == 1 ? all : none,
                          transposed ? by_columns : NULL, &world, BOXWISE_COMM_MPI));

    uint64_t *data = malloc(bytes + GUARD * sizeof *data);
    CHECK(data != NULL);
    memset(data, 0xA5, bytes + GUARD * sizeof *data);
    if (me == 0)
        for (uint64_t i = 0; i < words; i++)
            data[i] = word_at(i);
    const double start = MPI_Wtime();
    CHECK_OK(boxwise_exec_async(handle, me == 1 ? data : NULL, me == 0 ? data : NULL, NULL, NULL));
    const double seconds = MPI_Wtime() - start;

    boxwise_info_t info = {.struct_size = sizeof info};
    CHECK_OK(boxwise_get_info(handle, &info));
    CHECK(info.bytes_sent == (me == 0 ? bytes : 0) && info.bytes_received == (me == 1 ? bytes : 0));
    uint64_t wrong = 0;
    if (!transposed || me == 0) {
        for (uint64_t i = 0; i < words; i++)
            wrong += data[i] != word_at(i);
    } else {
        for (uint64_t column = 0; column < COLUMNS; column++)
            for (uint64_t row = 0; row < ROWS; row++)
                wrong += data[column * ROWS + row] != word_at(row * COLUMNS + column);
    }
    CHECK(wrong == 0);
    for (uint64_t i = words; i < words + GUARD; i++)
        CHECK(data[i] == UINT64_C(0xA5A5A5A5A5A5A5A5));

    const size_t most = status_bytes("VmHWM:");
    printf("rank %d: %zu bytes in %.2f s; at most %zu MiB resident, %zu of them the array\n", me, bytes, seconds,
           most >> 20, bytes >> 20);
    CHECK(most < bytes + MOST_EXTRA);
    CHECK_OK(boxwise_destroy(handle));
    free(data);
    return end_mpi();
}
