// boxwise for C++17: the C interface as objects that clean up after themselves and throw what went wrong.
//
//     boxwise::communicator world; // the ranks that boxwise-run started
//     const std::int64_t rank = world.rank(), n = 4 * world.size();
//     const boxwise::box rows{{4 * rank, 0}, {4 * rank + 4, n}};    // what this rank holds of n x n elements
//     const boxwise::box columns{{0, 4 * rank}, {n, 4 * rank + 4}}; // what it wants
//     boxwise::buffer in(world, rows.volume() * sizeof(double)), out(world, columns.volume() * sizeof(double));
//     for (std::int64_t i = 0; i < rows.volume(); ++i)
//         in.as<double>()[i] = static_cast<double>(4 * rank * n + i);
//     boxwise::reshape transpose;
//     transpose.make<double>(rows, columns, world);
//     transpose.execute(out.data(), in.data());
//
// Everything is inline over boxwise.h, whose comments say in full what each call does: who must call it, in which
// order, from which threads. Objects can be moved, not copied. A moved-from object may only be destroyed or assigned
// to. Where a C call would return a status other than BOXWISE_SUCCESS, an `error` is thrown. Boxes that cannot be right
// do not throw where they are written, on one rank: reshape::make tells of them, on all ranks.

#ifndef BOXWISE_HPP
#define BOXWISE_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "boxwise.h"

namespace boxwise {

/// The largest number of dimensions of an array.
inline constexpr std::size_t max_dims = BOXWISE_MAX_DIMS;

/// The outcome of a C call.
enum class status : std::int32_t {
    success = BOXWISE_SUCCESS,
    invalid_argument = BOXWISE_ERROR_INVALID_ARGUMENT,
    invalid_state = BOXWISE_ERROR_INVALID_STATE,
    inconsistent = BOXWISE_ERROR_INCONSISTENT,
    out_of_memory = BOXWISE_ERROR_OUT_OF_MEMORY,
    not_supported = BOXWISE_ERROR_NOT_SUPPORTED,
    unavailable = BOXWISE_ERROR_UNAVAILABLE,
    transport = BOXWISE_ERROR_TRANSPORT,
    peer_lost = BOXWISE_ERROR_PEER_LOST,
    timeout = BOXWISE_ERROR_TIMEOUT,
    device = BOXWISE_ERROR_DEVICE,
    internal = BOXWISE_ERROR_INTERNAL,
};

/// One line that explains a status.
inline const char *to_string(status s) noexcept {
    return boxwise_status_string(static_cast<boxwise_status_t>(s));
}

/// A call that failed. `what()` is the detail: function, rank, the value seen, what is wrong and what to do.
class error : public std::runtime_error {
public:
    error(boxwise::status status, const std::string &detail) : std::runtime_error(detail), status_(status) {}

    /// What kind of fault it is.
    boxwise::status status() const noexcept { return status_; }

private:
    boxwise::status status_;
};

namespace detail {

inline void check(boxwise_status_t status) {
    if (status != BOXWISE_SUCCESS) {
        throw error(static_cast<boxwise::status>(status), boxwise_last_error());
    }
}

/// A C handle with one owner.
template <typename Handle, boxwise_status_t (*Destroy)(Handle)>
class owned {
public:
    owned() noexcept = default;
    owned(owned &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    owned &operator=(owned &&other) noexcept {
        if (this != &other) {
            Destroy(std::exchange(handle_, std::exchange(other.handle_, nullptr)));
        }
        return *this;
    }
    ~owned() { Destroy(handle_); }

    Handle get() const noexcept { return handle_; }
    const Handle *address() const noexcept { return &handle_; }
    Handle *put() noexcept { return &handle_; }

private:
    Handle handle_ = nullptr;
};

}  // namespace detail

/// The version of the library that runs: major * 10000 + minor * 100 + patch. BOXWISE_VERSION is the header's.
inline std::int32_t version() noexcept { return boxwise_version(); }

/// The same as text.
inline const char *version_string() noexcept { return boxwise_version_string(); }

// ---------------------------------------------------------------------------------------------------------------------
// Boxes
// ---------------------------------------------------------------------------------------------------------------------

/// Up to max_dims numbers, one per dimension; made from a braced list, a std::array, a std::vector or anything else
/// with data() and size(). Of more, the first max_dims are kept, and reshape::make refuses them.
class indices {
public:
    indices(std::initializer_list<std::int64_t> values) : indices(values.begin(), values.size()) {}

