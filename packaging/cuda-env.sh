#!/usr/bin/env bash
# Runs the same Linux binary on an NVIDIA GPU: installs MLX's CUDA build once and prints the environment that makes the
# program load it instead of the CPU build.
#   eval "$(packaging/cuda-env.sh)" && target/release/mlx-dspark doctor
# MLX_CUDA_DIR names a folder where the wheels are (or go).
set -euo pipefail

dir=${MLX_CUDA_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/mlx_dspark/cuda-0.32.2}
if [ ! -f "$dir/mlx/lib/libmlx.so" ]; then
    echo "Installing MLX for CUDA into $dir (once)" >&2
    python3 -m pip install --quiet --disable-pip-version-check --only-binary=:all: --target "$dir.partial" 'mlx-cuda-13==0.32.2' >&2
    mv "$dir.partial" "$dir"
fi

libraries=$dir/mlx/lib:$dir/mlx_cuda_13.libs
for lib in "$dir"/nvidia/*/lib; do
    [ -d "$lib" ] && libraries=$libraries:$lib
done
# MLX compiles element-wise kernels at run time and wants the CUDA headers for it.
for home in "$dir/nvidia/cu13" "$dir/nvidia/cuda_runtime" /usr/local/cuda; do
    [ -d "$home/include" ] && { echo "export CUDA_HOME='${CUDA_HOME:-$home}'"; break; }
done
# MLX's own attention kernels: cuDNN's graphs, one for every number of keys, cost more than they save (the program sets this too).
echo "export MLX_CUDA_USE_CUDNN_SDPA='${MLX_CUDA_USE_CUDNN_SDPA:-0}'"
# What was compiled is kept: the first use of a kernel costs seconds, every later one nothing.
echo "export MLX_PTX_CACHE_DIR='${MLX_PTX_CACHE_DIR:-$dir/kernels}'"
echo "export LD_LIBRARY_PATH='$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}'"
