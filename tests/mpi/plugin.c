/* The plugin alone, by its one function: contexts and their references, messages, what is refused.
 *     run: mpirun -n 2 {} single
 *     run: mpirun -n 3 {} funneled
 *     run: mpirun -n 3 {} serialized
 *     run: mpirun -n 3 {} multiple */

#include "suite.h"

#include <dlfcn.h>
#include <pthread.h>

#if defined(OPEN_MPI)
#define PLUGIN "libboxwise_mpi_openmpi.so"
#else
#define PLUGIN "libboxwise_mpi_mpich.so"
#endif

typedef int32_t boot_t(int32_t abi, int32_t is_fortran, const void *comm_handle, const void *retired,
                       void (*forget)(void *context), boxwise_boot_t *boot, char *detail, size_t capacity);

static boot_t *plugin;
static int level;
static char detail[1024];

static void *forgotten[16];
static int forgets = 0;

static void forget(void *context)
{
    forgotten[forgets++ % 16] = context;
}

static int32_t call(MPI_Comm comm, const void *retired, boxwise_boot_t *boot)
{
    memset(boot, 0, sizeof *boot);
    boot->struct_size = sizeof *boot;
    detail[0] = '\0';
    return plugin(1, 0, &comm, retired, forget, boot, detail, sizeof detail);
}

static boxwise_boot_t table(MPI_Comm comm)
{
    boxwise_boot_t boot;
    const int32_t status = call(comm, NULL, &boot);
    check_text(detail, "", "boxwise_mpi_boot", __FILE__, __LINE__);
    CHECK(status == BOXWISE_SUCCESS);
    return boot;
}

static void refuses(int32_t expected, const char *text, int32_t returned)
{
    check_text(detail, text, "boxwise_mpi_boot", __FILE__, __LINE__);
    CHECK(returned == expected);
}

static void arguments(void)
{
    boxwise_boot_t boot;
    MPI_Comm world = MPI_COMM_WORLD;
    boot.struct_size = sizeof boot;
    refuses(BOXWISE_ERROR_UNAVAILABLE, "interface",
            plugin(99, 0, &world, NULL, forget, &boot, detail, sizeof detail));
    refuses(BOXWISE_ERROR_INVALID_ARGUMENT, "NULL", plugin(1, 0, NULL, NULL, forget, &boot, detail, sizeof detail));
    refuses(BOXWISE_ERROR_INVALID_ARGUMENT, "NULL", plugin(1, 0, &world, NULL, NULL, &boot, detail, sizeof detail));
    refuses(BOXWISE_ERROR_INVALID_ARGUMENT, "NULL", plugin(1, 0, &world, NULL, forget, NULL, detail, sizeof detail));
    refuses(BOXWISE_ERROR_INVALID_ARGUMENT, "MPI_COMM_NULL", call(MPI_COMM_NULL, NULL, &boot));
    char little[8] = "1234567";
    CHECK(plugin(1, 0, NULL, NULL, forget, &boot, little, 4) == BOXWISE_ERROR_INVALID_ARGUMENT);
    CHECK(strcmp(little, "com") == 0 && strcmp(little + 4, "567") == 0);
}

static void contexts(void)
{
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    boxwise_boot_t first = table(copy), second = table(copy), world = table(MPI_COMM_WORLD), retired;
    CHECK(first.context == second.context && first.context != world.context);
    CHECK(first.rank == me && first.size == ranks && first.most_tag >= 32767);
    CHECK(first.any_thread == (level == MPI_THREAD_MULTIPLE));

    int32_t fortran = (int32_t)MPI_Comm_c2f(copy);
    boxwise_boot_t third = {.struct_size = sizeof third};
    CHECK(plugin(1, 1, &fortran, NULL, forget, &third, detail, sizeof detail) == BOXWISE_SUCCESS);
    CHECK(third.context == first.context);

    /* In place of one that is out of use there is a new one, while tables of the old one live. */
    const int before = forgets;
    CHECK(call(copy, first.context, &retired) == BOXWISE_SUCCESS);
    CHECK(forgets == before + 1 && forgotten[before % 16] == first.context && retired.context != first.context);
    CHECK(call(copy, first.context, &second) == BOXWISE_SUCCESS && second.context == retired.context);
    CHECK(first.barrier(first.context) == 0);
    for (int i = 0; i < 3; i++)
        first.release(first.context);
    retired.release(retired.context);
    CHECK(second.barrier(second.context) == 0);

    /* The parent goes before the last table, or after it. */
    MPI_Comm_free(&copy);
    CHECK(forgets == before + 2 && forgotten[(before + 1) % 16] == second.context);
    CHECK(second.barrier(second.context) == 0);
    second.release(second.context);
    world.release(world.context);
    CHECK(forgets == before + 2);
}

