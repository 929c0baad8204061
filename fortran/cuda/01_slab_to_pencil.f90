!> From slabs to pencils and back in the memory of GPUs: addresses instead of arrays, on a CUDA stream.
!!
!! CUDA is called through interfaces of this file, so that any Fortran compiler will do; with CUDA Fortran, c_devloc of
!! a device array that lies in NVSHMEM's symmetric heap is such an address.
!!
!!   gfortran boxwise.f90 check.f90 01_slab_to_pencil.f90 -lboxwise -lcuda -o 01_slab_to_pencil
!!   boxwise-run -n 4 ./01_slab_to_pencil
module cuda_driver
  use, intrinsic :: iso_c_binding, only: c_int, c_ptr, c_intptr_t, c_size_t
  implicit none
  public

  integer(c_int), parameter :: CU_STREAM_NON_BLOCKING = 1

  interface
     function cuInit(flags) bind(c, name="cuInit") result(code)
       import :: c_int
       integer(c_int), value :: flags
       integer(c_int) :: code
     end function cuInit

     function cuDeviceGetCount(count) bind(c, name="cuDeviceGetCount") result(code)
       import :: c_int
       integer(c_int), intent(out) :: count
       integer(c_int) :: code
     end function cuDeviceGetCount

     function cuDeviceGet(device, number) bind(c, name="cuDeviceGet") result(code)
       import :: c_int
       integer(c_int), intent(out) :: device
       integer(c_int), value :: number
       integer(c_int) :: code
     end function cuDeviceGet

     function cuDevicePrimaryCtxRetain(context, device) bind(c, name="cuDevicePrimaryCtxRetain") result(code)
       import :: c_int, c_ptr
       type(c_ptr), intent(out) :: context
       integer(c_int), value :: device
       integer(c_int) :: code
     end function cuDevicePrimaryCtxRetain

     function cuCtxSetCurrent(context) bind(c, name="cuCtxSetCurrent") result(code)
       import :: c_int, c_ptr
       type(c_ptr), value :: context
       integer(c_int) :: code
     end function cuCtxSetCurrent

     function cuMemcpyHtoD(device, host, bytes) bind(c, name="cuMemcpyHtoD_v2") result(code)
       import :: c_int, c_ptr, c_size_t
       type(c_ptr), value :: device, host
       integer(c_size_t), value :: bytes
       integer(c_int) :: code
     end function cuMemcpyHtoD

     function cuMemcpyDtoH(host, device, bytes) bind(c, name="cuMemcpyDtoH_v2") result(code)
       import :: c_int, c_ptr, c_size_t
       type(c_ptr), value :: host, device
       integer(c_size_t), value :: bytes
       integer(c_int) :: code
     end function cuMemcpyDtoH

     function cuStreamCreate(stream, flags) bind(c, name="cuStreamCreate") result(code)
       import :: c_int, c_ptr
       type(c_ptr), intent(out) :: stream
       integer(c_int), value :: flags
       integer(c_int) :: code
     end function cuStreamCreate

     function cuStreamSynchronize(stream) bind(c, name="cuStreamSynchronize") result(code)
       import :: c_int, c_ptr
       type(c_ptr), value :: stream
       integer(c_int) :: code
     end function cuStreamSynchronize

     function cuStreamDestroy(stream) bind(c, name="cuStreamDestroy_v2") result(code)
       import :: c_int, c_ptr
       type(c_ptr), value :: stream
       integer(c_int) :: code
     end function cuStreamDestroy
  end interface

contains

  !> Ends the program where a call of the driver failed.
  subroutine cuda(code)
    integer(c_int), intent(in) :: code
    if (code == 0) return
    print '(a, i0)', "the CUDA driver returned ", code
    error stop
  end subroutine cuda
end module cuda_driver

