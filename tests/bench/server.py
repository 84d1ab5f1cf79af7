"""The server's figures of `make bench ARGS="--only server"`: ours beside mlx_lm.server and the Python reference, all on the
same weights (the starter's, as 16-bit floats: MLX's own quantized product takes seconds a token on a processor).

Time to the first token of a chat's first turn, of the second, and of the one after a side call (a title); requests a second
on /health and /v1/models while a stream runs; and what a request and a token cost beyond the engine's own time. Servers take
turns within each round; figures are medians. Each server has a budget of seconds for each part: what a slow one does not get
to is left out and said, so that the whole ends.
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
TEXT_TOKENS = 26
ANSWER = 8
START = 600

# Run by the Python that has mlx: the starter's matrices as floats, in a folder that every server loads.
DEQUANTIZE = """
import json, pathlib, shutil, sys
import mlx.core as mx
source, target = map(pathlib.Path, sys.argv[1:])
config = json.loads((source / "config.json").read_text())
packing = config.pop("quantization")
config.pop("quantization_config", None)
config["torch_dtype"] = "bfloat16"
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
    out[name] = array.astype(mx.bfloat16)
target.mkdir(parents=True, exist_ok=True)
for file in source.iterdir():
    if file.is_file() and file.suffix in (".json", ".jinja", ".txt"):
        shutil.copy(file, target / file.name)
(target / "config.json").write_text(json.dumps(config))
mx.save_safetensors(str(target / "model.safetensors"), out, {"format": "mlx"})
"""


class Late(Exception):
    """A budget is used up."""


def weights(home, python):
    """The folder that every server loads."""
    found = subprocess.run([ROOT / "target/release/mlx-dspark", "starter", "--quiet"], capture_output=True, text=True, check=True)
    starter = found.stdout.strip().splitlines()[-1]
    folder = home / "starter-bf16"
    if python and not (folder / "model.safetensors").exists():
        subprocess.run([python, "-c", DEQUANTIZE, starter, folder], check=True)
    return folder if python else Path(starter)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Reply:
    def __init__(self):
        self.first, self.wall, self.text, self.chunks, self.engine = None, None, "", 0, {}


class Running:
    """A server in a process of its own."""

    def __init__(self, command, ready, home):
        self.port = free_port()
        self.log = tempfile.TemporaryFile("w+")
        words = [str(word).replace("{port}", str(self.port)) for word in command]
        env = {**os.environ, "HF_HUB_OFFLINE": "1"}
        if home:
            # What a peer measures of this machine it keeps in its own place.
            home.mkdir(parents=True, exist_ok=True)
            env["HOME"] = str(home)
        begin = time.monotonic()
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log, env=env)
        while True:
            try:
                if self.get(ready, 10)[0] == 200:
                    break
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() - begin > START:
                self.stop()
                self.log.seek(0)
                raise OSError(f"it does not start within {START} s: {self.log.read()[-400:]}")
            time.sleep(0.2)
        self.started = time.monotonic() - begin

    def get(self, path, timeout):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def chat(self, messages, tokens, deadline, on_token=None):
        """A streamed answer. The connection is closed at the deadline, which cancels the generation.

        Raises Late, or OSError where the server answers wrongly.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            raise Late
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=left)
        body = {"model": "default_model", "messages": messages, "max_tokens": tokens, "stream": True, "temperature": 0}
        begin, told = time.perf_counter(), Reply()
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            if reply.status != 200:
                raise OSError(f"status {reply.status}: {reply.read()[:200]}")
            for line in reply:
                if time.monotonic() > deadline:
                    raise Late
                if not line.startswith(b"data: {"):
                    continue
                chunk = json.loads(line[6:])
                told.engine = chunk.get("x_mlx_dspark", told.engine)
                choices = chunk.get("choices") or [{}]
                delta = choices[0].get("delta") or {}
                said = (delta.get("content") or "") + (delta.get("reasoning_content") or delta.get("reasoning") or "")
                if said:
                    told.first = told.first or time.perf_counter() - begin
                    told.text, told.chunks = told.text + said, told.chunks + 1
                    if on_token and on_token() is False:
                        break
        except TimeoutError as late:
            raise Late from late
        finally:
            connection.close()
        told.wall = time.perf_counter() - begin
        if told.first is None:
            # A reply without text: what came first was its end.
            told.first = told.wall
        return told

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


