#include <nvshmem.h>
#include <nvshmemx.h>
extern "C" __global__ void remote(char *to, char *from, size_t n, uint64_t *sig, int pe) {
    nvshmemx_putmem_signal_nbi_block(to, from, n, sig, 7, NVSHMEM_SIGNAL_SET, pe);
    if (threadIdx.x == 0) { nvshmemx_signal_op(sig, 8, NVSHMEM_SIGNAL_SET, pe); nvshmem_uint64_p(sig + 1, 9, pe); nvshmem_fence(); nvshmem_quiet(); nvshmem_signal_wait_until(sig, NVSHMEM_CMP_GE, 7);
    nvshmem_putmem_nbi(to, from, 16, pe); nvshmem_putmem_signal_nbi(to, from, 16, sig, 5, NVSHMEM_SIGNAL_SET, pe); 
    void *p = nvshmem_ptr(to, pe); if (p) *(char*)p = 1; }
}
