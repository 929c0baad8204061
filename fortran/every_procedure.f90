!> Calls every procedure of the module once, each type of array, and the two ways to be told of a failure.
program every_procedure
  use, intrinsic :: iso_c_binding, only: c_ptr, c_null_ptr, c_loc, c_associated, c_int32_t, c_int64_t, c_size_t, &
       c_float, c_double
  use boxwise
  use check, only: report
  implicit none
  integer(c_int64_t), parameter :: N = 12
  integer(c_int32_t), parameter :: OUT_OF_RANGE = 2
  type(boxwise_comm) :: comm
  type(boxwise_handle) :: handle
  type(boxwise_stream) :: stream
  type(boxwise_info) :: info
  type(c_ptr) :: memory
  integer(c_int32_t) :: rank, size, status
  integer(c_int64_t) :: lower(2), upper(2), checked
  integer(c_size_t) :: bytes
  logical :: idle
  character(len=:), allocatable :: text

  call boxwise_comm_create(comm)
  call boxwise_comm_rank(comm, rank)
  call boxwise_comm_size(comm, size)
  call boxwise_comm_barrier(comm)
  call require(boxwise_version() > 0, "version")
  call require(index(boxwise_version_string(), ".") > 0, "version string")
  call require(boxwise_status_string(BOXWISE_SUCCESS) == "success", "status string")

  ! Every rank holds two columns and asks for those of the next rank.
  lower = [0_c_int64_t, 2_c_int64_t * rank]
  upper = [N, 2_c_int64_t * rank + 2]
  checked = 0
  call move_each_type()
  call move_on_stream()

  ! With `status` a failure is returned, with its detail in boxwise_last_error.
  call boxwise_create(handle)
  call boxwise_set_option(handle, BOXWISE_OPTION_IN_PLACE, OUT_OF_RANGE, status)
  call require(status == BOXWISE_ERROR_INVALID_ARGUMENT, "set_option of a wrong value")
  call require(index(boxwise_last_error(), "BOXWISE_OPTION_IN_PLACE") > 0, "its detail")
  call boxwise_set_option(handle, BOXWISE_OPTION_TIMEOUT_MS, 60000_c_int64_t, status)
  call require(status == BOXWISE_SUCCESS, "set_option of a right value")
  call boxwise_get_size(handle, bytes, status)
  call require(status == BOXWISE_ERROR_INVALID_STATE, "get_size before make")
  call refuse_unequal_arrays()
  call boxwise_make(handle, 4_c_size_t, lower, upper, lower, upper, status=status) ! the implicit world
  call require(status == BOXWISE_SUCCESS, "make after a failed make")
  call boxwise_get_size(handle, bytes)
  call require(bytes == 0, "get_size")
  call refuse_gaps()
  call refuse_mpi()
  call boxwise_destroy(handle)
  call require(.not. c_associated(handle%c), "destroy")
  call boxwise_destroy(handle)

  call boxwise_malloc(comm, 100_c_size_t, memory, BOXWISE_MEMORY_HOST)
  call require(c_associated(memory), "malloc")
  call boxwise_free(comm, memory)
  call require(.not. c_associated(memory), "free")
  call boxwise_free(comm, memory)

  call report(comm, checked, "every procedure of the Fortran module")
  call boxwise_comm_destroy(comm)

