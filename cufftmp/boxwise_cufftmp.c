/* cuFFTMp's reshape calls over boxwise. libboxwise_cufftmp.so exports each function under two names: the one that programs
 * written for NVIDIA's library call, for those that are only linked anew, and one of our own, to which
 * include/boxwise_cufftmp.h maps the first. The header says what a caller must know.
 *
 * A handle is boxwise's own, a number that is looked up and never followed, so that a stale one is told instead of used.
 * Only what an attach call brought has to be remembered between the calls, in a list here. */

#include "boxwise.h"
#include "boxwise_cufftmp.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(long long) == sizeof(int64_t), "coordinates have 64 bits");

static cufftResult result_of(boxwise_status_t status)
{
    switch (status) {
    case BOXWISE_SUCCESS:
        return CUFFT_SUCCESS;
    case BOXWISE_ERROR_INVALID_ARGUMENT:
    case BOXWISE_ERROR_INVALID_STATE:
    case BOXWISE_ERROR_INCONSISTENT:
        return CUFFT_INVALID_VALUE;
    case BOXWISE_ERROR_OUT_OF_MEMORY:
        return CUFFT_ALLOC_FAILED;
    case BOXWISE_ERROR_NOT_SUPPORTED:
        return CUFFT_NOT_SUPPORTED;
    default:
        return CUFFT_INTERNAL_ERROR;
    }
}

static boxwise_handle_t ours(cufftReshapeHandle handle)
{
    return (boxwise_handle_t)handle;
}

/* A communicator that was attached to a handle, for the make call that names none. */
typedef struct attached {
    struct attached *next;
    cufftReshapeHandle handle;
    enum { ATTACHED_NONE, ATTACHED_MPI, ATTACHED_FORTRAN } kind;
    /* An MPI_Comm is a number or a pointer, as the MPI has it; Fortran's is a number. */
    union {
        int number;
        void *pointer;
    } comm;
} attached_t;

static attached_t *all_attached;
static pthread_mutex_t attached_lock = PTHREAD_MUTEX_INITIALIZER;

/* Takes what was attached to a handle off the list: it is the caller's to free, or to keep again. */
static attached_t *take_attached(cufftReshapeHandle handle)
{
    pthread_mutex_lock(&attached_lock);
    attached_t **link = &all_attached;
    while (*link != NULL && (*link)->handle != handle)
        link = &(*link)->next;
    attached_t *found = *link;
    if (found != NULL)
        *link = found->next;
    pthread_mutex_unlock(&attached_lock);
    return found;
}

static void keep_attached(attached_t *attached)
{
    pthread_mutex_lock(&attached_lock);
    attached->next = all_attached;
    all_attached = attached;
    pthread_mutex_unlock(&attached_lock);
}

/* Once an execution is complete on one rank, it is so on all: what cuFFTMp promises. */
static boxwise_status_t promise(boxwise_handle_t handle)
{
    return boxwise_set_option(handle, BOXWISE_OPTION_EXIT_SYNC, 2);
}

/* Attaching again replaces what was there. */
static cufftResult attach(attached_t what)
{
    /* It fails unless the handle lives and is not made. */
    const boxwise_status_t status = promise(ours(what.handle));
    if (status != BOXWISE_SUCCESS)
        return result_of(status);
    attached_t *attached = malloc(sizeof *attached);
    if (attached == NULL)
        return CUFFT_ALLOC_FAILED;
    *attached = what;
    free(take_attached(what.handle));
    keep_attached(attached);
    return CUFFT_SUCCESS;
}

/* Whether an MPI_Comm is a pointer: in Open MPI and in the standard interface of MPI 5. For MPICH it is a number. */
static int comm_is_pointer(void)
{
    if (dlsym(RTLD_DEFAULT, "ompi_mpi_comm_null") != NULL)
        return 1;
    int major = -1, minor = -1;
    int (*abi_version)(int *, int *);
    *(void **)&abi_version = dlsym(RTLD_DEFAULT, "MPI_Abi_get_version");
    return abi_version != NULL && abi_version(&major, &minor) == 0 && major > 0;
}

cufftResult boxwise_cufftmp_create_reshape(cufftReshapeHandle *handle)
{
    if (handle == NULL)
        return CUFFT_INVALID_VALUE;
    boxwise_handle_t created = NULL;
    boxwise_status_t status = boxwise_create(&created);
    if (status == BOXWISE_SUCCESS)
        status = promise(created);
    if (status == BOXWISE_SUCCESS)
        *handle = (cufftReshapeHandle)created;
    return result_of(status);
}

/* Local, as in cuFFTMp. The pointer is read here and not kept: programs pass the address of a local variable. */
cufftResult boxwise_cufftmp_attach_reshape_comm(cufftReshapeHandle handle, cufftMpCommType comm_type, void *comm_handle)
{
    attached_t what = {.handle = handle, .kind = comm_type == CUFFT_COMM_MPI ? ATTACHED_MPI : ATTACHED_NONE};
    if ((comm_type != CUFFT_COMM_MPI && comm_type != CUFFT_COMM_NONE) ||
        (comm_handle != NULL) != (comm_type == CUFFT_COMM_MPI))
        return CUFFT_INVALID_VALUE;
    if (comm_handle != NULL)
        memcpy(&what.comm, comm_handle, comm_is_pointer() ? sizeof what.comm.pointer : sizeof what.comm.number);
    return attach(what);
}

