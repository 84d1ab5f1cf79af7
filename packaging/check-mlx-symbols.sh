#!/usr/bin/env bash
# Would the macOS binary link? Compiles mlx-c (and our host_op) for macOS arm64 with zig, on any machine, and looks up every MLX
# symbol it needs in the libmlx.dylib of the mlx-metal wheel. Prints the counts; fails on a missing symbol. Skips, loudly, where the
# wheel or zig cannot be had. Needs python3 with venv, and cargo.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^const MLX_VERSION: &str = "\(.*\)";/\1/p' "$root/engine/mlx-sys/build.rs")
work=${1:-$root/target/check-mlx-symbols}
mkdir -p "$work"

skip() {
  echo "SKIPPED: $1. The macOS link was NOT checked." >&2
  exit 0
}

# The tools, and the Metal wheel, through pip. The wheel is for another system, so its platform is named.
if [ ! -x "$work/venv/bin/python" ]; then
  python3 -m venv "$work/venv" || skip "python3 -m venv does not work"
fi
python="$work/venv/bin/python"
"$python" -m pip install --quiet --disable-pip-version-check ziglang >"$work/pip.log" 2>&1 || skip "the Python package ziglang cannot be installed ($work/pip.log)"
if [ ! -d "$work/metal/mlx" ]; then
  rm -rf "$work/metal"
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --only-binary=:all: --python-version=3.12 \
    --platform=macosx_14_0_arm64 --target "$work/metal" "mlx-metal==$version" >"$work/pip.log" 2>&1 ||
    skip "the wheel mlx-metal $version cannot be installed ($work/pip.log)"
fi

# The same single translation unit as build.rs makes.
manifest=$(cd "$root/engine/mlx-sys/upstream" && cargo metadata --format-version=1 --locked |
  "$python" -c 'import json, sys; print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "mlx-sys"))')
mlx_c=$(dirname "$manifest")/src/mlx-c
for file in "$mlx_c"/mlx/c/*.cpp "$root/engine/mlx-sys/host_op.cpp"; do
  echo "#include \"$file\""
done >"$work/mlxc.cpp"
include=$work/metal/mlx/include
"$python" -m ziglang c++ -target aarch64-macos.14.0 -std=c++20 -O1 -w -D_METAL_ -DACCELERATE_NEW_LAPACK \
  -I"$root/engine/mlx-sys/compat" -I"$root/engine/mlx-sys" -include format -I"$mlx_c" -I"$include" -I"$include/metal_cpp" \
  -c "$work/mlxc.cpp" -o "$work/mlxc.o"

"$python" - "$work/mlxc.o" "$work/metal/mlx/lib/libmlx.dylib" <<'PYTHON'
import struct
import sys

MAGIC_64, ARM64, LC_SYMTAB = 0xFEEDFACF, 0x0100000C, 2
N_STAB, N_TYPE, N_EXT, N_UNDF = 0xE0, 0x0E, 0x01, 0x00

def symbols(path):
    """(undefined, defined) external symbols of a 64-bit Mach-O file, from its symbol table."""
    data = open(path, "rb").read()
    magic, cpu, _, _, commands = struct.unpack_from("<5I", data, 0)
    if (magic, cpu) != (MAGIC_64, ARM64):
        sys.exit(f"{path} is not a Mach-O file for arm64")
    undefined, defined, at = set(), set(), 32
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, at)
        if command == LC_SYMTAB:
            table, count, strings, _ = struct.unpack_from("<4I", data, at + 8)
            for i in range(count):
                name, kind, _, _, _ = struct.unpack_from("<IBBHQ", data, table + 16 * i)
                if kind & N_STAB or not kind & N_EXT:
                    continue
                start = strings + name
                text = data[start : data.index(b"\0", start)].decode()
                (undefined if kind & N_TYPE == N_UNDF else defined).add(text)
        at += size
    return undefined, defined

needed = {name for name in symbols(sys.argv[1])[0] if "3mlx4core" in name}
exported = symbols(sys.argv[2])[1]
missing = sorted(needed - exported)
print(f"{len(needed)} MLX symbols needed, {len(needed) - len(missing)} found among {len(exported)} in libmlx.dylib, {len(missing)} missing")
for name in missing:
    print("missing:", name)
if not needed or not exported:
    sys.exit("nothing was compared")
sys.exit(bool(missing))
PYTHON
