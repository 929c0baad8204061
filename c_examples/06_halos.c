/* Halos: every rank asks for its block and a rim around it, clipped at the edges of the domain or periodic.
 *
 * Output boxes may overlap, so a halo exchange is a reshape whose outputs are larger than its inputs. Where the rim
 * leaves the domain nobody holds the elements; BOXWISE_OPTION_ALLOW_UNCOVERED leaves those places untouched. For a
 * periodic domain the same block is offered again, moved by a whole period: eight more reshapes fill the rest.
 */
#include "check.h"

enum { NY = 20, NX = 26, WIDTH = 2 };

static int64_t wrap(int64_t i, int64_t n) { return (i % n + n) % n; }

/* Stops unless the block and its rim hold their values, and what lies outside of the domain too if it is periodic. */
static int64_t verify_rim(const double *data, const int64_t lower[2], const int64_t upper[2], int periodic)
{
    int64_t checked = 0;
    for (int64_t y = lower[0]; y < upper[0]; y++)
        for (int64_t x = lower[1]; x < upper[1]; x++, data++) {
            double expected = value_at(0, wrap(y, NY), wrap(x, NX));
            if (!periodic && (y < 0 || y >= NY || x < 0 || x >= NX))
                poison(&expected, 1);
            else
                checked++;
            if (memcmp(data, &expected, sizeof *data) != 0) {
                fprintf(stderr, "wrong at y %" PRId64 ", x %" PRId64 ": %.17g instead of %.17g\n", y, x, *data, expected);
                exit(EXIT_FAILURE);
            }
        }
    return checked;
}

int main(void)
{
    boxwise_comm_t comm;
    int32_t rank, size;
    CHECK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));

    /* The block of this rank in a grid of ranks, and the block with its rim. Coordinates may be negative. */
    const int32_t rows = grid_rows(size), columns = size / rows, row = rank / columns, column = rank % columns;
    const int64_t block_lower[2] = {NY * row / rows, NX * column / columns};
    const int64_t block_upper[2] = {NY * (row + 1) / rows, NX * (column + 1) / columns};
    const int64_t rim_lower[2] = {block_lower[0] - WIDTH, block_lower[1] - WIDTH};
    const int64_t rim_upper[2] = {block_upper[0] + WIDTH, block_upper[1] + WIDTH};

    const size_t in_block = (size_t)((block_upper[0] - block_lower[0]) * (block_upper[1] - block_lower[1]));
    const size_t in_rim = (size_t)((rim_upper[0] - rim_lower[0]) * (rim_upper[1] - rim_lower[1]));
    void *block_memory, *rim_memory;
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, in_block * sizeof(double), &block_memory));
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_HOST, in_rim * sizeof(double), &rim_memory));
    double *block = block_memory, *rim = rim_memory, *next = block;
    for (int64_t y = block_lower[0]; y < block_upper[0]; y++)
        for (int64_t x = block_lower[1]; x < block_upper[1]; x++)
            *next++ = value_at(0, y, x);
    poison(rim, in_rim);

    /* The domain itself, image 0, and its eight neighbours. All write to the same output, each its own part. */
    const int64_t images[9][2] = {{0, 0}, {-1, -1}, {-1, 0}, {-1, 1}, {0, -1}, {0, 1}, {1, -1}, {1, 0}, {1, 1}};
    boxwise_handle_t handles[9];
    for (int i = 0; i < 9; i++) {
        const int64_t lower[2] = {block_lower[0] + images[i][0] * NY, block_lower[1] + images[i][1] * NX};
        const int64_t upper[2] = {block_upper[0] + images[i][0] * NY, block_upper[1] + images[i][1] * NX};
        CHECK(boxwise_create(&handles[i]));
        CHECK(boxwise_set_option(handles[i], BOXWISE_OPTION_ALLOW_UNCOVERED, 1));
        CHECK(boxwise_make(handles[i], sizeof(double), 2, lower, upper, NULL, rim_lower, rim_upper, NULL, &comm,
                           BOXWISE_COMM_OBJECT));
    }

    /* Clipped: the domain alone. */
    CHECK(boxwise_exec_async(handles[0], rim, block, NULL, NULL));
    int64_t checked = verify_rim(rim, rim_lower, rim_upper, 0);

    /* Periodic: the images as well. */
    for (int i = 1; i < 9; i++)
        CHECK(boxwise_exec_async(handles[i], rim, block, NULL, NULL));
    checked += verify_rim(rim, rim_lower, rim_upper, 1);

    report(comm, checked, "blocks with halos, clipped and periodic");
    for (int i = 0; i < 9; i++)
        CHECK(boxwise_destroy(handles[i]));
    CHECK(boxwise_free(comm, rim));
    CHECK(boxwise_free(comm, block));
    CHECK(boxwise_comm_destroy(comm));
    return EXIT_SUCCESS;
}
