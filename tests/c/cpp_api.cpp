// The whole of boxwise.hpp: every class, every function, what they throw. Any number of ranks, also one.
//     run: {}
//     run: boxwise-run -np 3

#include "boxwise.hpp"
#include "check.h"

#include <cstdio>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

namespace {

using boxwise::box;
using boxwise::placement;
using boxwise::status;

constexpr std::int64_t share = 5;

template <typename Call>
void check_throws(status expected, const char *text, int line, Call call) {
    try {
        call();
    } catch (const boxwise::error &error) {
        check_condition(error.status() == expected, error.what(), __FILE__, line);
        check_text(error.what(), text, "what()", __FILE__, line);
        return;
    }
    check_condition(0, "an exception was expected", __FILE__, line);
}
#define CHECK_THROWS(expected, text, ...) check_throws(expected, text, __LINE__, [&] { __VA_ARGS__; })

// Rank r holds columns [5 r, 5 r + 5) of 7 rows and wants those of the next rank.
struct shifted {
    std::int64_t rank, size;
    box held() const { return box{{0, share * rank}, {7, share * (rank + 1)}}; }
    box wanted() const { return box{{0, share * next()}, {7, share * (next() + 1)}}; }
    std::int64_t next() const { return (rank + 1) % size; }
    std::size_t bytes() const { return static_cast<std::size_t>(held().volume()) * sizeof(float); }

