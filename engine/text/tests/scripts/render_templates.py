"""Renders every template with every conversation, and every snippet, as Hugging Face transformers does.

Needs `pip install transformers jinja2`. Writes tests/data/rendered.json and tests/data/snippets.json. The clock stands
still at 2026-03-07 23:30, and the special tokens are those of SPECIALS.

With `FOLDER CASES` it does the same for the templates in FOLDER (published ones, say, whose licences keep them out of
this repository) and writes CASES, for the test that takes MLX_DSPARK_TEMPLATE_CASES:
    MLX_DSPARK_TEMPLATE_CASES=CASES cargo test -p dspark-text cases_from_elsewhere
"""
import datetime
import json
import pathlib
import sys

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


def context_of(case):
    options = dict(case.get("options", {}))
    extra = options.pop("extra", {})
    prompt = options.pop("add_generation_prompt", True)
    context = dict(messages=case["messages"], tools=case.get("tools"), documents=None, add_generation_prompt=prompt)
    return SPECIALS | context | options | extra


def cases_of(folder, cases):
    """Every template of a folder with every conversation."""
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for case in cases:
            context = context_of(case)
            yield {"name": f"{path.stem}: {case['name']}", "template": source, "context": context, "expect": render(source, context)}


cases = json.loads((DATA / "conversations.json").read_text(encoding="utf-8"))
if len(sys.argv) == 3:
    folder, out = map(pathlib.Path, sys.argv[1:])
    found = list(cases_of(folder, cases))
    out.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    errors = sum(isinstance(case["expect"], dict) for case in found)
    print(len(found), "cases,", errors, "of them errors")
    sys.exit()
rendered = {
    path.stem: {case["name"]: render(path.read_text(encoding="utf-8"), context_of(case)) for case in cases}
    for path in sorted((DATA / "templates").glob("*.jinja"))
}
(DATA / "rendered.json").write_text(json.dumps(rendered, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

snippets = json.loads((DATA / "snippets.json").read_text(encoding="utf-8"))
for snippet in snippets:
    snippet["expect"] = render(snippet["template"], snippet.get("context", {}))
lines = ",\n".join(" " + json.dumps(snippet, ensure_ascii=False) for snippet in snippets)
(DATA / "snippets.json").write_text("[\n" + lines + "\n]\n", encoding="utf-8")
print(len(cases), "conversations,", len(rendered), "templates,", len(snippets), "snippets")
