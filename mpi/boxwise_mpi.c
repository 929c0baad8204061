/* The MPI plugin of boxwise: makes a boot table out of an MPI communicator.
 *
 * This is the only file that sees mpi.h, because compiled code of one MPI is of no use to another. It is compiled with
 * each MPI that is used (3.0 or later), and boxwise loads it when it is given an MPI communicator:
 *
 *     mpicc -shared -fPIC -O2 -fvisibility=hidden -Iinclude mpi/boxwise_mpi.c -o libboxwise_mpi.so
 *
 * boxwise talks over a duplicate of the communicator that it was given, the parent, so that its messages never meet the
 * program's. There is one duplicate for each parent, whose attribute it is. It is counted: the attribute is one
 * reference, and each table that was handed out another, until its `release`. When the parent is freed, or MPI ends,
 * boxwise is told to forget the duplicate; when the last reference goes, MPI_Comm_free is called. That is collective by
 * the standard, but ranks come to it at different times, and from within other calls: MPICH, Open MPI and those that
 * descend from them do it locally and wait for nobody.
 *
 * The mutex is held neither across a call of MPI, which may hold a lock of its own when it calls back, nor across the
 * call that tells boxwise to forget. Nothing here prints or ends the process. */

#define _POSIX_C_SOURCE 200809L

#include "boxwise.h"

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of the interface between boxwise and this file: the function below, and the members of the table. */
#define BOXWISE_MPI_ABI 1

/* Which MPI this was compiled for. Intel MPI, MVAPICH and Cray MPICH have the binary interface of MPICH. */
#if defined(OPEN_MPI)
#define FAMILY "Open MPI"
#elif defined(MPICH_VERSION) || defined(I_MPI_VERSION) || defined(MVAPICH_VERSION) || defined(CRAY_MPICH_VERSION)
#define FAMILY "MPICH"
#elif defined(MPI_ABI_VERSION) && MPI_ABI_VERSION > 0
#define FAMILY "the standard ABI of MPI"
#define IS_STANDARD_ABI
#else
#define FAMILY "an MPI that boxwise does not know"
#endif

/* Room for any MPI's texts: the constants of mpi.h are those of the MPI this was compiled for, which need not be the
 * one that runs. */
enum { TEXT_BYTES = 16384, VERSION_SHOWN = 100 };

/* What the functions of the table return beside MPI's own codes, which are positive. */
enum { MPI_IS_OVER = -1, OTHER_THREAD = -2, TOO_LONG = -3 };

/* How long to wait for MPI to end a receive. */
#define CANCEL_SECONDS 0.1

/* A duplicate of a communicator; the context of the tables. */
typedef struct duplicate {
    MPI_Comm comm; /* MPI_COMM_NULL when MPI ended before the last reference */
    int references;
    int is_forgotten;
    void (*forget)(void *context);
    struct duplicate *next, **link;
} duplicate_t;

typedef char request_fits_into_64_bits[sizeof(MPI_Request) <= sizeof(uint64_t) ? 1 : -1];

/* Guards the references and the lists. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static duplicate_t *referenced = NULL;
/* Those whose last reference went on a thread that may not call MPI. */
static duplicate_t *unfreed = NULL;
/* The attribute of parents; it is there as soon as MPI's end will be noticed. */
static int attribute = MPI_KEYVAL_INVALID;
/* The level of threads that MPI gave. */
static int level = MPI_THREAD_SINGLE;
static int is_over = 0;

static int mpi_is_over(void)
{
    return __atomic_load_n(&is_over, __ATOMIC_ACQUIRE);
}

/* Whether MPI may be called: with this level of threads by any thread, else by its main thread only. */
static int may_call(int level_of_all)
{
    int is_main = 0;
    if (__atomic_load_n(&level, __ATOMIC_RELAXED) >= level_of_all)
        return 1;
    return MPI_Is_thread_main(&is_main) == MPI_SUCCESS && is_main;
}

static void insert(duplicate_t **list, duplicate_t *duplicate)
{
    duplicate->next = *list;
    duplicate->link = list;
    if (*list != NULL)
        (*list)->link = &duplicate->next;
    __atomic_store_n(list, duplicate, __ATOMIC_RELEASE);
}

