"""mlx-lm beside us: one JSON line for a prompt of P tokens and G decoded ones.   mlx_lm_peer.py FOLDER P G"""

import json
import resource
import sys
import time

START = time.perf_counter()

from mlx_lm import load, stream_generate  # noqa: E402  (imports are part of the cold start)


def cpu() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


folder, prompt_tokens, decoded = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model, tokenizer = load(folder)
loaded = time.perf_counter()
text = "The quick brown fox jumps over the lazy dog near the river bank while the sun sets slowly. "
prompt = tokenizer.encode(text * (prompt_tokens // 10 + 5))[:prompt_tokens]
tokenizer._eos_token_ids = set()

count, begin, first = 0, (time.perf_counter(), cpu()), None
for _ in stream_generate(model, tokenizer, prompt, max_tokens=decoded + 1):
    count += 1
    if first is None:
        first = (time.perf_counter(), cpu())
last = (time.perf_counter(), cpu())
print(
    json.dumps(
        {
            "peer": "mlx-lm",
            "load_s": loaded - START,
            "ttft_s": first[0] - START,
            "prefill_tps": prompt_tokens / (first[0] - begin[0]),
            "prefill_tps_cpu": prompt_tokens / (first[1] - begin[1]),
            "decode_tps": (count - 1) / (last[0] - first[0]),
            "decode_tps_cpu": (count - 1) / (last[1] - first[1]),
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )
)
