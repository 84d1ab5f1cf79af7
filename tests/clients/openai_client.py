"""Drives a running server with OpenAI's own Python client, the way applications do.

    python openai_client.py --base-url http://127.0.0.1:8080/v1 [--api-key K] [--scripted]

`--scripted` adds the checks that need the scripted double of `dspark_protocol::double`. Prints one line a check, ends
with status 1 at the first that fails.
"""

import argparse
import asyncio
import json
import time
import urllib.request
from typing import Literal

import openai
from openai import AsyncOpenAI, OpenAI
from openai.types import Completion
from openai.types.chat import ChatCompletion
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, Field, TypeAdapter

EVENT = TypeAdapter(ResponseStreamEvent)

PROMPT = [{"role": "user", "content": "Count from one to twenty in words."}]


class City(BaseModel):
    name: str = Field(min_length=1, max_length=12)
    kind: Literal["town", "city"]
    population: int = Field(ge=1, le=99_999_999)
    sights: list[Literal["river", "tower", "market"]] = Field(min_length=1, max_length=2)


class Checks:
    def __init__(self, base_url, api_key):
        self.base_url, self.api_key = base_url, api_key
        self.client = OpenAI(base_url=base_url, api_key=api_key, max_retries=0, timeout=120)
        self.model = None

    def chat(self, messages=PROMPT, **options):
        options = {"model": self.model, "temperature": 0, "max_tokens": 24} | options
        return self.client.chat.completions.create(messages=messages, **options)

    def health(self):
        root = self.base_url.rsplit("/v1", 1)[0]
        with urllib.request.urlopen(root + "/health") as reply:
            return json.load(reply)

    def models(self):
        listed = self.client.models.list().data
        assert len(listed) == 1 and listed[0].object == "model", listed
        self.model = listed[0].id
        one = self.client.models.retrieve(self.model)
        assert one.id == self.model and one.owned_by == "mlx-dspark" and one.created > 1_700_000_000
        assert one.model_extra["context_length"] > 0
        self.model_fails(lambda: self.client.models.retrieve("nobody/nothing"))

    def model_fails(self, call):
        error = raises(openai.NotFoundError, call)
        assert error.code == "model_not_found" and error.param == "model", error.body

    def whole(self):
        reply = self.chat()
        choice = reply.choices[0]
        assert reply.object == "chat.completion" and reply.id.startswith("chatcmpl-") and reply.model == self.model
        assert choice.message.role == "assistant" and choice.message.content.strip(), choice
        assert choice.finish_reason in ("stop", "length") and choice.message.tool_calls is None
        usage = reply.usage
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        assert 0 < usage.completion_tokens <= 24 and usage.prompt_tokens > 5
        assert usage.prompt_tokens_details.cached_tokens >= 0
        assert usage.completion_tokens_details.reasoning_tokens == 0
        assert reply.system_fingerprint.startswith("mlx-dspark-")
        assert reply._request_id.startswith("req_")
        block = reply.model_extra["x_mlx_dspark"]
        assert block["completion_tokens"] == usage.completion_tokens and block["request_id"] == reply._request_id

    def stream(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        assert chunks[0].choices[0].delta.role == "assistant"
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == whole.choices[0].message.content, (text, whole)
        finishes = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
        assert finishes[-1] == whole.choices[0].finish_reason and not any(finishes[:-1])
        assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
        last = chunks[-1]
        assert last.choices == [] and last.usage.completion_tokens == whole.usage.completion_tokens
        assert all(chunk.usage is None for chunk in chunks[:-1])
        assert last.model_extra["x_mlx_dspark"]["tokens_per_sec"] >= 0
        without = list(self.chat(stream=True))
        assert all(chunk.usage is None for chunk in without) and without[-1].choices

    def stream_helper(self):
        """It refuses replies that were cut by length, so a stop string ends this one."""
        word = self.chat().choices[0].message.content.split()[2]
        with self.client.chat.completions.stream(model=self.model, messages=PROMPT, temperature=0, stop=word) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        assert {"chunk", "content.delta", "content.done"} <= kinds, kinds
        assert final.choices[0].message.content and final.choices[0].finish_reason == "stop"

    def logprobs(self):
        reply = self.chat(logprobs=True, top_logprobs=2)
        tokens = reply.choices[0].logprobs.content
        assert len(tokens) == reply.usage.completion_tokens, (len(tokens), reply.usage)
        for token in tokens:
            assert token.logprob <= 0 and bytes(token.bytes).decode(errors="replace") is not None
            assert len(token.top_logprobs) <= 2
        streamed = [
            token
            for chunk in self.chat(stream=True, logprobs=True, top_logprobs=2)
            if chunk.choices and chunk.choices[0].logprobs
            for token in chunk.choices[0].logprobs.content
        ]
        assert [token.token for token in streamed] == [token.token for token in tokens]
        for one, other in zip(streamed, tokens):
            assert abs(one.logprob - other.logprob) < 1e-3

    def stop(self):
        whole = self.chat().choices[0].message.content
        word = whole.split()[2]
        for stop in (word, [word, "never said"], ["\u2603", word, "a" * 50, "b", "c", "d"]):
            cut = self.chat(stop=stop).choices[0]
            first = min(whole.find(one) for one in ([stop] if isinstance(stop, str) else stop) if one in whole)
            assert cut.message.content == whole[:first], (cut, whole, stop)
            assert cut.finish_reason == "stop"
        text = "".join(chunk.choices[0].delta.content or "" for chunk in self.chat(stream=True, stop=word))
        assert word not in text

    def limits(self):
        for name in ("max_tokens", "max_completion_tokens"):
            options = {"max_tokens": openai.omit} | {name: 3}
            reply = self.chat(**options)
            assert reply.usage.completion_tokens == 3 and reply.choices[0].finish_reason == "length", reply

    def seed(self):
        one, two = (self.chat(temperature=1.0, seed=7, top_p=0.9).choices[0].message.content for _ in range(2))
        assert one == two, (one, two)

    def choices(self):
        greedy = self.chat(n=3, max_tokens=4)
        assert [choice.index for choice in greedy.choices] == [0, 1, 2]
        assert len({choice.message.content for choice in greedy.choices}) == 1
        assert greedy.usage.completion_tokens <= 4
        sampled = self.chat(n=2, max_tokens=4, temperature=1.0, seed=1)
        assert len(sampled.choices) == 2 and sampled.usage.completion_tokens > 4
        assert raises(openai.BadRequestError, lambda: self.chat(n=2, stream=True)).param == "n"

    def extras(self):
        reply = self.chat(
            extra_body={
                "min_p": 0.05, "top_k": 40, "repetition_penalty": 1.05, "typical_p": 0.9, "chat_template_kwargs": {"x": 1},
                "brand_new_field": {"a": 1},
            },
            presence_penalty=0.1, frequency_penalty=0.1, logit_bias={"5": -1}, user="u", store=False, metadata={"k": "v"},
            service_tier="auto", reasoning_effort="low", parallel_tool_calls=True, tool_choice="none", max_tokens=4,
            response_format={"type": "text"},
        )
        warnings = " ".join(reply.model_extra["x_mlx_dspark"]["warnings"])
        assert "typical_p" in warnings and "brand_new_field" in warnings and "store" not in warnings, warnings
        habit = self.chat(model="gpt-4o", max_tokens=4)
        assert habit.model == "gpt-4o" and "gpt-4o" in " ".join(habit.model_extra["x_mlx_dspark"]["warnings"])

    def messages(self):
        self.chat(
            [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "42"},
                {"role": "user", "content": "So?"},
            ],
            max_tokens=4,
        )

    def errors(self):
        bad = openai.BadRequestError
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
        picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}]
        for call, param, code in [
            (lambda: self.chat([]), "messages", None),
            (lambda: self.chat([{"role": "wizard", "content": "x"}]), "messages[0].role", None),
            (lambda: self.chat(picture), "messages[0].content[0]", "unsupported_content"),
            (lambda: self.chat(tools=[tool], tool_choice={"type": "function", "function": {"name": "g"}}), "tool_choice", None),
            (lambda: self.chat(response_format={"type": "jsno_object"}), "response_format", None),
            (lambda: self.chat(logprobs=True, top_logprobs=21), "top_logprobs", None),
            (lambda: self.chat(extra_body={"temperature": "hot"}), "temperature", None),
        ]:
            error = raises(bad, call)
            assert (error.param, error.code) == (param, code), error.body
            assert error.type == "invalid_request_error" and error.request_id.startswith("req_")
            streamed = raises(bad, lambda: list(self.chat([], stream=True)))
            assert streamed.param == "messages"
        self.model_fails(lambda: self.chat(model="nobody/never-downloaded"))
        raises(openai.InternalServerError, lambda: self.client.embeddings.create(model=self.model, input="x"))
        if self.api_key != "none":
            stranger = OpenAI(base_url=self.base_url, api_key="wrong", max_retries=0)
            error = raises(openai.AuthenticationError, stranger.models.list)
            assert error.code == "invalid_api_key", error.body

    def overflow(self):
        window = self.health()["context_window"]
        long = [{"role": "user", "content": "word " * window}]
        for stream in (False, True):
            error = raises(openai.BadRequestError, lambda: self.chat(long, stream=stream))
            assert error.code == "context_length_exceeded" and error.param == "messages", error.body
            assert f"maximum context length is {window} tokens" in error.message, error.message

    def completions(self):
        options = {"model": self.model, "prompt": "Once upon a", "temperature": 0, "max_tokens": 8}
        whole = self.client.completions.create(**options, logprobs=1)
        Completion.model_validate(whole.to_dict())
        assert whole.choices[0].text and len(whole.choices[0].logprobs.tokens) == whole.usage.completion_tokens
        assert len(whole.choices[0].logprobs.text_offset) == whole.usage.completion_tokens
        chunks = list(self.client.completions.create(**options, stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
        assert text == whole.choices[0].text and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
        several = self.client.completions.create(**options | {"prompt": ["Once", "Twice"]}, n=2)
        assert [choice.index for choice in several.choices] == [0, 1, 2, 3]

    def responses(self):
        options = {"model": self.model, "input": "Count from one to twenty in words.", "temperature": 0, "max_output_tokens": 24}
        whole = self.client.responses.create(**options, instructions="Be brief.", store=False)
        Response.model_validate(whole.to_dict())
        assert whole.output_text.strip() and whole.status in ("completed", "incomplete"), whole
        assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
        plain = self.client.responses.create(**options)
        events = list(self.client.responses.create(**options, stream=True))
        for event in events:
            EVENT.validate_python(event.to_dict())
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == plain.output_text
        with self.client.responses.stream(**options) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_response() if plain.status == "completed" else plain
        assert "response.output_text.delta" in kinds and final.output_text == plain.output_text
        probe = self.client.responses.create(model=self.model, input="", max_output_tokens=16)
        assert probe.status == "completed" and probe.output == []
        error = raises(openai.BadRequestError, lambda: self.client.responses.create(**options, previous_response_id="resp_1"))
        assert error.code == "unsupported_parameter" and error.param == "previous_response_id", error.body
        raises(openai.NotFoundError, lambda: self.client.responses.retrieve("resp_1"))

    def formats(self):
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
        for kind in ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "r", "schema": schema, "strict": True}}):
            reply = self.chat(response_format=kind, max_tokens=8)
            assert "response_format" not in str(reply.model_extra["x_mlx_dspark"].get("warnings", "")), reply
        broken = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"properties": {"a": {"type": "wrong"}}}}}
        error = raises(openai.BadRequestError, lambda: self.chat(response_format=broken))
        assert (error.param, error.code) == ("response_format", "invalid_json_schema"), error.body
        assert "/properties/a/type" in error.message, error.message

    def structured(self):
        """The client's own helpers: what they parse must follow the models that they were given."""
        ask = {"model": self.model, "messages": [{"role": "user", "content": "Describe Paris."}], "temperature": 0, "max_tokens": 200}
        told = self.client.chat.completions.parse(**ask, response_format=City)
        assert isinstance(told.choices[0].message.parsed, City) and told.choices[0].finish_reason == "stop", told
        sampled = self.client.chat.completions.parse(**ask | {"temperature": 1.0, "seed": 3}, response_format=City)
        assert isinstance(sampled.choices[0].message.parsed, City), sampled
        with self.client.chat.completions.stream(**ask, response_format=City) as stream:
            final = stream.get_final_completion()
        assert final.choices[0].message.parsed == told.choices[0].message.parsed
        tools = [openai.pydantic_function_tool(City, name="note_city")]
        for choice in ("required", {"type": "function", "function": {"name": "note_city"}}):
            reply = self.client.chat.completions.parse(**ask, tools=tools, tool_choice=choice, parallel_tool_calls=False)
            (call,) = reply.choices[0].message.tool_calls
            assert reply.choices[0].finish_reason == "tool_calls" and isinstance(call.function.parsed_arguments, City), reply
        response = self.client.responses.parse(
            model=self.model, input="Describe Paris.", temperature=0, max_output_tokens=200, text_format=City
        )
        assert isinstance(response.output_parsed, City), response

    def disconnect(self):
        stream = self.chat(stream=True, max_tokens=2000, extra_body={"ignore_eos": True})
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        stream.close()
        begin = time.monotonic()
        while self.health()["busy"]:
            assert time.monotonic() - begin < 5, "still generating 5 s after the reader left"
            time.sleep(0.02)

    def together(self):
        async def run():
            async with AsyncOpenAI(base_url=self.base_url, api_key=self.api_key, max_retries=0) as client:
                ask = lambda: client.chat.completions.create(model=self.model, messages=PROMPT, temperature=0, max_tokens=24)
                return await asyncio.gather(*(ask() for _ in range(4)))

        replies = {reply.choices[0].message.content for reply in asyncio.run(run())}
        assert replies == {self.chat().choices[0].message.content}, replies

    def scripted_tools(self):
        """The double calls a tool when asked to, and reads out what it is told."""
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        function = {"name": "get_weather", "description": "The weather of a city", "parameters": schema}
        tools = [{"type": "function", "function": function}]
        call_it = [{"role": "user", "content": "CALL"}]
        reply = self.chat(call_it, tools=tools, max_tokens=200)
        ChatCompletion.model_validate(reply.to_dict())
        choice = reply.choices[0]
        assert choice.finish_reason == "tool_calls" and choice.message.content == "Looking.", choice
        assert choice.message.model_extra["reasoning_content"] == "Need it."
        (call,) = choice.message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Oslo"})
        told = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
        again = self.chat(call_it + [choice.message.to_dict(), told], tools=tools, max_tokens=200)
        assert again.choices[0].finish_reason == "stop" and "sunny" in again.choices[0].message.content, again
        with self.client.chat.completions.stream(model=self.model, messages=call_it, tools=tools, max_tokens=200) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion().choices[0]
        assert "tool_calls.function.arguments.done" in kinds, kinds
        assert final.finish_reason == "tool_calls" and json.loads(final.message.tool_calls[0].function.arguments) == {"city": "Oslo"}

        flat = [{"type": "function", **function, "strict": False}, {"type": "web_search"}]
        options = {"model": self.model, "tools": flat, "max_output_tokens": 200}
        reply = self.client.responses.create(input="CALL", **options)
        Response.model_validate(reply.to_dict())
        assert [item.type for item in reply.output] == ["reasoning", "message", "function_call"], reply
        call = reply.output[-1]
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        items = [{"role": "user", "content": "CALL"}] + [item.to_dict() for item in reply.output] + [output]
        again = self.client.responses.create(input=items, **options)
        assert "sunny" in again.output_text, again
        events = list(self.client.responses.create(input="CALL", stream=True, **options))
        for event in events:
            EVENT.validate_python(event.to_dict())
        done = [event.item.type for event in events if event.type == "response.output_item.done"]
        assert done == ["reasoning", "message", "function_call"] and events[-1].type == "response.completed", done

    def scripted_failures(self):
        """The double fails before its first token, at once or after the headers have gone."""
        at_once = raises(openai.InternalServerError, lambda: self.chat([{"role": "user", "content": "FAIL"}]))
        assert at_once.code == "engine_error", at_once.body
        stream = self.chat([{"role": "user", "content": "FAIL LATE"}], stream=True)
        late = raises(openai.APIError, lambda: list(stream))
        assert late.code == "engine_error" and "computation" in late.message, late


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, got an answer")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--scripted", action="store_true")
    options = parser.parse_args()
    checks = Checks(options.base_url, options.api_key)
    steps = ["models", "whole", "stream", "stream_helper", "logprobs", "stop", "limits", "seed", "choices", "extras", "messages",
             "errors", "overflow", "completions", "responses", "formats", "disconnect", "together"]
    steps += ["scripted_tools", "scripted_failures"] if options.scripted else ["structured"]
    for step in steps:
        getattr(checks, step)()
        print("ok", step, flush=True)
    print(f"openai {openai.__version__}: {len(steps)} checks passed")


if __name__ == "__main__":
    main()
