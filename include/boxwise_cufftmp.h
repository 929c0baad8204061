/* cuFFTMp's reshape calls, answered by boxwise: a program written for NVIDIA's library includes this file instead of, or
 * after, <cufftMp.h>, and links libboxwise_cufftmp.so. Its FFTs stay where they are.
 *
 * After this file the names of the reshape calls mean boxwise's functions, whatever the order in which libraries are
 * linked. Alone it also gives the few types that they need. C99 and later, C++11 and later.
 *
 *   cufftMpCreateReshape(handle)                                   local
 *   cufftMpAttachReshapeComm(handle, comm_type, comm)              local; for the form of make with 9 arguments
 *   cufftMpMakeReshape(handle, element_size, rank, lower_input, upper_input, strides_input, lower_output, upper_output,
 *                      strides_output, comm_handle, comm_type)     collective
 *   cufftMpGetReshapeSize(handle, workspace_size)                  local
 *   cufftMpExecReshapeAsync(handle, data_out, data_in, workspace, stream)   collective, in the order of the stream
 *   cufftMpDestroyReshape(handle)                                  local
 *
 * With CUFFT_NO_INLINE defined, as in NVIDIA's header, cufftMpMakeReshape is the form with 9 arguments of before 11.4:
 * (handle, element_size, rank, lower_input, upper_input, lower_output, upper_output, strides_input, strides_output),
 * with the communicator that was attached, and __cufftMpMakeReshape_11_4 that with 11.
 *
 * Boxes are half open, [lower, upper), 0-based; strides count elements. comm_type is CUFFT_COMM_MPI, then the pointer is
 * that of an MPI_Comm and read during the call only, or CUFFT_COMM_NONE with NULL: the world of NVSHMEM, of boxwise-run,
 * or of the launcher where all ranks are on one node.
 *
 * What is wider than in cuFFTMp: any element size from 1 to 65536 bytes, 1 to 8 dimensions, strides in any order, NULL for
 * packed strides, lower bounds below 0; host memory where boxwise uses its host backend. There the call moves the data
 * before it returns and does not look at the stream. No barrier is needed before an execution. Once it is complete on
 * one rank, it is so on all.
 *
 * Each call returns a cufftResult: 0, or 4 (CUFFT_INVALID_VALUE) for wrong arguments, also of another rank, boxes that do
 * not fit together, calls out of order and handles that are NULL or destroyed; 2 (CUFFT_ALLOC_FAILED); 16
 * (CUFFT_NOT_SUPPORTED); 5 (CUFFT_INTERNAL_ERROR) for all else, such as a lost rank or a missing library.
 * boxwise_last_error() of <boxwise.h> says in words what was wrong. */

#ifndef BOXWISE_CUFFTMP_H
#define BOXWISE_CUFFTMP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NVIDIA's types, where its headers have not given them. */
#ifndef _CUFFT_H_
typedef enum cufftResult_t {
    CUFFT_SUCCESS = 0,
    CUFFT_ALLOC_FAILED = 2,
    CUFFT_INVALID_VALUE = 4,
    CUFFT_INTERNAL_ERROR = 5,
    CUFFT_NOT_SUPPORTED = 16
} cufftResult;
#endif
#ifndef _CUFFTMP_H_
typedef enum cufftMpCommType_t { CUFFT_COMM_MPI = 0, CUFFT_COMM_NONE = 1 } cufftMpCommType;
typedef struct cufftReshapeHandle_st *cufftReshapeHandle;
#endif
/* A cudaStream_t, which converts to it. */
struct CUstream_st;

cufftResult boxwise_cufftmp_create_reshape(cufftReshapeHandle *handle);

cufftResult boxwise_cufftmp_attach_reshape_comm(cufftReshapeHandle handle, cufftMpCommType comm_type, void *comm_handle);

/* From Fortran: the communicator is Fortran's number for it, not looked at with CUFFT_COMM_NONE. */
cufftResult boxwise_cufftmp_attach_reshape_comm_from_fortran(cufftReshapeHandle handle, cufftMpCommType comm_type,
                                                             int fortran_comm);

cufftResult boxwise_cufftmp_make_reshape(cufftReshapeHandle handle, size_t element_size, int rank,
                                         const long long *lower_input, const long long *upper_input,
                                         const long long *strides_input, const long long *lower_output,
                                         const long long *upper_output, const long long *strides_output,
                                         void *comm_handle, cufftMpCommType comm_type);

cufftResult boxwise_cufftmp_make_attached_reshape(cufftReshapeHandle handle, size_t element_size, int rank,
                                                  const long long *lower_input, const long long *upper_input,
                                                  const long long *lower_output, const long long *upper_output,
                                                  const long long *strides_input, const long long *strides_output);

cufftResult boxwise_cufftmp_get_reshape_size(cufftReshapeHandle handle, size_t *workspace_size);

cufftResult boxwise_cufftmp_exec_reshape_async(cufftReshapeHandle handle, void *data_out, const void *data_in,
                                               void *workspace, struct CUstream_st *stream);

cufftResult boxwise_cufftmp_destroy_reshape(cufftReshapeHandle handle);

#ifdef __cplusplus
}
#endif

#define cufftMpCreateReshape boxwise_cufftmp_create_reshape
#define cufftMpAttachReshapeComm boxwise_cufftmp_attach_reshape_comm
#define cufftMpAttachReshapeCommfrom_fortran boxwise_cufftmp_attach_reshape_comm_from_fortran
#ifdef CUFFT_NO_INLINE
#define cufftMpMakeReshape boxwise_cufftmp_make_attached_reshape
#else
#define cufftMpMakeReshape boxwise_cufftmp_make_reshape
#endif
#define __cufftMpMakeReshape_11_4 boxwise_cufftmp_make_reshape
#define cufftMpGetReshapeSize boxwise_cufftmp_get_reshape_size
#define cufftMpExecReshapeAsync boxwise_cufftmp_exec_reshape_async
#define cufftMpDestroyReshape boxwise_cufftmp_destroy_reshape

#endif
