// llama.cpp beside us: one JSON line for a prompt of P tokens and G decoded ones, on the starter's own GGUF.
//   node llamacpp.mjs GGUF P G THREADS
import { createRequire } from "node:module";

const [, , gguf, promptTokens, decoded, threads] = process.argv;
const require = createRequire(`${process.env.BENCH_NODE_MODULES ?? process.cwd()}/`);
const { getLlama, LlamaLogLevel } = await import(require.resolve("node-llama-cpp"));

const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const start = performance.now();
const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: +threads });
const model = await llama.loadModel({ modelPath: gguf, useMmap: true });
const loaded = performance.now();
const [p, g] = [+promptTokens, +decoded];
const context = await model.createContext({ contextSize: p + g + 16, threads: +threads, batchSize: 512 });
const text = "The quick brown fox jumps over the lazy dog near the river bank while the sun sets slowly. ";
const prompt = model.tokenize(text.repeat(Math.ceil(p / 15) + 5)).slice(0, p);

const begin = [performance.now(), cpu()];
let first, last;
let count = 0;
for await (const _ of context.getSequence().evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
  count += 1;
  if (count === 1) first = [performance.now(), cpu()];
  if (count > g) break;
}
last = [performance.now(), cpu()];
const rate = (tokens, from, to, index, unit) => tokens / ((to[index] - from[index]) / unit);
console.log(
  JSON.stringify({
    peer: "llama.cpp",
    load_s: (loaded - start) / 1e3,
    // The clock of `performance` and of `cpuUsage` starts with the process.
    ttft_s: first[0] / 1e3,
    ttft_cpu_s: first[1],
    prefill_tps: rate(p, begin, first, 0, 1e3),
    prefill_tps_cpu: rate(p, begin, first, 1, 1),
    decode_tps: rate(count - 1, first, last, 0, 1e3),
    decode_tps_cpu: rate(count - 1, first, last, 1, 1),
    peak_rss_mb: process.resourceUsage().maxRSS / 1024,
  }),
);
process.exit(0);