    void fill(float *in) const {
        for (std::int64_t i = 0; i < held().volume(); ++i) {
            in[i] = static_cast<float>(1000 * rank + i);
        }
    }
    bool arrived(const float *out) const {
        bool right = true;
        for (std::int64_t i = 0; i < wanted().volume(); ++i) {
            right = right && out[i] == static_cast<float>(1000 * next() + i);
        }
        return right;
    }
};

void moves_only() {
    static_assert(std::is_nothrow_move_constructible_v<boxwise::communicator>, "");
    static_assert(std::is_nothrow_move_assignable_v<boxwise::communicator>, "");
    static_assert(std::is_nothrow_move_constructible_v<boxwise::buffer>, "");
    static_assert(std::is_nothrow_move_assignable_v<boxwise::buffer>, "");
    static_assert(std::is_nothrow_move_constructible_v<boxwise::stream>, "");
    static_assert(std::is_nothrow_move_assignable_v<boxwise::reshape>, "");
    static_assert(!std::is_copy_constructible_v<boxwise::communicator>, "");
    static_assert(!std::is_copy_constructible_v<boxwise::buffer>, "");
    static_assert(!std::is_copy_constructible_v<boxwise::stream>, "");
    static_assert(!std::is_copy_assignable_v<boxwise::reshape>, "");
}

void versions_and_statuses() {
    CHECK(boxwise::version() == BOXWISE_VERSION);
    CHECK(std::string(boxwise::version_string()) == boxwise_version_string());
    CHECK(std::string(boxwise::to_string(status::success)) == "success");
    CHECK(std::string(boxwise::to_string(status::internal)) == boxwise_status_string(BOXWISE_ERROR_INTERNAL));
}

void boxes() {
    const std::vector<int> lower{1, -2};
    const std::array<long, 2> upper{3, 4};
    const box b(lower, upper);
    CHECK(b.ndims() == 2 && b.volume() == 12 && b.lower()[1] == -2 && b.upper()[0] == 3);
    CHECK(std::accumulate(b.upper().begin(), b.upper().end(), std::int64_t{0}) == 7);
    CHECK((box{{0, 5}, {9, 5}}.volume() == 0));
    CHECK(placement(b).strides() == nullptr);
    const placement strided(b, {1, 2});
    CHECK(strided.strides()[1] == 2 && strided.ndims() == 2 && strided.where().volume() == 12);
    CHECK(strided.lower()[0] == 1 && strided.upper()[1] == 4);
    CHECK(strided.mistake().empty());
    // What is wrong is told by make, see faults_are_shared.
    const boxwise::indices nine({1, 2, 3, 4, 5, 6, 7, 8, 9});
    CHECK(nine.size() == 8 && nine.end()[-1] == 8 && nine.mistake() == "9 numbers, must be at most 8");
    CHECK(box(nine, {1}).volume() == 0 && box({0}, nine).volume() == 1);
}

// The example at the top of boxwise.hpp.
void example() {
    boxwise::communicator world; // the ranks that boxwise-run started
    const std::int64_t rank = world.rank(), n = 4 * world.size();
    const boxwise::box rows{{4 * rank, 0}, {4 * rank + 4, n}};    // what this rank holds of n x n elements
    const boxwise::box columns{{0, 4 * rank}, {n, 4 * rank + 4}}; // what it wants
    boxwise::buffer in(world, rows.volume() * sizeof(double)), out(world, columns.volume() * sizeof(double));
    for (std::int64_t i = 0; i < rows.volume(); ++i)
        in.as<double>()[i] = static_cast<double>(4 * rank * n + i);
    boxwise::reshape transpose;
    transpose.make<double>(rows, columns, world);
    transpose.execute(out.data(), in.data());

    bool right = true;
    for (std::int64_t i = 0; i < columns.volume(); ++i) {
        right = right && out.as<double>()[i] == static_cast<double>(n * (i / 4) + 4 * rank + i % 4);
    }
    CHECK(right);
    world.barrier();
}

void communicators(const boxwise::communicator &world) {
    world.barrier();
    CHECK(world.size() >= 1 && world.rank() >= 0 && world.rank() < world.size());
    boxwise::communicator second = world.share();
    CHECK(second.native() != world.native() && second.rank() == world.rank());
    boxwise::communicator third = std::move(second);
    CHECK(second.native() == nullptr && third.size() == world.size());
    second = std::move(third);
    CHECK(second.size() == world.size());
    CHECK_THROWS(status::invalid_argument, "is NULL", (void)third.rank());
    CHECK_THROWS(status::unavailable, "there is no MPI", boxwise::communicator(&world, boxwise::comm_type::mpi));

    boxwise_boot_t alone{};
    alone.struct_size = sizeof alone;
    alone.size = 1;
    alone.allgather = [](void *, const void *mine, void *all, std::size_t bytes) -> std::int32_t {
        std::memcpy(all, mine, bytes);
        return 0;
    };
    alone.barrier = [](void *) -> std::int32_t { return 0; };
    CHECK(boxwise::communicator(alone).size() == 1);
}

void buffers(const boxwise::communicator &world) {
    boxwise::buffer first(world, 100);
    CHECK(first.data() != nullptr && first.size_bytes() == 100);
    first.as<std::int32_t>()[24] = 7;
    void *const place = first.data();
    boxwise::buffer second(std::move(first));
    CHECK(first.data() == nullptr && first.size_bytes() == 0 && second.data() == place);
    second = boxwise::buffer(world, 0, boxwise::memory::host);
    CHECK(second.size_bytes() == 0);
    const boxwise::buffer third(world, 8);
    CHECK(third.as<double>()[0] == 0 && third.data() == third.as<double>());
    CHECK_THROWS(status::not_supported, "BOXWISE_MEMORY_DEVICE", boxwise::buffer(world, 8, boxwise::memory::device));
    // A buffer keeps its communicator.
    auto kept = [&] {
        boxwise::communicator passing = world.share();
        return boxwise::buffer(passing, 16);
    }();
    kept.as<char>()[15] = 1;
    world.barrier();
}

void moving_data(const boxwise::communicator &world) {
    const shifted place{world.rank(), world.size()};
    boxwise::buffer in(world, place.bytes()), out(world, place.bytes());
    place.fill(in.as<float>());

    boxwise::reshape shift;
    CHECK_THROWS(status::invalid_state, "not made", shift.execute(out.data(), in.data()));
    CHECK_THROWS(status::invalid_state, "not made", (void)shift.workspace_bytes());
    CHECK_THROWS(status::invalid_state, "not made", (void)shift.info());
    CHECK_THROWS(status::invalid_state, "not made", (void)shift.describe());
    shift.make<float>(place.held(), place.wanted(), world);
    CHECK(shift.workspace_bytes() == 0);
    shift.execute(out.data(), in.data());
    CHECK(place.arrived(out.as<float>()));
    CHECK_THROWS(status::invalid_state, "made already", shift.make<float>(place.held(), place.wanted(), world));
    CHECK_THROWS(status::invalid_state, "made already", shift.in_place());

    const boxwise_info_t info = shift.info();
    CHECK(info.struct_size == sizeof info && info.rank == world.rank() && info.size == world.size());
    CHECK(info.backend == static_cast<std::int32_t>(boxwise::backend::host) && info.element_size == sizeof(float));
    CHECK(info.bytes_received + info.bytes_kept == place.bytes());
    CHECK(info.methods == (world.size() > 1 ? std::uint32_t{BOXWISE_METHOD_DIRECT} : 0));
    CHECK(shift.describe().size() > 16);
    CHECK(shift.describe(boxwise::format::json).front() == '{');
    CHECK(shift.describe(boxwise::format::json).back() != '\0');

    // Plain memory, columns to rows, on a stream; the reshape moves while its operation is queued.
    std::vector<float> plain_in(share * 7), plain_out(share * 7, -1);
    place.fill(plain_in.data());
    boxwise::reshape transposed;
    transposed.make(sizeof(float), place.held(), placement(place.wanted(), {1, 7}), world.address(),
                    boxwise::comm_type::object);
    boxwise::stream queue;
    CHECK(queue.idle() && queue.native() != nullptr);
    transposed.execute_async(queue, plain_out.data(), plain_in.data());
    const boxwise::reshape moved = std::move(transposed);
    boxwise::stream moved_queue = std::move(queue);
    moved_queue.synchronize();
    CHECK(moved_queue.idle());
    bool right = true;
    for (std::int64_t row = 0; row < 7; ++row) {
        for (std::int64_t column = 0; column < share; ++column) {
            right = right && plain_out[static_cast<std::size_t>(column * 7 + row)] ==
                                 static_cast<float>(1000 * place.next() + row * share + column);
        }
    }
    CHECK(right);
    CHECK_THROWS(status::invalid_argument, "data_in is NULL", moved.execute(plain_out.data(), nullptr));
    CHECK_THROWS(status::invalid_argument, "is NULL", transposed.execute(plain_out.data(), plain_in.data()));
    CHECK_THROWS(status::invalid_argument, "is NULL", queue.synchronize());
    moved.execute(plain_out.data(), plain_in.data());
    world.barrier();
}

void options(const boxwise::communicator &world) {
    const shifted place{world.rank(), world.size()};
    boxwise::reshape shift;
    shift.backend(boxwise::backend::host)
        .in_place()
        .allow_replicas(false)
        .allow_uncovered(true)
        .entry_sync(true)
        .exit_sync(boxwise::exit_sync::everyone)
        .threads(2)
        .timeout(std::chrono::minutes(1))
        .set(boxwise::option::allow_uncovered, 0);
    CHECK_THROWS(status::invalid_argument, "BOXWISE_OPTION_THREADS is 0", shift.threads(0));
    CHECK_THROWS(status::invalid_argument, "option is 99", shift.set(static_cast<boxwise::option>(99), 0));
    shift.make(sizeof(float), place.held(), place.wanted(), world);
    std::vector<float> data(share * 7);
    std::vector<char> workspace(shift.workspace_bytes());
    CHECK(workspace.size() == place.bytes());
    place.fill(data.data());
    shift.execute(data.data(), data.data(), workspace.data());
    CHECK(place.arrived(data.data()));
}

void faults_are_shared(const boxwise::communicator &world) {
    const shifted place{world.rank(), world.size()};
    const bool guilty = world.rank() == world.size() - 1;
    boxwise::reshape shift;
    // Different numbers of dimensions on one rank: every rank throws, none waits.
    const boxwise::indices nine({1, 2, 3, 4, 5, 6, 7, 8, 9});
    const struct {
        placement wanted;
        const char *text;
    } mistakes[] = {
        {box{{0}, {1}}, "input has 2 dimensions, output 1"},
        {box{{0, 0}, {1}}, "output: lower has 2 numbers, upper 1"},
        {box{nine, nine}, "output: lower has 9 numbers, must be at most 8"},
        {box{{0, 0}, nine}, "output: upper has 9 numbers, must be at most 8"},
        {placement(box{{0, 0}, {1, 1}}, {1}), "output: lower has 2 numbers, strides 1"},
        {placement(box{{0, 0}, {1, 1}}, nine), "output: strides has 9 numbers, must be at most 8"},
    };
    for (const auto &mistake : mistakes) {
        CHECK_THROWS(status::invalid_argument, guilty ? mistake.text : "ndims is -1",
                     shift.make<float>(place.held(), guilty ? mistake.wanted : place.wanted(), world));
    }
    CHECK_THROWS(status::invalid_argument, guilty ? "input: lower has 1 numbers, upper 2" : "ndims is -1",
                 shift.make<float>(guilty ? box{{0}, {1, 1}} : place.held(), place.wanted(), world));
    CHECK_THROWS(status::invalid_argument, "element_size is 0",
                 shift.make(guilty ? 0 : 4, place.held(), place.wanted(), world));
    CHECK_THROWS(status::inconsistent, "which no rank's input holds",
                 shift.make<float>(place.held(), box{{0, 0}, {8, 1}}, world));
    shift.make<float>(place.held(), place.wanted(), world);
    std::vector<float> in(share * 7), out(share * 7);
    place.fill(in.data());
    shift.execute(out.data(), in.data());
    CHECK(place.arrived(out.data()));
    world.barrier();
}

}  // namespace

int main() {
    try {
        const boxwise::communicator world;
        moves_only();
        versions_and_statuses();
        boxes();
        example();
        communicators(world);
        buffers(world);
        moving_data(world);
        options(world);
        faults_are_shared(world);
        return world.rank() == 0 ? checks_done() : 0;
    } catch (const boxwise::error &error) {
        std::fprintf(stderr, "uncaught: %s (%s)\n", error.what(), boxwise::to_string(error.status()));
        return 1;
    }
}
