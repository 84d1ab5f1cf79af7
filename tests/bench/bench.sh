#!/usr/bin/env bash
# The speed tables. Peers are measured where they can be had: llama.cpp needs npm, mlx-lm needs pip; each is installed
# under target/bench once. Arms take turns, and figures are per processor second, so ratios hold on a busy machine too.
#   tests/bench/bench.sh [--only decoding,families,kernels,start,window,server] [--rounds N] [--tokens N] [--kernels]
set -euo pipefail
cd "$(dirname "$0")/../.."

home=$PWD/target/bench
mkdir -p "$home"
cargo build --release --locked -p mlx-dspark -p dspark-engine -p dspark-serve -p dspark-window --bins --examples

if ! node -e "require('$home/node_modules/node-llama-cpp/package.json')" 2>/dev/null; then
    if command -v npm >/dev/null; then
        (cd "$home" && npm init -y >/dev/null && npm install --silent --no-audit --no-fund node-llama-cpp) ||
            echo "llama.cpp: npm could not install node-llama-cpp in target/bench; its columns stay empty" >&2
    else
        echo "llama.cpp: to have it measured, install Node.js with npm and run this again" >&2
    fi
fi
if ! "$home/venv/bin/python" -c "import mlx_lm, mlx_dspark" 2>/dev/null; then
    { python3 -m venv "$home/venv" &&
        "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check 'mlx[cpu]==0.32.2' 'mlx-lm==0.32.2' 'mlx-dspark==0.20.3'; } ||
        echo "mlx-lm: pip could not install it in target/bench/venv; its columns stay empty" >&2
fi
exec python3 tests/bench/bench.py --home "$home" "$@"