def conversation(server, tokens, deadline):
    """Seconds to the first token: cold, of turn 2, and of turn 3 after a side call."""
    unique = f"Note {time.time_ns()}. "
    words = TEXT * max(tokens // TEXT_TOKENS, 1)
    talk = [{"role": "system", "content": unique + words}, {"role": "user", "content": "Who buys the most fish?"}]
    cold = server.chat(talk, ANSWER, deadline)
    talk += [{"role": "assistant", "content": cold.text}, {"role": "user", "content": "And who the least?"}]
    second = server.chat(talk, ANSWER, deadline)
    side = [{"role": "user", "content": unique + "Write a title of five words for a talk about fish."}]
    server.chat(side, 2, deadline)
    talk += [{"role": "assistant", "content": second.text}, {"role": "user", "content": "Thank you. Why?"}]
    third = server.chat(talk, ANSWER, deadline)
    return cold.first, second.first, third.first


def rates(server, path, budget, seconds=3, connections=4):
    """Requests a second on a path while a stream runs, and the stream's chunks a second meanwhile; None where no stream
    began in time."""
    count, tokens, stop = [0] * connections, [0], threading.Event()
    deadline = time.monotonic() + budget

    def token():
        tokens[0] += 1
        return not stop.is_set()

    def stream():
        try:
            server.chat([{"role": "user", "content": "Count from one to five hundred in words."}], 400, deadline, token)
        except (OSError, Late, http.client.HTTPException):
            pass

    reader = threading.Thread(target=stream, daemon=True)
    reader.start()
    while tokens[0] == 0 and reader.is_alive() and time.monotonic() < deadline - seconds:
        time.sleep(0.01)
    if tokens[0] == 0:
        stop.set()
        return None

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
    took, during, done = time.monotonic() - begin, tokens[0] - before, sum(count)
    stop.set()
    for thread in threads:
        thread.join(35)
    # The stream is let go at its next token.
    reader.join(60)
    return done / took, during / took


def overheads(server, budget, requests=20, tokens=64):
    """Milliseconds of a request of one cached token, of those beyond the engine's own, CPU milliseconds of the server's
    process, and microseconds a token of a stream beyond the engine's own; None where the server does not tell the engine's."""
    deadline = time.monotonic() + budget
    one = [{"role": "user", "content": "hi"}]

    def own(reply):
        block = reply.engine
        return sum(block.get(key, 0) for key in ("prefill_seconds", "decode_seconds", "queue_seconds")) if block else None

    wall, beyond, spent = [], [], []
    try:
        for _ in range(requests):
            cpu = server.cpu()
            reply = server.chat(one, 1, deadline)
            wall.append(reply.wall)
            if own(reply) is not None:
                beyond.append(reply.wall - own(reply))
            if cpu is not None:
                spent.append(server.cpu() - cpu)
    except Late:
        pass
    each = []
    try:
        for _ in range(3):
            reply = server.chat([{"role": "user", "content": "Count in words."}], tokens, deadline)
            if own(reply) is not None and reply.chunks > 1:
                each.append((reply.wall - own(reply)) / reply.chunks)
    except Late:
        pass
    middle = lambda values, scale: statistics.median(values) * scale if values else None  # noqa: E731
    # The clock of processes is coarse: the mean of many says more than the median.
    cpu = sum(spent) / len(spent) * 1e3 if spent else None
    return len(wall), middle(wall, 1e3), middle(beyond, 1e3), cpu, middle(each, 1e6)


def servers(folder, home, python, reference):
    """Name, command, a path that answers once the model is there, and a home of its own."""
    ours = ROOT / "target/release/mlx-dspark"
    found = {"ours": ([ours, "serve", "--model", folder, "--port", "{port}", "--quiet"], "/v1/models", None)}
    if python:
        words = [python, "-m", "mlx_lm", "server", "--model", folder, "--host", "127.0.0.1", "--port", "{port}"]
        found["mlx_lm.server"] = (words, "/v1/models", home / "peers")
    if reference:
        words = [reference, "serve", "--model", folder, "--mode", "baseline", "--host", "127.0.0.1", "--port", "{port}"]
        found["mlx-dspark (Python)"] = (words, "/v1/models", home / "peers")
    return found


def show(value, form):
    return form.format(value) if value is not None else "-"


def progress(text):
    print(f"[{time.strftime('%T')}] {text}", file=sys.stderr, flush=True)


def start(commands):
    found = {}
    for name, (command, ready, home) in commands.items():
        try:
            server = Running(command, ready, home)
            server.chat([{"role": "user", "content": "hi"}], 2, time.monotonic() + START)
            progress(f"{name} is ready after {server.started:.0f} s")
            found[name] = server
        except (OSError, Late, http.client.HTTPException) as error:
            progress(f"{name} is left out: {error!r}")
    return found


def turns(found, rounds, tokens, budget, table):
    """Conversations, the servers in turns."""
    times, spent = {name: [] for name in found}, dict.fromkeys(found, 0.0)
    for turn in range(rounds):
        for name in list(found) if turn % 2 == 0 else list(found)[::-1]:
            left = budget - spent[name]
            if left <= 0:
                continue
            begin = time.monotonic()
            try:
                times[name].append(conversation(found[name], tokens, begin + left))
                progress(f"{name}, round {turn + 1}: " + ", ".join(f"{value:.2f} s" for value in times[name][-1]))
            except (OSError, http.client.HTTPException) as error:
                progress(f"{name}: {error!r}")
            except Late:
                progress(f"{name}: its {budget} s are over")
            spent[name] += time.monotonic() - begin
    rows = []
    for name, all_times in times.items():
        if not all_times:
            rows.append([name, "0", "-", "-", "-", "-", "-"])
            continue
        cold, second, third = (statistics.median(column) for column in zip(*all_times))
        row = [name, str(len(all_times)), f"{cold:.2f} s", f"{second:.3f} s", f"{third:.3f} s"]
        rows.append(row + [f"{cold / second:.1f}x", f"{cold / third:.1f}x"])
    head = ["time to the first token", "runs", "turn 1, cold", "turn 2", "turn 3, after a side call", "cold / turn 2", "cold / turn 3"]
    table(head, rows)


def run(home, python, reference, rounds, tokens, budget, table):
    folder = weights(home, python)
    print(f"### The server: {folder.name}, a prompt of about {tokens} tokens, answers of {ANSWER}\n", flush=True)
    found = start(servers(folder, home, python, reference))
    try:
        turns(found, rounds, tokens, budget, table)

        rows = []
        for name, server in found.items():
            row = [name]
            for path in ("/health", "/v1/models"):
                rate, pace = rates(server, path, budget / 4) or (None, None)
                row += [show(rate, "{:.0f}"), show(pace, "{:.1f}")]
            progress(f"{name}: requests a second are counted")
            rows.append(row)
        table(["while a stream runs", "/health, requests/s", "stream, chunks/s", "/v1/models, requests/s", "stream, chunks/s"], rows)

        rows = []
        for name, server in found.items():
            count, wall, beyond, cpu, each = overheads(server, budget / 2)
            progress(f"{name}: {count} requests of one token")
            rows.append(
                [name, str(count), show(wall, "{:.1f} ms"), show(beyond, "{:.2f} ms"), show(cpu, "{:.0f} ms"), show(each, "{:.0f} µs")]
            )
        head = ["one cached prompt, one token", "requests", "wall", "of it not the engine's", "CPU of the server", "a streamed token beyond the engine"]
        table(head, rows)
    finally:
        for server in found.values():
            server.stop()
    overhead = ROOT / "target/release/examples/overhead"
    if not overhead.exists():
        return print("what serving adds is not measured: build it with `cargo build --release -p dspark-serve --examples`\n")
    print("What serving adds to an engine that costs nothing (a scripted one), over HTTP on this machine:\n", flush=True)
    subprocess.run([overhead], check=False, timeout=300)
    print()
