!> boxwise from Fortran: the C interface of include/boxwise.h as a module, with Fortran's arrays and their order.
!!
!! What the calls do, who must call them and which statuses they return is said in boxwise.h. Different here:
!!
!! - Boxes are as in C: half open, [lower, upper), and 0-based. A rank that holds a(1:n) of a global array passes
!!   lower = 0, upper = n. One array element of lower and upper per dimension, the FIRST dimension of the Fortran array
!!   first; the number of dimensions is the size of these arrays.
!! - Without strides a box is packed with the FIRST dimension fastest, as in a Fortran array of that shape.
!! - `status` is optional and comes last. With it a failure is returned. Without it a failure prints its detail to
!!   standard error and ends the program by `error stop`.
!! - Without `comm` boxwise_make uses the implicit world: the ranks that boxwise-run or the launcher started. `status`
!!   then needs its keyword, because an integer in the place of `comm` is an MPI communicator.
!! - MPI communicators are passed as they are, to boxwise_comm_create and as `comm` of boxwise_make: type(MPI_Comm) of
!!   mpi_f08, or the integer of `use mpi` and mpif.h. This module compiles without MPI: MPI's standard fixes type
!!   MPI_Comm down to its component, and Fortran's takes two such definitions for one type. Where a compiler does not,
!!   pass comm%MPI_VAL. Anything else in this place does not compile.
!! - Integers have the kinds of the C types: c_int64_t for coordinates and strides, c_size_t for bytes, c_int32_t for
!!   ranks, options and statuses.
!! - Data passed to boxwise_exec_async are arrays (of integers, reals or complex numbers of 4 or 8 bytes a part) or
!!   type(c_ptr), for any other type. Arrays are never copied on the way: one with gaps, such as a(::2), is refused.
!!   An array in use by a stream needs the attribute `asynchronous` (or `target`).
!! - What this module itself finds wrong is BOXWISE_ERROR_INVALID_ARGUMENT, on all ranks of a collective call, and
!!   boxwise_last_error says what it is on the rank that did it.
module boxwise
  use, intrinsic :: iso_c_binding, only: c_ptr, c_null_ptr, c_loc, c_f_pointer, c_sizeof, &
       c_char, c_int32_t, c_int64_t, c_size_t, c_float, c_double
  implicit none
  private

  public :: boxwise_handle, boxwise_comm, boxwise_stream, boxwise_info
  public :: boxwise_create, boxwise_make, boxwise_set_option, boxwise_get_size, boxwise_exec_async, boxwise_destroy
  public :: boxwise_comm_create, boxwise_comm_rank, boxwise_comm_size, boxwise_comm_barrier, boxwise_comm_destroy
  public :: boxwise_malloc, boxwise_free
  public :: boxwise_stream_create, boxwise_stream_synchronize, boxwise_stream_query, boxwise_stream_destroy
  public :: boxwise_get_info, boxwise_describe
  public :: boxwise_last_error, boxwise_status_string, boxwise_version, boxwise_version_string

  !> A reshape. `c` is the boxwise_handle_t, for programs that also use C.
  type :: boxwise_handle
     type(c_ptr) :: c = c_null_ptr
  end type boxwise_handle

  !> A communicator. `c` is the boxwise_comm_t.
  type :: boxwise_comm
     type(c_ptr) :: c = c_null_ptr
  end type boxwise_comm

  !> The type of mpi_f08, word for word, which makes it the same type. Private, so that programs take it from there.
  type, bind(c) :: MPI_Comm
     integer(c_int32_t) :: MPI_VAL
  end type MPI_Comm

  !> A host stream. `c` is the boxwise_stream_t. On the NVSHMEM backend boxwise_stream(s), where the c_ptr s is a CUDA
  !! stream, stands for that stream.
  type :: boxwise_stream
     type(c_ptr) :: c = c_null_ptr
  end type boxwise_stream

  !> Numbers about a made handle, all of this rank; boxwise_info_t. boxwise_get_info sets struct_size by itself.
  type, bind(c) :: boxwise_info
     integer(c_size_t) :: struct_size = 0
     integer(c_int32_t) :: backend = 0
     integer(c_int32_t) :: methods = 0 !< a sum of BOXWISE_METHOD_...
     integer(c_int32_t) :: rank = 0
     integer(c_int32_t) :: size = 0
     integer(c_int32_t) :: ndims = 0
     integer(c_int32_t) :: peers_sent_to = 0
     integer(c_int32_t) :: peers_received_from = 0
     integer(c_int32_t) :: reserved = 0
     integer(c_size_t) :: element_size = 0
     integer(c_int64_t) :: bytes_kept = 0
     integer(c_int64_t) :: bytes_sent = 0
     integer(c_int64_t) :: bytes_received = 0
     integer(c_int64_t) :: copies = 0
     integer(c_size_t) :: workspace_bytes = 0
  end type boxwise_info

  integer(c_int32_t), parameter, public :: &
       BOXWISE_SUCCESS = 0, &
       BOXWISE_ERROR_INVALID_ARGUMENT = 1, &
       BOXWISE_ERROR_INVALID_STATE = 2, &
       BOXWISE_ERROR_INCONSISTENT = 3, &
       BOXWISE_ERROR_OUT_OF_MEMORY = 4, &
       BOXWISE_ERROR_NOT_SUPPORTED = 5, &
       BOXWISE_ERROR_UNAVAILABLE = 6, &
       BOXWISE_ERROR_TRANSPORT = 7, &
       BOXWISE_ERROR_PEER_LOST = 8, &
       BOXWISE_ERROR_TIMEOUT = 9, &
       BOXWISE_ERROR_DEVICE = 10, &
       BOXWISE_ERROR_INTERNAL = 11

  integer, parameter, public :: BOXWISE_MAX_DIMS = 8

  integer(c_int32_t), parameter, public :: &
       BOXWISE_OPTION_BACKEND = 0, &
       BOXWISE_OPTION_IN_PLACE = 1, &
       BOXWISE_OPTION_ALLOW_REPLICAS = 2, &
       BOXWISE_OPTION_ALLOW_UNCOVERED = 3, &
       BOXWISE_OPTION_ENTRY_SYNC = 4, &
       BOXWISE_OPTION_EXIT_SYNC = 5, &
       BOXWISE_OPTION_THREADS = 6, &
       BOXWISE_OPTION_TIMEOUT_MS = 7

  integer(c_int32_t), parameter, public :: &
       BOXWISE_BACKEND_AUTO = 0, &
       BOXWISE_BACKEND_HOST = 1, &
       BOXWISE_BACKEND_NVSHMEM = 2

  integer(c_int32_t), parameter, public :: &
       BOXWISE_MEMORY_HOST = 0, &
       BOXWISE_MEMORY_DEVICE = 1

  integer(c_int32_t), parameter, public :: &
       BOXWISE_METHOD_DIRECT = 1, &
       BOXWISE_METHOD_RING = 2, &
       BOXWISE_METHOD_CROSS_MEMORY = 4, &
       BOXWISE_METHOD_MESSAGE = 8, &
       BOXWISE_METHOD_STORE = 16, &
       BOXWISE_METHOD_PUT = 32

  integer(c_int32_t), parameter, public :: &
       BOXWISE_FORMAT_TEXT = 0, &
       BOXWISE_FORMAT_JSON = 1

  integer(c_int32_t), parameter :: COMM_TYPE_NONE = 1, COMM_TYPE_OBJECT = 17

  !> boxwise_make(handle, element_size, lower_input, upper_input, lower_output, upper_output [, comm] [, status])
  !! boxwise_make(handle, element_size, lower_input, upper_input, strides_input, lower_output, upper_output,
  !!              strides_output [, comm] [, status])
  !! Collective. Sizes in bytes, strides in elements. Arrays of unequal size are refused, on all ranks; the others are
  !! told of them as ndims = -1. `comm` is a type(boxwise_comm), or an MPI communicator, from which a communicator is
  !! then made for this one reshape: make one for all by boxwise_comm_create where there are several.
  interface boxwise_make
     module procedure make_packed, make_packed_mpi, make_packed_mpi_f08
     module procedure make_strided, make_strided_mpi, make_strided_mpi_f08
  end interface boxwise_make

  !> boxwise_comm_create(comm [, status]): the implicit world.
  !! boxwise_comm_create(mpi_communicator, comm [, status]): the ranks of an MPI communicator, which the caller may free
  !! afterwards. Both are collective.
  interface boxwise_comm_create
     module procedure comm_create_world, comm_create_mpi, comm_create_mpi_f08
  end interface boxwise_comm_create

  !> boxwise_set_option(handle, option, value [, status]), value of either kind of integer.
  interface boxwise_set_option
     module procedure set_option_int32, set_option_int64
  end interface boxwise_set_option

  !> boxwise_exec_async(handle, data_out, data_in [, workspace] [, stream] [, status]). Collective.
  !! Runs before it returns, or is queued on the stream. `workspace` is a type(c_ptr), for instance from boxwise_malloc.
  interface boxwise_exec_async
     module procedure exec_pointer, exec_int32, exec_int64, exec_real32, exec_real64, exec_complex32, exec_complex64
  end interface boxwise_exec_async

  !> The detail of the last failure where this module found it, else blank: then the library has the detail.
  character(len=120), save :: own_detail = ""
  !$omp threadprivate(own_detail)

  interface
     function c_create(handle) bind(c, name="boxwise_create") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), intent(inout) :: handle
       integer(c_int32_t) :: code
     end function c_create

     function c_make(handle, element_size, ndims, lower_input, upper_input, strides_input, lower_output, upper_output, &
          strides_output, comm_handle, comm_type) bind(c, name="boxwise_make") result(code)
       import :: c_ptr, c_size_t, c_int32_t, c_int64_t
       type(c_ptr), value :: handle, comm_handle
       integer(c_size_t), value :: element_size
       integer(c_int32_t), value :: ndims, comm_type
       integer(c_int64_t), intent(in) :: lower_input(*), upper_input(*), strides_input(*)
       integer(c_int64_t), intent(in) :: lower_output(*), upper_output(*), strides_output(*)
       integer(c_int32_t) :: code
     end function c_make

     function c_set_option(handle, option, value) bind(c, name="boxwise_set_option") result(code)
       import :: c_ptr, c_int32_t, c_int64_t
       type(c_ptr), value :: handle
       integer(c_int32_t), value :: option
       integer(c_int64_t), value :: value
       integer(c_int32_t) :: code
     end function c_set_option

     function c_get_size(handle, workspace_bytes) bind(c, name="boxwise_get_size") result(code)
       import :: c_ptr, c_size_t, c_int32_t
       type(c_ptr), value :: handle
       integer(c_size_t), intent(inout) :: workspace_bytes
       integer(c_int32_t) :: code
     end function c_get_size

     function c_exec_async(handle, data_out, data_in, workspace, stream) bind(c, name="boxwise_exec_async") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: handle, data_out, data_in, workspace, stream
       integer(c_int32_t) :: code
     end function c_exec_async

     function c_destroy(handle) bind(c, name="boxwise_destroy") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: handle
       integer(c_int32_t) :: code
     end function c_destroy

     function c_comm_create(comm_handle, comm_type, comm) bind(c, name="boxwise_comm_create") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: comm_handle
       integer(c_int32_t), value :: comm_type
       type(c_ptr), intent(inout) :: comm
       integer(c_int32_t) :: code
     end function c_comm_create

     function c_comm_create_from_fortran(fortran_comm, comm) bind(c, name="boxwise_comm_create_from_fortran") &
          result(code)
       import :: c_ptr, c_int32_t
       integer(c_int32_t), value :: fortran_comm
       type(c_ptr), intent(inout) :: comm
       integer(c_int32_t) :: code
     end function c_comm_create_from_fortran

     function c_comm_rank(comm, rank) bind(c, name="boxwise_comm_rank") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: comm
       integer(c_int32_t), intent(inout) :: rank
       integer(c_int32_t) :: code
     end function c_comm_rank

     function c_comm_size(comm, size) bind(c, name="boxwise_comm_size") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: comm
       integer(c_int32_t), intent(inout) :: size
       integer(c_int32_t) :: code
     end function c_comm_size

     function c_comm_barrier(comm) bind(c, name="boxwise_comm_barrier") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: comm
       integer(c_int32_t) :: code
     end function c_comm_barrier

     function c_comm_destroy(comm) bind(c, name="boxwise_comm_destroy") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: comm
       integer(c_int32_t) :: code
     end function c_comm_destroy

     function c_malloc(comm, memory, bytes, pointer) bind(c, name="boxwise_malloc") result(code)
       import :: c_ptr, c_size_t, c_int32_t
       type(c_ptr), value :: comm
       integer(c_int32_t), value :: memory
       integer(c_size_t), value :: bytes
       type(c_ptr), intent(inout) :: pointer
       integer(c_int32_t) :: code
     end function c_malloc

     function c_free(comm, pointer) bind(c, name="boxwise_free") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: comm, pointer
       integer(c_int32_t) :: code
     end function c_free

     function c_stream_create(stream) bind(c, name="boxwise_stream_create") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), intent(inout) :: stream
       integer(c_int32_t) :: code
     end function c_stream_create

     function c_stream_synchronize(stream) bind(c, name="boxwise_stream_synchronize") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: stream
       integer(c_int32_t) :: code
     end function c_stream_synchronize

     function c_stream_query(stream, idle) bind(c, name="boxwise_stream_query") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: stream
       integer(c_int32_t), intent(inout) :: idle
       integer(c_int32_t) :: code
     end function c_stream_query

     function c_stream_destroy(stream) bind(c, name="boxwise_stream_destroy") result(code)
       import :: c_ptr, c_int32_t
       type(c_ptr), value :: stream
       integer(c_int32_t) :: code
     end function c_stream_destroy

     function c_get_info(handle, info) bind(c, name="boxwise_get_info") result(code)
       import :: c_ptr, c_int32_t, boxwise_info
       type(c_ptr), value :: handle
       type(boxwise_info), intent(inout) :: info
       integer(c_int32_t) :: code
     end function c_get_info

     function c_describe(handle, format, buffer, capacity, needed) bind(c, name="boxwise_describe") result(code)
       import :: c_ptr, c_char, c_size_t, c_int32_t
       type(c_ptr), value :: handle
       integer(c_int32_t), value :: format
       character(kind=c_char), intent(inout), optional :: buffer(*)
       integer(c_size_t), value :: capacity
       integer(c_size_t), intent(inout) :: needed
       integer(c_int32_t) :: code
     end function c_describe

     function c_last_error() bind(c, name="boxwise_last_error") result(text)
       import :: c_ptr
       type(c_ptr) :: text
     end function c_last_error

     function c_status_string(status) bind(c, name="boxwise_status_string") result(text)
       import :: c_ptr, c_int32_t
       integer(c_int32_t), value :: status
       type(c_ptr) :: text
     end function c_status_string

     !> The version of the library, as major * 10000 + minor * 100 + patch.
     function boxwise_version() bind(c, name="boxwise_version") result(version)
       import :: c_int32_t
       integer(c_int32_t) :: version
     end function boxwise_version

     function c_version_string() bind(c, name="boxwise_version_string") result(text)
       import :: c_ptr
       type(c_ptr) :: text
     end function c_version_string

     function c_strlen(text) bind(c, name="strlen") result(length)
       import :: c_ptr, c_size_t
       type(c_ptr), value :: text
       integer(c_size_t) :: length
     end function c_strlen
  end interface

