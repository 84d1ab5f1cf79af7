"""Makes the shipped drafters from their trained bf16 weights.

usage: quantize_drafter.py trained-folder out-folder     (needs `mlx[cpu]` 0.32)

Every matrix becomes 4-bit affine, group 64 (`mx.quantize`), as the engine would do when it loads a bf16 drafter.
Norms stay bf16, and so does the confidence head: one row, whose output is a probability that decides how far to draft.
"""
import json
import sys
from pathlib import Path

import mlx.core as mx

BITS, GROUP = 4, 64
KEEP = ("norm", "confidence_head")

mx.set_default_device(mx.cpu)
source, out = map(Path, sys.argv[1:3])
weights, kept = {}, []
for name, w in sorted(mx.load(str(source / "model.safetensors")).items()):
    if w.ndim == 2 and w.shape[1] % GROUP == 0 and not any(part in name for part in KEEP):
        module = name.removesuffix(".weight")
        packed, scales, biases = mx.quantize(w, group_size=GROUP, bits=BITS)
        weights |= {name: packed, module + ".scales": scales, module + ".biases": biases}
        worst = mx.abs(mx.dequantize(packed, scales, biases, GROUP, BITS).astype(mx.float32) - w.astype(mx.float32)).max()
        step = mx.abs(scales.astype(mx.float32)).max()
        assert worst.item() <= step.item(), (name, worst, step)
    else:
        weights[name] = w
        kept.append(name)

config = json.loads((source / "config.json").read_text())
config["quantization"] = {"group_size": GROUP, "bits": BITS, "mode": "affine"}
out.mkdir(parents=True, exist_ok=True)
mx.save_safetensors(str(out / "model.safetensors"), weights, metadata={"format": "mlx"})
(out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
print(f"{out.name}: {len(weights)} tensors, kept bf16: {len(kept)}, {(out / 'model.safetensors').stat().st_size / 1e6:.1f} MB")
