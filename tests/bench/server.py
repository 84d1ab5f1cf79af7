"""The server's figures of `make bench ARGS="--only server"`: ours beside mlx_lm.server and the Python reference, all on the
same weights (the starter's, as 32-bit floats: MLX's own quantized product takes seconds a token on a processor).

Time to the first token of a chat's first turn, of the second, and of the one after a side call (a title); what a token and a
request cost beside the engine; and requests a second on /health and /v1/models while a stream runs. Servers take turns within
each round; figures are medians.
"""

import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = "The ledger of the small shop by the harbour lists every fish sold, its weight, its price and the name of the buyer. "

# Run by the Python that has mlx: the starter's matrices as floats, in a folder that every server loads.
DEQUANTIZE = """
import json, pathlib, shutil, sys
import mlx.core as mx
source, target = map(pathlib.Path, sys.argv[1:])
config = json.loads((source / "config.json").read_text())
packing = config.pop("quantization")
config.pop("quantization_config", None)
config["torch_dtype"] = "float32"
tensors = mx.load(str(source / "model.safetensors"))
out = {}
for name, array in tensors.items():
    if name.endswith((".scales", ".biases")):
        continue
    path = name.removesuffix(".weight")
    if path + ".scales" in tensors:
        own = packing.get(path) if isinstance(packing.get(path), dict) else packing
        rest = {key: own.get(key, packing.get(key)) for key in ("group_size", "bits")}
        array = mx.dequantize(array, tensors[path + ".scales"].astype(mx.float32), tensors[path + ".biases"].astype(mx.float32), **rest)
    out[name] = array.astype(mx.float32)
target.mkdir(parents=True, exist_ok=True)
for file in source.iterdir():
    if file.is_file() and file.suffix in (".json", ".jinja", ".txt"):
        shutil.copy(file, target / file.name)
(target / "config.json").write_text(json.dumps(config))
mx.save_safetensors(str(target / "model.safetensors"), out, {"format": "mlx"})
"""


