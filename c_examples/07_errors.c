/* Errors: what a solver does with a status. This program makes mistakes on purpose and looks at what it is told.
 *
 * - boxwise_make returns the same status on all ranks, whoever was at fault. So all ranks can take the same branch
 *   without talking to each other: correct the boxes and make again, or clean up and leave in good order.
 * - boxwise_exec_async fails on the rank at fault and on those that exchange data with it; nobody waits for ever.
 *   What is queued on a stream fails in boxwise_stream_synchronize.
 * - INVALID_ARGUMENT and INCONSISTENT are faults of the program or of its input: show boxwise_last_error(), which
 *   names the rank and the value.
 * - OUT_OF_MEMORY and UNAVAILABLE may have a way round: less memory, another kind of communicator.
 * - PEER_LOST, TIMEOUT and TRANSPORT mean that the ranks no longer act together: say why, and end with a code that is
 *   not zero. Collective calls make no sense any more.
 * - Nothing is written by a call that failed, and what was made before can still be destroyed.
 */
#include "check.h"

enum { NZ = 64, NY = 48, NX = 10 };

static int provoked = 0; /* faults so far */

/* Stops unless the call told this fault, in a text that says `said`. */
static void expect(boxwise_status_t status, boxwise_status_t expected, const char *said)
{
    provoked++;
    if (status == expected && strstr(boxwise_last_error(), said) != NULL)
        return;
    fprintf(stderr, "fault %d: status %" PRId32 " (%s) instead of %" PRId32 ", or its text lacks '%s': %s\n", provoked,
            status, boxwise_status_string(status), expected, said, boxwise_last_error());
    exit(EXIT_FAILURE);
}

/* How a function of a solver uses the library: it undoes what it has done, and hands the status to its caller. */
static boxwise_status_t plan_move(const boxwise_comm_t *comm, size_t element_size, const box_t *from, const box_t *to,
                                  boxwise_handle_t *plan)
{
    boxwise_handle_t handle;
    boxwise_status_t status = boxwise_create(&handle);
    if (status != BOXWISE_SUCCESS)
        return status;
    status = boxwise_make(handle, element_size, 3, from->lower, from->upper, NULL, to->lower, to->upper, NULL, comm,
                          BOXWISE_COMM_OBJECT);
    if (status != BOXWISE_SUCCESS) {
        boxwise_destroy(handle); /* keeps the text of boxwise_last_error: only a call that fails replaces it */
        return status;
    }
    *plan = handle;
    return BOXWISE_SUCCESS;
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
    const int is_last = rank == size - 1;
    char last_rank[32];
    snprintf(last_rank, sizeof last_rank, "rank %" PRId32, size - 1);
    boxwise_handle_t plan;

    /* One rank gives a box that is upside down. Every rank is told, and told who it was. */
    box_t wrong = z_slab;
    if (is_last)
        wrong.upper[0] = wrong.lower[0] - 1;
    expect(plan_move(&comm, sizeof(double), &wrong, &y_slab, &plan), BOXWISE_ERROR_INVALID_ARGUMENT, last_rank);

    /* One rank forgets its last plane: its box is fine by itself, but now nobody holds some elements. */
    wrong = z_slab;
    if (is_last)
        wrong.upper[0]--;
    expect(plan_move(&comm, sizeof(double), &wrong, &y_slab, &plan), BOXWISE_ERROR_INCONSISTENT, "rank");

    /* One rank works in single precision. */
    if (size > 1)
        expect(plan_move(&comm, is_last ? sizeof(float) : sizeof(double), &z_slab, &y_slab, &plan),
               BOXWISE_ERROR_INCONSISTENT, last_rank);

    /* A handle whose make has failed can be made again. Calls out of order are told as well. */
    boxwise_handle_t handle;
    double dummy = 0;
    CHECK(boxwise_create(&handle));
    expect(boxwise_exec_async(handle, &dummy, &dummy, NULL, NULL), BOXWISE_ERROR_INVALID_STATE, "make");
    expect(boxwise_make(handle, 0, 3, z_slab.lower, z_slab.upper, NULL, y_slab.lower, y_slab.upper, NULL, &comm,
                        BOXWISE_COMM_OBJECT),
           BOXWISE_ERROR_INVALID_ARGUMENT, "element_size");
    CHECK(boxwise_make(handle, sizeof(double), 3, z_slab.lower, z_slab.upper, NULL, y_slab.lower, y_slab.upper, NULL,
                       &comm, BOXWISE_COMM_OBJECT));

    /* One rank moves within one buffer, without BOXWISE_OPTION_IN_PLACE. It is told what is wrong; those that exchange
     * data with it get the same status, and the number of the rank that knows more. */
    const size_t in_z_slab = box_elements(&z_slab), in_y_slab = box_elements(&y_slab);
    double *before = malloc(in_z_slab * sizeof(double)), *after = malloc(in_y_slab * sizeof(double));
    if (before == NULL || after == NULL)
        return EXIT_FAILURE;
    expect(boxwise_exec_async(handle, is_last ? before : after, before, NULL, NULL), BOXWISE_ERROR_INVALID_ARGUMENT,
           is_last ? "BOXWISE_OPTION_IN_PLACE" : last_rank);

    /* After all that the same handle does its work. */
    fill(before, &z_slab, NULL);
    poison(after, in_y_slab);
    CHECK(boxwise_exec_async(handle, after, before, NULL, NULL));
    const int64_t checked = verify(after, in_y_slab, &y_slab, NULL);

    /* A handle that is gone, or never was, is told too. */
    CHECK(boxwise_destroy(handle));
    expect(boxwise_exec_async(handle, after, before, NULL, NULL), BOXWISE_ERROR_INVALID_STATE, "handle");
    expect(boxwise_exec_async(NULL, after, before, NULL, NULL), BOXWISE_ERROR_INVALID_ARGUMENT, "handle");

    char what[96];
    snprintf(what, sizeof what, "moved after %d provoked faults, each told to those it concerns", provoked);
    report(comm, checked, what);
    free(after);
    free(before);
    CHECK(boxwise_comm_destroy(comm));
    return EXIT_SUCCESS;
}