    template <typename Range, typename = decltype(std::declval<const Range &>().data(),
                                                  std::declval<const Range &>().size())>
    indices(const Range &values) : indices(values.data(), values.size()) {}

    template <typename Integer>
    indices(const Integer *values, std::size_t size) : given_(size) {
        for (std::size_t d = 0; d < this->size(); ++d) {
            values_[d] = static_cast<std::int64_t>(values[d]);
        }
    }

    std::size_t size() const noexcept { return given_ < max_dims ? given_ : max_dims; }
    const std::int64_t *data() const noexcept { return values_.data(); }
    const std::int64_t *begin() const noexcept { return data(); }
    const std::int64_t *end() const noexcept { return data() + size(); }
    std::int64_t operator[](std::size_t d) const noexcept { return values_[d]; }

    /// What is wrong with them; empty if nothing.
    std::string mistake() const {
        return given_ <= max_dims ? std::string()
                                  : std::to_string(given_) + " numbers, must be at most " + std::to_string(max_dims);
    }

private:
    std::array<std::int64_t, max_dims> values_{};
    std::size_t given_ = 0;
};

/// The half-open box [lower, upper) of the global index space, 0-based, any origin, possibly empty. Both have as many
/// numbers as the array has dimensions, else reshape::make refuses the box.
class box {
public:
    box(const indices &lower, const indices &upper) : lower_(lower), upper_(upper) {}

    std::size_t ndims() const noexcept { return lower_.size(); }
    const indices &lower() const noexcept { return lower_; }
    const indices &upper() const noexcept { return upper_; }

    /// The number of elements; 0 for an empty box.
    std::int64_t volume() const noexcept {
        std::int64_t volume = 1;
        for (std::size_t d = 0; d < ndims(); ++d) {
            if (upper_[d] <= lower_[d]) {
                return 0;
            }
            volume *= upper_[d] - lower_[d];
        }
        return volume;
    }

    /// What is wrong with it, as far as one rank can tell without the library; empty if nothing.
    std::string mistake() const {
        if (const std::string wrong = lower_.mistake(); !wrong.empty()) {
            return "lower has " + wrong;
        }
        if (const std::string wrong = upper_.mistake(); !wrong.empty()) {
            return "upper has " + wrong;
        }
        return lower_.size() == upper_.size() ? std::string()
                                              : "lower has " + std::to_string(lower_.size()) + " numbers, upper " +
                                                    std::to_string(upper_.size());
    }

private:
    indices lower_, upper_;
};

/// A box and where its elements lie: element g at (sum over d of (g[d] - lower[d]) * strides[d]) elements from the data
/// pointer. Without strides it is packed, the last dimension fastest. There is one stride for each dimension, else
/// reshape::make refuses them.
class placement {
public:
    placement(const box &where) : box_(where) {}

    placement(const box &where, const indices &strides) : box_(where), strides_(strides) {}

    const box &where() const noexcept { return box_; }
    std::size_t ndims() const noexcept { return box_.ndims(); }
    const std::int64_t *lower() const noexcept { return box_.lower().data(); }
    const std::int64_t *upper() const noexcept { return box_.upper().data(); }
    /// NULL when packed.
    const std::int64_t *strides() const noexcept { return strides_ ? strides_->data() : nullptr; }

