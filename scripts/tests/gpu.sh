# shellcheck shell=bash disable=SC2154 # variables of other files
# What proves the GPU backend without a GPU: NVSHMEM's host functions and struct layouts against its library and headers;
# the kernels that NVIDIA's compiler makes, run by the interpreter with stand-ins for the driver and NVSHMEM; mutants of
# the kernels; what can be read in their machine code; that tests/gpu, which is for machines with GPUs, works; the examples
# with an installed package; ranges for profilers.

# shellcheck source=../lib/cuda.sh
source "$here/lib/cuda.sh"

gpu_crates=(--package nvshmem-sys --package gpu-sim-interpreter --package gpu-sim-cuda --package gpu-sim-nvshmem)
device_tests=(--test device_differential --test device_missing --test device_scenarios)
# Beside a random one.
seeds=(1 2 3)

test_gpu() {
    run_test "tools are there" need_gpu_tools
    last_passed || return
    # Once more, for the variables: a test is a subshell.
    need_cuda
    local stand_ins=$scratch/gpu-sim kit=$scratch/kit seed
    export GPU_SIM_PTX=$scratch/ptx
    local simulated=(env BOXWISE_KERNELS_FORM=ptx "BOXWISE_GPU_SIM=$stand_ins")
    run_test "clippy" "${simulated[@]}" \
        cargo clippy --locked --package boxwise "${gpu_crates[@]}" --features boxwise/cuda --all-targets -- -D warnings
    run_test "the interpreter's kernels compile" \
        tests/gpu-sim/interpreter/tests/compile.sh "$CUDA_HOME" "$NVSHMEM_HOME" "$GPU_SIM_PTX"
    run_cargo_tests "cargo test" 900 cargo test --locked --no-fail-fast "${gpu_crates[@]}" -- --include-ignored
    run_test "stand-ins" place_stand_ins "$stand_ins"
    last_passed || return
    run_cargo_tests "simulated" 900 "${simulated[@]}" \
        cargo test --locked --no-fail-fast --features cuda --lib "${device_tests[@]}"
    for seed in "${seeds[@]}"; do
        run_cargo_tests "seed $seed" 600 "${simulated[@]}" "SEED=$seed" \
            cargo test --locked --features cuda --test device_differential
    done
    run_cargo_tests "mutants" 900 "${simulated[@]}" tests/gpu-mutants/run "$scratch/mutants"
    run_cargo_tests "static" 900 tests/gpu-static/check "$target_dir/gpu-static"
    run_test "GPUs: build" within 600 "${simulated[@]}" tests/gpu/build "$kit"
    last_passed || return
    run_test "GPUs: there are none" skip_without_gpus "$kit"
    run_test "GPUs: stand-ins" tests/gpu-sim/place "$kit/lib" "$target_dir/debug"
    run_cargo_tests "GPUs: run" 600 tests/gpu/run "$kit" 10 6 7 2
    run_test "install" install_with_kernels "$scratch/with_kernels"
    last_passed || return
    run_test "find_package: CUDA" use_package "$scratch/with_kernels" "$stand_ins"
    last_passed || return
    run_test "NVTX: ranges" see_ranges "$scratch/with_kernels" "$stand_ins"
    run_test "NVTX: not there" miss_nvtx "$scratch/with_kernels" "$stand_ins"
}

need_gpu_tools() {
    need_cargo_components clippy
    need_programs cc:gcc g++:g++ gfortran:gfortran cmake:cmake make:make python3:python3 readelf:binutils
    # Debian's python3 may lack the module.
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
    need_cuda
}

place_stand_ins() {
    cargo build --locked --package gpu-sim-cuda --package gpu-sim-nvshmem
    tests/gpu-sim/place "$1" "$target_dir/debug"
}

# skip_without_gpus KIT: what runs on GPUs says why it does not.
skip_without_gpus() {
    tests/gpu/run "$1" | tee "$scratch/output"
    grep -q '^skipped: .' "$scratch/output"
}

install_with_kernels() {
    BOXWISE_KERNELS_FORM=ptx within 900 cmake -S "$root" -B "$scratch/build-cuda" -DBOXWISE_BUILD_CUDA=ON
    within 900 cmake --build "$scratch/build-cuda"
    cmake --install "$scratch/build-cuda" --prefix "$1"
}

# use_package PREFIX STAND_INS: a project of its own, which runs its programs on the stand-ins.
use_package() {
    local project=$scratch/consumer-cuda
    cp -R tests/package/cuda "$project"
    cp -R c_examples fortran "$project"
    within 300 cmake -S "$project" -B "$project/build" -DCMAKE_PREFIX_PATH="$1" \
        -DCUDA_INCLUDE_DIR="$CUDA_HOME/include" -DCUDA_DRIVER="$2/libcuda.so.1"
    within 300 cmake --build "$project/build"
    LD_LIBRARY_PATH=$2 NVSHMEM_HOME='' within 60 ctest --test-dir "$project/build" --output-on-failure --no-tests=error
}

# profiled PREFIX LIBRARY_PATH: runs the consumer's C program on 2 ranks with a profiler that writes to a file.
profiled() {
    cc -shared -fPIC "-I$CUDA_HOME/include" "$root/tests/nvtx/profiler.c" -o "$scratch/profiler.so"
    LD_LIBRARY_PATH=$2 NVTX_INJECTION64_PATH=$scratch/profiler.so TEST_PROFILE=$scratch/ranges BOXWISE_LOG=warn \
        NVSHMEM_HOME='' within 60 "$1/bin/boxwise-run" -n 2 "$scratch/consumer-cuda/build/c"
}

# see_ranges PREFIX STAND_INS
see_ranges() {
    local name begun
    profiled "$1" "$2:$CUDA_HOME/lib"
    for name in boxwise_make boxwise_exec_async; do
        grep -qx "begin $name" "$scratch/ranges"
    done
    begun=$(grep -c '^begin ' "$scratch/ranges")
    [ "$begun" = "$(grep -c '^end ' "$scratch/ranges")" ]
}

# miss_nvtx PREFIX STAND_INS: without NVIDIA's library of NVTX all works, and is told.
miss_nvtx() {
    rm -f "$scratch/ranges"
    profiled "$1" "$2" 2>&1 | tee "$scratch/output"
    grep -q 'it will see no ranges' "$scratch/output"
    [ ! -e "$scratch/ranges" ]
}
