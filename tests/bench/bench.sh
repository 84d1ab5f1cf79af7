#!/usr/bin/env bash
# The speed tables. Peers are measured where they can be had: llama.cpp needs npm, mlx-lm needs pip; each is installed
# under target/bench once. Everything runs interleaved on one thread, so ratios hold on a busy machine too.
set -euo pipefail
cd "$(dirname "$0")/../.."

home=$PWD/target/bench
mkdir -p "$home"
cargo build --release --locked -p mlx-dspark -p dspark-engine --bins --examples
cargo bench --locked -p mlx-cpu --no-run

if [ ! -d "$home/node_modules/node-llama-cpp" ]; then
    if command -v npm >/dev/null; then
        (cd "$home" && npm init -y >/dev/null && npm install --silent node-llama-cpp) || echo "llama.cpp: npm could not install node-llama-cpp; its column stays empty"
    else
        echo "llama.cpp: install Node.js with npm to have it measured"
    fi
fi
if [ ! -x "$home/venv/bin/python" ]; then
    python3 -m venv "$home/venv"
    "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check 'mlx[cpu]==0.32.2' 'mlx-lm==0.32.2' ||
        echo "mlx-lm: pip could not install it; its column stays empty"
fi
exec python3 tests/bench/bench.py --home "$home" "$@"