    /// What is wrong with it, as far as one rank can tell without the library; empty if nothing.
    std::string mistake() const {
        std::string wrong = box_.mistake();
        if (wrong.empty() && strides_) {
            wrong = strides_->mistake();
            if (!wrong.empty()) {
                wrong = "strides has " + wrong;
            } else if (strides_->size() != ndims()) {
                wrong = "lower has " + std::to_string(ndims()) + " numbers, strides " +
                        std::to_string(strides_->size());
            }
        }
        return wrong;
    }

private:
    box box_;
    std::optional<indices> strides_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Ranks and their memory
// ---------------------------------------------------------------------------------------------------------------------

/// What kind of communicator a pointer stands for.
enum class comm_type : std::int32_t {
    mpi = BOXWISE_COMM_MPI,
    none = BOXWISE_COMM_NONE,
    boot = BOXWISE_COMM_BOOT,
    object = BOXWISE_COMM_OBJECT,
};

/// A group of ranks that work together.
class communicator {
public:
    /// The implicit world: the job's ranks on this node, or this process alone. Collective.
    communicator() : communicator(nullptr, comm_type::none) {}

    /// The ranks that a boot table tells of. Collective.
    explicit communicator(const boxwise_boot_t &boot) : communicator(&boot, comm_type::boot) {}

    /// What the pointer stands for by its type. Collective.
    communicator(const void *comm_handle, comm_type type) {
        detail::check(boxwise_comm_create(comm_handle, static_cast<std::int32_t>(type), comm_.put()));
    }

    /// The ranks of an MPI communicator, passed as it is: from_mpi(MPI_COMM_WORLD). A template, because an MPI_Comm is
    /// an int or a pointer to a struct, depending on the MPI, and this header includes none. Collective.
    template <typename MpiComm>
    static communicator from_mpi(const MpiComm &comm) {
        static_assert(std::is_same_v<MpiComm, int> ||
                          (std::is_pointer_v<MpiComm> && std::is_class_v<std::remove_pointer_t<MpiComm>>),
                      "from_mpi takes an MPI_Comm: comm, not &comm");
        static_assert(!std::is_same_v<MpiComm, boxwise_comm_t>, "this is a boxwise_comm_t, not an MPI_Comm");
        return communicator(&comm, comm_type::mpi);
    }

    /// A second handle to the same communicator. Not collective.
    communicator share() const { return communicator(address(), comm_type::object); }

    std::int32_t rank() const {
        std::int32_t rank;
        detail::check(boxwise_comm_rank(native(), &rank));
        return rank;
    }

    std::int32_t size() const {
        std::int32_t size;
        detail::check(boxwise_comm_size(native(), &size));
        return size;
    }

    /// Returns when all ranks have called it. Collective.
    void barrier() const { detail::check(boxwise_comm_barrier(native())); }

    /// The C handle, still owned by this object.
    boxwise_comm_t native() const noexcept { return comm_.get(); }
    /// What C takes with BOXWISE_COMM_OBJECT; valid until this object is moved or ends.
    const void *address() const noexcept { return comm_.address(); }

private:
    detail::owned<boxwise_comm_t, boxwise_comm_destroy> comm_;
};

/// Kinds of memory.
enum class memory : std::int32_t { host = BOXWISE_MEMORY_HOST, device = BOXWISE_MEMORY_DEVICE };

/// Memory of this rank that the other ranks of its node reach directly, so that data moves in one pass.
class buffer {
public:
    /// Collective; bytes may differ by rank and be 0.
    buffer(const communicator &comm, std::size_t bytes, memory kind = memory::host)
        : comm_(comm.share()), bytes_(bytes) {
        detail::check(boxwise_malloc(comm_.native(), static_cast<std::int32_t>(kind), bytes, &data_));
    }
    buffer(buffer &&other) noexcept
        : comm_(std::move(other.comm_)), data_(std::exchange(other.data_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)) {}
    buffer &operator=(buffer &&other) noexcept {
        buffer old(std::move(other));
        std::swap(comm_, old.comm_);
        std::swap(data_, old.data_);
        std::swap(bytes_, old.bytes_);
        return *this;
    }
    /// All ranks give up their buffers, but none waits for another. No operation may be using one.
    ~buffer() {
        if (data_ != nullptr) {
            boxwise_free(comm_.native(), data_);
        }
    }

