#!/usr/bin/env bash
# Installs what building (and, with `test`, testing) needs and is missing. Asks first, unless root or told `yes`.
#   packaging/setup.sh run|test|bench
set -euo pipefail

goal=${1:-run}
say() { printf '%s\n' "$*" >&2; }
fail() { say "setup: $*"; exit 1; }

# A consent for this run: root needs none (nobody else's machine), others are asked once.
agree() {
    [ "$(id -u)" = 0 ] && return
    [ "${MLX_DSPARK_SETUP:-}" = yes ] && return
    [ -t 0 ] || fail "these are missing and nobody is here to ask: $*. Set MLX_DSPARK_SETUP=yes, or install them yourself"
    read -r -p "Install with sudo: $*? [y/N] " answer
    [ "$answer" = y ] || [ "$answer" = Y ] || fail "not installed; the build needs them"
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

debian() {
    local want=(g++ make pkg-config libclang-dev python3 python3-pip python3-venv
        libgl1 libegl1 libgl1-mesa-dri libxkbcommon0 libxkbcommon-x11-0 libx11-xcb1 libxcursor1 libxi6 libxrandr2
        fonts-noto-cjk fonts-noto-color-emoji)
    [ "$goal" = run ] || want+=(xvfb xauth xdotool imagemagick x11-utils mesa-vulkan-drivers libvulkan1 dbus dbus-x11 libglib2.0-bin git)
    local missing=()
    for package in "${want[@]}"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    agree "${missing[@]}"
    say "Installing ${missing[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

mac() {
    xcode-select -p >/dev/null 2>&1 || fail "the Command Line Tools are missing: run 'xcode-select --install', then this again"
}

case "$(uname -s)" in
    Darwin) mac ;;
    Linux)
        if command -v apt-get >/dev/null; then debian
        else say "setup: not a Debian system; see README for the packages by name (C++ compiler, libclang, python3 with pip)"; fi ;;
    *) fail "only macOS and Linux are supported" ;;
esac

command -v cargo >/dev/null || fail "Rust is missing: install it with rustup, then run this again"
version=$(rustc --version | awk '{print $2}')
printf '1.95.0\n%s\n' "${version%%-*}" | sort -V -C || fail "rustc $version is too old: 1.95 or newer is needed ('rustup update stable')"
command -v python3 >/dev/null || fail "python3 is missing"
python3 -m pip --version >/dev/null 2>&1 || fail "pip for python3 is missing ('python3 -m ensurepip' or your system's python3-pip)"

if [ "$goal" = test ] && ! cargo nextest --version >/dev/null 2>&1; then
    say "Installing cargo-nextest (once, some minutes)"
    cargo install --locked --quiet cargo-nextest
fi
