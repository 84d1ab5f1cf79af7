"""Makes the tiny tokenizers under tests/data/tokenizers. Needs `pip install tokenizers`.

byte       byte-level BPE in the style of Qwen and Llama 3: NFC, a splitting pattern, special tokens of several families
llama2     SentencePiece BPE: every piece gets a space in front, unknown bytes are <0xNN>, the first space is stripped
gemma      SentencePiece BPE without the leading space, with added tokens that are ordinary text
metaspace  SentencePiece BPE in the newer form: a space only at the very beginning

The corpus is a few sentences in several scripts and this file, so that the vocabularies stay small; a change here
makes other ones.
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent / "data" / "tokenizers"
TEXT = [
    "The quick brown fox jumps over the lazy dog. What is the capital of France? Paris is the capital of France.",
    "You are a helpful assistant named Tiny. Use the tools: get_weather(city), read_file(path). Hello, world! user system",
    "def main():\n    for i in range(10):\n        print(i, 'x')\n\n    return {\"a\": [1, 2, 3]}\n",
    "Grüße aus München, où est la bibliothèque? ¿Dónde está? 你好,世界。今天天气怎么样? こんにちは世界 안녕하세요",
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}, \"type\": \"function\", \"description\": \"\"}",
    "<b>bold</b> <i>it</i> a|b [x] (y) # title\n\n- one\n- two\n\nthink assistant tool response message channel",
] * 4

SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<s>", "</s>", "[INST]", "[/INST]",
    "<|user|>", "<|assistant|>", "<|system|>", "<|start|>", "<|channel|>", "<|message|>", "<|return|>",
]
# Marked ordinary, as several families do, though templates use them as marks.
ORDINARY = [
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
    "<｜User｜>", "<｜Assistant｜>", "    ",
]


def corpus():
    return TEXT + [pathlib.Path(__file__).read_text(encoding="utf-8")]


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    # Swallows the blanks behind it, as in Phi.
    tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False, special=True, rstrip=True)])
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in ORDINARY])
    # Matched after normalization.
    tokenizer.add_tokens([AddedToken("Å-unit", normalized=True, special=False)])
    return json.loads(tokenizer.to_str())


def pieces():
    """A SentencePiece-like BPE vocabulary: <unk>, <s>, </s>, the 256 bytes, characters, merges."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    latin = [line for line in corpus() if line.isascii()]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(latin, trainer)
    data = json.loads(tokenizer.to_str())
    # The conversion from SentencePiece gives merges that spell special tokens, so plain text can become one.
    model = data["model"]
    for left, right in [("<", "/"), ("</", "s"), ("</s", ">")]:
        if left + right not in model["vocab"]:
            model["vocab"][left + right] = len(model["vocab"])
        if [left, right] not in model["merges"]:
            model["merges"].append([left, right])
    data["added_tokens"] = [
        dict(id=i, content=token, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
        for i, token in enumerate(special[:3])
    ]
    return data


def add(data, tokens, special):
    for token in tokens:
        new = max(max(data["model"]["vocab"].values()), max(t["id"] for t in data["added_tokens"])) + 1
        data["added_tokens"].append(
            dict(id=new, content=token, single_word=False, lstrip=False, rstrip=False, normalized=False, special=special))


def bos(data, token):
    id = next(t["id"] for t in data["added_tokens"] if t["content"] == token)
    data["post_processor"] = json.loads(processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token} $B", special_tokens=[(token, id)]).__getstate__())


def decoder(strip):
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return json.loads(decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else [])).__getstate__())


def llama2():
    data = pieces()
    prepend = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    data.update(normalizer=json.loads(prepend.__getstate__()), pre_tokenizer=None, decoder=decoder(True))
    bos(data, "<s>")
    return data


def gemma():
    data = pieces()
    add(data, ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"], True)
    add(data, ["\n\n", "<b>", "▁▁"], False)
    split = pre_tokenizers.Split(" ", "merged_with_previous")
    data.update(normalizer=json.loads(normalizers.Replace(" ", "▁").__getstate__()),
                pre_tokenizer=json.loads(split.__getstate__()), decoder=decoder(False))
    bos(data, "<bos>")
    return data


def metaspace():
    data = pieces()
    add(data, ["[INST]", "[/INST]"], True)
    space = pre_tokenizers.Metaspace("▁", "first", split=False)
    data.update(normalizer=None, pre_tokenizer=json.loads(space.__getstate__()), decoder=decoder(True))
    bos(data, "<s>")
    return data


OUT.mkdir(parents=True, exist_ok=True)
for name, make in [("byte", byte_level), ("llama2", llama2), ("gemma", gemma), ("metaspace", metaspace)]:
    data = make()
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    Tokenizer.from_str(text)
    (OUT / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(name, len(data["model"]["vocab"]), len(text))
