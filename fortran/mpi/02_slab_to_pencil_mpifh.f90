!> The same with mpif.h, as in older programs; with `use mpi` it is the same again. Communicators are integers there.
!!
!!   mpif90 boxwise.f90 check.f90 02_slab_to_pencil_mpifh.f90 -lboxwise -o 02_slab_to_pencil_mpifh
!!   mpirun -n 4 ./02_slab_to_pencil_mpifh
!!
!! Not every mpif.h is standard Fortran: compile it without -std.
program slab_to_pencil_mpifh
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_int64_t, c_double
  use boxwise
  use check
  implicit none
  include 'mpif.h'
  integer(c_int64_t), parameter :: NX = 18, NY = 22, NZ = 30
  type(boxwise_comm) :: comm
  type(boxwise_handle) :: forward, backward
  type(box) :: slab, pencil
  real(c_double), allocatable :: slab_data(:, :, :), pencil_data(:, :, :)
  integer(c_int32_t) :: rows, columns, status
  integer :: rank, size, error
  integer(c_int64_t) :: checked

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)

  rows = grid_rows(size)
  columns = size / rows
  slab = box([0, 0, 0], [NX, NY, NZ])
  pencil = slab
  call box_split(slab, 3, NZ, size, rank)
  call box_split(pencil, 2, NY, rows, rank / columns)
  call box_split(pencil, 1, NX, columns, mod(rank, columns))

  ! A program that wants to go on after a failure asks for `status`; all ranks get the same from boxwise_make.
  call boxwise_create(forward)
  call boxwise_create(backward)
  call boxwise_make(forward, ELEMENT_SIZE, slab%lower, slab%upper, pencil%lower, pencil%upper, MPI_COMM_WORLD, status)
  if (status /= BOXWISE_SUCCESS) error stop "boxwise_make: " // boxwise_last_error()
  call boxwise_make(backward, ELEMENT_SIZE, pencil%lower, pencil%upper, slab%lower, slab%upper, comm=MPI_COMM_WORLD)

  slab_data = room_for(slab)
  pencil_data = room_for(pencil)
  call fill(slab_data, slab)

  call boxwise_exec_async(forward, pencil_data, slab_data)
  checked = verified(pencil_data, pencil)

  slab_data = POISON
  call boxwise_exec_async(backward, slab_data, pencil_data)
  checked = checked + verified(slab_data, slab)

  call boxwise_comm_create(MPI_COMM_WORLD, comm)
  call report(comm, checked, "z-slabs to z-pencils and back, with mpif.h")
  call boxwise_comm_destroy(comm)
  call boxwise_destroy(backward)
  call boxwise_destroy(forward)
  call MPI_Finalize(error)

contains

  function room_for(b) result(array)
    type(box), intent(in) :: b
    real(c_double), allocatable :: array(:, :, :)
    integer(c_int64_t) :: extent(3)
    extent = box_shape(b)
    allocate(array(extent(1), extent(2), extent(3)), source=POISON)
  end function room_for

end program slab_to_pencil_mpifh
