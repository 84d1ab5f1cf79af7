"""What mlx_lm.convert writes for the tiny targets, as one SHA-256 a conversion.

    python convert.py ROOT        ROOT holds targets/; writes ROOT/convert/golden.json

The steps are those of mlx_lm.convert (load, cast, quantize, save) without the tokenizer, which these folders lack.
Environment: mlx[cpu]==0.32.2, mlx-lm==0.32.2.
"""

import hashlib
import json
import struct
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_map_with_path
from mlx_lm.utils import load_model, quantize_model, save_config, save_model

mx.set_default_device(mx.cpu)
AFFINE = [(bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64)]
EVERY = ["qwen3", "qwen3_5-rawnames"]
ALSO = [
    "llama", "llama-sliding", "qwen3-tied-ropeparams", "qwen3_moe", "gemma4-dense-rawnames", "gemma4-kvshared", "gemma4-ple",
    "gemma4-moe-rawnames", "qwen3_5_moe-rawnames", "lfm2-rawnames", "lfm2_moe-rawnames", "nemotron_h-rawnames",
    "nemotron_h-latent", "muse_glimmer-rawnames", "nanbeige",
]


def digest(folder):
    """Over the tensors by name: name, dtype, shape and bytes."""
    whole, count = hashlib.sha256(), 0
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        for name, entry in header.items():
            first, last = entry["data_offsets"]
            tensors[name] = (entry["dtype"], entry["shape"], data[8 + length + first : 8 + length + last])
    for name in sorted(tensors):
        dtype, shape, data = tensors[name]
        whole.update(f"{name} {dtype} {','.join(map(str, shape))}\n".encode())
        whole.update(data)
        count += 1
    return whole.hexdigest(), count


def convert(source, mode=None, bits=None, group=None, dtype=None):
    model, config = load_model(source, lazy=True)
    if dtype is None:
        dtype = config.get("torch_dtype", None)
    if dtype is None and (text_config := config.get("text_config", None)):
        dtype = text_config.get("dtype", None)
    if dtype in ("float16", "bfloat16", "float32"):
        kind = getattr(mx, dtype)
        keeps = getattr(model, "cast_predicate", lambda _: True)
        cast = lambda k, v: v.astype(kind) if keeps(k) and mx.issubdtype(v.dtype, mx.floating) else v
        model.update(tree_map_with_path(cast, model.parameters()))
    if mode:
        model, config = quantize_model(model, config, group, bits, mode=mode)
    with tempfile.TemporaryDirectory() as out:
        out = Path(out)
        save_model(out, model)
        save_config(dict(config), out / "config.json")
        sha, count = digest(out)
        written = json.loads((out / "config.json").read_text())
    return {"sha256": sha, "tensors": count, "quantization": written.get("quantization")}


def main(root):
    root = Path(root)
    cases = []

    def add(case, **options):
        entry = {"case": case, **options}
        try:
            entry |= convert(root / "targets" / case, **options)
        except Exception as error:  # the oracle itself refuses
            print(entry, "refused:", error)
            return
        cases.append(entry)
        print(case, options, entry["sha256"][:12])

    for case in EVERY:
        for bits, group in AFFINE:
            add(case, mode="affine", bits=bits, group=group)
        for mode in ("mxfp4", "nvfp4", "mxfp8"):
            add(case, mode=mode)
        for dtype in ("float16", "float32"):
            add(case, dtype=dtype)
            add(case, mode="affine", bits=4, group=32, dtype=dtype)
    for case in ALSO:
        add(case)
        add(case, mode="affine", bits=4, group=32)
        add(case, mode="affine", bits=6, group=64)
        add(case, mode="mxfp4")
    (root / "convert").mkdir(exist_ok=True)
    text = ",\n".join(json.dumps(case) for case in cases)
    (root / "convert" / "golden.json").write_text('{"schema": "convert-golden/1", "cases": [\n' + text + "\n]}\n")


main(sys.argv[1])
