!> Boxes of any size, also of none: rank 0 has read a file, everybody shall work, some more than others.
!!
!! Nothing has to be divisible, and a rank without elements calls everything like the others, with an array of size 0.
program uneven_and_empty
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_int64_t, c_double
  use boxwise
  use check
  implicit none
  integer(c_int64_t), parameter :: NX = 5, NY = 7, NZ = 11
  type(boxwise_comm) :: comm
  type(boxwise_handle) :: scatter, balance
  type(box) :: file, even, weighted
  real(c_double), allocatable :: file_data(:, :, :), even_data(:, :, :), weighted_data(:, :, :)
  integer(c_int32_t) :: rank, size
  integer(c_int64_t) :: checked, block, total

  call boxwise_comm_create(comm)
  call boxwise_comm_rank(comm, rank)
  call boxwise_comm_size(comm, size)

  ! The file: all of it on rank 0. A box whose lower equals its upper anywhere is empty.
  file = box([0, 0, 0], [NX, NY, merge(NZ, 0_c_int64_t, rank == 0)])

  ! Blocks of the size that most programs compute, rounded up: 8 ranks get 2 2 2 2 2 1 0 0 planes.
  block = (NZ + size - 1) / size
  even = box([0, 0, 0], [NX, NY, NZ])
  even%lower(3) = min(NZ, rank * block)
  even%upper(3) = min(NZ, (rank + 1) * block)

  ! Blocks by weight, for ranks that are not equally fast.
  total = weight_below(size)
  weighted = box([0, 0, 0], [NX, NY, NZ])
  weighted%lower(3) = NZ * weight_below(rank) / total
  weighted%upper(3) = NZ * weight_below(rank + 1) / total

  ! Plain arrays.
  allocate(file_data(NX, NY, file%upper(3) - file%lower(3)))
  allocate(even_data(NX, NY, even%upper(3) - even%lower(3)))
  allocate(weighted_data(NX, NY, weighted%upper(3) - weighted%lower(3)))
  call fill(file_data, file)
  even_data = POISON
  weighted_data = POISON

  call boxwise_create(scatter)
  call boxwise_create(balance)
  call boxwise_make(scatter, ELEMENT_SIZE, file%lower, file%upper, even%lower, even%upper, comm)
  call boxwise_make(balance, ELEMENT_SIZE, even%lower, even%upper, weighted%lower, weighted%upper, comm)

  call boxwise_exec_async(scatter, even_data, file_data)
  call boxwise_exec_async(balance, weighted_data, even_data)
  checked = verified(even_data, even)
  checked = checked + verified(weighted_data, weighted)

  call report(comm, checked, "all on rank 0 to rounded-up blocks to blocks by weight, some ranks empty")
  call boxwise_destroy(balance)
  call boxwise_destroy(scatter)
  call boxwise_comm_destroy(comm)

contains

  !> What the planes below those of this rank weigh: 2, 0, 1, 2, 0, 1, ... so that rank 1 gets nothing.
  pure function weight_below(this_rank) result(weight)
    integer(c_int32_t), intent(in) :: this_rank
    integer(c_int64_t) :: weight
    integer(c_int32_t) :: r
    weight = 0
    do r = 0, this_rank - 1
       weight = weight + mod(r + 2, 3)
    end do
  end function weight_below

end program uneven_and_empty
