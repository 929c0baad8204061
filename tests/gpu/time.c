/* Reshapes in the memory of GPUs, beside a copy of as many bytes on the same GPU and, where its library is found,
 * cuFFTMp's reshape: each checked once, then timed in turn.
 *
 *   boxwise-run -n 4 ./time [NZ NY NX [ROUNDS]]
 *   ./time --gpus      says how many GPUs there are; fails, with the reason, if none can be used
 */
#include <cuda.h>
#include <dlfcn.h>

#include "../../c_examples/check.h"

#define CUDA(call) check_cuda((call), #call, __LINE__)

static void check_cuda(CUresult result, const char *call, int line)
{
    const char *text = "unknown";
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorString(result, &text);
    fprintf(stderr, "line %d: %s: %s\n", line, call, text);
    exit(EXIT_FAILURE);
}

static CUdeviceptr address_of(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static void *allocate(boxwise_comm_t comm, size_t bytes)
{
    void *memory;
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_DEVICE, bytes, &memory));
    return memory;
}

/* ---- what is timed ---- */

/* One rank's part of a reshape of doubles: its boxes, and its memory. */
typedef struct {
    boxwise_comm_t comm;
    CUstream stream;
    box_t input, output;
    const int64_t *output_strides; /* NULL: packed, x fastest */
    void *source, *target;
} part_t;

/* A way to move the data; `move` queues it on the stream. */
typedef struct way way_t;
struct way {
    const char *name;
    void (*move)(const way_t *way, const part_t *part);
    void *handle, *workspace;
};

static void move_with_boxwise(const way_t *way, const part_t *part)
{
    CHECK(boxwise_exec_async((boxwise_handle_t)way->handle, part->target, part->source, way->workspace, part->stream));
}

static way_t prepare_boxwise(const part_t *part)
{
    boxwise_handle_t handle;
    size_t bytes;
    CHECK(boxwise_create(&handle));
    CHECK(boxwise_set_option(handle, BOXWISE_OPTION_BACKEND, BOXWISE_BACKEND_NVSHMEM));
    CHECK(boxwise_make(handle, sizeof(double), 3, part->input.lower, part->input.upper, NULL, part->output.lower,
                       part->output.upper, part->output_strides, &part->comm, BOXWISE_COMM_OBJECT));
    CHECK(boxwise_get_size(handle, &bytes));
    return (way_t){"boxwise", move_with_boxwise, handle, allocate(part->comm, bytes)};
}

static void copy(const way_t *way, const part_t *part)
{
    const size_t in = box_elements(&part->input), out = box_elements(&part->output);
    (void)way;
    if (in > 0 && out > 0)
        CUDA(cuMemcpyDtoDAsync(address_of(part->target), address_of(part->source),
                               (in < out ? in : out) * sizeof(double), part->stream));
}

/* cuFFTMp's functions, by the names and with the arguments of its library. Its results: 0 is success. */
typedef struct {
    int (*create)(void **handle);
    int (*make)(void *handle, size_t element_size, int rank, const long long *lower_in, const long long *upper_in,
                const long long *strides_in, const long long *lower_out, const long long *upper_out,
                const long long *strides_out, void *comm, int comm_type);
    int (*get_size)(void *handle, size_t *bytes);
    int (*exec)(void *handle, void *out, const void *in, void *workspace, CUstream stream);
    int (*destroy)(void *handle);
} cufftmp_t;

/* All or nothing. */
static int find_cufftmp(cufftmp_t *functions)
{
    static const char *const names[] = {"cufftMpCreateReshape", "__cufftMpMakeReshape_11_4", "cufftMpGetReshapeSize",
                                        "cufftMpExecReshapeAsync", "cufftMpDestroyReshape"};
    void *library = dlopen("libcufftMp.so.12", RTLD_NOW);
    for (int i = 0; i < 5; i++) {
        void *function = library != NULL ? dlsym(library, names[i]) : NULL;
        if (function == NULL)
            return 0;
        memcpy((char *)functions + (size_t)i * sizeof function, &function, sizeof function);
    }
    return 1;
}

static cufftmp_t cufftmp;

static void check_cufftmp(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s returned %d\n", what, result);
    exit(EXIT_FAILURE);
}

