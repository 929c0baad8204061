#!/usr/bin/env bash
# Compiles tests/ptx/*.cu to FOLDER/*.ptx: tests/compile.sh CUDA_HOME NVSHMEM_HOME FOLDER
set -euo pipefail
cuda=$1 nvshmem=$2 folder=$3
mkdir -p "$folder"
for source in "$(dirname "${BASH_SOURCE[0]}")"/ptx/*.cu; do
    "$cuda/bin/nvcc" -std=c++17 -rdc=true -arch=compute_80 -ptx -I"$nvshmem/include" "$source" \
        -o "$folder/$(basename "$source" .cu).ptx" &
done
# One by one, so that a failure is seen.
for job in $(jobs -p); do
    wait "$job"
done
