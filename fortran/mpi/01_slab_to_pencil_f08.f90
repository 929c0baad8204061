!> From slabs to pencils and back in an MPI program: boxwise takes the ranks of an mpi_f08 communicator.
!!
!!   mpif90 boxwise.f90 check.f90 01_slab_to_pencil_f08.f90 -lboxwise -o 01_slab_to_pencil_f08
!!   mpirun -n 4 ./01_slab_to_pencil_f08
program slab_to_pencil_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer, c_int32_t, c_int64_t, c_double
  use mpi_f08, only: MPI_COMM_WORLD, MPI_Init, MPI_Finalize
  use boxwise
  use check
  implicit none
  integer(c_int64_t), parameter :: NX = 18, NY = 22, NZ = 30
  type(boxwise_comm) :: comm
  type(boxwise_handle) :: forward, backward
  type(box) :: slab, pencil
  type(c_ptr) :: pencil_memory
  real(c_double), allocatable :: slab_data(:, :, :)
  real(c_double), pointer :: pencil_data(:, :, :)
  integer(c_int32_t) :: rank, size, rows, columns
  integer(c_int64_t) :: checked, extent(3)

  call MPI_Init()

  ! The ranks of an MPI communicator, passed as it is. It is not kept, and may be freed afterwards.
  call boxwise_comm_create(MPI_COMM_WORLD, comm)
  call boxwise_comm_rank(comm, rank)
  call boxwise_comm_size(comm, size)

  ! What this rank has, and what it wants: some of the planes, then whole columns along z.
  rows = grid_rows(size)
  columns = size / rows
  slab = box([0, 0, 0], [NX, NY, NZ])
  pencil = slab
  call box_split(slab, 3, NZ, size, rank)
  call box_split(pencil, 2, NY, rows, rank / columns)
  call box_split(pencil, 1, NX, columns, mod(rank, columns))

  ! boxwise_make takes a communicator of boxwise, which serves many reshapes and shared memory, or one of MPI.
  call boxwise_create(forward)
  call boxwise_create(backward)
  call boxwise_make(forward, ELEMENT_SIZE, slab%lower, slab%upper, pencil%lower, pencil%upper, comm)
  call boxwise_make(backward, ELEMENT_SIZE, pencil%lower, pencil%upper, slab%lower, slab%upper, MPI_COMM_WORLD)

  ! Any memory will do.
  extent = box_shape(slab)
  allocate(slab_data(extent(1), extent(2), extent(3)))
  call boxwise_malloc(comm, product(box_shape(pencil)) * ELEMENT_SIZE, pencil_memory)
  call c_f_pointer(pencil_memory, pencil_data, box_shape(pencil))
  call fill(slab_data, slab)
  pencil_data = POISON

  call boxwise_exec_async(forward, pencil_data, slab_data)
  checked = verified(pencil_data, pencil)

  slab_data = POISON
  call boxwise_exec_async(backward, slab_data, pencil_data)
  checked = checked + verified(slab_data, slab)

  call report(comm, checked, "z-slabs to z-pencils and back, with mpi_f08")
  call boxwise_free(comm, pencil_memory)
  call boxwise_destroy(backward)
  call boxwise_destroy(forward)
  call boxwise_comm_destroy(comm)

  ! Everything made with an MPI communicator ends before MPI does.
  call MPI_Finalize()
end program slab_to_pencil_f08
