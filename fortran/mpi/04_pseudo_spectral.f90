!> A pseudo-spectral solver: Poisson's equation in a periodic box, by a distributed 3-D FFT of FFTW's 1-D transforms.
!!
!! Each rank transforms whole lines along x, y and z in turn, and reshapes move the data from pencil to pencil between.
!! They also change the order in memory, so that the lines of every pencil lie one after another. The spectrum is
!! compared with that of a serial 3-D FFT, the solution with the exact one.
!!
!!   mpif90 -I/usr/include boxwise.f90 check.f90 04_pseudo_spectral.f90 -lboxwise -lfftw3 -o 04_pseudo_spectral
!!   mpirun -n 4 ./04_pseudo_spectral
program pseudo_spectral
  use, intrinsic :: iso_c_binding
  use mpi_f08, only: MPI_COMM_WORLD, MPI_Init, MPI_Finalize
  use boxwise
  use check, only: box, box_split, box_shape, grid_rows, report
  implicit none
  include 'fftw3.f03'

  ! The box is [0, 2 pi) in each dimension. The data is real, so that half of the spectrum along x is enough.
  integer(c_int64_t), parameter :: NX = 24, NY = 20, NZ = 18, MX = NX / 2 + 1
  integer, parameter :: X = 1, Y = 2, Z = 3
  integer(c_size_t), parameter :: COMPLEX_SIZE = 16
  real(c_double), parameter :: TWO_PI = 8 * atan(1.0_c_double)

  !> Lines along one dimension, whole; the other two dimensions are cut by the grid of ranks. Elements of a line are
  !! neighbours in memory.
  type :: pencil
     type(box) :: b
     integer(c_int64_t) :: strides(3)
     integer(c_int) :: length, lines
  end type pencil

  type(boxwise_comm) :: comm
  type(boxwise_handle) :: x_to_y, y_to_z, z_to_y, y_to_x
  type(pencil) :: real_x, along_x, along_y, along_z
  type(c_ptr) :: forward_x, backward_x, forward_y, backward_y, forward_z, backward_z
  real(c_double), allocatable :: values(:), expected(:)
  complex(c_double_complex), allocatable :: x_lines(:), y_lines(:), z_lines(:), y_modes(:), z_modes(:)
  integer(c_int32_t) :: rank, size, rows, columns
  integer(c_int64_t) :: checked

  call MPI_Init()
  call boxwise_comm_create(MPI_COMM_WORLD, comm)
  call boxwise_comm_rank(comm, rank)
  call boxwise_comm_size(comm, size)
  rows = grid_rows(size)
  columns = size / rows

  real_x = pencil_along(X, NX, rows, columns, rank) ! before the transform along x, and after it
  along_x = pencil_along(X, MX, rows, columns, rank)
  along_y = pencil_along(Y, MX, rows, columns, rank)
  along_z = pencil_along(Z, MX, rows, columns, rank)
  allocate(values(real_x%length * real_x%lines), x_lines(along_x%length * along_x%lines))
  allocate(y_lines(along_y%length * along_y%lines), y_modes(along_y%length * along_y%lines))
  allocate(z_lines(along_z%length * along_z%lines), z_modes(along_z%length * along_z%lines))

  ! All plans, FFTW's and boxwise's, are made once.
  forward_x = fftw_plan_many_dft_r2c(1, [int(NX, c_int)], real_x%lines, values, [real_x%length], 1, &
       real_x%length, x_lines, [along_x%length], 1, along_x%length, FFTW_ESTIMATE)
  backward_x = fftw_plan_many_dft_c2r(1, [int(NX, c_int)], real_x%lines, x_lines, [along_x%length], 1, &
       along_x%length, values, [real_x%length], 1, real_x%length, FFTW_ESTIMATE)
  forward_y = plan_lines(along_y, y_lines, y_modes, FFTW_FORWARD)
  backward_y = plan_lines(along_y, y_modes, y_lines, FFTW_BACKWARD)
  forward_z = plan_lines(along_z, z_lines, z_modes, FFTW_FORWARD)
  backward_z = plan_lines(along_z, z_modes, z_lines, FFTW_BACKWARD)
  call plan_move(x_to_y, along_x, along_y)
  call plan_move(y_to_z, along_y, along_z)
  call plan_move(z_to_y, along_z, along_y)
  call plan_move(y_to_x, along_y, along_x)

  ! Forward.
  values = right_hand_side(real_x%b)
  call fftw_execute_dft_r2c(forward_x, values, x_lines)
  call boxwise_exec_async(x_to_y, y_lines, x_lines)
  call fftw_execute_dft(forward_y, y_lines, y_modes)
  call boxwise_exec_async(y_to_z, z_lines, y_modes)
  call fftw_execute_dft(forward_z, z_lines, z_modes)
  checked = verified_spectrum()

  ! Solve, and backward.
  call solve(along_z, z_modes)
  call fftw_execute_dft(backward_z, z_modes, z_lines)
  call boxwise_exec_async(z_to_y, y_modes, z_lines)
  call fftw_execute_dft(backward_y, y_modes, y_lines)
  call boxwise_exec_async(y_to_x, x_lines, y_lines)
  call fftw_execute_dft_c2r(backward_x, x_lines, values)
  expected = solution(real_x%b)
  if (any(.not. abs(values - expected) <= 1.0e-13_c_double)) error stop "the solution is wrong"
  checked = checked + ubound(values, 1)

  call report(comm, checked, "spectrum and solution of Poisson's equation")
  call boxwise_destroy(y_to_x)
  call boxwise_destroy(z_to_y)
  call boxwise_destroy(y_to_z)
  call boxwise_destroy(x_to_y)
  call fftw_destroy_plan(backward_z)
  call fftw_destroy_plan(forward_z)
  call fftw_destroy_plan(backward_y)
  call fftw_destroy_plan(forward_y)
  call fftw_destroy_plan(backward_x)
  call fftw_destroy_plan(forward_x)
  call boxwise_comm_destroy(comm)
  call MPI_Finalize()

