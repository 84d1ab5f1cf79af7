"""Replies of every OpenAI route against the schema that OpenAI publishes.

    python schema.py --url http://127.0.0.1:8080 [--schema openapi.yaml] [--key KEY]

The schema is not kept here: it is fetched, or read from a file. Where it cannot be had the program says SKIPPED and ends well.
Needs `jsonschema` and `PyYAML`. A server whose model calls a tool when it is told CALL has its calls checked too.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
import warnings

PUBLISHED = "https://raw.githubusercontent.com/openai/openai-openapi/master/openapi.yaml"


def published(place):
    import yaml

    try:
        if "://" in place:
            with urllib.request.urlopen(place, timeout=30) as reply:
                text = reply.read()
        else:
            with open(place, "rb") as file:
                text = file.read()
    except (OSError, urllib.error.URLError) as error:
        print(f"SKIPPED: the published schema cannot be had ({error}); nothing was validated")
        sys.exit(0)
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def plain(node):
    """OpenAPI's words as JSON Schema's: `nullable`, and discriminators, which only tell which branch to take first."""
    if isinstance(node, list):
        return [plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {key: plain(value) for key, value in node.items() if key not in ("discriminator", "example", "examples", "x-oaiMeta")}
    if out.pop("nullable", False):
        out = {"anyOf": [out, {"type": "null"}]}
    return out


def forgive(reply):
    """Two nulls that OpenAI's own streams have, as its API reference shows them, and its schema does not allow: `usage` of a
    response that is still in progress, and `finish_reason` of a text completion's chunk that is not the last."""
    reply = json.loads(json.dumps(reply))
    if reply.get("response", {}).get("status") == "in_progress" and reply["response"].get("usage", 0) is None:
        del reply["response"]["usage"]
    if reply.get("object") == "text_completion":
        for choice in reply["choices"]:
            choice["finish_reason"] = choice["finish_reason"] or "stop"
    return reply


class Schema:
    def __init__(self, document):
        import jsonschema

        warnings.simplefilter("ignore", DeprecationWarning)
        self.root = plain(document)
        self.jsonschema = jsonschema
        self.names = set(self.root["components"]["schemas"])

    def check(self, name, reply, what):
        reply = forgive(reply)
        assert name in self.names, f"the schema has no {name}"
        schema = {"$ref": f"#/components/schemas/{name}", "components": self.root["components"]}
        validator = self.jsonschema.Draft202012Validator(schema)
        errors = [self.jsonschema.exceptions.best_match([error]) for error in validator.iter_errors(reply)]
        if errors:
            told = "; ".join(f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in errors[:5])
            print(f"WRONG {what} is no {name}: {told}\n  {json.dumps(reply)[:600]}")
            return False
        print("ok", what, "is a", name)
        return True


class Server:
    def __init__(self, url, key):
        self.url, self.key = url.rstrip("/"), key

    def ask(self, path, body=None):
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                return reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def json(self, path, body=None):
        return json.loads(self.ask(path, body))

    def events(self, path, body):
        for line in self.ask(path, {**body, "stream": True}).split("\n"):
            if line.startswith("data: ") and line != "data: [DONE]":
                yield json.loads(line[6:])


TOOL = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
# The published name of each event of a Responses stream.
EVENTS = {
    "response.created": "ResponseCreatedEvent",
    "response.in_progress": "ResponseInProgressEvent",
    "response.completed": "ResponseCompletedEvent",
    "response.incomplete": "ResponseIncompleteEvent",
    "response.failed": "ResponseFailedEvent",
    "response.output_item.added": "ResponseOutputItemAddedEvent",
    "response.output_item.done": "ResponseOutputItemDoneEvent",
    "response.content_part.added": "ResponseContentPartAddedEvent",
    "response.content_part.done": "ResponseContentPartDoneEvent",
    "response.output_text.delta": "ResponseTextDeltaEvent",
    "response.output_text.done": "ResponseTextDoneEvent",
    "response.function_call_arguments.delta": "ResponseFunctionCallArgumentsDeltaEvent",
    "response.function_call_arguments.done": "ResponseFunctionCallArgumentsDoneEvent",
    "response.reasoning_text.delta": "ResponseReasoningTextDeltaEvent",
    "response.reasoning_text.done": "ResponseReasoningTextDoneEvent",
}


def checks(schema, server, model):
    talk = [{"role": "user", "content": "Say something about the sea."}]
    call = [{"role": "user", "content": "CALL"}]
    chat = {"model": model, "messages": talk, "max_tokens": 16}
    tools = [{"type": "function", "function": TOOL}]
    yield schema.check("ListModelsResponse", server.json("/v1/models"), "GET /v1/models")
    yield schema.check("Model", server.json(f"/v1/models/{model}"), "GET /v1/models/{id}")
    for what, body in [
        ("plain", chat),
        ("two choices", {**chat, "n": 2, "temperature": 0.8}),
        ("log-probabilities", {**chat, "logprobs": True, "top_logprobs": 2}),
        ("a call", {**chat, "messages": call, "tools": tools, "max_tokens": 200}),
        ("cut off", {**chat, "max_tokens": 1}),
    ]:
        yield schema.check("CreateChatCompletionResponse", server.json("/v1/chat/completions", body), f"chat, {what}")
        if body.get("n", 1) == 1:
            chunks = list(server.events("/v1/chat/completions", {**body, "stream_options": {"include_usage": True}}))
            assert chunks, what
            names = [schema.check("CreateChatCompletionStreamResponse", chunk, f"chunk of chat, {what}") for chunk in [chunks[0], chunks[len(chunks) // 2], *chunks[-2:]]]
            yield all(names)
    legacy = {"model": model, "prompt": "The sea", "max_tokens": 8}
    yield schema.check("CreateCompletionResponse", server.json("/v1/completions", legacy), "completions")
    yield schema.check("CreateCompletionResponse", server.json("/v1/completions", {**legacy, "logprobs": 2, "echo": True}), "completions, echo")
    for chunk in list(server.events("/v1/completions", legacy))[:2]:
        yield schema.check("CreateCompletionResponse", chunk, "chunk of completions")
    responses = {"model": model, "input": talk, "max_output_tokens": 64}
    flat = [{"type": "function", "strict": False, **TOOL}]
    for what, body in [("plain", responses), ("a call", {**responses, "input": call, "tools": flat, "max_output_tokens": 200}), ("cut off", {**responses, "max_output_tokens": 1})]:
        yield schema.check("Response", server.json("/v1/responses", body), f"responses, {what}")
        seen = set()
        for event in server.events("/v1/responses", body):
            kind = event["type"]
            if kind not in seen and EVENTS.get(kind) in schema.names:
                yield schema.check(EVENTS[kind], event, f"{kind}, {what}")
            seen.add(kind)
    refused = server.json("/v1/chat/completions", {"model": model, "messages": []})
    yield schema.check("ErrorResponse", refused, "a refusal")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--schema", default=PUBLISHED)
    parser.add_argument("--key")
    options = parser.parse_args()
    server = Server(options.url, options.key)
    schema = Schema(published(options.schema))
    model = server.json("/v1/models")["data"][0]["id"]
    results = list(checks(schema, server, model))
    print(f"schema: {sum(results)} of {len(results)} replies as published")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
