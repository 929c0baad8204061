!> One buffer instead of two: the output takes the place of the input.
!!
!! The buffer must be large enough for both boxes. The library says how much workspace it needs besides.
program in_place
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer, c_int32_t, c_int64_t, c_size_t, c_double
  use boxwise
  use check
  implicit none
  integer(c_int64_t), parameter :: NX = 10, NY = 26, NZ = 13, GUARD = 16
  type(boxwise_comm) :: comm
  type(boxwise_handle) :: forward, backward
  type(box) :: z_slab, y_slab, nothing
  type(c_ptr) :: memory, workspace
  real(c_double), pointer :: buffer(:), as_z_slab(:, :, :), as_y_slab(:, :, :), behind(:, :, :)
  integer(c_int32_t) :: rank, size
  integer(c_int64_t) :: checked, places
  integer(c_size_t) :: forward_bytes, backward_bytes

  call boxwise_comm_create(comm)
  call boxwise_comm_rank(comm, rank)
  call boxwise_comm_size(comm, size)
  z_slab = box([0, 0, 0], [NX, NY, NZ])
  y_slab = box([0, 0, 0], [NX, NY, NZ])
  nothing = box([0, 0, 0], [0, 0, 0])
  call box_split(z_slab, 3, NZ, size, rank)
  call box_split(y_slab, 2, NY, size, rank)

  ! Options are set between create and make, to the same value on every rank.
  call boxwise_create(forward)
  call boxwise_create(backward)
  call boxwise_set_option(forward, BOXWISE_OPTION_IN_PLACE, 1)
  call boxwise_set_option(backward, BOXWISE_OPTION_IN_PLACE, 1)
  call boxwise_make(forward, ELEMENT_SIZE, z_slab%lower, z_slab%upper, y_slab%lower, y_slab%upper, comm)
  call boxwise_make(backward, ELEMENT_SIZE, y_slab%lower, y_slab%upper, z_slab%lower, z_slab%upper, comm)

  ! The larger of the two boxes, and a guard behind it that nobody may touch. Three views of the same memory.
  places = max(product(box_shape(z_slab)), product(box_shape(y_slab)))
  call boxwise_malloc(comm, (places + GUARD) * ELEMENT_SIZE, memory)
  call c_f_pointer(memory, buffer, [places + GUARD])
  call c_f_pointer(memory, as_z_slab, box_shape(z_slab))
  call c_f_pointer(memory, as_y_slab, box_shape(y_slab))
  behind(1:1, 1:1, 1:GUARD) => buffer(places + 1:)

  ! Both moves can share one workspace, since they do not run at the same time.
  call boxwise_get_size(forward, forward_bytes)
  call boxwise_get_size(backward, backward_bytes)
  call boxwise_malloc(comm, max(forward_bytes, backward_bytes), workspace)

  buffer = POISON
  call fill(as_z_slab, z_slab)

  call boxwise_exec_async(forward, memory, memory, workspace)
  checked = verified(as_y_slab, y_slab)
  checked = checked + verified(behind, nothing)

  call boxwise_exec_async(backward, memory, memory, workspace)
  checked = checked + verified(as_z_slab, z_slab)
  checked = checked + verified(behind, nothing)

  call report(comm, checked, "z-slabs to y-slabs and back in one buffer")
  call boxwise_free(comm, workspace)
  call boxwise_free(comm, memory)
  call boxwise_destroy(backward)
  call boxwise_destroy(forward)
  call boxwise_comm_destroy(comm)
end program in_place
