!> Two communicators at once: the rows and the columns of a grid of ranks, as pencil solvers use them.
!!
!! From x-pencils to y-pencils only the ranks of one row exchange data, from y-pencils to z-pencils only those of one
!! column. Each reshape is planned among the ranks that it concerns; boxes are in the coordinates of the whole array.
!!
!!   mpif90 boxwise.f90 check.f90 03_two_communicators.f90 -lboxwise -o 03_two_communicators
!!   mpirun -n 6 ./03_two_communicators
program two_communicators
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_int64_t, c_double
  use mpi_f08, only: MPI_Comm, MPI_COMM_WORLD, MPI_Init, MPI_Comm_rank, MPI_Comm_size, MPI_Comm_split, MPI_Comm_free, &
       MPI_Finalize
  use boxwise
  use check
  implicit none
  integer(c_int64_t), parameter :: NX = 16, NY = 24, NZ = 20
  integer, parameter :: STEPS = 3
  type(MPI_Comm) :: row_ranks, column_ranks
  type(boxwise_comm) :: comm
  type(boxwise_handle) :: along_row, along_column
  type(box) :: x_pencil, y_pencil, z_pencil
  real(c_double), allocatable :: x_data(:, :, :), y_data(:, :, :), z_data(:, :, :)
  integer :: rank, size, rows, columns, row, column, step
  integer(c_int64_t) :: checked

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  rows = grid_rows(size)
  columns = size / rows
  row = rank / columns
  column = mod(rank, columns)
  call MPI_Comm_split(MPI_COMM_WORLD, row, column, row_ranks)
  call MPI_Comm_split(MPI_COMM_WORLD, column, row, column_ranks)

  ! A row of ranks shares a range of z, a column of ranks a range of x.
  x_pencil = box([0, 0, 0], [NX, NY, NZ])
  y_pencil = x_pencil
  z_pencil = x_pencil
  call box_split(x_pencil, 2, NY, columns, column)
  call box_split(x_pencil, 3, NZ, rows, row)
  call box_split(y_pencil, 1, NX, columns, column)
  call box_split(y_pencil, 3, NZ, rows, row)
  call box_split(z_pencil, 1, NX, columns, column)
  call box_split(z_pencil, 2, NY, rows, row)

  ! A reshape keeps what it needs: the communicators may be freed as soon as boxwise_make has returned.
  call boxwise_create(along_row)
  call boxwise_create(along_column)
  call boxwise_make(along_row, ELEMENT_SIZE, x_pencil%lower, x_pencil%upper, y_pencil%lower, y_pencil%upper, row_ranks)
  call boxwise_make(along_column, ELEMENT_SIZE, y_pencil%lower, y_pencil%upper, z_pencil%lower, z_pencil%upper, &
       column_ranks)
  call MPI_Comm_free(row_ranks)
  call MPI_Comm_free(column_ranks)

  x_data = room_for(x_pencil)
  y_data = room_for(y_pencil)
  z_data = room_for(z_pencil)
  call fill(x_data, x_pencil)
  checked = 0
  do step = 1, STEPS
     y_data = POISON
     call boxwise_exec_async(along_row, y_data, x_data)
     checked = checked + verified(y_data, y_pencil)
     z_data = POISON
     call boxwise_exec_async(along_column, z_data, y_data)
     checked = checked + verified(z_data, z_pencil)
  end do

  ! The end of one is nothing to the other.
  call boxwise_destroy(along_row)
  z_data = POISON
  call boxwise_exec_async(along_column, z_data, y_data)
  checked = checked + verified(z_data, z_pencil)
  call boxwise_destroy(along_column)

  call boxwise_comm_create(MPI_COMM_WORLD, comm)
  call report(comm, checked, "x-, y- and z-pencils, by communicators of rows and columns")
  call boxwise_comm_destroy(comm)
  call MPI_Finalize()

contains

  function room_for(b) result(array)
    type(box), intent(in) :: b
    real(c_double), allocatable :: array(:, :, :)
    integer(c_int64_t) :: extent(3)
    extent = box_shape(b)
    allocate(array(extent(1), extent(2), extent(3)), source=POISON)
  end function room_for

end program two_communicators
