"""Runs aider, unattended, against a running server, and checks that its edits arrive.

    pip install aider-chat
    cargo run -p dspark-serve --example double -- --port 8091 --say 'greet.py
    ```
    print("made by aider")
    ```'
    python aider.py --url http://127.0.0.1:8091 [--aider PATH] [--model-only]

Each run gets a home of its own and an empty folder to work in; no git, no analytics, nothing asked. With the double the file
that it names must be written as the double says, a prompt beyond the window must be told in words that aider knows
(`spec/clients.md` §8), and a second turn must go on. With a model (`--model-only`) its turn must end.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

FLAGS = [
    "--no-git",
    "--yes-always",
    "--no-check-update",
    "--no-show-model-warnings",
    "--no-show-release-notes",
    "--no-analytics",
    "--no-pretty",
    "--no-suggest-shell-commands",
    "--no-detect-urls",
    "--no-gui",
    "--map-tokens=0",
    "--edit-format=whole",
]


def get(url):
    with urllib.request.urlopen(url) as reply:
        return json.load(reply)


class Aider:
    def __init__(self, options):
        self.url, self.program, self.limit = options.url.rstrip("/"), options.aider, options.timeout
        health = get(self.url + "/health")
        self.model, self.window = health["model"], health["context_window"]

    def run(self, place, files, *messages):
        home, work = place / "home", place / "work"
        home.mkdir(exist_ok=True), work.mkdir(exist_ok=True)
        facts = {"max_input_tokens": self.window, "max_output_tokens": 1024, "litellm_provider": "openai", "mode": "chat"}
        (work / ".aider.model.metadata.json").write_text(json.dumps({f"openai/{self.model}": facts}))
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        environment = keep | {
            "HOME": str(home),
            "OPENAI_API_BASE": self.url + "/v1",
            "OPENAI_API_KEY": "mlx-dspark",
            # Its prices of other services' models it would fetch from the network.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "NO_COLOR": "1",
        }
        said = ""
        for message in messages:
            words = [self.program, "--model", f"openai/{self.model}", *FLAGS, "--message", message, *files]
            done = subprocess.run(
                words, cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=self.limit
            )
            said += done.stdout + done.stderr
            assert done.returncode == 0, f"status {done.returncode}: {said[-3000:]}"
        return said

    def asked(self):
        """Requests of its own so far, and those that failed."""
        rows = get(self.url + "/admin/requests")["clients"]
        return sum(row["requests"] for row in rows), sum(row["failed"] for row in rows)


def edits_a_file(aider, place):
    said = aider.run(place, ["greet.py"], "Write a greeting.")
    made = place / "work" / "greet.py"
    assert made.read_text() == 'print("made by aider")\n', f"{made.read_text()!r}: {said[-2000:]}"
    assert "Applied edit to greet.py" in said, said[-2000:]


def edits_it_again(aider, place):
    """Two turns on one file: the second sends what the first wrote."""
    before = aider.asked()[0]
    said = aider.run(place, ["greet.py"], "Write a greeting.", "Once more, please.")
    assert said.count("Applied edit to greet.py") >= 1, said[-2000:]
    assert aider.asked()[0] >= before + 2, said[-2000:]


def knows_that_the_window_is_full(aider, place):
    (place / "work").mkdir()
    (place / "work" / "long.txt").write_text("word " * (aider.window + 1000))
    said = aider.run(place, ["long.txt"], "Shorten it.")
    # Its own words for an error that it has understood, instead of a trace or retries.
    assert "exceeds the" in said or "context window" in said.lower(), said[-3000:]
    assert "Retrying" not in said, said[-3000:]


def ends_its_turn(aider, place):
    said = aider.run(place, ["greet.py"], "Write a file that prints a greeting.")
    assert "litellm" not in said or "Error" not in said, said[-3000:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--aider", default="aider")
    parser.add_argument("--model-only", action="store_true")
    parser.add_argument("--timeout", type=float, default=300)
    options = parser.parse_args()
    aider, failed = Aider(options), 0
    checks = [ends_its_turn] if options.model_only else [edits_a_file, edits_it_again, knows_that_the_window_is_full]
    for check in checks:
        with tempfile.TemporaryDirectory() as place:
            try:
                check(aider, pathlib.Path(place))
                print("ok", check.__name__, flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"FAILED {check.__name__}: {error}", flush=True)
    print(f"aider: {len(checks) - failed} of {len(checks)} checks passed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