contains

  subroutine require(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (.not. condition) error stop "every_procedure: " // what // ": " // boxwise_last_error()
  end subroutine require

  !> A handle that moves elements of this size one rank on.
  subroutine make_shift(element_size)
    integer(c_size_t), intent(in) :: element_size
    integer(c_int64_t) :: next(2)
    next = [0_c_int64_t, 2_c_int64_t * mod(rank + 1, size)]
    call boxwise_create(handle)
    call boxwise_make(handle, element_size, lower, upper, next, next + [N, 2_c_int64_t], comm)
  end subroutine make_shift

  !> Value i of column j of a rank.
  pure function value_of(of_rank, i, j) result(value)
    integer, intent(in) :: of_rank, i, j
    integer :: value
    value = 100 * of_rank + 10 * j + i
  end function value_of

  subroutine move_each_type()
    integer(c_int32_t) :: i32(N, 2), o32(N, 2)
    integer(c_int64_t) :: i64(N, 2), o64(N, 2)
    real(c_float) :: r32(N, 2), s32(N, 2)
    real(c_double) :: r64(N, 2), s64(N, 2)
    complex(c_float) :: c32(N, 2), d32(N, 2)
    complex(c_double), target :: c64(N, 2), d64(N, 2), by_pointer(N, 2)
    integer(c_int32_t) :: expected(N, 2)
    integer :: i, j
    do j = 1, 2
       do i = 1, int(N)
          i32(i, j) = value_of(rank, i, j)
          expected(i, j) = value_of(mod(rank + 1, size), i, j)
       end do
    end do
    i64 = i32
    r32 = real(i32, c_float)
    r64 = i32
    c32 = cmplx(r32, -r32, c_float)
    c64 = cmplx(r64, -r64, c_double)

    call make_shift(4_c_size_t)
    call boxwise_exec_async(handle, o32, i32)
    call boxwise_exec_async(handle, s32, r32)
    call boxwise_destroy(handle)
    call make_shift(8_c_size_t)
    call boxwise_exec_async(handle, o64, i64)
    call boxwise_exec_async(handle, s64, r64)
    call boxwise_exec_async(handle, d32, c32)
    call boxwise_destroy(handle)
    call make_shift(16_c_size_t)
    call boxwise_exec_async(handle, d64, c64)
    call boxwise_exec_async(handle, c_loc(by_pointer), c_loc(c64), c_null_ptr, status=status)
    call require(status == BOXWISE_SUCCESS, "exec on pointers")
    call boxwise_destroy(handle)

    ! Compared bit by bit: what came is what the next rank made of its own numbers.
    i32 = expected
    i64 = i32
    r32 = real(i32, c_float)
    r64 = i32
    c32 = cmplx(r32, -r32, c_float)
    c64 = cmplx(r64, -r64, c_double)
    call require(all(o32 == i32), "32-bit integers")
    call require(all(o64 == i64), "64-bit integers")
    call require(all(transfer(s32, [0_c_int32_t]) == transfer(r32, [0_c_int32_t])), "floats")
    call require(all(transfer(s64, [0_c_int32_t]) == transfer(r64, [0_c_int32_t])), "doubles")
    call require(all(transfer(d32, [0_c_int32_t]) == transfer(c32, [0_c_int32_t])), "complex of floats")
    call require(all(transfer(d64, [0_c_int32_t]) == transfer(c64, [0_c_int32_t])), "complex of doubles")
    call require(all(transfer(by_pointer, [0_c_int32_t]) == transfer(c64, [0_c_int32_t])), "pointers")
    checked = checked + 7 * 2 * N
  end subroutine move_each_type

  subroutine move_on_stream()
    integer(c_int32_t), asynchronous :: before(N, 2), after(N, 2)
    before = rank
    after = -1
    call make_shift(4_c_size_t)
    call boxwise_stream_create(stream)
    call boxwise_exec_async(handle, after, before, stream=stream)
    call boxwise_stream_query(stream, idle)
    call boxwise_stream_synchronize(stream)
    call require(all(after == mod(rank + 1, size)), "stream")
    call boxwise_stream_query(stream, idle)
    call require(idle, "query")
    call boxwise_stream_destroy(stream)
    checked = checked + 2 * N

    call boxwise_get_info(handle, info)
    call require(info%rank == rank .and. info%size == size .and. info%ndims == 2, "info")
    call require(info%element_size == 4 .and. info%bytes_kept + info%bytes_received == 2 * N * 4, "info in bytes")
    call boxwise_describe(handle, text)
    call require(len(text) > 0 .and. index(text, achar(0)) == 0, "describe")
    call boxwise_describe(handle, text, BOXWISE_FORMAT_JSON)
    call require(text(1:1) == "{" .and. text(len(text):) == "}", "describe as JSON")
    call boxwise_destroy(handle)
  end subroutine move_on_stream

  !> Arrays of unequal size on any rank fail on all of them, and the rank that passed them is told which.
  subroutine refuse_unequal_arrays()
    integer(c_int64_t) :: strides(3)
    strides = 1
    call boxwise_make(handle, 4_c_size_t, lower, upper(:1), lower, upper, comm, status)
    call require_fault("boxwise_make: lower_input has 2 elements, upper_input 1")
    call boxwise_make(handle, 4_c_size_t, lower, upper, lower(:0), upper, comm, status)
    call require_fault("boxwise_make: lower_input has 2 elements, lower_output 0")
    call boxwise_make(handle, 4_c_size_t, lower, upper, strides, lower, upper, strides(:2), comm, status)
    call require_fault("boxwise_make: lower_input has 2 elements, strides_input 3")
    call boxwise_make(handle, 4_c_size_t, lower, upper, strides(:2), lower, upper, strides, comm, status)
    call require_fault("boxwise_make: lower_input has 2 elements, strides_output 3")
    if (rank == size - 1) then
       call boxwise_make(handle, 4_c_size_t, lower, upper, lower, upper(:1), comm, status)
       call require_fault("boxwise_make: lower_input has 2 elements, upper_output 1")
    else
       call boxwise_make(handle, 4_c_size_t, lower, upper, lower, upper, comm, status)
       call require_fault("ndims is -1")
    end if
  end subroutine refuse_unequal_arrays

  !> A section with gaps is never copied behind the caller's back.
  subroutine refuse_gaps()
    integer(c_int32_t) :: with_gaps(2 * N, 2), whole(N, 2)
    with_gaps = 0
    whole = 0
    call boxwise_exec_async(handle, whole, with_gaps(::2, :), status=status)
    call require_fault("boxwise_exec_async: data_in has gaps; pass a contiguous array or its c_loc")
    call boxwise_exec_async(handle, with_gaps(::2, :), whole, status=status)
    call require_fault("boxwise_exec_async: data_out has gaps; pass a contiguous array or its c_loc")
    ! The next failure has its own text again.
    call boxwise_exec_async(handle, c_null_ptr, c_null_ptr, status=status)
    call require_fault("data_in is NULL")
    call boxwise_exec_async(handle, whole, with_gaps(:, 2), status=status)
    call require(status == BOXWISE_SUCCESS, "a section without gaps")
  end subroutine refuse_gaps

  !> Communicators of both kinds compile without MPI. There is no MPI in this program, which is what the library says.
  subroutine refuse_mpi()
    type, bind(c) :: MPI_Comm ! as in mpi_f08
       integer(c_int32_t) :: MPI_VAL
    end type MPI_Comm
    type(boxwise_comm) :: other
    type(boxwise_handle) :: unmade
    integer(c_int64_t) :: strides(2)
    integer :: way
    strides = [1_c_int64_t, N]
    call boxwise_create(unmade)
    do way = 1, 6
       status = BOXWISE_SUCCESS
       select case (way)
       case (1)
          call boxwise_comm_create(0, other, status)
       case (2)
          call boxwise_comm_create(MPI_Comm(0), other, status)
       case (3)
          call boxwise_make(unmade, 4_c_size_t, lower, upper, lower, upper, 0, status)
       case (4)
          call boxwise_make(unmade, 4_c_size_t, lower, upper, lower, upper, MPI_Comm(0), status)
       case (5)
          call boxwise_make(unmade, 4_c_size_t, lower, upper, strides, lower, upper, strides, 0, status)
       case (6)
          call boxwise_make(unmade, 4_c_size_t, lower, upper, strides, lower, upper, strides, MPI_Comm(0), status)
       end select
       call require(status == BOXWISE_ERROR_UNAVAILABLE, "an MPI communicator without MPI")
       call require(index(boxwise_last_error(), "MPI") > 0, "the detail of an MPI communicator without MPI")
    end do
    call boxwise_destroy(unmade)
  end subroutine refuse_mpi

  subroutine require_fault(detail)
    character(len=*), intent(in) :: detail
    call require(status == BOXWISE_ERROR_INVALID_ARGUMENT, "the status of: " // detail)
    call require(index(boxwise_last_error(), detail) > 0, "the detail: " // detail)
  end subroutine require_fault

end program every_procedure