contains

  ! ---- reshapes ----

  subroutine boxwise_create(handle, status)
    type(boxwise_handle), intent(out) :: handle
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_create(handle%c), status)
  end subroutine boxwise_create

  subroutine make_packed(handle, element_size, lower_input, upper_input, lower_output, upper_output, comm, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_size_t), intent(in) :: element_size
    integer(c_int64_t), intent(in) :: lower_input(:), upper_input(:), lower_output(:), upper_output(:)
    type(boxwise_comm), intent(in), optional :: comm
    integer(c_int32_t), intent(out), optional :: status
    call make_strided(handle, element_size, lower_input, upper_input, packed_strides(lower_input, upper_input), &
         lower_output, upper_output, packed_strides(lower_output, upper_output), comm, status)
  end subroutine make_packed

  subroutine make_packed_mpi(handle, element_size, lower_input, upper_input, lower_output, upper_output, comm, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_size_t), intent(in) :: element_size
    integer(c_int64_t), intent(in) :: lower_input(:), upper_input(:), lower_output(:), upper_output(:)
    integer(c_int32_t), intent(in) :: comm
    integer(c_int32_t), intent(out), optional :: status
    call make_strided_mpi(handle, element_size, lower_input, upper_input, packed_strides(lower_input, upper_input), &
         lower_output, upper_output, packed_strides(lower_output, upper_output), comm, status)
  end subroutine make_packed_mpi

  subroutine make_packed_mpi_f08(handle, element_size, lower_input, upper_input, lower_output, upper_output, &
       comm, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_size_t), intent(in) :: element_size
    integer(c_int64_t), intent(in) :: lower_input(:), upper_input(:), lower_output(:), upper_output(:)
    type(MPI_Comm), intent(in) :: comm
    integer(c_int32_t), intent(out), optional :: status
    call make_packed_mpi(handle, element_size, lower_input, upper_input, lower_output, upper_output, &
         comm%MPI_VAL, status)
  end subroutine make_packed_mpi_f08

  subroutine make_strided(handle, element_size, lower_input, upper_input, strides_input, &
       lower_output, upper_output, strides_output, comm, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_size_t), intent(in) :: element_size
    integer(c_int64_t), intent(in) :: lower_input(:), upper_input(:), strides_input(:)
    integer(c_int64_t), intent(in) :: lower_output(:), upper_output(:), strides_output(:)
    type(boxwise_comm), intent(in), optional :: comm
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: code
    character(len=:), allocatable :: fault
    call make(handle, element_size, lower_input, upper_input, strides_input, lower_output, upper_output, &
         strides_output, comm, code, fault)
    call conclude(code, status, fault)
  end subroutine make_strided

  !> The reshape keeps what it needs of the communicator that is made for it.
  subroutine make_strided_mpi(handle, element_size, lower_input, upper_input, strides_input, &
       lower_output, upper_output, strides_output, comm, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_size_t), intent(in) :: element_size
    integer(c_int64_t), intent(in) :: lower_input(:), upper_input(:), strides_input(:)
    integer(c_int64_t), intent(in) :: lower_output(:), upper_output(:), strides_output(:)
    integer(c_int32_t), intent(in) :: comm
    integer(c_int32_t), intent(out), optional :: status
    type(boxwise_comm) :: made
    integer(c_int32_t) :: code, ended
    character(len=:), allocatable :: fault
    code = c_comm_create_from_fortran(comm, made%c)
    if (code /= BOXWISE_SUCCESS) then
       call conclude(code, status)
       return
    end if
    call make(handle, element_size, lower_input, upper_input, strides_input, lower_output, upper_output, &
         strides_output, made, code, fault)
    ended = c_comm_destroy(made%c)
    if (code == BOXWISE_SUCCESS) code = ended
    call conclude(code, status, fault)
  end subroutine make_strided_mpi

  subroutine make_strided_mpi_f08(handle, element_size, lower_input, upper_input, strides_input, &
       lower_output, upper_output, strides_output, comm, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_size_t), intent(in) :: element_size
    integer(c_int64_t), intent(in) :: lower_input(:), upper_input(:), strides_input(:)
    integer(c_int64_t), intent(in) :: lower_output(:), upper_output(:), strides_output(:)
    type(MPI_Comm), intent(in) :: comm
    integer(c_int32_t), intent(out), optional :: status
    call make_strided_mpi(handle, element_size, lower_input, upper_input, strides_input, &
         lower_output, upper_output, strides_output, comm%MPI_VAL, status)
  end subroutine make_strided_mpi_f08

  !> What all of them come to: the library's outcome, and the fault if this module found one.
  subroutine make(handle, element_size, lower_input, upper_input, strides_input, lower_output, upper_output, &
       strides_output, comm, code, fault)
    type(boxwise_handle), intent(in) :: handle
    integer(c_size_t), intent(in) :: element_size
    integer(c_int64_t), intent(in) :: lower_input(:), upper_input(:), strides_input(:)
    integer(c_int64_t), intent(in) :: lower_output(:), upper_output(:), strides_output(:)
    type(boxwise_comm), intent(in), optional :: comm
    integer(c_int32_t), intent(out) :: code
    character(len=:), allocatable, intent(out) :: fault
    integer(c_int32_t) :: ndims, comm_type
    type(c_ptr), target :: comm_object
    type(c_ptr) :: comm_handle

    ! All ranks must hear of a fault on this one, so it is passed on and not returned from here.
    ndims = int(size(lower_input), c_int32_t)
    fault = unequal_sizes([size(lower_input), size(upper_input), size(strides_input), &
         size(lower_output), size(upper_output), size(strides_output)])
    if (fault /= "") ndims = -1
    comm_type = COMM_TYPE_NONE
    comm_handle = c_null_ptr
    if (present(comm)) then
       comm_type = COMM_TYPE_OBJECT
       comm_object = comm%c
       comm_handle = c_loc(comm_object)
    end if
    code = c_make(handle%c, element_size, ndims, lower_input, upper_input, strides_input, lower_output, &
         upper_output, strides_output, comm_handle, comm_type)
    if (code /= BOXWISE_ERROR_INVALID_ARGUMENT) fault = ""
  end subroutine make

  !> Which of the arrays differs from the first one, blank if none does.
  pure function unequal_sizes(sizes) result(fault)
    integer, intent(in) :: sizes(6)
    character(len=:), allocatable :: fault
    character(len=*), parameter :: NAMES(6) = [character(len=14) :: "lower_input", "upper_input", "strides_input", &
         "lower_output", "upper_output", "strides_output"]
    character(len=100) :: line
    integer :: other
    fault = ""
    do other = 2, size(sizes)
       if (sizes(other) == sizes(1)) cycle
       write (line, "(a, i0, 3a, i0)") "boxwise_make: lower_input has ", sizes(1), " elements, ", trim(NAMES(other)), &
            " ", sizes(other)
       fault = trim(line)
       return
    end do
  end function unequal_sizes

  !> The strides of a packed box whose first dimension is fastest.
  pure function packed_strides(lower, upper) result(strides)
    integer(c_int64_t), intent(in) :: lower(:), upper(:)
    integer(c_int64_t) :: strides(size(lower))
    integer :: d
    strides = 1
    do d = 2, min(size(lower), size(upper))
       strides(d) = strides(d - 1) * (upper(d - 1) - lower(d - 1))
    end do
  end function packed_strides

  subroutine set_option_int32(handle, option, value, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_int32_t), intent(in) :: option, value
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_set_option(handle%c, option, int(value, c_int64_t)), status)
  end subroutine set_option_int32

  subroutine set_option_int64(handle, option, value, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_int32_t), intent(in) :: option
    integer(c_int64_t), intent(in) :: value
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_set_option(handle%c, option, value), status)
  end subroutine set_option_int64

  subroutine boxwise_get_size(handle, workspace_bytes, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_size_t), intent(inout) :: workspace_bytes
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_get_size(handle%c, workspace_bytes), status)
  end subroutine boxwise_get_size

  !> Sets the handle to null; destroying a null handle does nothing.
  subroutine boxwise_destroy(handle, status)
    type(boxwise_handle), intent(inout) :: handle
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: c
    c = handle%c
    handle%c = c_null_ptr
    call conclude(c_destroy(c), status)
  end subroutine boxwise_destroy

  ! ---- exec, for pointers and for arrays of each type ----

  subroutine exec_pointer(handle, data_out, data_in, workspace, stream, status)
    type(boxwise_handle), intent(in) :: handle
    type(c_ptr), intent(in) :: data_out, data_in
    type(c_ptr), intent(in), optional :: workspace
    type(boxwise_stream), intent(in), optional :: stream
    integer(c_int32_t), intent(out), optional :: status
    call conclude(exec_code(handle, data_out, data_in, workspace, stream), status)
  end subroutine exec_pointer

  function exec_code(handle, data_out, data_in, workspace, stream) result(code)
    type(boxwise_handle), intent(in) :: handle
    type(c_ptr), intent(in) :: data_out, data_in
    type(c_ptr), intent(in), optional :: workspace
    type(boxwise_stream), intent(in), optional :: stream
    integer(c_int32_t) :: code
    type(c_ptr) :: workspace_or_null, stream_or_null
    workspace_or_null = c_null_ptr
    stream_or_null = c_null_ptr
    if (present(workspace)) workspace_or_null = workspace
    if (present(stream)) stream_or_null = stream%c
    code = c_exec_async(handle%c, data_out, data_in, workspace_or_null, stream_or_null)
  end function exec_code

  !> An array with gaps is passed on as a null pointer, so that the other ranks hear of it, too.
  subroutine exec_array(handle, data_out, data_in, workspace, stream, status)
    type(boxwise_handle), intent(in) :: handle
    type(*), dimension(..), intent(in), target, asynchronous :: data_out, data_in
    type(c_ptr), intent(in), optional :: workspace
    type(boxwise_stream), intent(in), optional :: stream
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: code
    character(len=:), allocatable :: fault, told
    code = exec_code(handle, address(data_out), address(data_in), workspace, stream)
    fault = ""
    if (code == BOXWISE_ERROR_INVALID_ARGUMENT) then
       told = text_at(c_last_error())
       if (has_gaps(data_in) .and. index(told, "data_in is NULL") > 0) fault = "data_in"
       if (has_gaps(data_out) .and. index(told, "data_out is NULL") > 0) fault = "data_out"
       if (fault /= "") fault = "boxwise_exec_async: " // fault // " has gaps; pass a contiguous array or its c_loc"
    end if
    call conclude(code, status, fault)
  end subroutine exec_array

  !> The address of an array's first element; null where there is none, and where the elements have gaps between them.
  function address(array)
    type(*), dimension(..), intent(in), target, asynchronous :: array
    type(c_ptr) :: address
    address = c_null_ptr
    if (size(array, kind=c_int64_t) > 0 .and. is_contiguous(array)) address = c_loc(array)
  end function address

  function has_gaps(array)
    type(*), dimension(..), intent(in), target, asynchronous :: array
    logical :: has_gaps
    has_gaps = size(array, kind=c_int64_t) > 0 .and. .not. is_contiguous(array)
  end function has_gaps

  subroutine exec_int32(handle, data_out, data_in, workspace, stream, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_int32_t), dimension(..), intent(inout), target, asynchronous :: data_out
    integer(c_int32_t), dimension(..), intent(in), target, asynchronous :: data_in
    type(c_ptr), intent(in), optional :: workspace
    type(boxwise_stream), intent(in), optional :: stream
    integer(c_int32_t), intent(out), optional :: status
    call exec_array(handle, data_out, data_in, workspace, stream, status)
  end subroutine exec_int32

  subroutine exec_int64(handle, data_out, data_in, workspace, stream, status)
    type(boxwise_handle), intent(in) :: handle
    integer(c_int64_t), dimension(..), intent(inout), target, asynchronous :: data_out
    integer(c_int64_t), dimension(..), intent(in), target, asynchronous :: data_in
    type(c_ptr), intent(in), optional :: workspace
    type(boxwise_stream), intent(in), optional :: stream
    integer(c_int32_t), intent(out), optional :: status
    call exec_array(handle, data_out, data_in, workspace, stream, status)
  end subroutine exec_int64

  subroutine exec_real32(handle, data_out, data_in, workspace, stream, status)
    type(boxwise_handle), intent(in) :: handle
    real(c_float), dimension(..), intent(inout), target, asynchronous :: data_out
    real(c_float), dimension(..), intent(in), target, asynchronous :: data_in
    type(c_ptr), intent(in), optional :: workspace
    type(boxwise_stream), intent(in), optional :: stream
    integer(c_int32_t), intent(out), optional :: status
    call exec_array(handle, data_out, data_in, workspace, stream, status)
  end subroutine exec_real32

  subroutine exec_real64(handle, data_out, data_in, workspace, stream, status)
    type(boxwise_handle), intent(in) :: handle
    real(c_double), dimension(..), intent(inout), target, asynchronous :: data_out
    real(c_double), dimension(..), intent(in), target, asynchronous :: data_in
    type(c_ptr), intent(in), optional :: workspace
    type(boxwise_stream), intent(in), optional :: stream
    integer(c_int32_t), intent(out), optional :: status
    call exec_array(handle, data_out, data_in, workspace, stream, status)
  end subroutine exec_real64

  subroutine exec_complex32(handle, data_out, data_in, workspace, stream, status)
    type(boxwise_handle), intent(in) :: handle
    complex(c_float), dimension(..), intent(inout), target, asynchronous :: data_out
    complex(c_float), dimension(..), intent(in), target, asynchronous :: data_in
    type(c_ptr), intent(in), optional :: workspace
    type(boxwise_stream), intent(in), optional :: stream
    integer(c_int32_t), intent(out), optional :: status
    call exec_array(handle, data_out, data_in, workspace, stream, status)
  end subroutine exec_complex32

  subroutine exec_complex64(handle, data_out, data_in, workspace, stream, status)
    type(boxwise_handle), intent(in) :: handle
    complex(c_double), dimension(..), intent(inout), target, asynchronous :: data_out
    complex(c_double), dimension(..), intent(in), target, asynchronous :: data_in
    type(c_ptr), intent(in), optional :: workspace
    type(boxwise_stream), intent(in), optional :: stream
    integer(c_int32_t), intent(out), optional :: status
    call exec_array(handle, data_out, data_in, workspace, stream, status)
  end subroutine exec_complex64

  ! ---- communicators and memory ----

  subroutine comm_create_world(comm, status)
    type(boxwise_comm), intent(out) :: comm
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_comm_create(c_null_ptr, COMM_TYPE_NONE, comm%c), status)
  end subroutine comm_create_world

  subroutine comm_create_mpi(mpi_communicator, comm, status)
    integer(c_int32_t), intent(in) :: mpi_communicator
    type(boxwise_comm), intent(out) :: comm
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_comm_create_from_fortran(mpi_communicator, comm%c), status)
  end subroutine comm_create_mpi

  subroutine comm_create_mpi_f08(mpi_communicator, comm, status)
    type(MPI_Comm), intent(in) :: mpi_communicator
    type(boxwise_comm), intent(out) :: comm
    integer(c_int32_t), intent(out), optional :: status
    call comm_create_mpi(mpi_communicator%MPI_VAL, comm, status)
  end subroutine comm_create_mpi_f08

  !> 0 to size - 1, as in C.
  subroutine boxwise_comm_rank(comm, rank, status)
    type(boxwise_comm), intent(in) :: comm
    integer(c_int32_t), intent(inout) :: rank
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_comm_rank(comm%c, rank), status)
  end subroutine boxwise_comm_rank

  subroutine boxwise_comm_size(comm, size, status)
    type(boxwise_comm), intent(in) :: comm
    integer(c_int32_t), intent(inout) :: size
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_comm_size(comm%c, size), status)
  end subroutine boxwise_comm_size

  subroutine boxwise_comm_barrier(comm, status)
    type(boxwise_comm), intent(in) :: comm
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_comm_barrier(comm%c), status)
  end subroutine boxwise_comm_barrier

  !> Sets the communicator to null; destroying a null communicator does nothing.
  subroutine boxwise_comm_destroy(comm, status)
    type(boxwise_comm), intent(inout) :: comm
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: c
    c = comm%c
    comm%c = c_null_ptr
    call conclude(c_comm_destroy(c), status)
  end subroutine boxwise_comm_destroy

  !> Memory shared by the ranks of a node. Give it a shape with c_f_pointer(pointer, array, [nx, ny, nz]). Collective.
  subroutine boxwise_malloc(comm, bytes, pointer, memory, status)
    type(boxwise_comm), intent(in) :: comm
    integer(c_size_t), intent(in) :: bytes
    type(c_ptr), intent(inout) :: pointer
    integer(c_int32_t), intent(in), optional :: memory !< BOXWISE_MEMORY_HOST if absent
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: kind_of_memory
    kind_of_memory = BOXWISE_MEMORY_HOST
    if (present(memory)) kind_of_memory = memory
    call conclude(c_malloc(comm%c, kind_of_memory, bytes, pointer), status)
  end subroutine boxwise_malloc

  !> Sets the pointer to null; freeing a null pointer does nothing. Collective.
  subroutine boxwise_free(comm, pointer, status)
    type(boxwise_comm), intent(in) :: comm
    type(c_ptr), intent(inout) :: pointer
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: c
    c = pointer
    pointer = c_null_ptr
    call conclude(c_free(comm%c, c), status)
  end subroutine boxwise_free

  ! ---- streams ----

  subroutine boxwise_stream_create(stream, status)
    type(boxwise_stream), intent(out) :: stream
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_stream_create(stream%c), status)
  end subroutine boxwise_stream_create

  subroutine boxwise_stream_synchronize(stream, status)
    type(boxwise_stream), intent(in) :: stream
    integer(c_int32_t), intent(out), optional :: status
    call conclude(c_stream_synchronize(stream%c), status)
  end subroutine boxwise_stream_synchronize

  !> Whether everything queued has ended.
  subroutine boxwise_stream_query(stream, idle, status)
    type(boxwise_stream), intent(in) :: stream
    logical, intent(inout) :: idle
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: code, flag
    code = c_stream_query(stream%c, flag)
    if (code == BOXWISE_SUCCESS) idle = flag /= 0
    call conclude(code, status)
  end subroutine boxwise_stream_query

  !> Waits first. Sets the stream to null; destroying a null stream does nothing.
  subroutine boxwise_stream_destroy(stream, status)
    type(boxwise_stream), intent(inout) :: stream
    integer(c_int32_t), intent(out), optional :: status
    type(c_ptr) :: c
    c = stream%c
    stream%c = c_null_ptr
    call conclude(c_stream_destroy(c), status)
  end subroutine boxwise_stream_destroy

  ! ---- reports ----

  subroutine boxwise_get_info(handle, info, status)
    type(boxwise_handle), intent(in) :: handle
    type(boxwise_info), intent(inout) :: info
    integer(c_int32_t), intent(out), optional :: status
    info%struct_size = int(c_sizeof(info), kind(info%struct_size))
    call conclude(c_get_info(handle%c, info), status)
  end subroutine boxwise_get_info

  !> The plan of this rank for a person, or as JSON.
  subroutine boxwise_describe(handle, text, format, status)
    type(boxwise_handle), intent(in) :: handle
    character(len=:), allocatable, intent(out) :: text
    integer(c_int32_t), intent(in), optional :: format !< BOXWISE_FORMAT_TEXT if absent
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: code, form
    integer(c_size_t) :: capacity, needed
    character(len=:), allocatable :: buffer
    form = BOXWISE_FORMAT_TEXT
    if (present(format)) form = format
    needed = 0
    code = c_describe(handle%c, form, capacity=0_c_size_t, needed=needed)
    capacity = 0
    ! Again while the text has grown in between: an operation on a stream may have ended.
    do while (needed > capacity .and. (code == BOXWISE_SUCCESS .or. code == BOXWISE_ERROR_INVALID_ARGUMENT))
       capacity = needed
       if (allocated(buffer)) deallocate(buffer)
       allocate(character(len=capacity) :: buffer)
       code = c_describe(handle%c, form, buffer, capacity, needed)
    end do
    if (code == BOXWISE_SUCCESS) text = buffer(:needed - 1) ! without the NUL
    call conclude(code, status)
  end subroutine boxwise_describe

  !> What the last failure on this thread was: the function, the value seen, what is wrong with it, what to do.
  function boxwise_last_error() result(text)
    character(len=:), allocatable :: text
    text = trim(own_detail)
    if (text == "") text = text_at(c_last_error())
  end function boxwise_last_error

  function boxwise_status_string(status) result(text)
    integer(c_int32_t), intent(in) :: status
    character(len=:), allocatable :: text
    text = text_at(c_status_string(status))
  end function boxwise_status_string

  function boxwise_version_string() result(text)
    character(len=:), allocatable :: text
    text = text_at(c_version_string())
  end function boxwise_version_string

  function text_at(pointer) result(text)
    type(c_ptr), intent(in) :: pointer
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: i
    call c_f_pointer(pointer, characters, [c_strlen(pointer)])
    allocate(character(len=size(characters)) :: text)
    do i = 1, size(characters)
       text(i:i) = characters(i)
    end do
  end function text_at

  !> How every procedure ends. A fault that is not blank is the detail of a failure, instead of the library's.
  subroutine conclude(code, status, fault)
    integer(c_int32_t), intent(in) :: code
    integer(c_int32_t), intent(out), optional :: status
    character(len=*), intent(in), optional :: fault
    if (code /= BOXWISE_SUCCESS) then
       own_detail = ""
       if (present(fault)) own_detail = fault
    end if
    if (present(status)) then
       status = code
    else if (code /= BOXWISE_SUCCESS) then
       error stop boxwise_status_string(code) // ": " // boxwise_last_error()
    end if
  end subroutine conclude

end module boxwise