static void move_with_cufftmp(const way_t *way, const part_t *part)
{
    check_cufftmp(cufftmp.exec(way->handle, part->target, part->source, way->workspace, part->stream), "its exec");
}

static void packed_strides(const box_t *box, long long *strides)
{
    strides[2] = 1;
    strides[1] = box->upper[2] - box->lower[2];
    strides[0] = strides[1] * (box->upper[1] - box->lower[1]);
}

static way_t prepare_cufftmp(const part_t *part)
{
    enum { COMM_NONE = 1 };
    long long boxes[4][3], in[3], out[3];
    const int64_t *const corners[4] = {part->input.lower, part->input.upper, part->output.lower, part->output.upper};
    for (int corner = 0; corner < 4; corner++)
        for (int d = 0; d < 3; d++)
            boxes[corner][d] = corners[corner][d];
    packed_strides(&part->input, in);
    packed_strides(&part->output, out);
    void *handle;
    size_t bytes;
    check_cufftmp(cufftmp.create(&handle), "its create");
    check_cufftmp(cufftmp.make(handle, sizeof(double), 3, boxes[0], boxes[1], in, boxes[2], boxes[3], out, NULL,
                               COMM_NONE),
                  "its make");
    check_cufftmp(cufftmp.get_size(handle, &bytes), "its get size");
    return (way_t){"cuFFTMp", move_with_cufftmp, handle, allocate(part->comm, bytes)};
}

/* ---- checking and timing ---- */

/* Bytes of poison until data comes. */
static void check_once(const way_t *way, const part_t *part)
{
    const size_t elements = box_elements(&part->output);
    double *host = malloc((elements + 1) * sizeof *host);
    if (host == NULL)
        exit(EXIT_FAILURE);
    poison(host, elements);
    if (elements > 0)
        CUDA(cuMemcpyHtoD(address_of(part->target), host, elements * sizeof *host));
    CHECK(boxwise_comm_barrier(part->comm));
    way->move(way, part);
    CUDA(cuStreamSynchronize(part->stream));
    if (elements > 0)
        CUDA(cuMemcpyDtoH(host, address_of(part->target), elements * sizeof *host));
    verify(host, elements, &part->output, part->output_strides);
    free(host);
    CHECK(boxwise_comm_barrier(part->comm));
}

static float time_once(const way_t *way, const part_t *part, CUevent begin, CUevent end)
{
    float milliseconds;
    CHECK(boxwise_comm_barrier(part->comm));
    CUDA(cuEventRecord(begin, part->stream));
    way->move(way, part);
    CUDA(cuEventRecord(end, part->stream));
    CUDA(cuStreamSynchronize(part->stream));
    CUDA(cuEventElapsedTime(&milliseconds, begin, end));
    return milliseconds;
}

