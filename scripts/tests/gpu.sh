# shellcheck shell=bash disable=SC2154 # variables of other files
# What will prove the GPU backend without a GPU: NVSHMEM's host functions and struct layouts against its library and
# headers, and the interpreter with what NVIDIA's compiler makes.

# shellcheck source=../lib/cuda.sh
source "$here/lib/cuda.sh"

gpu_crates=(--package nvshmem-sys --package gpu-sim-interpreter)

test_gpu() {
    run_test "tools are there" need_gpu_tools
    last_passed || return
    # Once more, for the variables: a test is a subshell.
    need_cuda
    export GPU_SIM_PTX=$scratch/ptx
    run_test "clippy" cargo clippy --locked "${gpu_crates[@]}" --all-targets -- -D warnings
    run_test "the interpreter's kernels compile" \
        tests/gpu-sim/interpreter/tests/compile.sh "$CUDA_HOME" "$NVSHMEM_HOME" "$GPU_SIM_PTX"
    run_cargo_tests "cargo test" 900 cargo test --locked --no-fail-fast "${gpu_crates[@]}" -- --include-ignored
}

need_gpu_tools() {
    need_cargo_components clippy
    need_programs g++:g++ python3:python3
    # Debian's python3 may lack the module.
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
    need_cuda
}
