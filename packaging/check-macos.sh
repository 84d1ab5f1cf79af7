#!/usr/bin/env bash
# Type-checks the workspace for Apple silicon from any machine. C parts of dependencies are compiled by zig (Python
# package ziglang); nothing is linked. Skips, loudly, where the Rust target or zig cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-apple-darwin
skip() { printf '\n=== SKIPPED: macOS type check: %s ===\n\n' "$*" >&2; exit 0; }

if [ "$(uname -s)" = Darwin ]; then
    exec cargo check --workspace --all-targets --locked --target "$target"
fi
rustup target list --installed 2>/dev/null | grep -qx "$target" || rustup target add "$target" >/dev/null 2>&1 ||
    skip "the Rust target $target cannot be added here"

venv=target/venv-zig
[ -x "$venv/bin/python" ] || python3 -m venv "$venv" || skip "no Python venv"
"$venv/bin/python" -m ziglang version >/dev/null 2>&1 || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check ziglang ||
    skip "the Python package ziglang cannot be installed"

tools=$PWD/target/zig-tools
mkdir -p "$tools"
cat >"$tools/cc" <<SH
#!$PWD/$venv/bin/python
# zig spells Apple's target flags differently: drop what cc crates pass.
import os, sys
args, skip = [], False
for word in sys.argv[1:]:
    if skip:
        skip = False
    elif word == "-arch":
        skip = True
    elif not word.startswith(("--target=", "-mmacosx-version-min", "-mmacos-version-min")):
        args.append(word)
os.execv(sys.executable, [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-macos.14.0", *args])
SH
cat >"$tools/ar" <<SH
#!/bin/sh
exec $PWD/$venv/bin/python -m ziglang ar "\$@"
SH
chmod +x "$tools/cc" "$tools/ar"
export CC_aarch64_apple_darwin=$tools/cc AR_aarch64_apple_darwin=$tools/ar
cargo check --workspace --locked --target "$target"