static void take_out(duplicate_t *duplicate)
{
    if (duplicate->next != NULL)
        duplicate->next->link = duplicate->link;
    __atomic_store_n(duplicate->link, duplicate->next, __ATOMIC_RELEASE);
}

static void add_reference(duplicate_t *duplicate)
{
    pthread_mutex_lock(&mutex);
    duplicate->references++;
    pthread_mutex_unlock(&mutex);
}

static void drop_reference(duplicate_t *duplicate, int may_free)
{
    const int is_alive = !mpi_is_over();
    pthread_mutex_lock(&mutex);
    const int is_last = --duplicate->references == 0;
    if (is_last) {
        take_out(duplicate);
        if (is_alive && !may_free)
            insert(&unfreed, duplicate);
    }
    pthread_mutex_unlock(&mutex);
    if (!is_last || (is_alive && !may_free))
        return;
    if (is_alive)
        MPI_Comm_free(&duplicate->comm);
    free(duplicate);
}

/* Does what other threads could not. */
static void free_unfreed(void)
{
    while (__atomic_load_n(&unfreed, __ATOMIC_ACQUIRE) != NULL) {
        pthread_mutex_lock(&mutex);
        duplicate_t *duplicate = unfreed;
        if (duplicate != NULL)
            take_out(duplicate);
        pthread_mutex_unlock(&mutex);
        if (duplicate != NULL)
            MPI_Comm_free(&duplicate->comm);
        free(duplicate);
    }
}

/* ---- the functions of the table ---- */

/* What each begins with: 0, or why MPI must not be called. */
static int32_t enter(void)
{
    if (mpi_is_over())
        return MPI_IS_OVER;
    if (!may_call(MPI_THREAD_SERIALIZED))
        return OTHER_THREAD;
    free_unfreed();
    return 0;
}

static MPI_Comm comm_of(void *context)
{
    return ((duplicate_t *)context)->comm;
}

static int32_t allgather(void *context, const void *mine, void *all, size_t bytes)
{
    const int32_t refused = bytes > INT_MAX ? TOO_LONG : enter();
    if (refused != 0)
        return refused;
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm_of(context));
}

static int32_t barrier(void *context)
{
    const int32_t refused = enter();
    return refused != 0 ? refused : MPI_Barrier(comm_of(context));
}

static int32_t isend(void *context, int32_t peer, int32_t tag, const void *data, size_t bytes, uint64_t *request)
{
    const int32_t refused = bytes > INT_MAX ? TOO_LONG : enter();
    if (refused != 0)
        return refused;
    MPI_Request started = MPI_REQUEST_NULL;
    const int code = MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, comm_of(context), &started);
    memcpy(request, &started, sizeof started);
    return code;
}

static int32_t irecv(void *context, int32_t peer, int32_t tag, void *data, size_t bytes, uint64_t *request)
{
    const int32_t refused = bytes > INT_MAX ? TOO_LONG : enter();
    if (refused != 0)
        return refused;
    MPI_Request started = MPI_REQUEST_NULL;
    const int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, tag, comm_of(context), &started);
    memcpy(request, &started, sizeof started);
    return code;
}

static int32_t test(void *context, uint64_t *request, int32_t *complete, size_t *bytes)
{
    (void)context;
    const int32_t refused = enter();
    if (refused != 0)
        return refused;
    MPI_Request tested;
    MPI_Status status;
    int is_complete = 0, count = 0;
    memset(&status, 0, sizeof status);
    memcpy(&tested, request, sizeof tested);
    /* An error of the message is what MPI_Test returns; it leaves the status's alone. */
    int code = MPI_Test(&tested, &is_complete, &status);
    memcpy(request, &tested, sizeof tested);
    if (code == MPI_SUCCESS && is_complete)
        code = MPI_Get_count(&status, MPI_BYTE, &count);
    *complete = is_complete ? 1 : 0;
    *bytes = count > 0 ? (size_t)count : 0;
    return code;
}