program slab_to_pencil
  use, intrinsic :: iso_c_binding, only: c_ptr, c_loc, c_int, c_int32_t, c_int64_t, c_size_t, c_double
  use boxwise
  use check
  use cuda_driver
  implicit none
  integer(c_int64_t), parameter :: NX = 9, NY = 10, NZ = 14
  type(boxwise_comm) :: comm
  type(boxwise_handle) :: forward, backward
  type(box) :: slab, pencil
  type(c_ptr) :: slab_memory, pencil_memory, workspaces(2), context, stream
  real(c_double), allocatable, target :: slab_data(:, :, :), pencil_data(:, :, :)
  integer(c_int32_t) :: rank, size, rows, columns
  integer(c_int64_t) :: checked, extent(3)
  integer(c_int) :: devices, device

  call boxwise_comm_create(comm)
  call boxwise_comm_rank(comm, rank)
  call boxwise_comm_size(comm, size)

  ! A GPU for each rank of the node, chosen before boxwise sees it.
  call cuda(cuInit(0_c_int))
  call cuda(cuDeviceGetCount(devices))
  call cuda(cuDeviceGet(device, mod(rank, devices)))
  call cuda(cuDevicePrimaryCtxRetain(context, device))
  call cuda(cuCtxSetCurrent(context))
  call cuda(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING))

  slab = box([0, 0, 0], [NX, NY, NZ])
  call box_split(slab, 3, NZ, size, rank)
  rows = grid_rows(size)
  columns = size / rows
  pencil = box([0, 0, 0], [NX, NY, NZ])
  call box_split(pencil, 2, NY, rows, rank / columns)
  call box_split(pencil, 1, NX, columns, mod(rank, columns))

  ! Symmetric memory of NVSHMEM, which is started here if nobody has done so.
  call boxwise_malloc(comm, bytes_of(slab), slab_memory, BOXWISE_MEMORY_DEVICE)
  call boxwise_malloc(comm, bytes_of(pencil), pencil_memory, BOXWISE_MEMORY_DEVICE)
  call make(forward, slab, pencil, workspaces(1))
  call make(backward, pencil, slab, workspaces(2))

  ! Filled and checked on the host.
  extent = box_shape(slab)
  allocate(slab_data(extent(1), extent(2), extent(3)))
  extent = box_shape(pencil)
  allocate(pencil_data(extent(1), extent(2), extent(3)))
  call fill(slab_data, slab)
  pencil_data = POISON
  call cuda(cuMemcpyHtoD(slab_memory, c_loc(slab_data), bytes_of(slab)))

  ! Queued on the stream, there and back and there: nothing here waits for other ranks.
  call boxwise_exec_async(forward, pencil_memory, slab_memory, workspaces(1), boxwise_stream(stream))
  call boxwise_exec_async(backward, slab_memory, pencil_memory, workspaces(2), boxwise_stream(stream))
  call boxwise_exec_async(forward, pencil_memory, slab_memory, workspaces(1), boxwise_stream(stream))
  call cuda(cuStreamSynchronize(stream))

  slab_data = POISON
  call cuda(cuMemcpyDtoH(c_loc(pencil_data), pencil_memory, bytes_of(pencil)))
  call cuda(cuMemcpyDtoH(c_loc(slab_data), slab_memory, bytes_of(slab)))
  checked = verified(pencil_data, pencil)
  checked = checked + verified(slab_data, slab)

  call report(comm, checked, "z-slabs to z-pencils and back on GPUs")
  call boxwise_destroy(backward)
  call boxwise_destroy(forward)
  call boxwise_free(comm, workspaces(2))
  call boxwise_free(comm, workspaces(1))
  call boxwise_free(comm, pencil_memory)
  call boxwise_free(comm, slab_memory)
  call boxwise_comm_destroy(comm)
  call cuda(cuStreamDestroy(stream))

contains

  function bytes_of(b) result(bytes)
    type(box), intent(in) :: b
    integer(c_size_t) :: bytes
    bytes = product(box_shape(b)) * ELEMENT_SIZE
  end function bytes_of

  !> The plan, and symmetric memory for its workspace, which all ranks take together, also those that need none.
  subroutine make(handle, input, output, workspace)
    type(boxwise_handle), intent(inout) :: handle
    type(box), intent(in) :: input, output
    type(c_ptr), intent(out) :: workspace
    integer(c_size_t) :: bytes
    call boxwise_create(handle)
    call boxwise_set_option(handle, BOXWISE_OPTION_BACKEND, BOXWISE_BACKEND_NVSHMEM)
    call boxwise_make(handle, ELEMENT_SIZE, input%lower, input%upper, output%lower, output%upper, comm)
    call boxwise_get_size(handle, bytes)
    call boxwise_malloc(comm, bytes, workspace, BOXWISE_MEMORY_DEVICE)
  end subroutine make
end program slab_to_pencil
