"""A random model of a published shape, in bf16 under Hugging Face's names:   random_model.py SHAPE TOKENIZER_FOLDER DEST

Speed does not depend on what weights say. Shapes: `qwen3` (0.6B, dense) and `hybrid` (Qwen3.5 with gated delta net in three of
four layers). The tokenizer is that of TOKENIZER_FOLDER.
"""

import json
import shutil
import sys
from pathlib import Path

import mlx.core as mx

VOCAB, HIDDEN = 151936, 1024
COMMON = {
    "hidden_size": HIDDEN, "vocab_size": VOCAB, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "attention_bias": False,
    "tie_word_embeddings": True, "eos_token_id": 0, "torch_dtype": "bfloat16",
}


def dense(prefix, inner):
    for name, shape in {"gate": (inner, HIDDEN), "up": (inner, HIDDEN), "down": (HIDDEN, inner)}.items():
        yield f"{prefix}.mlp.{name}_proj.weight", shape
    yield f"{prefix}.input_layernorm.weight", (HIDDEN,)
    yield f"{prefix}.post_attention_layernorm.weight", (HIDDEN,)


def attention(prefix, heads, kv_heads, dim, gated):
    shapes = {"q": ((2 if gated else 1) * heads * dim, HIDDEN), "k": (kv_heads * dim, HIDDEN), "v": (kv_heads * dim, HIDDEN), "o": (HIDDEN, heads * dim)}
    for name, shape in shapes.items():
        yield f"{prefix}.self_attn.{name}_proj.weight", shape
    yield f"{prefix}.self_attn.q_norm.weight", (dim,)
    yield f"{prefix}.self_attn.k_norm.weight", (dim,)


def qwen3():
    config = COMMON | {
        "model_type": "qwen3", "num_hidden_layers": 28, "intermediate_size": 3072, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "rope_theta": 1e6, "rope_scaling": None,
    }

    def tensors():
        yield "model.embed_tokens.weight", (VOCAB, HIDDEN)
        yield "model.norm.weight", (HIDDEN,)
        for layer in range(28):
            yield from dense(f"model.layers.{layer}", 3072)
            yield from attention(f"model.layers.{layer}", 16, 8, 128, False)

    return config, tensors()


def hybrid():
    layers, inner, heads, dim = 24, 3584, 16, 128
    text = COMMON | {
        "model_type": "qwen3_5_text", "num_hidden_layers": layers, "intermediate_size": inner, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4, "linear_num_value_heads": heads,
        "linear_num_key_heads": heads, "linear_key_head_dim": dim, "linear_value_head_dim": dim, "linear_conv_kernel_dim": 4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10]},
    }
    config = {"model_type": "qwen3_5", "text_config": text, "tie_word_embeddings": True, "eos_token_id": 0}

    def tensors():
        model = "language_model.model"
        yield f"{model}.embed_tokens.weight", (VOCAB, HIDDEN)
        yield f"{model}.norm.weight", (HIDDEN,)
        for layer in range(layers):
            at = f"{model}.layers.{layer}"
            yield from dense(at, inner)
            if (layer + 1) % 4 == 0:
                yield from attention(at, 8, 2, 256, True)
                continue
            at = f"{at}.linear_attn"
            width = heads * dim
            yield f"{at}.in_proj_qkv.weight", (3 * width, HIDDEN)
            yield f"{at}.in_proj_z.weight", (width, HIDDEN)
            yield f"{at}.in_proj_a.weight", (heads, HIDDEN)
            yield f"{at}.in_proj_b.weight", (heads, HIDDEN)
            yield f"{at}.conv1d.weight", (3 * width, 4, 1)
            yield f"{at}.A_log", (heads,)
            yield f"{at}.dt_bias", (heads,)
            yield f"{at}.norm.weight", (dim,)
            yield f"{at}.out_proj.weight", (HIDDEN, width)

    return config, tensors()


def main(shape, tokenizer, dest):
    config, tensors = {"qwen3": qwen3, "hybrid": hybrid}[shape]()
    dest = Path(dest)
    dest.mkdir(parents=True, exist_ok=True)
    mx.random.seed(7)
    made = {}
    for name, size in tensors:
        if name.endswith("norm.weight"):
            made[name] = mx.ones(size, mx.bfloat16)
        else:
            made[name] = (mx.random.normal(size) * 0.02).astype(mx.float32 if name.endswith("A_log") else mx.bfloat16)
        mx.eval(made[name])
    mx.save_safetensors(str(dest / "model.safetensors"), made, metadata={"format": "pt"})
    (dest / "config.json").write_text(json.dumps(config))
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(Path(tokenizer) / name, dest / name)


main(*sys.argv[1:])