static int32_t cancel(void *context, uint64_t *request)
{
    (void)context;
    if (mpi_is_over())
        return 0;
    const int32_t refused = enter();
    if (refused != 0)
        return refused;
    MPI_Request cancelled;
    memcpy(&cancelled, request, sizeof cancelled);
    /* A message that failed is gone already. */
    if (cancelled == MPI_REQUEST_NULL)
        return 0;
    int code = MPI_Cancel(&cancelled), is_complete = 0;
    /* A long message that has met its receive is complete only once its sender, which may be gone, goes on. */
    for (const double end = MPI_Wtime() + CANCEL_SECONDS; code == MPI_SUCCESS && !is_complete && MPI_Wtime() < end;)
        code = MPI_Test(&cancelled, &is_complete, MPI_STATUS_IGNORE);
    memcpy(request, &cancelled, sizeof cancelled);
    return cancelled == MPI_REQUEST_NULL ? 0 : code != MPI_SUCCESS ? code : MPI_ERR_PENDING;
}

static int32_t probe(void *context, int32_t tag, int32_t *peer)
{
    const int32_t refused = enter();
    if (refused != 0)
        return refused;
    MPI_Status status;
    int is_there = 0;
    const int code = MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_of(context), &is_there, &status);
    *peer = code == MPI_SUCCESS && is_there ? status.MPI_SOURCE : -1;
    return code;
}

static void release(void *context)
{
    /* With MPI_THREAD_SERIALIZED this may be a thread of boxwise's, about which the program cannot know. */
    drop_reference(context, !mpi_is_over() && may_call(MPI_THREAD_MULTIPLE));
}

static const char *level_name(void)
{
    return level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED";
}

static void error_text(void *context, int32_t code, char *text, size_t capacity)
{
    (void)context;
    char foreign[TEXT_BYTES] = "";
    int length;
    switch (code) {
    case MPI_IS_OVER:
        snprintf(text, capacity, "MPI was finalised; destroy what was made on its communicators before MPI_Finalize");
        return;
    case OTHER_THREAD:
        snprintf(text, capacity, "MPI was started with %s, and this is not its main thread; call from that one, or ask "
                 "MPI_Init_thread for MPI_THREAD_MULTIPLE", level_name());
        return;
    case TOO_LONG:
        snprintf(text, capacity, "more than %d bytes in one message", INT_MAX);
        return;
    default:
        if (!mpi_is_over() && MPI_Error_string(code, foreign, &length) == MPI_SUCCESS)
            snprintf(text, capacity, "%s", foreign);
        else
            snprintf(text, capacity, "error %d of MPI", (int)code);
    }
}

/* ---- duplicates of communicators ---- */

static void forget_once(duplicate_t *duplicate)
{
    pthread_mutex_lock(&mutex);
    const int is_first = !duplicate->is_forgotten;
    duplicate->is_forgotten = 1;
    pthread_mutex_unlock(&mutex);
    if (is_first)
        duplicate->forget(duplicate);
}

/* The attribute is deleted: the parent is being freed, or MPI frees its own communicators at its end. */
static int on_parent_freed(MPI_Comm parent, int key, void *value, void *extra)
{
    (void)parent, (void)key, (void)extra;
    forget_once(value);
    drop_reference(value, 1);
    return MPI_SUCCESS;
}

