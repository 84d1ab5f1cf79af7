"""Drives a running server with Anthropic's own Python client, the way applications do.

    python anthropic_client.py --base-url http://127.0.0.1:8080 [--api-key K] [--scripted]

`--scripted` adds the checks that need the scripted double: it calls a tool when asked to. Prints one line a check, ends
with status 1 at the first that fails.
"""

import argparse
import json

import anthropic
from anthropic import Anthropic
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
from pydantic import TypeAdapter

PROMPT = [{"role": "user", "content": "Count from one to twenty in words."}]
TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather of a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
CALL = [{"role": "user", "content": "CALL"}]
EVENT = TypeAdapter(RawMessageStreamEvent)


class Checks:
    def __init__(self, base_url, api_key):
        self.client = Anthropic(base_url=base_url, api_key=api_key, max_retries=0, timeout=120)
        self.stranger = Anthropic(base_url=base_url, api_key="wrong", max_retries=0)
        self.keyed = api_key != "none"
        self.model = None

    def ask(self, messages=PROMPT, **options):
        # Newer versions of the client have no parameter for the temperature any more; the field is still read.
        options = {"model": self.model, "max_tokens": 24} | options
        options["extra_body"] = {"temperature": 0} | options.get("extra_body", {})
        reply = self.client.messages.create(messages=messages, **options)
        if isinstance(reply, Message):
            # Parsing is lenient; validating is not.
            Message.model_validate(reply.to_dict(), strict=False)
        return reply

    def models(self):
        (listed,) = list(self.client.models.list())
        assert listed.type == "model" and listed.display_name and listed.created_at, listed
        self.model = listed.id
        assert self.client.models.retrieve(self.model).id == self.model

    def whole(self):
        reply = self.ask()
        assert reply.id.startswith("msg_") and reply.role == "assistant" and reply.model == self.model
        assert reply.content[0].type == "text" and reply.content[0].text.strip()
        assert reply.stop_reason in ("end_turn", "max_tokens") and reply.stop_sequence is None
        assert 0 < reply.usage.output_tokens <= 24
        assert reply.usage.input_tokens + reply.usage.cache_read_input_tokens > 5
        assert reply._request_id.startswith("req_")
        assert reply.model_extra["x_mlx_dspark"]["cache"]["why"]

    def stream(self):
        whole = self.ask().content[0].text
        with self.client.messages.stream(model=self.model, max_tokens=24, messages=PROMPT, extra_body={"temperature": 0}) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        assert text == whole == final.content[0].text, (text, whole)
        assert final.usage.output_tokens > 0 and final.stop_reason
        kinds = []
        for event in self.ask(stream=True):
            EVENT.validate_python(event.to_dict())
            kinds.append(event.type)
        assert kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds

    def system_and_turns(self):
        reply = self.ask(
            [
                {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
                {"role": "user", "content": "So?"},
            ],
            system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            metadata={"user_id": "u"},
            extra_body={"context_management": {"edits": []}, "brand_new": 1},
            extra_headers={"anthropic-beta": "context-management-2025-06-27"},
        )
        assert "brand_new" in str(reply.model_extra["x_mlx_dspark"]["warnings"])

    def stop_sequences(self):
        word = self.ask().content[0].text.split()[2]
        reply = self.ask(stop_sequences=[word, "never said"])
        assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", word), reply
        assert word not in reply.content[0].text

    def counted(self):
        counted = self.client.messages.count_tokens(model=self.model, messages=PROMPT, system="Be brief.")
        MessageTokensCount.model_validate(counted.to_dict())
        reply = self.ask(system="Be brief.", max_tokens=1)
        usage = reply.usage
        assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens, (counted, usage)

    def errors(self):
        bad = raises(anthropic.BadRequestError, lambda: self.ask([]))
        assert bad.body["error"]["type"] == "invalid_request_error" and bad.body["request_id"].startswith("req_"), bad.body
        picture = [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]}]
        raises(anthropic.BadRequestError, lambda: self.ask(picture))
        raises(anthropic.NotFoundError, lambda: self.client.messages.batches.list())
        if self.keyed:
            error = raises(anthropic.AuthenticationError, lambda: self.stranger.models.list())
            assert error.body["error"]["type"] in ("authentication_error", None) or error.body, error.body

    def structured(self):
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}, "why": {"type": "string", "maxLength": 20}},
                  "required": ["ok", "why"], "additionalProperties": False}
        answer = self.ask(max_tokens=100, extra_body={"output_config": {"format": {"type": "json_schema", "schema": schema}}})
        told = json.loads(answer.content[0].text)
        assert isinstance(told["ok"], bool) and len(told["why"]) <= 20 and answer.stop_reason == "end_turn", answer
        place = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Paris"]}}, "required": ["city"], "additionalProperties": False}
        tools = [{"name": "get_weather", "input_schema": place, "strict": True}]
        for choice in ({"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}):
            reply = self.ask(tools=tools, tool_choice=choice, max_tokens=100)
            (call,) = [block for block in reply.content if block.type == "tool_use"]
            assert reply.stop_reason == "tool_use" and call.input["city"] in ("Oslo", "Paris"), reply

    def scripted_tools(self):
        reply = self.ask(CALL, tools=TOOLS, max_tokens=200)
        kinds = [block.type for block in reply.content]
        assert kinds == ["thinking", "text", "tool_use"] and reply.stop_reason == "tool_use", reply
        call = reply.content[-1]
        assert (call.name, call.input) == ("get_weather", {"city": "Oslo"}), call
        again = self.ask(
            CALL
            + [
                {"role": "assistant", "content": [block.to_dict() for block in reply.content]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]},
            ],
            tools=TOOLS,
            max_tokens=200,
        )
        assert again.stop_reason == "end_turn" and "sunny" in again.content[-1].text, again
        with self.client.messages.stream(model=self.model, max_tokens=200, messages=CALL, tools=TOOLS) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_message()
        assert {"thinking", "text", "input_json", "content_block_stop"} <= kinds, kinds
        assert final.content[-1].input == {"city": "Oslo"} and final.stop_reason == "tool_use"
        quiet = self.ask(CALL, tools=TOOLS, max_tokens=200, thinking={"type": "disabled"})
        assert [block.type for block in quiet.content] == ["text", "tool_use"], quiet

    def scripted_failures(self):
        raises(anthropic.InternalServerError, lambda: self.ask([{"role": "user", "content": "FAIL"}]))
        late = raises(
            anthropic.APIError, lambda: list(self.ask([{"role": "user", "content": "FAIL LATE"}], stream=True))
        )
        assert "computation" in str(late), late


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
    steps = ["models", "whole", "stream", "system_and_turns", "stop_sequences", "counted", "errors"]
    steps += ["scripted_tools", "scripted_failures"] if options.scripted else ["structured"]
    for step in steps:
        getattr(checks, step)()
        print("ok", step, flush=True)
    print(f"anthropic {anthropic.__version__}: {len(steps)} checks passed")


if __name__ == "__main__":
    main()
