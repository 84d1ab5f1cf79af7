// Drives a running server with OpenAI's own JavaScript client:
//     node openai_client.mjs http://127.0.0.1:8080/v1 [key]
// Ends with a non-zero status at the first check that fails. Run from the folder that holds its node_modules.

import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey = "none"] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "Count from one to twenty in words." }];

const [{ id: model }] = (await client.models.list()).data;
assert.equal((await client.models.retrieve(model)).id, model);
const base = { model, messages, temperature: 0, max_tokens: 24 };

const whole = await client.chat.completions.create(base);
assert.ok(whole.choices[0].message.content.length > 0);
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);
assert.match(whole._request_id, /^req_[0-9a-f]{24}$/);

let text = "";
let usage = null;
for await (const chunk of await client.chat.completions.create({ ...base, stream: true, stream_options: { include_usage: true } })) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, whole.choices[0].message.content);
assert.deepEqual(usage, whole.usage);

const runner = client.chat.completions.stream(base);
assert.equal(await runner.finalContent(), text);

await assert.rejects(client.chat.completions.create({ ...base, messages: [] }), (error) => {
  assert.ok(error instanceof OpenAI.BadRequestError);
  assert.equal(error.param, "messages");
  return true;
});
await assert.rejects(client.models.retrieve("nobody/nothing"), OpenAI.NotFoundError);

const response = await client.responses.create({ model, input: messages, temperature: 0, max_output_tokens: 24 });
assert.equal(response.output_text.length > 0, true);
let streamed = "";
for await (const event of await client.responses.create({ model, input: messages, temperature: 0, max_output_tokens: 24, stream: true }))
  if (event.type === "response.output_text.delta") streamed += event.delta;
assert.equal(streamed, response.output_text);

const tool = { type: "function", function: { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } } } } };
const turn = client.chat.completions.stream({ model, messages: [{ role: "user", content: "CALL" }], tools: [tool], max_tokens: 200 });
const [call] = (await turn.finalMessage()).tool_calls;
assert.deepEqual([call.function.name, JSON.parse(call.function.arguments)], ["get_weather", { city: "Oslo" }]);

const abandoned = await client.chat.completions.create({ ...base, stream: true, max_tokens: 2000, ignore_eos: true });
for await (const chunk of abandoned) if (chunk.choices[0]?.delta?.content) break;
const health = baseURL.replace(/\/v1$/, "/health");
const begin = Date.now();
while ((await (await fetch(health)).json()).busy) {
  assert.ok(Date.now() - begin < 5000, "still generating 5 s after the reader left");
  await new Promise((wake) => setTimeout(wake, 20));
}
console.log(`openai (JavaScript): all checks passed`);
