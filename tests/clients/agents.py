"""Runs real coding agents, unattended, against a running server, and checks that their turns complete.

    npm install --prefix DIR @anthropic-ai/claude-code @openai/codex opencode-ai @earendil-works/pi-coding-agent
    cargo run -p dspark-serve --example double -- --port 8091 --say done --shell 'echo made > made-by-agent.txt; echo it-ran'
    python agents.py --url http://127.0.0.1:8091 --bin DIR/node_modules/.bin [claude codex opencode pi]

Each agent gets a home of its own and an empty folder to work in. With the double, each must call its own shell through the
server, send the result back and end its turn; with a model (`--model-only`) it must end its turn. `--setup PROGRAM` sets the
agents up with `mlx-dspark agents apply` instead of the environment alone.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

ASK = "Run the command that makes the file."


def health(url):
    with urllib.request.urlopen(url + "/health") as reply:
        return json.load(reply)


class Agents:
    def __init__(self, options):
        self.url, self.bin, self.limit = options.url.rstrip("/"), pathlib.Path(options.bin), options.timeout
        self.setup = options.setup
        self.model = health(self.url)["model"]
        self.window = health(self.url)["context_window"]

    def run(self, words, home, work, **more):
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        environment = keep | {"HOME": str(home), "NO_COLOR": "1", "CI": "1", "IS_SANDBOX": "1"} | more
        environment["PATH"] = f"{self.bin.resolve()}:{environment['PATH']}"
        return subprocess.run(
            words, cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=self.limit
        )

    def apply(self, client, home, work):
        if self.setup:
            done = self.run([self.setup, "agents", "--url", self.url, "apply", client, "--yes"], home, work)
            assert done.returncode == 0, done.stderr
        return bool(self.setup)

    def claude(self, home, work):
        if self.setup:
            settings = self.run([self.setup, "claude", "--url", self.url, "--print-settings"], home, work)
            variables = json.loads(settings.stdout)["env"]
        else:
            slots = {f"ANTHROPIC_DEFAULT_{slot}_MODEL": self.model for slot in ("OPUS", "SONNET", "HAIKU")}
            variables = slots | {
                "ANTHROPIC_BASE_URL": self.url,
                "ANTHROPIC_AUTH_TOKEN": "mlx-dspark",
                "ANTHROPIC_MODEL": self.model,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }
        return self.run(["claude", "-p", ASK, "--allowedTools", "Bash"], home, work, **variables)

    def codex(self, home, work):
        if not self.apply("codex", home, work):
            folder = home / ".codex"
            folder.mkdir()
            (folder / "mlx-dspark.config.toml").write_text(
                f'model = "{self.model}"\nmodel_provider = "mlx-dspark"\nmodel_context_window = {self.window}\n'
                f'web_search = "disabled"\n[model_providers.mlx-dspark]\nname = "mlx-dspark"\nbase_url = "{self.url}/v1"\n'
                'wire_api = "responses"\nrequest_max_retries = 1\nstream_max_retries = 1\n'
            )
        flags = ["--profile", "mlx-dspark", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return self.run(["codex", "exec", *flags, ASK], home, work)

    def opencode(self, home, work):
        name = f"mlx-dspark/{self.model}"
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "mlx-dspark",
            "options": {"baseURL": self.url + "/v1", "apiKey": "mlx-dspark"},
            "models": {self.model: {"name": self.model, "limit": {"context": self.window, "output": 2048}, "tool_call": True}},
        }
        whole = {"model": name, "small_model": name, "permission": {"bash": "allow"}}
        if not self.apply("opencode", home, work):
            whole["provider"] = {"mlx-dspark": provider}
        return self.run(["opencode", "run", ASK], home, work, OPENCODE_CONFIG_CONTENT=json.dumps(whole))

    def pi(self, home, work):
        if not self.apply("pi", home, work):
            folder = home / ".pi" / "agent"
            folder.mkdir(parents=True)
            model = {"id": self.model, "name": self.model, "input": ["text"], "contextWindow": self.window, "maxTokens": 2048}
            provider = {"baseUrl": self.url, "api": "anthropic-messages", "apiKey": "mlx-dspark", "models": [model]}
            (folder / "models.json").write_text(json.dumps({"providers": {"mlx-dspark": provider}}))
        return self.run(["pi", "--provider", "mlx-dspark", "--model", self.model, "-p", ASK], home, work)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--setup")
    parser.add_argument("--model-only", action="store_true")
    parser.add_argument("--timeout", type=float, default=240)
    parser.add_argument("agents", nargs="*", default=["claude", "codex", "opencode", "pi"])
    options = parser.parse_args()
    agents, failed = Agents(options), []
    for name in options.agents:
        with tempfile.TemporaryDirectory() as place:
            home, work = pathlib.Path(place) / "home", pathlib.Path(place) / "work"
            home.mkdir(), work.mkdir()
            try:
                ended = getattr(agents, name)(home, work)
            except subprocess.TimeoutExpired as late:
                failed.append(name)
                print(f"FAILED {name}: not done after {late.timeout} s\n{late.stdout}\n{late.stderr}", flush=True)
                continue
            made = work / "made-by-agent.txt"
            well = ended.returncode == 0
            if not options.model_only:
                well = well and made.exists() and "done" in ended.stdout and "it-ran" in ended.stdout
            if well:
                print("ok", name, flush=True)
            else:
                failed.append(name)
                said = f"{ended.stdout[-3000:]}\n--\n{ended.stderr[-3000:]}"
                print(f"FAILED {name}: status {ended.returncode}, file made: {made.exists()}\n{said}", flush=True)
    print(f"agents: {len(options.agents) - len(failed)} of {len(options.agents)} turns complete")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