/* One that boxwise has not forgotten, with a reference. */
static duplicate_t *unforgotten(void)
{
    pthread_mutex_lock(&mutex);
    duplicate_t *found = referenced;
    while (found != NULL && found->is_forgotten)
        found = found->next;
    if (found != NULL)
        found->references++;
    pthread_mutex_unlock(&mutex);
    return found;
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first, while MPI still works. Those of parents that the program
 * did not free follow later, or never. */
static int on_mpi_end(MPI_Comm self, int key, void *value, void *extra)
{
    (void)self, (void)key, (void)value, (void)extra;
    for (duplicate_t *duplicate; (duplicate = unforgotten()) != NULL; drop_reference(duplicate, 1)) {
        forget_once(duplicate);
        pthread_mutex_lock(&mutex);
        /* The attribute's and ours. Plans that the program did not destroy keep what they have. */
        MPI_Comm unused = duplicate->references == 2 ? duplicate->comm : MPI_COMM_NULL;
        if (unused != MPI_COMM_NULL)
            duplicate->comm = MPI_COMM_NULL;
        pthread_mutex_unlock(&mutex);
        if (unused != MPI_COMM_NULL)
            MPI_Comm_free(&unused);
    }
    free_unfreed();
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    return MPI_SUCCESS;
}

/* Creates the attribute of parents and the one that notices MPI's end. Two threads at once are one too many, which does
 * no harm. */
static int prepare(void)
{
    int of_parents = MPI_KEYVAL_INVALID, of_self = MPI_KEYVAL_INVALID;
    if (__atomic_load_n(&attribute, __ATOMIC_ACQUIRE) != MPI_KEYVAL_INVALID)
        return MPI_SUCCESS;
    int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_parent_freed, &of_parents, NULL);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_mpi_end, &of_self, NULL);
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_set_attr(MPI_COMM_SELF, of_self, NULL);
        /* Which lasts until its attribute is gone. */
        MPI_Comm_free_keyval(&of_self);
    }
    int none = MPI_KEYVAL_INVALID;
    if (code == MPI_SUCCESS &&
        __atomic_compare_exchange_n(&attribute, &none, of_parents, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return code;
    if (of_parents != MPI_KEYVAL_INVALID)
        MPI_Comm_free_keyval(&of_parents);
    return code;
}

/* Collective. The parent's errors are returned meanwhile, and the duplicate's always: MPI would end the job. It takes
 * over none of the parent's hints, which may be promises that boxwise does not keep, as mpi_assert_no_any_source. */
static int duplicate_comm(MPI_Comm parent, MPI_Comm *copy)
{
    MPI_Errhandler handler;
    int code = MPI_Comm_get_errhandler(parent, &handler);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    code = MPI_Comm_dup_with_info(parent, MPI_INFO_NULL, copy);
    MPI_Comm_set_errhandler(parent, handler);
    MPI_Errhandler_free(&handler);
    return code != MPI_SUCCESS ? code : MPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN);
}

/* The duplicate of this parent, with a reference for the caller; collective where it is a new one. One that is retired
 * loses its place. */
static int find_or_create(MPI_Comm parent, const void *retired, void (*forget)(void *context), duplicate_t **found)
{
    void *value = NULL;
    int is_there = 0;
    int code = MPI_Comm_get_attr(parent, attribute, &value, &is_there);
    if (code == MPI_SUCCESS && is_there && value == retired) {
        code = MPI_Comm_delete_attr(parent, attribute);
        is_there = 0;
    }
    if (code != MPI_SUCCESS)
        return code;
    if (is_there) {
        *found = value;
        add_reference(*found);
        return MPI_SUCCESS;
    }
    duplicate_t *created = calloc(1, sizeof *created);
    if (created == NULL)
        return MPI_ERR_NO_MEM;
    code = duplicate_comm(parent, &created->comm);
    if (code != MPI_SUCCESS) {
        free(created);
        return code;
    }
    created->references = 2;
    created->forget = forget;
    pthread_mutex_lock(&mutex);
    insert(&referenced, created);
    pthread_mutex_unlock(&mutex);
    code = MPI_Comm_set_attr(parent, attribute, created);
    if (code != MPI_SUCCESS) {
        drop_reference(created, 1);
        drop_reference(created, 1);
        return code;
    }
    *found = created;
    return MPI_SUCCESS;
}

/* ---- the one function that boxwise looks for ---- */

static int32_t fail(char *detail, size_t capacity, int32_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, capacity, format, arguments);
    va_end(arguments);
    return status;
}

static int32_t mpi_failed(char *detail, size_t capacity, const char *what, int code)
{
    char text[TEXT_BYTES];
    int class = MPI_ERR_OTHER;
    error_text(NULL, code, text, sizeof text);
    MPI_Error_class(code, &class);
    const int32_t status = class == MPI_ERR_NO_MEM ? BOXWISE_ERROR_OUT_OF_MEMORY : BOXWISE_ERROR_TRANSPORT;
    return fail(detail, capacity, status, "%s: %s", what, text);
}

