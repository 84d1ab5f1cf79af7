"""Abuse of a running server, with a table of what came of it.

    python soak.py --url http://127.0.0.1:8080 --pid PID [--requests 2000] [--streams 50] [--seed 1]

Mixed requests of every dialect, some of which hang up at a random moment, read slowly, stop half-way through a head or a
body, or send what no server should swallow. Every reply must be well formed in its dialect. Then: how many rounds the engine
goes on after its client has left; many streams at once; and whether memory, threads and descriptors of the process are back
where they were. Standard library only. Ends with a non-zero status at the first thing that does not hold.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
import urllib.parse

BUSY = (429, 503)


class Wrong(Exception):
    pass


def need(truth, what):
    if not truth:
        raise Wrong(what)


class Server:
    def __init__(self, url, pid, key):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.pid, self.key = parts.hostname, parts.port, pid, key
        self.limit = 1 << 20

    def head(self, method, path, length, more=""):
        key = f"Authorization: Bearer {self.key}\r\n" if self.key else ""
        return (
            f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nConnection: close\r\n{key}"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n"
        ).encode()

    async def open(self):
        return await asyncio.open_connection(self.host, self.port, limit=1 << 24)

    async def ask(self, method, path, body=None, wait=120, raw=None):
        """Status, headers and body of one exchange."""
        data = raw if raw is not None else (b"" if body is None else json.dumps(body).encode())
        reader, writer = await self.open()
        try:
            writer.write(self.head(method, path, len(data)))
            try:
                writer.write(data)
                await writer.drain()
            except ConnectionError:
                pass  # A server that refuses early may close before everything is written.
            return split(await asyncio.wait_for(reader.read(), wait))
        finally:
            writer.close()

    async def json(self, path):
        status, _, body = await self.ask("GET", path)
        need(status in (200, 503), f"{path}: {status}")
        return json.loads(body)

    def process(self):
        """Resident bytes, threads, descriptors; None where the system does not tell."""
        try:
            with open(f"/proc/{self.pid}/status") as status:
                lines = dict(line.split(":", 1) for line in status if ":" in line)
            return int(lines["VmRSS"].split()[0]) * 1024, int(lines["Threads"]), len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return None


def split(reply):
    head, found, body = reply.partition(b"\r\n\r\n")
    need(found, f"no head in {reply[:80]!r}")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = unchunk(body)
    elif "content-length" in headers:
        need(len(body) == int(headers["content-length"]), f"{len(body)} bytes of {headers['content-length']}")
    return int(first.split()[1]), headers, body


def unchunk(body):
    out = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return out
        out, body = out + body[:length], body[length + 2 :]


def events(body):
    """(name or None, data) of every frame of a stream, which must end with one."""
    text = body.decode()
    need(text.endswith("\n\n"), f"the stream ends inside a frame: {text[-80:]!r}")
    for frame in text[:-2].split("\n\n"):
        lines = [line for line in frame.split("\n") if not line.startswith(":")]
        if not lines:
            continue
        name = lines[0][7:] if lines[0].startswith("event: ") else None
        data = lines[1 if name else 0]
        need(data.startswith("data: "), f"not a frame: {frame!r}")
        yield name, data[6:]


# ---- well formed, by dialect -------------------------------------------------------------------------------------------


def error_of(path, body):
    reply = json.loads(body)
    if "messages" in path:
        need(reply["type"] == "error" and reply["error"]["type"] and reply["error"]["message"] and reply["request_id"], reply)
    else:
        need(reply["error"]["message"] and reply["error"]["type"], reply)


def chat(body):
    reply = json.loads(body)
    need(reply["object"] == "chat.completion" and reply["usage"]["total_tokens"] > 0, reply)
    for choice in reply["choices"]:
        need(choice["finish_reason"] in ("stop", "length", "tool_calls") and "content" in choice["message"], choice)


def chat_stream(body):
    frames = [data for _, data in events(body)]
    need(frames[-1] == "[DONE]", frames[-1])
    chunks = [json.loads(data) for data in frames[:-1]]
    need(chunks[0]["choices"][0]["delta"].get("role") == "assistant", chunks[0])
    need(len({chunk["id"] for chunk in chunks}) == 1, "ids differ within a stream")
    ends = [chunk for chunk in chunks if chunk["choices"] and chunk["choices"][0]["finish_reason"]]
    need(len(ends) == 1 and all("finish_reason" in chunk["choices"][0] for chunk in chunks if chunk["choices"]), f"{len(ends)} ends")
    for call in (call for chunk in chunks if chunk["choices"] for call in chunk["choices"][0]["delta"].get("tool_calls", [])):
        need(isinstance(call["index"], int), call)


def text(body):
    reply = json.loads(body)
    need(reply["object"] == "text_completion" and isinstance(reply["choices"][0]["text"], str), reply)


def text_stream(body):
    frames = [data for _, data in events(body)]
    need(frames[-1] == "[DONE]", frames[-1])
    need(all(json.loads(data)["object"] == "text_completion" for data in frames[:-1]), "another object")


def message(body):
    reply = json.loads(body)
    need(reply["type"] == "message" and reply["content"] and reply["stop_reason"], reply)
    need({"input_tokens", "output_tokens"} <= reply["usage"].keys(), reply["usage"])


def message_stream(body):
    told = [(name, json.loads(data)) for name, data in events(body)]
    need(all(name == data["type"] for name, data in told), "a name is not its type")
    names = [name for name, _ in told if name != "ping"]
    need(names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"], names[-3:])
    starts = [data["index"] for name, data in told if name == "content_block_start"]
    need(starts == list(range(len(starts))) and starts, starts)
    need(names.count("content_block_stop") == len(starts), "a block is left open")


def response(body):
    reply = json.loads(body)
    need(reply["object"] == "response" and reply["status"] in ("completed", "incomplete") and "usage" in reply, reply)


def response_stream(body):
    told = [(name, json.loads(data)) for name, data in events(body)]
    numbers = [data["sequence_number"] for _, data in told]
    need(numbers == list(range(len(numbers))), "sequence numbers")
    need(told[0][0] == "response.created" and told[-1][0] in ("response.completed", "response.incomplete"), told[-1][0])
    added = sum(name == "response.output_item.added" for name, _ in told)
    need(added == sum(name == "response.output_item.done" for name, _ in told), "an item is left open")


def counted(body):
    need(json.loads(body)["input_tokens"] > 0, body)


TOOL = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
WORDS = "why does the ledger differ from the bank by one cent every second friday when nobody touches it".split()


def said(dice, least=1, most=40):
    return " ".join(dice.choice(WORDS) for _ in range(dice.randint(least, most)))


def bodies(dice):
    """One request of each kind: its path, its body, and what its reply must be."""
    limit = dice.choice([1, 4, 16, 40])
    talk = [{"role": "user", "content": said(dice)}]
    if dice.random() < 0.4:
        talk = [{"role": "system", "content": said(dice)}, *talk, {"role": "assistant", "content": said(dice)}, {"role": "user", "content": "go on"}]
    plain = [turn for turn in talk if turn["role"] != "system"]
    tools = dice.random() < 0.3
    openai = {"messages": talk, "max_tokens": limit, "temperature": dice.choice([0, 0.8]), "seed": dice.randint(0, 99)}
    if tools:
        openai["tools"] = [{"type": "function", "function": {"name": "bash", "parameters": TOOL}}]
    anthropic = {"model": "claude-x", "messages": plain, "max_tokens": limit}
    if tools:
        anthropic["tools"] = [{"name": "bash", "input_schema": TOOL}]
    responses = {"input": plain, "max_output_tokens": max(limit, 4)}
    legacy = {"prompt": said(dice), "max_tokens": limit}
    yield "chat", "/v1/chat/completions", openai, chat
    yield "chat stream", "/v1/chat/completions", {**openai, "stream": True, "stream_options": {"include_usage": True}}, chat_stream
    yield "completions", "/v1/completions", legacy, text
    yield "completions stream", "/v1/completions", {**legacy, "stream": True}, text_stream
    yield "messages", "/v1/messages?beta=true", anthropic, message
    yield "messages stream", "/v1/messages", {**anthropic, "stream": True}, message_stream
    yield "responses", "/v1/responses", responses, response
    yield "responses stream", "/v1/responses", {**responses, "stream": True}, response_stream
    yield "count_tokens", "/v1/messages/count_tokens", anthropic, counted


BROKEN = [
    b"", b"{", b"null", b"[]", b'"text"', b"{\"messages\": 3}", b"{\"messages\": []}", b"{\"messages\": [{\"role\": 7}]}", b"\xff\xfe{}",
    b'{"messages": [{"role": "user", "content": {"a": 1}}]}', b'{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}',
    b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1e999}', b"[" * 5000, b'{"input": 3}', b'{"prompt": {}}',
    b'{"messages": [{"role": "user", "content": "x"}], "tools": 3}', b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
]
PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/v1/messages/count_tokens"]


class Soak:
    def __init__(self, server, seed):
        self.server, self.dice = server, random.Random(seed)
        self.rows, self.faults = {}, []

    def note(self, kind, outcome, seconds):
        row = self.rows.setdefault(kind, {"times": []})
        row[outcome] = row.get(outcome, 0) + 1
        row["times"].append(seconds)

    async def one(self, dice):
        kind = dice.choices(["well", "leave", "slow", "half", "broken", "huge", "look"], [60, 14, 4, 4, 10, 2, 6])[0]
        name, began = kind, time.perf_counter()
        try:
            name, outcome = await getattr(self, kind)(dice)
        except Wrong as wrong:
            outcome = "WRONG"
            self.faults.append(f"{name}: {str(wrong)[:300]}")
        except (OSError, asyncio.TimeoutError, ValueError, KeyError, IndexError, TypeError) as error:
            outcome = "WRONG"
            self.faults.append(f"{name}: {type(error).__name__} {str(error)[:300]}")
        self.note(name, outcome, time.perf_counter() - began)

    async def well(self, dice):
        name, path, body, check = dice.choice(list(bodies(dice)))
        status, headers, reply = await self.server.ask("POST", path, body)
        need(headers.get("x-request-id", "").startswith("req_"), "no request id")
        if status in BUSY:
            error_of(path, reply)
            need("retry-after" in headers, "busy without Retry-After")
            return name, "busy"
        need(status == 200, f"{status} {reply[:200]!r}")
        check(reply)
        return name, "ok"

    async def leave(self, dice):
        """Hangs up at some moment: while it sends, while it waits, or in the middle of the reply."""
        _, path, body, _ = dice.choice(list(bodies(dice)))
        body = {**body, "max_tokens": 200} if "max_tokens" in body else body
        data = json.dumps(body).encode()
        reader, writer = await self.server.open()
        try:
            if dice.random() < 0.2:
                writer.write((self.server.head("POST", path, len(data)) + data)[: dice.randint(1, 400)])
            else:
                writer.write(self.server.head("POST", path, len(data)) + data)
                await asyncio.wait_for(reader.read(dice.choice([1, 100, 600])), 60) if dice.random() < 0.5 else await asyncio.sleep(dice.random() / 4)
        finally:
            writer.transport.abort() if dice.random() < 0.5 else writer.close()
        return "hung up", "left"

    async def slow(self, dice):
        """A reader of a few bytes at a time."""
        _, path, body, check = next(found for found in bodies(dice) if found[0] == "chat stream")
        data = json.dumps(body).encode()
        reader, writer = await self.server.open()
        reply = b""
        try:
            writer.write(self.server.head("POST", path, len(data)) + data)
            while part := await asyncio.wait_for(reader.read(dice.randint(50, 400)), 120):
                reply += part
                await asyncio.sleep(0.005)
        finally:
            writer.close()
        status, _, reply = split(reply)
        if status in BUSY:
            return "slow reader", "busy"
        check(reply)
        return "slow reader", "ok"

    async def half(self, dice):
        """Goes silent in a head or a body, and must be let go."""
        reader, writer = await self.server.open()
        try:
            whole = self.server.head("POST", "/v1/chat/completions", 500) + b'{"messages": ['
            writer.write(whole[: dice.choice([10, 60, len(whole)])])
            reply = await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()
        if reply:
            status, _, _ = split(reply)
            need(status in (400, 408), status)
        return "half-open", "closed"

    async def broken(self, dice):
        path, data = dice.choice(PATHS), dice.choice(BROKEN)
        if path == "/v1/completions" and b"messages" in data or path == "/v1/responses" and b"messages" in data:
            path = "/v1/chat/completions"
        if path != "/v1/chat/completions" and (b"temperature" in data or b"1e999" in data or b"tools" in data or b"ud800" in data):
            path = "/v1/chat/completions"
        status, _, reply = await self.server.ask("POST", path, raw=data)
        need(400 <= status < 500, f"{path} {data[:60]!r}: {status} {reply[:100]!r}")
        error_of(path, reply)
        return "malformed body", "refused"

    async def huge(self, dice):
        path = dice.choice(PATHS)
        data = b'{"messages": [{"role": "user", "content": "' + b"x" * (self.server.limit + 1000) + b'"}]}'
        try:
            status, _, reply = await self.server.ask("POST", path, raw=data)
        except ConnectionError:
            # It was refused before it was sent whole, and the sender was too slow to read why.
            return "oversized body", "refused"
        need(status == 413, f"{status} {reply[:100]!r}")
        error_of(path, reply)
        return "oversized body", "refused"

    async def look(self, dice):
        path = dice.choice(["/health", "/v1/models", "/metrics", "/rounds", "/admin/requests", "/admin/status"])
        status, _, reply = await self.server.ask("GET", path, wait=20)
        need(status == 200, status)
        json.loads(reply)
        return "GET", "ok"

    async def mixed(self, count, width=16):
        dice = [random.Random(self.dice.random()) for _ in range(count)]
        gate = asyncio.Semaphore(width)

        async def run(own):
            async with gate:
                await self.one(own)

        await asyncio.gather(*(run(own) for own in dice))
        await self.idle()

    async def idle(self):
        for _ in range(1200):
            if not (await self.server.json("/admin/requests"))["requests"]:
                return
            await asyncio.sleep(0.05)
        raise Wrong("the engine is still busy a minute after the last client")

    async def streams(self, count):
        """Many streams at once; each ends well, or is told that the queue is full."""
        began = time.perf_counter()

        async def one(index):
            body = {"messages": [{"role": "user", "content": f"stream {index}"}], "max_tokens": 12, "stream": True}
            status, headers, reply = await self.server.ask("POST", "/v1/chat/completions", body, wait=600)
            if status in BUSY:
                need("retry-after" in headers, "busy without Retry-After")
                return "busy"
            chat_stream(reply)
            return "ok"

        for outcome in await asyncio.gather(*(one(index) for index in range(count))):
            self.note(f"{count} streams at once", outcome, time.perf_counter() - began)

    async def rounds_after_leaving(self, times):
        """Rounds that the engine still runs for a client that is gone; [streaming], [not]."""
        found = {True: [], False: []}
        for index in range(times):
            stream = index % 2 == 0
            before = (await self.server.json("/metrics"))["completion_tokens"]
            body = {"messages": [{"role": "user", "content": "count to a thousand"}], "max_tokens": 400, "stream": stream, "ignore_eos": True}
            data = json.dumps(body).encode()
            reader, writer = await self.server.open()
            writer.write(self.server.head("POST", "/v1/chat/completions", len(data)) + data)
            generated = 0
            while generated < 5:
                live = (await self.server.json("/admin/requests"))["requests"]
                generated = live[0]["generated"] if live else 0
            writer.transport.abort()
            await self.idle()
            after = before
            for _ in range(100):
                after = (await self.server.json("/metrics"))["completion_tokens"]
                if after > before:
                    break
                await asyncio.sleep(0.02)
            found[stream].append(after - before - generated)
        return found


def table(rows):
    print("| requests | ok | refused, left, closed | busy | wrong | median ms | longest ms |")
    print("|---|---|---|---|---|---|---|")
    for kind, row in sorted(rows.items()):
        times = row["times"]
        meant = sum(row.get(name, 0) for name in ("refused", "left", "closed"))
        print(
            f"| {kind} | {row.get('ok', 0)} | {meant} | {row.get('busy', 0)} | {row.get('WRONG', 0)} "
            f"| {statistics.median(times) * 1e3:.0f} | {max(times) * 1e3:.0f} |"
        )


async def soak(options):
    server = Server(options.url, options.pid, options.key)
    server.limit = options.body_limit
    soak = Soak(server, options.seed)
    # The first pass fills what is kept on purpose: caches, pools, tables.
    await soak.mixed(max(options.requests // 4, 60))
    await soak.streams(options.streams)
    await soak.idle()
    soak.rows.clear()
    await asyncio.sleep(1)
    before = server.process()
    await soak.mixed(options.requests)
    await soak.streams(options.streams)
    late = await soak.rounds_after_leaving(options.leaves)
    await soak.idle()
    # Idle threads of a pool go after some seconds, and the allocator gives back what it held.
    deadline = time.monotonic() + options.settle
    while True:
        await asyncio.sleep(1)
        after = server.process()
        if not before or not after or time.monotonic() > deadline or all(now <= then for now, then in zip(after[1:], before[1:])):
            break
    table(soak.rows)
    print(f"\nrounds after the client left: streaming {late[True]}, whole replies {late[False]}")
    for fault in soak.faults[:20]:
        print("WRONG", fault)
    wrong = list(soak.faults)
    most = max(late[True] + late[False], default=0)
    if most > options.late:
        wrong.append(f"{most} rounds after a client had left")
    if before and after:
        growth = (after[0] - before[0]) / before[0] * 100
        print(f"resident {before[0] / 1e6:.1f} MB before, {after[0] / 1e6:.1f} MB after ({growth:+.1f} %)")
        print(f"threads {before[1]} before, {after[1]} after; descriptors {before[2]} before, {after[2]} after")
        if after[0] - before[0] > max(before[0] * 0.05, options.slack * 1e6):
            wrong.append(f"memory grew by {growth:.1f} %")
        if after[1] > before[1] or after[2] > before[2]:
            wrong.append(f"threads or descriptors leak: {before[1:]}, then {after[1:]}")
    total = sum(len(row["times"]) for row in soak.rows.values())
    print(f"soak: {total} requests, {len(wrong)} wrong")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--pid", type=int, required=True, help="the server's process, whose memory, threads and descriptors are watched")
    parser.add_argument("--key")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--leaves", type=int, default=10)
    parser.add_argument("--late", type=int, default=1, help="rounds that may still run for a client that is gone")
    parser.add_argument("--slack", type=float, default=2, help="megabytes of growth that are no leak, where 5 %% are less")
    parser.add_argument("--settle", type=float, default=20, help="seconds that the process has to get back where it was")
    parser.add_argument("--body-limit", type=int, default=64 << 20)
    parser.add_argument("--seed", type=int, default=1)
    wrong = asyncio.run(soak(parser.parse_args()))
    for what in wrong[:20]:
        print("does not hold:", what, file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
