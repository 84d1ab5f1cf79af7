//! Real coding agents against the server, unattended: each must call its own shell through our dialects, send the result
//! back and end its turn. A scripted double plays the model, since small ones call no tools.

#![allow(clippy::unwrap_used)]

mod install;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const PACKAGES: [&str; 4] = [
    "@anthropic-ai/claude-code",
    "@openai/codex",
    "opencode-ai",
    "@earendil-works/pi-coding-agent",
];

fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients/agents");
    if !folder.join("installed").exists() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("package.json"), "{\"private\": true}").unwrap();
        let install = Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund"])
            .args(PACKAGES)
            .current_dir(&folder)
            .status();
        assert!(
            install.is_ok_and(|status| status.success()),
            "installing the agents failed (it needs Node.js and the package registry)"
        );
        fs::write(folder.join("installed"), PACKAGES.join("\n")).unwrap();
    }
    folder.join("node_modules/.bin")
}

/// The scripted double in a process of its own.
struct Double(Child, String);

impl Double {
    fn start(more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "-p", "dspark-serve", "--example", "double", "--", "--port", "0"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines
            .find_map(|line| line.ok()?.strip_prefix("listening").map(|url| url.trim().to_owned()))
            .unwrap();
        // The pipe stays open: the double would end on writing to a closed one.
        std::thread::spawn(move || lines.count());
        Self(child, url)
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "fetches about 700 MB of agents from the package registry; run it with `cargo test -p dspark-tests --test http_agents -- --ignored`"]
fn every_agent_calls_its_shell_and_ends_its_turn() {
    let bin = installed();
    let double = Double::start(&["--say", "done", "--shell", "echo made > made-by-agent.txt; echo it-ran"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/agents.py");
    let output = Command::new("python3")
        .arg(script)
        .args(["--url", &double.1, "--bin"])
        .arg(&bin)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("4 of 4 turns complete"), "{said}");
}

/// aider edits a file as the double says, goes on in a second turn, and understands that a prompt is too long.
#[test]
#[ignore = "fetches about 500 MB of Python packages; run it with `cargo test -p dspark-tests --test http_agents -- --ignored aider`"]
fn aider_edits_files() {
    let bin = install::python("aider.txt");
    let double = Double::start(&["--say", "greet.py\n```\nprint(\"made by aider\")\n```\n"]);
    let mut command = Command::new("python3");
    command
        .arg(install::scripts().join("aider.py"))
        .args(["--url", &double.1, "--aider"])
        .arg(bin.join("aider"));
    let said = install::run(&mut command, "aider").stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("3 of 3 checks passed"), "{said}");
}
