!> Another order in memory, and padding: strides say where the elements of a box lie, on either side.
!!
!! The input is a real array padded for an in-place real-to-complex transform along x. The output has z fastest,
!! so that the transform along z runs over neighbours in memory: the transposition costs no extra pass.
program permuted_order
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_int64_t, c_double
  use boxwise
  use check
  implicit none
  integer(c_int64_t), parameter :: NX = 14, NY = 9, NZ = 20
  integer(c_int64_t), parameter :: ROW = 2 * (NX / 2 + 1), COLUMN = NZ + modulo(-NZ, 8_c_int64_t)
  integer, parameter :: TURNED_ORDER(3) = [3, 2, 1]
  type(boxwise_comm) :: comm
  type(boxwise_handle) :: forward, backward
  type(box) :: slab, turned
  integer(c_int64_t) :: slab_strides(3), turned_strides(3), slab_shape(3), turned_shape(3), checked
  real(c_double), allocatable :: slab_data(:, :, :), turned_data(:, :, :)
  integer(c_int32_t) :: rank, size

  call boxwise_comm_create(comm)
  call boxwise_comm_rank(comm, rank)
  call boxwise_comm_size(comm, size)

  ! Input: slab_data(x, y, z), z-slabs, each row padded to 2 (NX / 2 + 1). A stride is the distance, in elements,
  ! between neighbours in that dimension of the box.
  slab = box([0, 0, 0], [NX, NY, NZ])
  call box_split(slab, 3, NZ, size, rank)
  slab_shape = box_shape(slab)
  allocate(slab_data(ROW, NY, slab_shape(3)))
  slab_strides = [1_c_int64_t, ROW, ROW * NY]

  ! Output: turned_data(z, y, x), x-slabs, each column padded to a multiple of 8. The dimensions of the boxes keep
  ! their order (x, y, z); only the strides differ.
  turned = box([0, 0, 0], [NX, NY, NZ])
  call box_split(turned, 1, NX, size, rank)
  turned_shape = box_shape(turned)
  allocate(turned_data(COLUMN, NY, turned_shape(1)))
  turned_strides = [COLUMN * NY, COLUMN, 1_c_int64_t]

  call boxwise_create(forward)
  call boxwise_create(backward)
  call boxwise_make(forward, ELEMENT_SIZE, slab%lower, slab%upper, slab_strides, &
       turned%lower, turned%upper, turned_strides, comm)
  call boxwise_make(backward, ELEMENT_SIZE, turned%lower, turned%upper, turned_strides, &
       slab%lower, slab%upper, slab_strides, comm)

  ! Only elements move; the padding of the output is left as it was.
  call fill(slab_data, slab)
  turned_data = POISON
  call boxwise_exec_async(forward, turned_data, slab_data)
  checked = verified(turned_data, turned, TURNED_ORDER)

  slab_data = POISON
  call boxwise_exec_async(backward, slab_data, turned_data)
  checked = checked + verified(slab_data, slab)

  call report(comm, checked, "padded slabs with x fastest to padded slabs with z fastest and back")
  call boxwise_destroy(backward)
  call boxwise_destroy(forward)
  call boxwise_comm_destroy(comm)
end program permuted_order
