//! Settings are written whole or not at all: a program killed in the middle of writing leaves what was there before or what it
//! wrote.
#![allow(clippy::unwrap_used)]

use dspark_window::settings::Settings;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Large enough that a write takes a while.
fn settings(prompt: char) -> Settings {
    let mut settings = Settings::default();
    settings.chat.system_prompt = prompt.to_string().repeat(200_000);
    settings
}

/// What the test below kills.
#[test]
#[ignore = "run by the kill test, which sets its environment"]
fn child() {
    let Some(path) = std::env::var_os("KILL_TEST_SETTINGS").map(PathBuf::from) else {
        return;
    };
    loop {
        for prompt in ['a', 'b'] {
            settings(prompt).save(&path).unwrap();
        }
    }
}

fn start(path: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child"])
        .env("KILL_TEST_SETTINGS", path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn killed_fifty_times_settings_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.toml");
    settings('a').save(&path).unwrap();
    let (mut seen, part) = ([0; 2], path.with_extension("toml.part"));
    let mut unfinished = 0;
    for round in 0..50_u64 {
        let written = || std::fs::metadata(&path).unwrap().modified().unwrap();
        let before = written();
        let mut writer = start(&path);
        let deadline = Instant::now() + Duration::from_secs(20);
        while written() == before && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        // It is at work: at another moment of a write each time.
        std::thread::sleep(Duration::from_millis(round * 7 % 23));
        writer.kill().unwrap();
        writer.wait().unwrap();
        unfinished += usize::from(part.exists());
        let (read, note) = Settings::load(&path);
        assert_eq!(note, None, "round {round}");
        let which = ['a', 'b'].into_iter().position(|prompt| read == settings(prompt));
        seen[which.unwrap_or_else(|| panic!("round {round}: neither of the two"))] += 1;
    }
    // The kills did come while it was writing.
    assert!(unfinished > 0, "{unfinished} of 50 kills hit a write; {seen:?}");
    // What a kill has left does not stand in the way.
    settings('b').save(&path).unwrap();
    assert_eq!(Settings::load(&path).0, settings('b'));
}