cufftResult boxwise_cufftmp_attach_reshape_comm_from_fortran(cufftReshapeHandle handle, cufftMpCommType comm_type,
                                                             int fortran_comm)
{
    attached_t what = {.handle = handle, .kind = comm_type == CUFFT_COMM_MPI ? ATTACHED_FORTRAN : ATTACHED_NONE};
    if (comm_type != CUFFT_COMM_MPI && comm_type != CUFFT_COMM_NONE)
        return CUFFT_INVALID_VALUE;
    what.comm.number = fortran_comm;
    return attach(what);
}

cufftResult boxwise_cufftmp_make_reshape(cufftReshapeHandle handle, size_t element_size, int rank,
                                         const long long *lower_input, const long long *upper_input,
                                         const long long *strides_input, const long long *lower_output,
                                         const long long *upper_output, const long long *strides_output,
                                         void *comm_handle, cufftMpCommType comm_type)
{
    /* boxwise knows more kinds of communicator, which are not cuFFTMp's. */
    if (comm_type != CUFFT_COMM_MPI && comm_type != CUFFT_COMM_NONE)
        return CUFFT_INVALID_VALUE;
    const boxwise_status_t status = boxwise_make(
        ours(handle), element_size, rank, (const int64_t *)lower_input, (const int64_t *)upper_input,
        (const int64_t *)strides_input, (const int64_t *)lower_output, (const int64_t *)upper_output,
        (const int64_t *)strides_output, comm_handle, comm_type == CUFFT_COMM_MPI ? BOXWISE_COMM_MPI : BOXWISE_COMM_NONE);
    if (status == BOXWISE_SUCCESS)
        free(take_attached(handle));
    return result_of(status);
}

cufftResult boxwise_cufftmp_make_attached_reshape(cufftReshapeHandle handle, size_t element_size, int rank,
                                                  const long long *lower_input, const long long *upper_input,
                                                  const long long *lower_output, const long long *upper_output,
                                                  const long long *strides_input, const long long *strides_output)
{
    attached_t *attached = take_attached(handle);
    if (attached == NULL)
        return CUFFT_INVALID_VALUE;
    boxwise_comm_t comm = NULL;
    void *comm_handle = NULL;
    int32_t comm_type = BOXWISE_COMM_NONE;
    boxwise_status_t status = BOXWISE_SUCCESS;
    if (attached->kind == ATTACHED_MPI) {
        comm_handle = &attached->comm;
        comm_type = BOXWISE_COMM_MPI;
    } else if (attached->kind == ATTACHED_FORTRAN) {
        status = boxwise_comm_create_from_fortran(attached->comm.number, &comm);
        comm_handle = &comm;
        comm_type = BOXWISE_COMM_OBJECT;
    }
    if (status == BOXWISE_SUCCESS)
        status = boxwise_make(ours(handle), element_size, rank, (const int64_t *)lower_input,
                              (const int64_t *)upper_input, (const int64_t *)strides_input,
                              (const int64_t *)lower_output, (const int64_t *)upper_output,
                              (const int64_t *)strides_output, comm_handle, comm_type);
    /* The handle holds what it needs of it. */
    boxwise_comm_destroy(comm);
    if (status == BOXWISE_SUCCESS)
        free(attached);
    else
        keep_attached(attached); /* make may be called again */
    return result_of(status);
}

cufftResult boxwise_cufftmp_get_reshape_size(cufftReshapeHandle handle, size_t *workspace_size)
{
    return result_of(boxwise_get_size(ours(handle), workspace_size));
}

/* On the host backend the operation is complete on return: a CUDA stream means nothing there. */
cufftResult boxwise_cufftmp_exec_reshape_async(cufftReshapeHandle handle, void *data_out, const void *data_in,
                                               void *workspace, struct CUstream_st *stream)
{
    boxwise_info_t info = {.struct_size = sizeof info};
    const boxwise_status_t status = boxwise_get_info(ours(handle), &info);
    if (status != BOXWISE_SUCCESS)
        return result_of(status);
    void *const queue = info.backend == BOXWISE_BACKEND_NVSHMEM ? stream : NULL;
    return result_of(boxwise_exec_async(ours(handle), data_out, data_in, workspace, queue));
}

cufftResult boxwise_cufftmp_destroy_reshape(cufftReshapeHandle handle)
{
    if (handle == NULL)
        return CUFFT_INVALID_VALUE;
    free(take_attached(handle));
    return result_of(boxwise_destroy(ours(handle)));
}

/* cuFFTMp's own names. The form of make that has the plain name in its libraries is that with 9 arguments. */
#undef cufftMpCreateReshape
#undef cufftMpAttachReshapeComm
#undef cufftMpAttachReshapeCommfrom_fortran
#undef cufftMpMakeReshape
#undef __cufftMpMakeReshape_11_4
#undef cufftMpGetReshapeSize
#undef cufftMpExecReshapeAsync
#undef cufftMpDestroyReshape
#define ALSO_CALLED(name, function) __attribute__((alias(#function))) __typeof__(function) name
ALSO_CALLED(cufftMpCreateReshape, boxwise_cufftmp_create_reshape);
ALSO_CALLED(cufftMpAttachReshapeComm, boxwise_cufftmp_attach_reshape_comm);
ALSO_CALLED(cufftMpAttachReshapeCommfrom_fortran, boxwise_cufftmp_attach_reshape_comm_from_fortran);
ALSO_CALLED(cufftMpMakeReshape, boxwise_cufftmp_make_attached_reshape);
ALSO_CALLED(__cufftMpMakeReshape_11_4, boxwise_cufftmp_make_reshape);
ALSO_CALLED(cufftMpGetReshapeSize, boxwise_cufftmp_get_reshape_size);
ALSO_CALLED(cufftMpExecReshapeAsync, boxwise_cufftmp_exec_reshape_async);
ALSO_CALLED(cufftMpDestroyReshape, boxwise_cufftmp_destroy_reshape);