static int ascending(const void *left, const void *right)
{
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

/* Prints a line for each way, with the median of this rank's times. */
static void time_all(const char *title, const way_t *ways, int count, const part_t *part, int rounds)
{
    const double bytes = (double)box_elements(&part->output) * sizeof(double);
    float *times = malloc((size_t)(rounds * count) * sizeof *times), copied = 0;
    CUevent begin, end;
    int32_t rank;
    if (times == NULL)
        exit(EXIT_FAILURE);
    CUDA(cuEventCreate(&begin, CU_EVENT_DEFAULT));
    CUDA(cuEventCreate(&end, CU_EVENT_DEFAULT));
    CHECK(boxwise_comm_rank(part->comm, &rank));
    for (int round = 0; round < rounds; round++)
        for (int way = 0; way < count; way++)
            times[way * rounds + round] = time_once(&ways[way], part, begin, end);
    for (int way = 0; way < count; way++) {
        float *of_way = times + way * rounds;
        qsort(of_way, (size_t)rounds, sizeof *of_way, ascending);
        const float median = of_way[rounds / 2];
        copied = way == 0 ? median : copied;
        if (rank == 0)
            printf("%-28s %-8s %10.3f ms %9.1f GB/s %7.2f of a copy\n", title, ways[way].name, median,
                   bytes / median / 1e6, copied / median);
    }
    CUDA(cuEventDestroy(begin));
    CUDA(cuEventDestroy(end));
    free(times);
}

/* One case: its boxes are there; memory and plans come and go. */
static void play(const char *title, part_t *part, int with_cufftmp, int rounds)
{
    const size_t in = box_elements(&part->input), out = box_elements(&part->output);
    part->source = allocate(part->comm, in * sizeof(double));
    part->target = allocate(part->comm, out * sizeof(double));
    double *host = malloc((in + 1) * sizeof *host);
    if (host == NULL)
        exit(EXIT_FAILURE);
    fill(host, &part->input, NULL);
    if (in > 0)
        CUDA(cuMemcpyHtoD(address_of(part->source), host, in * sizeof *host));
    free(host);

    way_t ways[3] = {{"copy", copy, NULL, NULL}, prepare_boxwise(part)};
    int count = 2;
    if (with_cufftmp)
        ways[count++] = prepare_cufftmp(part);
    for (int way = 1; way < count; way++)
        check_once(&ways[way], part);
    time_all(title, ways, count, part, rounds);

    CHECK(boxwise_destroy((boxwise_handle_t)ways[1].handle));
    if (with_cufftmp)
        check_cufftmp(cufftmp.destroy(ways[2].handle), "its destroy");
    for (int way = count - 1; way > 0; way--)
        CHECK(boxwise_free(part->comm, ways[way].workspace));
    CHECK(boxwise_free(part->comm, part->target));
    CHECK(boxwise_free(part->comm, part->source));
}

static int say_gpus(void)
{
    int devices = 0;
    const char *text = "unknown";
    const CUresult result = cuInit(0);
    if (result != CUDA_SUCCESS) {
        cuGetErrorString(result, &text);
        printf("no GPU: cuInit: %s\n", text);
        return EXIT_FAILURE;
    }
    CUDA(cuDeviceGetCount(&devices));
    printf("%d\n", devices);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--gpus") == 0)
        return say_gpus();
    /* Coordinates up to 999 make every element another value: see value_at. */
    int64_t shape[3] = {512, 512, 512};
    int rounds = 21;
    for (int d = 0; d < 3 && argc >= 4; d++)
        shape[d] = atoll(argv[1 + d]);
    if (argc == 5)
        rounds = atoi(argv[4]);
    if (argc == 2 || argc == 3 || argc > 5 || rounds < 1 || shape[0] < 1 || shape[1] < 1 || shape[2] < 1) {
        fprintf(stderr, "usage: time [NZ NY NX [ROUNDS]]\n");
        return EXIT_FAILURE;
    }
    boxwise_comm_t comm;
    int32_t rank, size;
    int devices;
    CUdevice device;
    CUcontext context;
    CHECK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));
    CUDA(cuInit(0));
    CUDA(cuDeviceGetCount(&devices));
    CUDA(cuDeviceGet(&device, rank % devices));
    CUDA(cuDevicePrimaryCtxRetain(&context, device));
    CUDA(cuCtxSetCurrent(context));
    part_t part = {.comm = comm};
    CUDA(cuStreamCreate(&part.stream, CU_STREAM_NON_BLOCKING));
    const int has_cufftmp = find_cufftmp(&cufftmp);
    if (rank == 0)
        printf("%d ranks on %d GPUs, %lld x %lld x %lld doubles, times of rank 0%s\n", (int)size, devices,
               (long long)shape[0], (long long)shape[1], (long long)shape[2],
               has_cufftmp ? "" : "; libcufftMp.so.12 was not found");

    const box_t whole = {{0, 0, 0}, {shape[0], shape[1], shape[2]}};
    const int32_t rows = grid_rows(size), columns = size / rows;
    box_t slab = whole, pencil = whole;
    box_split(&slab, 0, shape[0], size, rank);
    box_split(&pencil, 1, shape[1], rows, rank / columns);
    box_split(&pencil, 2, shape[2], columns, rank % columns);
    part.input = part.output = slab;
    play("slab to itself", &part, has_cufftmp, rounds);
    part.output = pencil;
    play("slab to pencil", &part, has_cufftmp, rounds);
    const int64_t ny = pencil.upper[1] - pencil.lower[1];
    part.output_strides = (const int64_t[3]){1, shape[0], shape[0] * ny};
    play("slab to pencil, z fastest", &part, 0, rounds); /* whose strides cuFFTMp does not take */
    CUDA(cuStreamDestroy(part.stream));
    CHECK(boxwise_comm_destroy(comm));
    return EXIT_SUCCESS;
}
