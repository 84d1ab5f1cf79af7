"""Writes tests/data/starter.json: what transformers makes of texts and conversations with the starter's tokenizer.

Usage: python starter_golden.py FOLDER, where FOLDER holds the starter's tokenizer files. Needs `pip install transformers`.
"""
import json
import pathlib
import sys

from transformers import AutoTokenizer

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "starter.json"
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
TEXTS = [
    "", " ", "\n\n", "Hello, world!", "  two  spaces ", "def f(x):\n\treturn x ** 2  # é\n", "1234567890 3.14e-10",
    "Grüße aus Köln, où est le café? ¿Qué?", "你好,世界。今天天气怎么样?", "こんにちは 안녕하세요 مرحبا नमस्ते", "👩‍💻🇫🇷😀e\u0301\u200d",
    "<|im_start|>user\nhi<|im_end|>", "<|im_", "a<|im_end|>b <repo_name>x", "\u0000\u0007\u2028\ufeff", "x" * 300,
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}", "can't won't I'll we've",
]
CHATS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello! "},
     {"role": "user", "content": "  Grüße 你好 👍\n\n```py\nprint(1)\n```\n"}],
    [{"role": "user", "content": text} for text in ["a", "b", ""]],
]
golden = {
    "texts": [{"text": text, "ids": tokenizer(text)["input_ids"]} for text in TEXTS],
    "chats": [
        {
            "messages": chat,
            "text": tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True),
            "ids": tokenizer.apply_chat_template(chat, tokenize=True, add_generation_prompt=True, return_dict=False),
        }
        for chat in CHATS
    ],
}
OUT.write_text(json.dumps(golden, ensure_ascii=True) + "\n", encoding="utf-8")
print(len(golden["texts"]), "texts,", len(golden["chats"]), "chats")
