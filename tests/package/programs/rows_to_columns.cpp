// A user's program: an 8 x 6 array goes from blocks of rows to blocks of columns. Argument: the number of ranks.
#include <boxwise.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char **argv) {
    constexpr std::int64_t rows = 8, columns = 6;
    const auto element = [](std::int64_t row, std::int64_t column) { return static_cast<double>(100 * row + column); };
    try {
        const boxwise::communicator world;
        const std::int64_t rank = world.rank(), size = world.size();
        if (argc < 2 || size != std::atoi(argv[1])) {
            std::fprintf(stderr, "the world has %d ranks\n", static_cast<int>(size));
            return 1;
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
                    std::fprintf(stderr, "rank %d: wrong element\n", static_cast<int>(rank));
                    return 1;
                }
    } catch (const boxwise::error &error) {
        std::fprintf(stderr, "%s: %s\n", boxwise::to_string(error.status()), error.what());
        return 1;
    }
    return 0;
}
