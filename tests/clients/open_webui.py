"""What Open WebUI asks of a server, in its order: the model list, a chat's streamed turn, then its tasks (title, tags, follow-ups)
with the talk pasted into a new message, then the next turn.

    python open_webui.py --url http://127.0.0.1:8080 [--model-only]

Its extra fields must be no hindrance, its lists fast, and the tasks must not cost the chat its cache (with a model: the second
turn computes little more than what is new in it). Standard library only.
"""

import argparse
import json
import sys
import time
import urllib.request


class Server:
    def __init__(self, url):
        self.url = url.rstrip("/")

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer none", "User-Agent": "Python/3.11 aiohttp/3.12 open-webui"}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=600) as reply:
            return reply.read().decode()

    def chat(self, body):
        return json.loads(self.ask("/v1/chat/completions", body))

    def stream(self, body):
        text, usage, ended, told = "", None, False, {}
        for line in self.ask("/v1/chat/completions", {**body, "stream": True}).split("\n"):
            if line == "data: [DONE]":
                ended = True
            elif line.startswith("data: "):
                chunk = json.loads(line[6:])
                usage, told = chunk.get("usage") or usage, chunk.get("x_mlx_dspark") or told
                for choice in chunk["choices"]:
                    text += choice["delta"].get("content") or ""
        assert ended, "the stream does not end with [DONE]"
        return text, usage, told


# Sent by its advanced parameters, though no OpenAI server knows them.
EXTRA = {"num_ctx": 8192, "mirostat": 0, "keep_alive": "5m", "custom_params": {"a": 1}, "tfs_z": 1.0, "session_id": "s", "chat_id": "c", "id": "m"}

TASKS = {
    "title": ('Write a short title for the talk.', '{ "title": "…" }', "title_generation"),
    "tags": ("Name one to three tags for the talk.", '{ "tags": ["…"] }', "tags_generation"),
    "follow_ups": ("Suggest three questions that the user may ask next.", '{ "follow_ups": ["…"] }', "follow_up_generation"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model-only", action="store_true", help="a real model answers: its cache is looked at")
    options = parser.parse_args()
    server, passed = Server(options.url), 0

    def ok(what):
        nonlocal passed
        passed += 1
        print("ok", what)

    begin = time.perf_counter()
    for _ in range(10):
        model = json.loads(server.ask("/v1/models"))["data"][0]["id"]
    each = (time.perf_counter() - begin) / 10
    assert each < 0.5, f"the model list takes {each:.2f} s"
    ok(f"model list ({each * 1e3:.0f} ms)")

    words = "A ship that leaves the harbour at noon meets the tide in the narrow channel. " * 20
    talk = [{"role": "system", "content": words}, {"role": "user", "content": "When does it leave?"}]
    base = {"model": model, "stream_options": {"include_usage": True}, "max_tokens": 24, "temperature": 0, **EXTRA}
    said, usage, _ = server.stream({**base, "messages": talk})
    assert usage["completion_tokens"] > 0
    ok("a streamed turn with fields of its own")

    history = "\n".join(f"{turn['role'].upper()}: {turn['content']}" for turn in talk[1:]) + f"\nASSISTANT: {said}"
    for name, (ask, form, task) in TASKS.items():
        prompt = f"### Task:\n{ask}\n### Output:\nJSON format: {form}\n### Chat History:\n<chat_history>\n{history}\n</chat_history>"
        body = {"model": model, "messages": [{"role": "user", "content": prompt}], "stream": False, "max_completion_tokens": 24, "metadata": {"task": task}}
        reply = server.chat(body)
        assert reply["choices"][0]["finish_reason"] in ("stop", "length"), reply
        ok(f"task {name}")
    partial = {"model": model, "messages": [{"role": "user", "content": "### Task:\nComplete the text: The ship lea"}], "stream": True, "max_tokens": 8}
    server.stream(partial)
    ok("task autocompletion")

    talk += [{"role": "assistant", "content": said}, {"role": "user", "content": "And what does it meet?"}]
    _, usage, told = server.stream({**base, "messages": talk})
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    if options.model_only:
        assert cached > usage["prompt_tokens"] / 2, f"{cached} of {usage['prompt_tokens']} tokens reused after the tasks: {told}"
    ok(f"the next turn ({cached} of {usage['prompt_tokens']} prompt tokens reused)")
    print(f"Open WebUI: {passed} checks passed")


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, OSError, KeyError) as error:
        print(f"FAILED: {error}")
        sys.exit(1)
