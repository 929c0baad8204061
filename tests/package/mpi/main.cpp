// A user's program: an 8 x 6 array goes from blocks of rows to blocks of columns. Argument: the number of ranks.
#include <boxwise.hpp>

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <vector>

namespace {

void rows_to_columns(int expected_size) {
    constexpr std::int64_t rows = 8, columns = 6;
    const auto element = [](std::int64_t row, std::int64_t column) { return static_cast<double>(100 * row + column); };
    const auto world = boxwise::communicator::from_mpi(MPI_COMM_WORLD);
    const std::int64_t rank = world.rank(), size = world.size();
    if (size != expected_size) {
        throw std::runtime_error("the world has another number of ranks");
    }

    const boxwise::box held{{rank * rows / size, 0}, {(rank + 1) * rows / size, columns}};
    const boxwise::box wanted{{0, rank * columns / size}, {rows, (rank + 1) * columns / size}};
    std::vector<double> in, out(static_cast<std::size_t>(wanted.volume()));
    for (std::int64_t i = held.lower()[0]; i < held.upper()[0]; i++)
        for (std::int64_t j = 0; j < columns; j++) in.push_back(element(i, j));

    boxwise::reshape reshape;
    reshape.make<double>(held, wanted, world);
    reshape.execute(out.data(), in.data());

    auto next = out.begin();
    for (std::int64_t i = 0; i < rows; i++)
        for (std::int64_t j = wanted.lower()[1]; j < wanted.upper()[1]; j++)
            if (*next++ != element(i, j)) {
                throw std::runtime_error("wrong element");
            }
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    try {
        rows_to_columns(argc < 2 ? 0 : std::atoi(argv[1]));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
