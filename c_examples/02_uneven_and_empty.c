/* Boxes of any size, also of none: rank 0 has read a file, everybody shall work, some more than others.
 *
 * Nothing has to be divisible, and a rank without elements calls everything like the others, with a NULL pointer.
 */
#include "check.h"

enum { NZ = 11, NY = 7, NX = 5 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* What the planes below those of `rank` weigh: 2, 0, 1, 2, 0, 1, ... so that rank 1 gets nothing. */
static int64_t weight_below(int32_t rank)
{
    int64_t weight = 0;
    for (int32_t r = 0; r < rank; r++)
        weight += (r + 2) % 3;
    return weight;
}

int main(void)
{
    boxwise_comm_t comm;
    int32_t rank, size;
    CHECK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));

    /* The file: all of it on rank 0. A box whose lower equals its upper anywhere is empty. */
    const box_t file = {{0, 0, 0}, {rank == 0 ? NZ : 0, NY, NX}};

    /* Blocks of the size that most programs compute, rounded up: 8 ranks get 2 2 2 2 2 1 0 0 planes. */
    const int64_t block = (NZ + size - 1) / size;
    const box_t even = {{smaller(NZ, rank * block), 0, 0}, {smaller(NZ, (rank + 1) * block), NY, NX}};

    /* Blocks by weight, for ranks that are not equally fast. */
    const int64_t total = weight_below(size);
    const box_t weighted = {{NZ * weight_below(rank) / total, 0, 0}, {NZ * weight_below(rank + 1) / total, NY, NX}};

    /* Plain memory, and none where there is nothing to hold. */
    const size_t in_file = box_elements(&file), in_even = box_elements(&even), in_weighted = box_elements(&weighted);
    double *file_data = in_file > 0 ? malloc(in_file * sizeof(double)) : NULL;
    double *even_data = in_even > 0 ? malloc(in_even * sizeof(double)) : NULL;
    double *weighted_data = in_weighted > 0 ? malloc(in_weighted * sizeof(double)) : NULL;
    fill(file_data, &file, NULL);
    poison(even_data, in_even);
    poison(weighted_data, in_weighted);

    boxwise_handle_t scatter, balance;
    CHECK(boxwise_create(&scatter));
    CHECK(boxwise_create(&balance));
    CHECK(boxwise_make(scatter, sizeof(double), 3, file.lower, file.upper, NULL, even.lower, even.upper, NULL, &comm,
                       BOXWISE_COMM_OBJECT));
    CHECK(boxwise_make(balance, sizeof(double), 3, even.lower, even.upper, NULL, weighted.lower, weighted.upper, NULL,
                       &comm, BOXWISE_COMM_OBJECT));

    CHECK(boxwise_exec_async(scatter, even_data, file_data, NULL, NULL));
    CHECK(boxwise_exec_async(balance, weighted_data, even_data, NULL, NULL));
    int64_t checked = verify(even_data, in_even, &even, NULL);
    checked += verify(weighted_data, in_weighted, &weighted, NULL);

    report(comm, checked, "all on rank 0 to rounded-up blocks to blocks by weight, some ranks empty");
    CHECK(boxwise_destroy(balance));
    CHECK(boxwise_destroy(scatter));
    free(weighted_data);
    free(even_data);
    free(file_data);
    CHECK(boxwise_comm_destroy(comm));
    return EXIT_SUCCESS;
}
