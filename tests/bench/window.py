"""The window's figures of `make bench ARGS="--only window"`, on a virtual screen with software rendering: how soon it is there,
how long its frames take while text streams, what it uses when nobody touches it, what it costs the decoding, and what fifty
changes of the model leave behind.

Frame times are processor time on the window's thread: state, layout, tessellation and painting, without the wait for the
screen. With software rendering the painting is done by the processor too, so they are upper bounds of what a graphics
processor leaves to it.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

from server import free_port

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "target/release/mlx-dspark"
QUESTION = "Write a long story about a lighthouse keeper and the sea."


@contextmanager
def screen():
    """The environment of a program that opens its window on a screen of its own."""
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "1280x800x24", "+extension", "GLX"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        env = {**os.environ, "DISPLAY": ":" + server.stdout.readline().strip(), "LIBGL_ALWAYS_SOFTWARE": "1"}
        for name in ["DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY"]:
            env.pop(name, None)
        yield env
    finally:
        server.terminate()
        server.wait()


@contextmanager
def running(command, env=None):
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def cpu_of(process):
    """Processor seconds of a running process; 0 where that is not known."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(process):
    """Megabytes of a process in memory; None where that is not known."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), None)


def wait_for_window(env):
    look = ["xdotool", "search", "--sync", "--onlyvisible", "--name", "mlx-dspark"]
    subprocess.run(look, env=env, capture_output=True, timeout=60, check=True)


def visible(env):
    """From the start of the program to a window on the screen."""
    wall, spent = [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            with running([PROGRAM, "app", "--data-dir", folder], env) as app:
                wait_for_window(env)
                wall.append(time.perf_counter() - begin)
                spent.append(cpu_of(app.pid))
    cpu = f", {statistics.median(spent):.2f} s of processor time" if all(spent) else ""
    print(f"Window visible after {statistics.median(wall):.2f} s{cpu} (median of {len(wall)})\n", flush=True)


def frames(env, table):
    """Frames while a scripted engine writes 400 tokens a second."""
    rows = []
    scenes = [("stream", "a new reply"), ("heavy", "at the end of a chat of 200,000 tokens, 10,000 chats beside it")]
    for scene, what in scenes:
        with tempfile.TemporaryDirectory() as folder:
            command = [ROOT / "target/release/examples/double_window", "--scene", scene, "--data", folder, "--measure", "20"]
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            print(f"{scene}: {done.stderr.strip()[-300:]}", file=sys.stderr)
            continue
        line = json.loads(lines[-1])
        rows.append([what, f"{line['per_second']:.0f}", *(f"{line[key]:.1f} ms" for key in ("p50_ms", "p99_ms", "max_ms"))])
    print("### Frames of the window while 400 tokens a second stream\n")
    table(["where", "a second", "p50", "p99", "longest"], rows)


def idle(env, seconds=60):
    """Processor time of a window that nobody touches, with a model loaded."""
    with tempfile.TemporaryDirectory() as folder, running([PROGRAM, "app", "--model", "starter", "--data-dir", folder], env) as app:
        wait_for_window(env)
        # The load, its calibration and the toasts are over.
        time.sleep(20)
        before = cpu_of(app.pid)
        time.sleep(seconds)
        spent = cpu_of(app.pid) - before
        print(f"Idle with a model loaded: {spent:.2f} s of processor time in {seconds} s ({100 * spent / seconds:.2f} %)\n", flush=True)


def post(port, path, body, timeout=300):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return json.loads(reply.read())


def wait_for_model(port):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as reply:
                if json.loads(reply.read())["data"]:
                    return
        except OSError:
            pass
        time.sleep(0.3)
    raise TimeoutError("the server did not load its model")


def rate(port, process):
    """Tokens a second of an answer of 256 tokens, by the client's clock, and the program's processor seconds for each."""
    body = {
        "model": "starter",
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": 256,
        "temperature": 0,
        "ignore_eos": True,
    }
    begin, before = time.perf_counter(), cpu_of(process)
    reply = post(port, "/v1/chat/completions", body)
    tokens = reply["usage"]["completion_tokens"]
    return tokens / (time.perf_counter() - begin), (cpu_of(process) - before) / tokens


def cost(env, rounds=5):
    """Decoding beside an open window against a server without one, in turns."""
    ports = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "settings.toml").write_text(f"[server]\nenabled = true\nport = {ports[0]}\n")
        plain = ["--model", "starter", "--mode", "baseline"]
        app = [PROGRAM, "app", *plain, "--data-dir", folder]
        serve = [PROGRAM, "serve", *plain, "--port", str(ports[1])]
        with ExitStack() as programs:
            # One after the other, so that neither loads and measures itself while the other does.
            open_window = programs.enter_context(running(app, env))
            wait_for_model(ports[0])
            time.sleep(10)
            headless = programs.enter_context(running(serve))
            wait_for_model(ports[1])
            time.sleep(10)
            found = [[], []]
            for round_ in range(rounds + 1):
                for at, (port, program) in enumerate(zip(ports, (open_window, headless))):
                    figures = rate(port, program.pid)
                    # The first warms up.
                    if round_:
                        found[at].append(figures)
    (window, window_cpu), (bare, bare_cpu) = ([statistics.median(column) for column in zip(*arm)] for arm in found)
    print(
        f"Plain decoding over HTTP: {window:.1f} tok/s in the app with its window open, {bare:.1f} without a window: "
        f"{100 * (1 - window / bare):+.1f} % for the window; processor time a token {1000 * window_cpu:.2f} ms and "
        f"{1000 * bare_cpu:.2f} ms: {100 * (window_cpu / bare_cpu - 1):+.1f} % (medians of {rounds}, in turns)\n",
        flush=True,
    )


def swaps(times=50):
    """Memory of a server after many changes of the model."""
    found = subprocess.run([PROGRAM, "starter", "--quiet"], capture_output=True, text=True, check=True)
    starter = Path(found.stdout.strip().splitlines()[-1])
    port = free_port()
    with tempfile.TemporaryDirectory(dir=starter.parent) as folder:
        copies = [Path(folder, name) for name in ("first", "second")]
        for copy in copies:
            shutil.copytree(starter, copy, copy_function=os.link)
        with running([PROGRAM, "serve", "--model", copies[0], "--port", str(port)]) as server:
            wait_for_model(port)
            seen = []
            for turn in range(times):
                post(port, "/admin/load", {"model": str(copies[(turn + 1) % 2])})
                post(port, "/v1/chat/completions", {"model": "any", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8})
                seen.append(resident_mb(server.pid))
    if all(seen):
        print(
            f"Memory after model changes: {seen[1]:.0f} MB after 2, {seen[times // 2]:.0f} MB after {times // 2 + 1}, "
            f"{seen[-1]:.0f} MB after {times} ({100 * (seen[-1] / seen[1] - 1):+.1f} %)\n",
            flush=True,
        )


def run(table):
    if not shutil.which("Xvfb") or not shutil.which("xdotool"):
        print("The window is not measured: install xvfb and xdotool\n")
        return
    print("### Window (software rendering, virtual screen)\n")
    with screen() as env:
        for part in (visible, lambda env: frames(env, table), idle, cost):
            try:
                part(env)
            except (OSError, subprocess.SubprocessError, TimeoutError) as error:
                print(f"window: {error}", file=sys.stderr)
    swaps()
