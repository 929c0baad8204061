#include <cstdint>
#include <cstdio>
extern "C" __global__ void transpose(const float *in, float *out, int n) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) if (x < n && y + i < n) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) if (x < n && y + i < n) out[(y + i) * n + x] = tile[threadIdx.x][threadIdx.y + i];
}
extern "C" __global__ void wide(const uint4 *in, uint4 *out, uint64_t n) {
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (uint64_t)blockDim.x) out[i] = in[i];
}
__device__ __noinline__ uint64_t divide(uint64_t a, uint64_t b, uint64_t *rest) { *rest = a % b; return a / b; }
struct Pack { uint64_t a, b; uint32_t c; };
__device__ uint64_t counter;
__constant__ int table[4] = {3, 1, 4, 1};
extern "C" __global__ void mixed(Pack p, uint64_t *out, volatile uint64_t *flag) {
    uint64_t rest; uint64_t local[8];
    for (int i = 0; i < 8; i++) local[i] = p.a * i + table[i & 3];
    uint64_t q = divide(p.a + threadIdx.x, p.b, &rest);
    switch (threadIdx.x & 7) { case 0: q += 1; break; case 1: q *= 3; break; case 2: q ^= 5; break; case 3: q <<= 2; break; case 4: q >>= 1; break; case 5: q -= 7; break; default: q = ~q; }
    atomicAdd((unsigned long long *)&counter, 1ull);
    uint32_t old = atomicCAS((unsigned *)&out[100], 0u, threadIdx.x + 1);
    out[threadIdx.x] = q + rest + local[(q + p.c) & 7] + (old == 0 ? 0 : 0);
    int s = __shfl_down_sync(0xffffffff, threadIdx.x, 1); unsigned b = __ballot_sync(0xffffffff, threadIdx.x & 1);
    out[200 + threadIdx.x] = s + b; 
    uint64_t t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    __threadfence_system();
    if (threadIdx.x == 0) { *flag = 1; while (*flag != 2) __nanosleep(100); }
    float f = p.c * 1.5f; out[300 + threadIdx.x] = (uint64_t)f; if (t == 1) printf("x %d\n", s);
    uint8_t *bytes = (uint8_t *)&out[400]; bytes[threadIdx.x * 3] = (uint8_t)q; ((uint16_t*)bytes)[500 + threadIdx.x] = (uint16_t)q;
}
