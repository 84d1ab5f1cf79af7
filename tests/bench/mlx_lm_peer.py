"""mlx-lm beside us: one JSON line for a prompt of P tokens and G decoded ones.   mlx_lm_peer.py FOLDER P G [DEPTH]

With DEPTH the cache is first filled with that many rows of zeros: MLX's own quantized product would take an hour to
compute them on a processor, and a decode step costs the same whatever they hold.
"""

import json
import resource
import sys
import time

START = time.perf_counter()

import mlx.core as mx  # noqa: E402  (imports are part of the cold start)
from mlx_lm import load, stream_generate  # noqa: E402
from mlx_lm.models.cache import make_prompt_cache  # noqa: E402


def cpu() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


folder, prompt_tokens, decoded = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
depth = int(sys.argv[4]) if len(sys.argv) > 4 else 0
model, tokenizer = load(folder)
loaded = time.perf_counter()
text = "The quick brown fox jumps over the lazy dog near the river bank while the sun sets slowly. "
prompt = tokenizer.encode(text * (prompt_tokens // 10 + 5))[:prompt_tokens]
tokenizer._eos_token_ids = set()
cache = make_prompt_cache(model)
if depth:
    args = model.args
    size = args.head_dim or args.hidden_size // args.num_attention_heads
    rows = mx.zeros((1, args.num_key_value_heads, depth, size), mx.float16)
    for layer in cache:
        mx.eval(layer.update_and_fetch(rows, rows))

count, begin, first = 0, (time.perf_counter(), cpu()), None
for _ in stream_generate(model, tokenizer, prompt, max_tokens=decoded + 1, prompt_cache=cache):
    count += 1
    if first is None:
        first = (time.perf_counter(), cpu())
last = (time.perf_counter(), cpu())
print(
    json.dumps(
        {
            "peer": "mlx-lm",
            "depth": depth,
            "load_s": loaded - START,
            "ttft_s": first[0] - START,
            "ttft_cpu_s": first[1],
            "prefill_tps": prompt_tokens / (first[0] - begin[0]),
            "prefill_tps_cpu": prompt_tokens / (first[1] - begin[1]),
            "decode_tps": (count - 1) / (last[0] - first[0]),
            "decode_tps_cpu": (count - 1) / (last[1] - first[1]),
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )
)
