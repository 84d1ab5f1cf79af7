"""Renders every template with every conversation, and every snippet, as Hugging Face transformers does.

Needs `pip install transformers jinja2`. Writes tests/data/rendered.json and tests/data/snippets.json. The clock stands
still at 2026-03-07 23:30, and the special tokens are those of SPECIALS.
"""
import datetime
import json
import pathlib

from transformers.utils import chat_template_utils as utils

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
SPECIALS = {"bos_token": "<s>", "eos_token": "</s>"}
NOW = datetime.datetime(2026, 3, 7, 23, 30)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


utils.datetime = Clock


def render(source, context):
    try:
        return utils._compile_jinja_template(source).render(**context)
    except Exception as error:  # the template's own words
        return {"error": str(error)}


def conversation(source, case):
    options = dict(case.get("options", {}))
    extra = options.pop("extra", {})
    prompt = options.pop("add_generation_prompt", True)
    context = dict(messages=case["messages"], tools=case.get("tools"), documents=None, add_generation_prompt=prompt)
    return render(source, SPECIALS | context | options | extra)


cases = json.loads((DATA / "conversations.json").read_text(encoding="utf-8"))
rendered = {
    path.stem: {case["name"]: conversation(path.read_text(encoding="utf-8"), case) for case in cases}
    for path in sorted((DATA / "templates").glob("*.jinja"))
}
(DATA / "rendered.json").write_text(json.dumps(rendered, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

snippets = json.loads((DATA / "snippets.json").read_text(encoding="utf-8"))
for snippet in snippets:
    snippet["expect"] = render(snippet["template"], snippet.get("context", {}))
lines = ",\n".join(" " + json.dumps(snippet, ensure_ascii=False) for snippet in snippets)
(DATA / "snippets.json").write_text("[\n" + lines + "\n]\n", encoding="utf-8")
print(len(cases), "conversations,", len(rendered), "templates,", len(snippets), "snippets")
