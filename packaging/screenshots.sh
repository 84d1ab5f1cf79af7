#!/usr/bin/env bash
# Takes the pictures in assets/screenshots: the window on a scripted engine, on a virtual display, drawn in software.
# Usage: packaging/screenshots.sh [scene ...]   (all scenes by default)
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in Xvfb import xdotool; do
    command -v "$tool" > /dev/null || { echo "$tool is missing: apt-get install xvfb imagemagick xdotool fonts-noto-cjk fonts-noto-color-emoji" >&2; exit 1; }
done
# WINDOW names a program that is built already.
[ -n "${WINDOW:-}" ] || cargo build --quiet -p dspark-window --example double_window
window=${WINDOW:-target/debug/examples/double_window}
out=assets/screenshots
mkdir -p "$out"
scenes=("$@")
[ ${#scenes[@]} -gt 0 ] || scenes=(chat first-run first-run-check first-run-go settings picker models models-here models-search models-downloads live curves machine race benchmark agents agents-change connections palette)

shoot() { # scene theme size
    local scene=$1 theme=$2 size=$3 display data xvfb app
    data=$(mktemp -d)
    display=$((90 + RANDOM % 400))
    Xvfb ":$display" -screen 0 "${size}x24" +extension GLX > /dev/null 2>&1 &
    xvfb=$!
    sleep 0.5
    # Without a session bus there is no tray, and nothing of this machine's desktop gets into the picture.
    env -u DBUS_SESSION_BUS_ADDRESS -u WAYLAND_DISPLAY DISPLAY=":$display" LIBGL_ALWAYS_SOFTWARE=1 \
        "$window" --scene "$scene" --theme "$theme" --size "$size" --data "$data" 2> "$data/log" &
    app=$!
    sleep 2
    DISPLAY=":$display" xdotool mousemove "$((${size%x*} - 4))" 4
    sleep "${WAIT:-3}"
    local name="$out/$scene-$theme"
    [ "$size" = 1280x800 ] || name="$out/$scene-$size-$theme"
    DISPLAY=":$display" import -window root -depth 8 -define png:exclude-chunks=date,time "$name.png"
    kill "$app" 2> /dev/null || true
    wait "$app" 2> /dev/null || true
    kill "$xvfb" 2> /dev/null || true
    wait "$xvfb" 2> /dev/null || true
    rm -rf "$data"
    echo "$name.png"
}

for scene in "${scenes[@]}"; do
    for theme in dark light; do
        for size in 1280x800 900x640; do
            shoot "$scene" "$theme" "$size"
        done
    done
done
