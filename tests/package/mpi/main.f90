! A user's program: an 8 x 6 array goes from blocks of rows to blocks of columns. Argument: the number of ranks.
program rows_to_columns
  use, intrinsic :: iso_c_binding, only: c_double, c_int64_t, c_sizeof
  use mpi_f08
  use boxwise
  implicit none
  integer(c_int64_t), parameter :: m = 8, n = 6, zero = 0
  type(boxwise_handle) :: reshape_plan
  integer :: rank, nranks, expected
  integer(c_int64_t) :: i, j, first_row, end_row, first_column, end_column
  real(c_double), allocatable :: held(:, :), wanted(:, :)
  character(len=8) :: argument

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks)
  call get_command_argument(1, argument)
  read (argument, *) expected
  if (nranks /= expected) error stop "the world has another number of ranks"

  first_row = rank * m / nranks
  end_row = (rank + 1) * m / nranks
  first_column = rank * n / nranks
  end_column = (rank + 1) * n / nranks
  allocate(held(first_row:end_row - 1, 0:n - 1), wanted(0:m - 1, first_column:end_column - 1))
  do j = 0, n - 1
     do i = first_row, end_row - 1
        held(i, j) = real(100 * i + j, c_double)
     end do
  end do

  call boxwise_create(reshape_plan)
  call boxwise_make(reshape_plan, c_sizeof(1.0_c_double), [first_row, zero], [end_row, n], [zero, first_column], &
       [m, end_column], MPI_COMM_WORLD)
  call boxwise_exec_async(reshape_plan, wanted, held)
  call boxwise_destroy(reshape_plan)

  do j = first_column, end_column - 1
     do i = 0, m - 1
        if (wanted(i, j) /= real(100 * i + j, c_double)) error stop "wrong element"
     end do
  end do
  call MPI_Finalize()
end program rows_to_columns