    void *data() noexcept { return data_; }
    const void *data() const noexcept { return data_; }
    /// The bytes as elements.
    template <typename Element>
    Element *as() noexcept { return static_cast<Element *>(data_); }
    template <typename Element>
    const Element *as() const noexcept { return static_cast<const Element *>(data_); }
    std::size_t size_bytes() const noexcept { return bytes_; }

private:
    communicator comm_;
    void *data_ = nullptr;
    std::size_t bytes_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// Moving data
// ---------------------------------------------------------------------------------------------------------------------

/// A queue of operations on host memory, run in order by a thread of its own. Its end waits for them.
class stream {
public:
    stream() { detail::check(boxwise_stream_create(stream_.put())); }

    /// Returns when all queued operations have ended; throws the failure of one of them.
    void synchronize() const { detail::check(boxwise_stream_synchronize(native())); }

    /// Whether all queued operations have ended.
    bool idle() const {
        std::int32_t idle;
        detail::check(boxwise_stream_query(native(), &idle));
        return idle != 0;
    }

    /// The C handle, still owned by this object.
    boxwise_stream_t native() const noexcept { return stream_.get(); }

private:
    detail::owned<boxwise_stream_t, boxwise_stream_destroy> stream_;
};

/// Options of a reshape by name; each also has a function of its own below.
enum class option : std::int32_t {
    backend = BOXWISE_OPTION_BACKEND,
    in_place = BOXWISE_OPTION_IN_PLACE,
    allow_replicas = BOXWISE_OPTION_ALLOW_REPLICAS,
    allow_uncovered = BOXWISE_OPTION_ALLOW_UNCOVERED,
    entry_sync = BOXWISE_OPTION_ENTRY_SYNC,
    exit_sync = BOXWISE_OPTION_EXIT_SYNC,
    threads = BOXWISE_OPTION_THREADS,
    timeout_ms = BOXWISE_OPTION_TIMEOUT_MS,
};

/// Where the data lives and who moves it.
enum class backend : std::int32_t {
    automatic = BOXWISE_BACKEND_AUTO,
    host = BOXWISE_BACKEND_HOST,
    nvshmem = BOXWISE_BACKEND_NVSHMEM,
};

/// What is true when an operation is complete: this rank's output is whole; its input may be reused as well; both,
/// on every rank.
enum class exit_sync : std::int32_t { output = 0, input = 1, everyone = 2 };

/// Forms of the text about a plan.
enum class format : std::int32_t { text = BOXWISE_FORMAT_TEXT, json = BOXWISE_FORMAT_JSON };

/// One redistribution: options, then make, then execute as often as wanted.
class reshape {
public:
    reshape() { detail::check(boxwise_create(handle_.put())); }

    // Options, before make, the same on all ranks.
    reshape &set(option name, std::int64_t value) {
        detail::check(boxwise_set_option(native(), static_cast<std::int32_t>(name), value));
        return *this;
    }
    reshape &backend(boxwise::backend value) { return set(option::backend, static_cast<std::int64_t>(value)); }
    reshape &in_place(bool value = true) { return set(option::in_place, value); }
    reshape &allow_replicas(bool value = true) { return set(option::allow_replicas, value); }
    reshape &allow_uncovered(bool value = true) { return set(option::allow_uncovered, value); }
    reshape &entry_sync(bool value) { return set(option::entry_sync, value); }
    reshape &exit_sync(boxwise::exit_sync value) { return set(option::exit_sync, static_cast<std::int64_t>(value)); }
    reshape &threads(int count) { return set(option::threads, count); }
    reshape &timeout(std::chrono::milliseconds longest) { return set(option::timeout_ms, longest.count()); }

