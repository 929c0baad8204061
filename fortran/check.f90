!> What the examples share: cut a dimension, know every element's value, check all of memory, report.
!!
!! Arrays are 3-D with dimensions (x, y, z). Memory is poisoned before anything arrives in it, and afterwards every
!! place of it is looked at: an element must have its value, everything else must still be poison.
module check
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_int64_t, c_size_t, c_double, c_sizeof
  use boxwise
  implicit none
  private
  public :: box, box_split, box_shape, grid_rows, fill, verified, report, ELEMENT_SIZE, POISON

  !> The elements lower(d) <= g(d) < upper(d) of the global array, counted from 0.
  type :: box
     integer(c_int64_t) :: lower(3), upper(3)
  end type box

  integer(c_size_t), parameter :: ELEMENT_SIZE = c_sizeof(1.0_c_double)
  real(c_double), parameter :: POISON = -huge(1.0_c_double)

contains

  !> Cuts dimension d, of n elements, into nearly equal parts and gives the box one of them, counted from 0.
  subroutine box_split(b, d, n, parts, part)
    type(box), intent(inout) :: b
    integer, intent(in) :: d
    integer(c_int64_t), intent(in) :: n
    integer(c_int32_t), intent(in) :: parts, part
    b%lower(d) = n * part / parts
    b%upper(d) = n * (part + 1) / parts
  end subroutine box_split

  function box_shape(b)
    type(box), intent(in) :: b
    integer(c_int64_t) :: box_shape(3)
    box_shape = b%upper - b%lower
  end function box_shape

  !> How many rows a grid of this many ranks has when it is as square as can be; it has ranks / rows columns.
  function grid_rows(ranks) result(rows)
    integer(c_int32_t), intent(in) :: ranks
    integer(c_int32_t) :: rows, divisor
    rows = 1
    do divisor = 1, ranks
       if (divisor > ranks / divisor) exit
       if (mod(ranks, divisor) == 0) rows = divisor
    end do
  end function grid_rows

  !> Every element of the global array has a value of its own.
  pure function value_at(g) result(value)
    integer(c_int64_t), intent(in) :: g(3)
    real(c_double) :: value
    value = real(g(1), c_double) + 1.0e3_c_double * real(g(2), c_double) + 1.0e6_c_double * real(g(3), c_double)
  end function value_at

  !> What belongs into place (i, j, k) of an array that holds the box: array dimension m is dimension order(m) of the
  !! box, and whatever lies beyond the box is padding.
  pure function expected(i, j, k, b, order) result(value)
    integer, intent(in) :: i, j, k
    type(box), intent(in) :: b
    integer, intent(in), optional :: order(3)
    real(c_double) :: value
    integer(c_int64_t) :: g(3)
    g = [i, j, k] - 1
    if (present(order)) g(order) = [i, j, k] - 1
    value = POISON
    if (all(g < b%upper - b%lower)) value = value_at(b%lower + g)
  end function expected

  !> Gives the elements of a box their values, and poisons the padding.
  subroutine fill(array, b, order)
    real(c_double), intent(out) :: array(:, :, :)
    type(box), intent(in) :: b
    integer, intent(in), optional :: order(3)
    integer :: i, j, k
    do k = 1, size(array, 3)
       do j = 1, size(array, 2)
          do i = 1, size(array, 1)
             array(i, j, k) = expected(i, j, k, b, order)
          end do
       end do
    end do
  end subroutine fill

  !> Stops unless the array holds the elements of the box and poison everywhere else. Returns how many elements.
  function verified(array, b, order) result(elements)
    real(c_double), intent(in) :: array(:, :, :)
    type(box), intent(in) :: b
    integer, intent(in), optional :: order(3)
    integer(c_int64_t) :: elements
    integer :: i, j, k
    do k = 1, size(array, 3)
       do j = 1, size(array, 2)
          do i = 1, size(array, 1)
             if (.not. same_bits(array(i, j, k), expected(i, j, k, b, order))) error stop "an element is wrong"
          end do
       end do
    end do
    elements = product(b%upper - b%lower)
  end function verified

  pure function same_bits(a, b)
    real(c_double), intent(in) :: a, b
    logical :: same_bits
    same_bits = transfer(a, 0_c_int64_t) == transfer(b, 0_c_int64_t)
  end function same_bits

  !> Rank 0 says what all ranks have checked. The numbers come to it by a reshape: one element from everybody.
  !! A rank that found a fault has left before, and this call fails.
  subroutine report(comm, checked, what)
    type(boxwise_comm), intent(in) :: comm
    integer(c_int64_t), intent(in) :: checked
    character(len=*), intent(in) :: what
    type(boxwise_handle) :: handle
    integer(c_int32_t) :: rank, size
    integer(c_int64_t) :: lower, upper
    integer(c_int64_t), allocatable :: all_checked(:)
    call boxwise_comm_rank(comm, rank)
    call boxwise_comm_size(comm, size)
    lower = rank
    upper = merge(size, 0_c_int32_t, rank == 0)
    allocate(all_checked(upper))
    call boxwise_create(handle)
    call boxwise_set_option(handle, BOXWISE_OPTION_BACKEND, BOXWISE_BACKEND_HOST) ! also where others use GPUs
    call boxwise_make(handle, c_sizeof(checked), [lower], [lower + 1], [0_c_int64_t], [upper], comm)
    call boxwise_exec_async(handle, all_checked, checked)
    call boxwise_destroy(handle)
    if (rank == 0) print "(a, i0, a, i0, 3a)", &
         "checked ", sum(all_checked), " elements on ", size, trim(merge(" rank ", " ranks", size == 1)), ": ", what
  end subroutine report

end module check
