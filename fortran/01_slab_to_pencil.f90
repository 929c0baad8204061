!> From slabs to pencils and back: the two moves of a distributed 3-D FFT.
!!
!! A solver that holds whole planes can transform x and y by itself. For z it needs whole columns: a pencil.
!!
!!   gfortran boxwise.f90 check.f90 01_slab_to_pencil.f90 -lboxwise -o 01_slab_to_pencil
!!   boxwise-run -n 4 ./01_slab_to_pencil
program slab_to_pencil
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer, c_int32_t, c_int64_t, c_double
  use boxwise
  use check
  implicit none
  integer(c_int64_t), parameter :: NX = 18, NY = 22, NZ = 30
  type(boxwise_comm) :: comm
  type(boxwise_handle) :: forward, backward
  type(box) :: slab, pencil
  type(c_ptr) :: slab_memory, pencil_memory
  real(c_double), pointer :: slab_data(:, :, :), pencil_data(:, :, :)
  integer(c_int32_t) :: rank, size, rows, columns
  integer(c_int64_t) :: checked

  ! The ranks that boxwise-run started; without it, a world of one.
  call boxwise_comm_create(comm)
  call boxwise_comm_rank(comm, rank)
  call boxwise_comm_size(comm, size)

  ! What this rank has: some of the planes. Boxes are counted from 0, and the upper end is not part of them.
  slab = box([0, 0, 0], [NX, NY, NZ])
  call box_split(slab, 3, NZ, size, rank)

  ! What it wants: z whole, x and y cut by a grid of ranks.
  rows = grid_rows(size)
  columns = size / rows
  pencil = box([0, 0, 0], [NX, NY, NZ])
  call box_split(pencil, 2, NY, rows, rank / columns)
  call box_split(pencil, 1, NX, columns, mod(rank, columns))

  ! Both moves are planned once. Nobody says who sends what to whom: the boxes say it.
  call boxwise_create(forward)
  call boxwise_create(backward)
  call boxwise_make(forward, ELEMENT_SIZE, slab%lower, slab%upper, pencil%lower, pencil%upper, comm)
  call boxwise_make(backward, ELEMENT_SIZE, pencil%lower, pencil%upper, slab%lower, slab%upper, comm)

  ! Any memory will do. In this one the other ranks of the node reach the data themselves, in one pass.
  call boxwise_malloc(comm, product(box_shape(slab)) * ELEMENT_SIZE, slab_memory)
  call boxwise_malloc(comm, product(box_shape(pencil)) * ELEMENT_SIZE, pencil_memory)
  call c_f_pointer(slab_memory, slab_data, box_shape(slab))
  call c_f_pointer(pencil_memory, pencil_data, box_shape(pencil))

  call fill(slab_data, slab)
  pencil_data = POISON

  ! ... transform x and y here ...
  call boxwise_exec_async(forward, pencil_data, slab_data)
  checked = verified(pencil_data, pencil)
  checked = checked + verified(slab_data, slab) ! the input is never written

  ! ... transform z here ...
  slab_data = POISON
  call boxwise_exec_async(backward, slab_data, pencil_data)
  checked = checked + verified(slab_data, slab)

  call report(comm, checked, "z-slabs to z-pencils and back")
  call boxwise_free(comm, pencil_memory)
  call boxwise_free(comm, slab_memory)
  call boxwise_destroy(backward)
  call boxwise_destroy(forward)
  call boxwise_comm_destroy(comm)
end program slab_to_pencil
