# shellcheck shell=bash disable=SC2154 # variables of other files
# NVIDIA's compiler, NVSHMEM and NVTX, from their Python packages, in a virtual environment below cargo's folder.

cuda_wheels=(
    nvidia-cuda-nvcc==13.5.37
    nvidia-cuda-runtime==13.5.37
    nvidia-cuda-cccl==13.3.5.0.6
    nvidia-cuda-cuobjdump==13.5.37
    nvidia-cuda-nvdisasm==13.5.37
    nvidia-nvshmem-cu13==3.8.0
    nvidia-nvtx==13.5.25
)

# Sets CUDA_HOME and NVSHMEM_HOME; installs both if they are not there.
need_cuda() {
    local environment=$target_dir/cuda-wheels packages
    if [ "$(cat "$environment/complete" 2>/dev/null)" != "${cuda_wheels[*]}" ]; then
        rm -rf "$environment"
        python3 -m venv "$environment"
        "$environment/bin/pip" install --quiet --disable-pip-version-check "${cuda_wheels[@]}"
        echo "${cuda_wheels[*]}" >"$environment/complete"
    fi
    packages=$(echo "$environment"/lib/python3*/site-packages/nvidia)
    export CUDA_HOME=$packages/cu13 NVSHMEM_HOME=$packages/nvshmem
    [ -x "$CUDA_HOME/bin/nvcc" ] && [ -e "$NVSHMEM_HOME/include/nvshmem.h" ]
}
