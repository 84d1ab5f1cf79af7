// Drives a running server with Anthropic's own JavaScript client:
//     node anthropic_client.mjs http://127.0.0.1:8080 [key]
// The scripted double calls a tool when asked to. Ends with a non-zero status at the first check that fails.

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const [baseURL, apiKey = "none"] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 });
const tools = [{ name: "get_weather", input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } }];

const [{ id: model }] = (await client.models.list()).data;
const base = { model, max_tokens: 24, temperature: 0, messages: [{ role: "user", content: "Count from one to twenty in words." }] };

const whole = await client.messages.create(base);
assert.ok(whole.content[0].text.length > 0);
const stream = client.messages.stream(base);
let text = "";
stream.on("text", (delta) => (text += delta));
const final = await stream.finalMessage();
assert.equal(text, whole.content[0].text);
assert.equal(final.usage.output_tokens, whole.usage.output_tokens);

const ask = { ...base, max_tokens: 200, tools, messages: [{ role: "user", content: "CALL" }] };
const called = await client.messages.stream(ask).finalMessage();
assert.equal(called.stop_reason, "tool_use");
const use = called.content.at(-1);
assert.deepEqual([use.name, use.input], ["get_weather", { city: "Oslo" }]);
const answered = await client.messages.create({
  ...ask,
  messages: [
    ...ask.messages,
    { role: "assistant", content: called.content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "sunny" }] },
  ],
});
assert.match(answered.content.at(-1).text, /sunny/);

const { input_tokens } = await client.messages.countTokens({ model, messages: base.messages });
assert.ok(input_tokens > 0);
await assert.rejects(client.messages.create({ ...base, messages: [] }), Anthropic.BadRequestError);
console.log("anthropic (JavaScript): all checks passed");