/* Whether the MPI that runs is of the family this was compiled for, and what it calls itself. Before that is known no
 * handle may be used: they are numbers in one MPI and pointers in another. */
static int is_of_family(char *version)
{
    int length = 0;
    version[0] = '\0';
    if (MPI_Get_library_version(version, &length) != MPI_SUCCESS)
        return 0;
#if defined(IS_STANDARD_ABI)
    int major = -1, minor = -1;
    return MPI_Abi_get_version(&major, &minor) == MPI_SUCCESS && major == MPI_ABI_VERSION;
#else
    const int is_open_mpi = strstr(version, "Open MPI") != NULL || strstr(version, "Spectrum MPI") != NULL;
    const int is_mpich = strstr(version, "MPICH") != NULL || strstr(version, "Intel(R) MPI") != NULL ||
                         strstr(version, "MVAPICH") != NULL;
#if defined(OPEN_MPI)
    return is_open_mpi && !is_mpich;
#elif defined(MPICH_VERSION) || defined(I_MPI_VERSION) || defined(MVAPICH_VERSION) || defined(CRAY_MPICH_VERSION)
    return is_mpich && !is_open_mpi;
#else
    return !is_open_mpi && !is_mpich;
#endif
#endif
}

/* Whether this is one of MPI's own communicators instead of its address: no variable is at such a place. */
static int is_value(const void *comm_handle)
{
    const MPI_Comm own[] = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if ((uintptr_t)comm_handle == (uintptr_t)own[i])
            return 1;
    return 0;
}

/* Whether MPI is in a state, and this a thread, in which it can be called. */
static int32_t check_mpi(const char *version, char *detail, size_t capacity)
{
    int is_initialised = 0, is_finalised = 0;
    MPI_Initialized(&is_initialised);
    MPI_Finalized(&is_finalised);
    if (is_finalised || mpi_is_over())
        return fail(detail, capacity, BOXWISE_ERROR_INVALID_STATE, "MPI was finalised, its communicators are gone");
    if (!is_initialised)
        return fail(detail, capacity, BOXWISE_ERROR_INVALID_STATE, "MPI is not initialised, call MPI_Init or "
                    "MPI_Init_thread first (this MPI is %s)", version);
    int provided = MPI_THREAD_SINGLE;
    MPI_Query_thread(&provided);
    __atomic_store_n(&level, provided, __ATOMIC_RELAXED);
    if (!may_call(MPI_THREAD_SERIALIZED)) {
        char text[TEXT_BYTES];
        error_text(NULL, OTHER_THREAD, text, sizeof text);
        return fail(detail, capacity, BOXWISE_ERROR_NOT_SUPPORTED, "%s", text);
    }
    return BOXWISE_SUCCESS;
}

static int32_t fill(boxwise_boot_t *boot, duplicate_t *duplicate, char *detail, size_t capacity)
{
    void *most_tag = NULL;
    int rank, size, has_most_tag = 0;
    int code = MPI_Comm_rank(duplicate->comm, &rank);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_size(duplicate->comm, &size);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_get_attr(duplicate->comm, MPI_TAG_UB, &most_tag, &has_most_tag);
    if (code != MPI_SUCCESS)
        return mpi_failed(detail, capacity, "the duplicate of the communicator", code);
    boot->struct_size = sizeof *boot;
    boot->context = duplicate;
    boot->rank = rank;
    boot->size = size;
    boot->allgather = allgather;
    boot->barrier = barrier;
    boot->isend = isend;
    boot->irecv = irecv;
    boot->test = test;
    boot->cancel = cancel;
    boot->probe = probe;
    boot->release = release;
    boot->error_text = error_text;
    /* What MPI promises in any case. */
    boot->most_tag = has_most_tag ? *(int *)most_tag : 32767;
    boot->any_thread = level == MPI_THREAD_MULTIPLE;
    return BOXWISE_SUCCESS;
}