static void wait_for(const boxwise_boot_t *boot, uint64_t *request, size_t expected)
{
    int32_t complete = 0;
    size_t bytes = 0;
    while (!complete)
        CHECK(boot->test(boot->context, request, &complete, &bytes) == 0);
    CHECK(expected == SIZE_MAX || bytes == expected);
}

static void messages(size_t bytes)
{
    boxwise_boot_t boot = table(MPI_COMM_WORLD);
    const int32_t to = (me + 1) % ranks, from = (me + ranks - 1) % ranks, tag = boot.most_tag - 1;
    unsigned char *sent = malloc(2 * bytes + 1), *received = malloc(2 * bytes + 1);
    CHECK(sent != NULL && received != NULL);
    memset(sent, 1 + me, bytes);
    memset(sent + bytes, 101 + me, bytes);
    uint64_t out[2], in[2];
    CHECK(boot.irecv(boot.context, from, tag, received, bytes + 1, &in[0]) == 0);
    CHECK(boot.isend(boot.context, to, tag, sent, bytes, &out[0]) == 0);
    CHECK(boot.isend(boot.context, to, tag, sent + bytes, bytes, &out[1]) == 0);
    CHECK(boot.irecv(boot.context, from, tag, received + bytes, bytes + 1, &in[1]) == 0);
    for (int i = 0; i < 2; i++) {
        wait_for(&boot, &in[i], bytes);
        wait_for(&boot, &out[i], SIZE_MAX);
    }
    for (size_t i = 0; i < bytes; i++)
        CHECK(received[i] == 1 + from && received[bytes + i] == 101 + from);

    /* One that nobody has asked for is seen, with its sender; one of another tag is not. */
    int32_t peer = -2;
    CHECK(boot.probe(boot.context, tag, &peer) == 0 && peer == -1);
    CHECK(boot.barrier(boot.context) == 0);
    CHECK(boot.isend(boot.context, to, tag, sent, 0, &out[0]) == 0);
    do
        CHECK(boot.probe(boot.context, tag, &peer) == 0);
    while (peer == -1);
    CHECK(peer == from && boot.probe(boot.context, 0, &peer) == 0 && peer == -1);
    CHECK(boot.irecv(boot.context, from, tag, received, 0, &in[0]) == 0);
    wait_for(&boot, &in[0], 0);
    wait_for(&boot, &out[0], SIZE_MAX);

    /* One that never comes. Its memory is then free, and a later message goes to the next receive. */
    CHECK(boot.irecv(boot.context, from, 0, received, bytes, &in[0]) == 0);
    CHECK(boot.cancel(boot.context, &in[0]) == 0 && boot.cancel(boot.context, &in[0]) == 0);
    CHECK(boot.barrier(boot.context) == 0);
    memset(received, 0, 2 * bytes);
    CHECK(boot.irecv(boot.context, from, 0, received + bytes, bytes, &in[1]) == 0);
    CHECK(boot.isend(boot.context, to, 0, sent, bytes, &out[0]) == 0);
    wait_for(&boot, &in[1], bytes);
    wait_for(&boot, &out[0], SIZE_MAX);
    CHECK(received[0] == 0 && received[bytes] == 1 + from);

    unsigned char *all = malloc((size_t)ranks * bytes);
    CHECK(boot.allgather(boot.context, sent, all, bytes) == 0);
    for (int i = 0; i < ranks; i++)
        CHECK(all[i * bytes] == 1 + i && all[i * bytes + bytes - 1] == 1 + i);
    boot.release(boot.context);
    free(all);
    free(sent);
    free(received);
}