def weights(home, python):
    """The folder that every server loads."""
    found = subprocess.run([ROOT / "target/release/mlx-dspark", "starter", "--quiet"], capture_output=True, text=True, check=True)
    starter = found.stdout.strip().splitlines()[-1]
    folder = home / "starter-f32"
    if python and not (folder / "model.safetensors").exists():
        subprocess.run([python, "-c", DEQUANTIZE, starter, folder], check=True)
    return folder if python else Path(starter)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Running:
    """A server in a process of its own."""

    def __init__(self, command, ready):
        self.port = free_port()
        self.log = tempfile.TemporaryFile("w+")
        words = [str(word).replace("{port}", str(self.port)) for word in command]
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        deadline = time.monotonic() + 300
        while True:
            try:
                if self.get(ready)[0] == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                self.log.seek(0)
                raise OSError(f"it does not start: {self.log.read()[-400:]}")
            time.sleep(0.2)

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def chat(self, messages, tokens, on_token=None):
        """Seconds to the first text and to the end of a streamed answer, its text, and its chunks with text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1200)
        body = {"model": "default_model", "messages": messages, "max_tokens": tokens, "stream": True, "temperature": 0}
        begin, first, text, chunks = time.perf_counter(), None, "", 0
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            if reply.status != 200:
                raise OSError(f"status {reply.status}: {reply.read()[:200]}")
            for line in reply:
                if not line.startswith(b"data: {"):
                    continue
                choices = json.loads(line[6:]).get("choices") or [{}]
                delta = choices[0].get("delta", {})
                said = (delta.get("content") or "") + (delta.get("reasoning_content") or delta.get("reasoning") or "")
                if said:
                    first = first or time.perf_counter() - begin
                    text, chunks = text + said, chunks + 1
                    if on_token:
                        on_token()
        finally:
            connection.close()
        return first, time.perf_counter() - begin, text, chunks

    def cpu(self):
        """Processor seconds so far; None where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def conversation(server, tokens, answer):
    """Seconds to the first token: cold, of turn 2, and of turn 3 after a side call."""
    unique = f"Note {time.time_ns()}. "
    words = TEXT * max(tokens // 25, 1)
    talk = [{"role": "system", "content": unique + words}, {"role": "user", "content": "Who buys the most fish?"}]
    cold, _, said, _ = server.chat(talk, answer)
    talk += [{"role": "assistant", "content": said}, {"role": "user", "content": "And who the least?"}]
    second, _, said, _ = server.chat(talk, answer)
    side = [{"role": "user", "content": unique + "Write a title of five words for a talk about fish. " + TEXT}]
    server.chat(side, 4)
    talk += [{"role": "assistant", "content": said}, {"role": "user", "content": "Thank you. Why?"}]
    third, *_ = server.chat(talk, answer)
    return cold, second, third


def rates(server, path, seconds=3, connections=4):
    """Requests a second on a path while a stream runs; the stream's tokens a second meanwhile."""
    count, tokens, stop = [0] * connections, [0], threading.Event()

    def token():
        tokens[0] += 1

    def stream():
        try:
            server.chat([{"role": "user", "content": "Count from one to five hundred in words."}], 400, token)
        except OSError:
            pass

    reader = threading.Thread(target=stream, daemon=True)
    reader.start()
    begin = time.monotonic()
    while tokens[0] == 0 and time.monotonic() - begin < 60:
        time.sleep(0.01)

    def loop(index):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        while not stop.is_set():
            try:
                connection.request("GET", path)
                reply = connection.getresponse()
                reply.read()
                count[index] += reply.status == 200
            except (OSError, http.client.HTTPException):
                connection.close()
        connection.close()

    threads = [threading.Thread(target=loop, args=(index,), daemon=True) for index in range(connections)]
    before, begin = tokens[0], time.monotonic()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    took, during = time.monotonic() - begin, tokens[0] - before
    stop.set()
    for thread in threads:
        thread.join(35)
    reader.join(300)
    return sum(count) / took, during / took


def servers(folder, python, reference):
    found = {"ours": ([ROOT / "target/release/mlx-dspark", "serve", "--model", folder, "--port", "{port}", "--quiet"], "/v1/models")}
    if python:
        words = [python, "-m", "mlx_lm", "server", "--model", folder, "--host", "127.0.0.1", "--port", "{port}"]
        found["mlx_lm.server"] = (words, "/v1/models")
    if reference:
        words = [reference, "serve", "--model", folder, "--mode", "baseline", "--host", "127.0.0.1", "--port", "{port}"]
        found["mlx-dspark (Python)"] = (words, "/v1/models")
    return found


def show(value, form="{:.2f}"):
    return form.format(value) if value is not None else "-"


def run(home, python, reference, rounds, tokens, table):
    folder = weights(home, python)
    print(f"### The server: {folder.name}, a prompt of about {tokens} tokens, answers of 16\n", flush=True)
    found = {}
    for name, (command, ready) in servers(folder, python, reference).items():
        try:
            server = Running(command, ready)
        except OSError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        server.chat([{"role": "user", "content": "hi"}], 2)
        found[name] = server
    times = {name: [] for name in found}
    try:
        for turn in range(rounds):
            for name in list(found) if turn % 2 == 0 else list(found)[::-1]:
                try:
                    times[name].append(conversation(found[name], tokens, 16))
                except OSError as error:
                    print(f"{name}: {error}", file=sys.stderr)
        rows = []
        for name, all_times in times.items():
            if all_times:
                cold, second, third = (statistics.median(column) for column in zip(*all_times))
                rows.append([name, f"{cold:.2f} s", f"{second:.3f} s", f"{third:.3f} s", f"{cold / second:.1f}x", f"{cold / third:.1f}x"])
        table(["time to the first token", "turn 1, cold", "turn 2", "turn 3, after a side call", "cold / turn 2", "cold / turn 3"], rows)

        rows = []
        for name, server in found.items():
            row = [name]
            for path in ("/health", "/v1/models"):
                rate, pace = rates(server, path)
                row += [f"{rate:.0f}", f"{pace:.1f}"]
            rows.append(row)
        table(["while a stream runs", "/health, requests/s", "stream, chunks/s", "/v1/models, requests/s", "stream, chunks/s"], rows)

        rows = []
        for name, server in found.items():
            one = [{"role": "user", "content": "hi"}]
            wall, spent = [], []
            for _ in range(20):
                begin, cpu = time.perf_counter(), server.cpu()
                server.chat(one, 1)
                wall.append(time.perf_counter() - begin)
                if cpu is not None:
                    spent.append(server.cpu() - cpu)
            rows.append([name, f"{statistics.median(wall) * 1e3:.1f} ms", show(sum(spent) / len(spent) * 1e3 if spent else None, "{:.0f} ms")])
        table(["one cached prompt, one token", "wall, median", "CPU of the server, mean"], rows)
    finally:
        for server in found.values():
            server.stop()
    overhead = ROOT / "target/release/examples/overhead"
    if not overhead.exists():
        return print("what serving adds is not measured: build it with `cargo build --release -p dspark-serve --examples`\n")
    print("What serving adds to an engine that costs nothing (a scripted one), over HTTP on this machine:\n", flush=True)
    subprocess.run([overhead], check=False)
    print()