    /// Tells what this rank holds and what it wants. Collective: all ranks return, or all throw the same fault.
    void make(std::size_t element_size, const placement &input, const placement &output, const communicator &comm) {
        make(element_size, input, output, comm.address(), comm_type::object);
    }

    /// The same, for elements of this type.
    template <typename Element>
    void make(const placement &input, const placement &output, const communicator &comm) {
        make(sizeof(Element), input, output, comm);
    }

    /// The same, with the ranks that a C pointer stands for.
    void make(std::size_t element_size, const placement &input, const placement &output, const void *comm_handle,
              comm_type type) {
        const std::string wrong = mistake(input, output);
        // The mistake is passed on as -1 dimensions, which all ranks refuse together: throwing before the call would
        // leave the others waiting.
        const boxwise_status_t outcome =
            boxwise_make(native(), element_size, wrong.empty() ? static_cast<std::int32_t>(input.ndims()) : -1,
                         input.lower(), input.upper(), input.strides(), output.lower(), output.upper(),
                         output.strides(), comm_handle, static_cast<std::int32_t>(type));
        if (outcome == BOXWISE_ERROR_INVALID_ARGUMENT && !wrong.empty()) {
            throw error(status::invalid_argument, "boxwise::reshape::make: " + wrong);
        }
        detail::check(outcome);
    }

    /// Bytes of workspace that execute needs on this rank; 0 unless in place, or where NVSHMEM reaches a peer by puts.
    std::size_t workspace_bytes() const {
        std::size_t bytes;
        detail::check(boxwise_get_size(native(), &bytes));
        return bytes;
    }

    /// Moves the data before it returns. Collective.
    void execute(void *data_out, const void *data_in, void *workspace = nullptr) const {
        detail::check(boxwise_exec_async(native(), data_out, data_in, workspace, nullptr));
    }

    /// Queues the operation; the buffers must stay until the stream is synchronized. Collective.
    void execute_async(const stream &queue, void *data_out, const void *data_in, void *workspace = nullptr) const {
        detail::check(boxwise_exec_async(native(), data_out, data_in, workspace, queue.native()));
    }

    /// On the NVSHMEM backend: queues the operation on a cudaStream_t (or CUstream), null for the default one; the
    /// buffers must stay until the stream has got there. Collective.
    void execute_async(void *cuda_stream, void *data_out, const void *data_in, void *workspace = nullptr) const {
        detail::check(boxwise_exec_async(native(), data_out, data_in, workspace, cuda_stream));
    }

    /// Numbers about the plan.
    boxwise_info_t info() const {
        boxwise_info_t info{};
        info.struct_size = sizeof info;
        detail::check(boxwise_get_info(native(), &info));
        return info;
    }

    /// A text about the plan.
    std::string describe(format form = format::text) const {
        const auto number = static_cast<std::int32_t>(form);
        std::string text;
        std::size_t needed;
        boxwise_status_t outcome = boxwise_describe(native(), number, nullptr, 0, &needed);
        detail::check(outcome);
        // Again while the text has grown in between: an operation on a stream may have ended.
        do {
            text.resize(needed);
            outcome = boxwise_describe(native(), number, &text[0], text.size(), &needed);
        } while (outcome == BOXWISE_ERROR_INVALID_ARGUMENT && needed > text.size());
        detail::check(outcome);
        text.resize(needed - 1);
        return text;
    }

    /// The C handle, still owned by this object.
    boxwise_handle_t native() const noexcept { return handle_.get(); }

private:
    static std::string mistake(const placement &input, const placement &output) {
        if (const std::string wrong = input.mistake(); !wrong.empty()) {
            return "input: " + wrong;
        }
        if (const std::string wrong = output.mistake(); !wrong.empty()) {
            return "output: " + wrong;
        }
        return input.ndims() == output.ndims() ? std::string()
                                               : "input has " + std::to_string(input.ndims()) +
                                                     " dimensions, output " + std::to_string(output.ndims());
    }

    detail::owned<boxwise_handle_t, boxwise_destroy> handle_;
};

}  // namespace boxwise

#endif