/* A failure of MPI's is a code with MPI's text, and the job goes on. */
static void failures(void)
{
    boxwise_boot_t boot = table(MPI_COMM_WORLD);
    uint64_t request;
    char text[512] = "", little[4] = "abc";
    const int32_t code = boot.isend(boot.context, ranks + 7, 0, text, 1, &request);
    CHECK(code > 0);
    boot.error_text(boot.context, code, text, sizeof text);
    CHECK(strstr(text, "rank") != NULL);
    boot.error_text(boot.context, code, little, 3);
    CHECK(strlen(little) == 2);
    const int32_t too_long = boot.allgather(boot.context, text, text, (size_t)INT32_MAX + 1);
    CHECK(too_long < 0);
    boot.error_text(boot.context, too_long, text, sizeof text);
    CHECK(strstr(text, "2147483647") != NULL);

    /* A message that is longer than its receive. MPICH takes such an error to the handler of MPI_COMM_WORLD. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int32_t complete = 0;
    size_t bytes;
    uint64_t in, out;
    const int32_t to = (me + 1) % ranks, from = (me + ranks - 1) % ranks;
    CHECK(boot.irecv(boot.context, from, 5, text, 8, &in) == 0);
    CHECK(boot.isend(boot.context, to, 5, detail, 16, &out) == 0);
    int32_t truncated = 0;
    while (!complete && truncated == 0)
        truncated = boot.test(boot.context, &in, &complete, &bytes);
    CHECK(truncated > 0);
    boot.error_text(boot.context, truncated, text, sizeof text);
    CHECK(strstr(text, "runcate") != NULL);
    CHECK(boot.cancel(boot.context, &in) == 0);
    wait_for(&boot, &out, SIZE_MAX);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    boot.release(boot.context);
}

static void *on_another_thread(void *context)
{
    boxwise_boot_t boot, *const given = context;
    uint64_t request;
    int32_t complete = 0, peer;
    size_t bytes;
    char byte = 0, text[512];
    if (level >= MPI_THREAD_SERIALIZED) {
        CHECK(given->irecv(given->context, me, 1, &byte, 1, &request) == 0);
        CHECK(given->test(given->context, &request, &complete, &bytes) == 0 && !complete);
        CHECK(given->cancel(given->context, &request) == 0);
    } else {
        refuses(BOXWISE_ERROR_NOT_SUPPORTED, "main thread", call(MPI_COMM_WORLD, NULL, &boot));
        const int32_t code = given->irecv(given->context, me, 1, &byte, 1, &request);
        CHECK(code < 0 && given->isend(given->context, me, 1, &byte, 1, &request) == code);
        CHECK(given->test(given->context, &request, &complete, &bytes) == code);
        CHECK(given->cancel(given->context, &request) == code && given->probe(given->context, 1, &peer) == code);
        CHECK(given->allgather(given->context, &byte, text, 1) == code && given->barrier(given->context) == code);
        given->error_text(given->context, code, text, sizeof text);
        CHECK(strstr(text, level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED") != NULL);
    }
    /* The last reference: if the duplicate cannot be freed here, the next call does. */
    given->release(given->context);
    return NULL;
}

static void threads(void)
{
    for (int i = 0; i < 3000; i++) {
        MPI_Comm copy;
        pthread_t thread;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        boxwise_boot_t boot = table(copy);
        MPI_Comm_free(&copy);
        CHECK(pthread_create(&thread, NULL, on_another_thread, &boot) == 0 && pthread_join(thread, NULL) == 0);
    }
}

/* Tables outlive MPI. */
static void after_the_end(boxwise_boot_t *boot, int before)
{
    uint64_t request = 0;
    int32_t complete, peer;
    size_t bytes;
    char text[512];
    CHECK(forgets == before + 3);
    const int32_t code = boot->barrier(boot->context);
    CHECK(code < 0 && boot->allgather(boot->context, &bytes, text, 1) == code);
    CHECK(boot->isend(boot->context, 0, 1, text, 1, &request) == code);
    CHECK(boot->irecv(boot->context, 0, 1, text, 1, &request) == code);
    CHECK(boot->test(boot->context, &request, &complete, &bytes) == code);
    CHECK(boot->probe(boot->context, 1, &peer) == code && boot->cancel(boot->context, &request) == 0);
    boot->error_text(boot->context, code, text, sizeof text);
    CHECK(strstr(text, "finalised") != NULL);
    boot->error_text(boot->context, 5, text, sizeof text);
    CHECK(strstr(text, "5") != NULL);
    boot->release(boot->context);
    refuses(BOXWISE_ERROR_INVALID_STATE, "finalised", call(MPI_COMM_WORLD, NULL, boot));
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"single", "funneled", "serialized", "multiple"};
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    boxwise_boot_t boot;
    MPI_Comm unfreed;
    CHECK(argc == 2);
    CHECK(boxwise_version() > 0); /* so that the library is linked, and its folder searched */
    void *library = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    /* The only conversion from an object's address to a function's that ISO C lets pass. */
    *(void **)&plugin = dlsym(library, "boxwise_mpi_boot");
    CHECK(plugin != NULL);
    refuses(BOXWISE_ERROR_INVALID_STATE, "not initialised", call(MPI_COMM_WORLD, NULL, &boot));

    for (int i = 0; i < 4; i++)
        if (strcmp(argv[1], names[i]) == 0)
            level = levels[i];
    int provided;
    MPI_Init_thread(NULL, NULL, level, &provided);
    MPI_Query_thread(&provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(provided == level);
    arguments();
    contexts();
    messages(1);
    messages(100);
    messages((size_t)1 << 20);
    failures();
    threads();

    const int before = forgets;
    MPI_Comm_dup(MPI_COMM_WORLD, &unfreed);
    boxwise_boot_t self = table(MPI_COMM_SELF);
    self.release(self.context);
    boxwise_boot_t unused = table(unfreed);
    unused.release(unused.context);
    boot = table(MPI_COMM_WORLD);
    MPI_Finalize();
    after_the_end(&boot, before);
    return me == 0 ? checks_done() : 0;
}
