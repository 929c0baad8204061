/* From slabs to pencils and back in the memory of GPUs, on a CUDA stream and in a CUDA graph.
 *
 * Each rank has a GPU. The data lies in NVSHMEM's symmetric heap, which boxwise_malloc starts if nobody has; kernels
 * move it from GPU to GPU, queued like any other work. A program with the CUDA runtime does the same with
 * cudaStream_t, cudaMemcpy and so on: both mean the same streams.
 *
 *   cc 01_slab_to_pencil.c -lboxwise -lcuda -o 01_slab_to_pencil && boxwise-run -n 4 ./01_slab_to_pencil
 */
#include <cuda.h>

#include "../check.h"

/* Ends the program where a call of the driver fails. */
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

enum { NZ = 14, NY = 10, NX = 9 };

static CUdeviceptr address_of(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

/* Brings memory of the GPU here and checks it. */
static int64_t verify_device(const void *device, size_t places, const box_t *box)
{
    double *host = malloc((places + 1) * sizeof *host);
    if (host == NULL)
        exit(EXIT_FAILURE);
    if (places > 0)
        CUDA(cuMemcpyDtoH(host, address_of(device), places * sizeof *host));
    const int64_t checked = verify(host, places, box, NULL);
    free(host);
    return checked;
}

static boxwise_handle_t make(const box_t *input, const box_t *output, const boxwise_comm_t *comm)
{
    boxwise_handle_t handle;
    CHECK(boxwise_create(&handle));
    /* Would be chosen anyway, because NVSHMEM is running by now. */
    CHECK(boxwise_set_option(handle, BOXWISE_OPTION_BACKEND, BOXWISE_BACKEND_NVSHMEM));
    CHECK(boxwise_make(handle, sizeof(double), 3, input->lower, input->upper, NULL, output->lower, output->upper, NULL,
                       comm, BOXWISE_COMM_OBJECT));
    return handle;
}

/* Symmetric memory for a workspace, also where this rank needs none: it is taken by all ranks together. */
static void *workspace_for(boxwise_handle_t handle, boxwise_comm_t comm)
{
    size_t bytes;
    void *workspace;
    CHECK(boxwise_get_size(handle, &bytes));
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_DEVICE, bytes, &workspace));
    return workspace;
}

int main(void)
{
    boxwise_comm_t comm;
    int32_t rank, size;
    CHECK(boxwise_comm_create(NULL, BOXWISE_COMM_NONE, &comm));
    CHECK(boxwise_comm_rank(comm, &rank));
    CHECK(boxwise_comm_size(comm, &size));

    /* A GPU for each rank of the node, chosen before boxwise sees it. */
    int devices;
    CUdevice device;
    CUcontext context;
    CUDA(cuInit(0));
    CUDA(cuDeviceGetCount(&devices));
    CUDA(cuDeviceGet(&device, rank % devices));
    CUDA(cuDevicePrimaryCtxRetain(&context, device));
    CUDA(cuCtxSetCurrent(context));

    box_t slab = {{0, 0, 0}, {NZ, NY, NX}};
    box_split(&slab, 0, NZ, size, rank);
    const int32_t rows = grid_rows(size), columns = size / rows;
    box_t pencil = {{0, 0, 0}, {NZ, NY, NX}};
    box_split(&pencil, 1, NY, rows, rank / columns);
    box_split(&pencil, 2, NX, columns, rank % columns);
    const size_t in_slab = box_elements(&slab), in_pencil = box_elements(&pencil);

    void *slab_data, *pencil_data;
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_DEVICE, in_slab * sizeof(double), &slab_data));
    CHECK(boxwise_malloc(comm, BOXWISE_MEMORY_DEVICE, in_pencil * sizeof(double), &pencil_data));
    boxwise_handle_t forward = make(&slab, &pencil, &comm), backward = make(&pencil, &slab, &comm);
    void *workspaces[2] = {workspace_for(forward, comm), workspace_for(backward, comm)};

    double *host = malloc((in_slab + 1) * sizeof *host);
    if (host == NULL)
        return EXIT_FAILURE;
    fill(host, &slab, NULL);
    if (in_slab > 0)
        CUDA(cuMemcpyHtoD(address_of(slab_data), host, in_slab * sizeof *host));
    free(host);

    /* Queued, not done: the calls return at once, and nothing here waits for other ranks. */
    CUstream stream;
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(boxwise_exec_async(forward, pencil_data, slab_data, workspaces[0], stream));
    /* ... a kernel that transforms z here, on the same stream ... */
    CUDA(cuStreamSynchronize(stream));
    int64_t checked = verify_device(pencil_data, in_pencil, &pencil);

    /* There and back as a graph, recorded once and launched as often as there are time steps, by all ranks alike. */
    CUgraph graph;
    CUgraphExec steps;
    CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(boxwise_exec_async(backward, slab_data, pencil_data, workspaces[1], stream));
    CHECK(boxwise_exec_async(forward, pencil_data, slab_data, workspaces[0], stream));
    CUDA(cuStreamEndCapture(stream, &graph));
    CUDA(cuGraphInstantiateWithFlags(&steps, graph, 0));
    for (int step = 0; step < 3; step++)
        CUDA(cuGraphLaunch(steps, stream));
    CUDA(cuStreamSynchronize(stream));
    checked += verify_device(slab_data, in_slab, &slab);
    checked += verify_device(pencil_data, in_pencil, &pencil);
    CUDA(cuGraphExecDestroy(steps));
    CUDA(cuGraphDestroy(graph));

    boxwise_info_t info = {.struct_size = sizeof info};
    CHECK(boxwise_get_info(forward, &info));
    if (info.backend != BOXWISE_BACKEND_NVSHMEM)
        return EXIT_FAILURE;
    report(comm, checked, "z-slabs to z-pencils and back on GPUs");

    /* A failure that only showed on the device would be returned here, if no later call had returned it. */
    CHECK(boxwise_destroy(backward));
    CHECK(boxwise_destroy(forward));
    CHECK(boxwise_free(comm, workspaces[1]));
    CHECK(boxwise_free(comm, workspaces[0]));
    CHECK(boxwise_free(comm, pencil_data));
    CHECK(boxwise_free(comm, slab_data));
    CHECK(boxwise_comm_destroy(comm));
    CUDA(cuStreamDestroy(stream));
    return EXIT_SUCCESS;
}