contains

  function pencil_along(along, extent_x, rows, columns, rank) result(p)
    integer, intent(in) :: along
    integer(c_int64_t), intent(in) :: extent_x
    integer(c_int32_t), intent(in) :: rows, columns, rank
    type(pencil) :: p
    integer :: first_cut, second_cut
    integer(c_int64_t) :: extent(3)
    first_cut = merge(Y, Z, along == Z)
    second_cut = merge(Y, X, along == X)
    p%b = box([0, 0, 0], [extent_x, NY, NZ])
    call box_split(p%b, first_cut, p%b%upper(first_cut), rows, rank / columns)
    call box_split(p%b, second_cut, p%b%upper(second_cut), columns, mod(rank, columns))
    extent = box_shape(p%b)
    p%length = int(extent(along), c_int)
    p%lines = int(extent(first_cut) * extent(second_cut), c_int)
    p%strides(along) = 1
    p%strides(second_cut) = p%length
    p%strides(first_cut) = p%length * extent(second_cut)
  end function pencil_along

  subroutine plan_move(handle, from, to)
    type(boxwise_handle), intent(inout) :: handle
    type(pencil), intent(in) :: from, to
    call boxwise_create(handle)
    call boxwise_make(handle, COMPLEX_SIZE, from%b%lower, from%b%upper, from%strides, to%b%lower, to%b%upper, &
         to%strides, comm)
  end subroutine plan_move

  function plan_lines(p, from, to, direction) result(plan)
    type(pencil), intent(in) :: p
    complex(c_double_complex), intent(inout) :: from(:), to(:)
    integer(c_int), intent(in) :: direction
    type(c_ptr) :: plan
    plan = fftw_plan_many_dft(1, [p%length], p%lines, from, [p%length], 1, p%length, to, [p%length], 1, p%length, &
         direction, FFTW_ESTIMATE)
  end function plan_lines

  !> The two terms of the solution; the Laplacian multiplies the first with -14, the second with -6.
  pure function terms(i, j, k)
    integer(c_int64_t), intent(in) :: i, j, k
    real(c_double) :: terms(2), px, py, pz
    px = TWO_PI * real(i, c_double) / NX
    py = TWO_PI * real(j, c_double) / NY
    pz = TWO_PI * real(k, c_double) / NZ
    terms = [sin(px) * cos(2 * py) * sin(3 * pz), cos(2 * px + py - pz)]
  end function terms

  function solution(b) result(u)
    type(box), intent(in) :: b
    real(c_double), allocatable :: u(:)
    integer(c_int64_t) :: i, j, k
    u = [(((sum(terms(i, j, k)), i = 0, NX - 1), j = b%lower(Y), b%upper(Y) - 1), k = b%lower(Z), b%upper(Z) - 1)]
  end function solution

  function right_hand_side(b) result(f)
    type(box), intent(in) :: b
    real(c_double), allocatable :: f(:)
    integer(c_int64_t) :: i, j, k
    f = [(((dot_product([-14, -6], terms(i, j, k)), i = 0, NX - 1), j = b%lower(Y), b%upper(Y) - 1), &
         k = b%lower(Z), b%upper(Z) - 1)]
  end function right_hand_side

  !> Brings the spectrum to rank 0, which compares it with a serial 3-D transform of the whole array.
  function verified_spectrum() result(elements)
    integer(c_int64_t) :: elements
    type(pencil) :: whole
    type(boxwise_handle) :: to_rank_0
    type(c_ptr) :: serial
    real(c_double), allocatable :: f(:)
    complex(c_double_complex), allocatable :: all_of_it(:), expected(:)
    whole = pencil_along(X, merge(MX, 0_c_int64_t, rank == 0), 1, 1, 0)
    elements = int(whole%length, c_int64_t) * whole%lines
    allocate(all_of_it(elements), expected(elements))
    call plan_move(to_rank_0, along_z, whole)
    call boxwise_exec_async(to_rank_0, all_of_it, z_modes)
    call boxwise_destroy(to_rank_0)
    if (rank /= 0) return
    f = right_hand_side(box([0, 0, 0], [NX, NY, NZ]))
    ! C's order of dimensions.
    serial = fftw_plan_dft_r2c_3d(int(NZ, c_int), int(NY, c_int), int(NX, c_int), f, expected, &
         FFTW_ESTIMATE)
    call fftw_execute_dft_r2c(serial, f, expected)
    call fftw_destroy_plan(serial)
    if (any(.not. abs(all_of_it - expected) <= 1.0e-14_c_double * (NX * NY * NZ))) error stop "the spectrum is wrong"
  end function verified_spectrum

  !> Divides the spectrum by -k^2, and by what the transforms multiply with. The mean of the solution is free: 0.
  subroutine solve(p, lines)
    type(pencil), intent(in) :: p
    complex(c_double_complex), intent(inout) :: lines(0:)
    integer(c_int64_t) :: i, j, k, k2, at
    do j = p%b%lower(Y), p%b%upper(Y) - 1
       do i = p%b%lower(X), p%b%upper(X) - 1
          do k = 0, NZ - 1
             at = dot_product([i, j, k] - p%b%lower, p%strides)
             k2 = i**2 + min(j, NY - j)**2 + min(k, NZ - k)**2
             if (k2 > 0) then
                lines(at) = -lines(at) / real(k2 * NX * NY * NZ, c_double)
             else
                lines(at) = 0
             end if
          end do
       end do
    end do
  end subroutine solve

end program pseudo_spectral