/* Fills `boot`, whose struct_size the caller has set, for a communicator; collective over its ranks.
 *
 * - abi: BOXWISE_MPI_ABI as the caller knows it.
 * - comm_handle: points to an MPI_Comm, or with is_fortran to an int32_t, the handle that Fortran has.
 * - retired: the context of a table for this communicator in whose place all ranks want a new one; on all, or NULL on
 *   all.
 * - forget: called once with the context of the table, from within the call that frees the communicator, ends MPI
 *   or retires the context.
 * - boot: for one communicator it has the same context until that is retired. It is the caller's until its `release`.
 * - detail: receives a text of at most `capacity` bytes when this fails.
 *
 * Returns a boxwise_status. UNAVAILABLE means that this is the wrong plugin, and that nothing was done. */
__attribute__((visibility("default")))
int32_t boxwise_mpi_boot(int32_t abi, int32_t is_fortran, const void *comm_handle, const void *retired,
                         void (*forget)(void *context), boxwise_boot_t *boot, char *detail, size_t capacity)
{
    char version[TEXT_BYTES];
    MPI_Comm parent;
    int is_inter = 0;
    if (abi != BOXWISE_MPI_ABI)
        return fail(detail, capacity, BOXWISE_ERROR_UNAVAILABLE, "this plugin has interface %d, but boxwise wants %d; "
                    "compile the mpi/boxwise_mpi.c that came with it", BOXWISE_MPI_ABI, (int)abi);
    const int fits = is_of_family(version);
    version[strcspn(version, "\n")] = '\0';
    version[VERSION_SHOWN] = '\0';
    if (!fits)
        return fail(detail, capacity, BOXWISE_ERROR_UNAVAILABLE, "this plugin was compiled for " FAMILY ", but the MPI "
                    "of this process is another: compile it with the mpicc of %s", version);
    if (comm_handle == NULL)
        return fail(detail, capacity, BOXWISE_ERROR_INVALID_ARGUMENT, "comm_handle is NULL, must point to an MPI_Comm");
    if (is_value(comm_handle))
        return fail(detail, capacity, BOXWISE_ERROR_INVALID_ARGUMENT, "comm_handle is a communicator, must point to one "
                    "(pass &comm, not comm)");
    if (forget == NULL || boot == NULL || boot->struct_size < sizeof *boot)
        return fail(detail, capacity, BOXWISE_ERROR_INVALID_ARGUMENT, "forget or boot is NULL, or boot too short");
    const int32_t status = check_mpi(version, detail, capacity);
    if (status != BOXWISE_SUCCESS)
        return status;

    if (is_fortran) {
        int32_t handle;
        memcpy(&handle, comm_handle, sizeof handle);
#if defined(IS_STANDARD_ABI)
        parent = MPI_Comm_fromint(handle);
#else
        parent = MPI_Comm_f2c((MPI_Fint)handle);
#endif
    } else {
        memcpy(&parent, comm_handle, sizeof parent);
    }
    if (parent == MPI_COMM_NULL)
        return fail(detail, capacity, BOXWISE_ERROR_INVALID_ARGUMENT, "the communicator is MPI_COMM_NULL, must be one "
                    "that this process is in");
    int code = MPI_Comm_test_inter(parent, &is_inter);
    if (code == MPI_SUCCESS && is_inter)
        return fail(detail, capacity, BOXWISE_ERROR_INVALID_ARGUMENT, "the communicator is an inter-communicator, must "
                    "be an intra-communicator (MPI_Intercomm_merge makes one of it)");

    duplicate_t *duplicate = NULL;
    free_unfreed();
    if (code == MPI_SUCCESS)
        code = prepare();
    if (code == MPI_SUCCESS)
        code = find_or_create(parent, retired, forget, &duplicate);
    if (code != MPI_SUCCESS)
        return mpi_failed(detail, capacity, "the communicator could not be duplicated", code);
    const int32_t filled = fill(boot, duplicate, detail, capacity);
    if (filled != BOXWISE_SUCCESS)
        drop_reference(duplicate, 1);
    return filled;
}
