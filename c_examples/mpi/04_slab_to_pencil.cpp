// From slabs to pencils and back in C++: objects that are made from an MPI communicator, and end before MPI does.
//
//   mpicxx -std=c++17 04_slab_to_pencil.cpp -lboxwise -o 04_slab_to_pencil && mpirun -n 4 ./04_slab_to_pencil
#include <boxwise.hpp>

// MPI's C interface, without the C++ one that was dropped from the standard.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdint>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <vector>

namespace {

constexpr std::int64_t nz = 30, ny = 22, nx = 18;

double value_at(std::int64_t z, std::int64_t y, std::int64_t x) {
    return 1e6 * static_cast<double>(z) + 1e3 * static_cast<double>(y) + static_cast<double>(x);
}

// The elements of a box, the last dimension fastest.
std::vector<double> values_of(const boxwise::box &box) {
    std::vector<double> values;
    for (auto z = box.lower()[0]; z < box.upper()[0]; ++z)
        for (auto y = box.lower()[1]; y < box.upper()[1]; ++y)
            for (auto x = box.lower()[2]; x < box.upper()[2]; ++x)
                values.push_back(value_at(z, y, x));
    return values;
}

// How many elements of the box this rank has checked; throws where one is wrong.
std::int64_t slab_to_pencil_and_back() {
    // An MPI_Comm as it is, also MPI_COMM_WORLD itself.
    const auto world = boxwise::communicator::from_mpi(MPI_COMM_WORLD);
    const std::int64_t rank = world.rank(), size = world.size();

    const boxwise::box slab{{nz * rank / size, 0, 0}, {nz * (rank + 1) / size, ny, nx}};
    // z whole; y and x cut by a grid of ranks with two rows where their number is even.
    const std::int64_t rows = size % 2 == 0 ? 2 : 1, columns = size / rows;
    const std::int64_t row = rank / columns, column = rank % columns;
    const boxwise::box pencil{{0, ny * row / rows, nx * column / columns},
                              {nz, ny * (row + 1) / rows, nx * (column + 1) / columns}};
    boxwise::reshape forward, backward;
    forward.make<double>(slab, pencil, world);
    backward.make<double>(pencil, slab, world);

    const std::vector<double> in_slab = values_of(slab), in_pencil = values_of(pencil);
    std::vector<double> there(in_pencil.size(), -1), back(in_slab.size(), -1);
    forward.execute(there.data(), in_slab.data());
    backward.execute(back.data(), there.data());
    if (there != in_pencil || back != in_slab) {
        throw std::runtime_error("an element is wrong");
    }
    return slab.volume() + pencil.volume();
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    try {
        const std::int64_t mine = slab_to_pencil_and_back();
        std::int64_t all = 0;
        MPI_Reduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            std::cout << "checked " << all << " elements on " << size << (size == 1 ? " rank" : " ranks")
                      << ": z-slabs to z-pencils and back, in C++\n";
        }
    } catch (const std::exception &error) {
        std::cerr << "rank " << rank << ": " << error.what() << "\n";
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
