//! Setting every client up in a home of its own, changing one's mind, and coming back.

#![allow(clippy::unwrap_used)]

use dspark_agents::{AgentError, CLIENTS, Places, Serving, State, Step, apply, client, inspect, plan, undo};
use serde_json::{Value, json};
use std::{fs, path::Path};

fn places(home: &Path) -> Places {
    Places {
        home: home.to_owned(),
        codex: home.join(".codex"),
        config: home.join(".config"),
        project: home.join("project"),
        records: home.join("records"),
        programs: vec![home.join("bin")],
        applications: vec![home.join("Applications")],
        variables: Vec::new(),
    }
}

fn serving() -> Serving {
    Serving {
        base_url: "http://127.0.0.1:8080".into(),
        model: "Qwen3-8B-8bit".into(),
        context_window: 40_960,
        max_output_tokens: 32_768,
        thinks: true,
        key: None,
    }
}

/// Every file below the home but our own records: path and content.
fn files(home: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.ends_with("records") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_client_with_a_file_goes_there_and_back() {
    for client in CLIENTS.iter().filter(|client| client.file.is_some()) {
        let home = tempfile::tempdir().unwrap();
        let places = places(home.path());
        assert_eq!(inspect(client, &serving(), &places), State::NotSetUp, "{}", client.id);
        let plan = plan(client, &serving(), &places).unwrap();
        assert!(plan.changes() && plan.diff(None).contains('+'), "{}", client.id);
        apply(&plan, &places).unwrap();
        assert_eq!(inspect(client, &serving(), &places), State::Current, "{}", client.id);
        assert_eq!(files(home.path()).len(), 1, "one file, and no leftovers: {}", client.id);
        assert!(fs::read_to_string(&plan.path).unwrap().contains("127.0.0.1:8080"), "{}", client.id);

        // Another model: out of date, brought up to date, and undone to the very beginning.
        let other = Serving {
            model: "Other-4bit".into(),
            ..serving()
        };
        assert_eq!(inspect(client, &other, &places), State::Stale, "{}", client.id);
        apply(&dspark_agents::plan(client, &other, &places).unwrap(), &places).unwrap();
        assert_eq!(inspect(client, &other, &places), State::Current, "{}", client.id);
        undo(client, &places).unwrap();
        assert_eq!(files(home.path()), [], "{}", client.id);
        assert!(
            matches!(undo(client, &places), Err(AgentError::NothingToUndo { .. })),
            "{}",
            client.id
        );
    }
}

#[test]
fn what_people_wrote_is_kept_and_comes_back_to_the_letter() {
    for (id, path, theirs) in [
        (
            "opencode",
            ".config/opencode/opencode.jsonc",
            "{\n  // mine\n  \"theme\": \"x\",\n  \"provider\": {\"a\": {}},\n}\n",
        ),
        ("zed", ".config/zed/settings.json", "// Zed\n{\n  \"vim_mode\": true,\n}\n"),
        ("pi", ".pi/agent/models.json", "{\"providers\": {\"a\": {\"baseUrl\": \"b\"}}}"),
        ("crush", ".config/crush/crush.json", "{}"),
        (
            "claude",
            "project/.claude/settings.local.json",
            "{\"permissions\": {\"allow\": [\"Bash\"]}, \"env\": {\"MINE\": \"1\"}}",
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let places = places(home.path());
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, theirs).unwrap();
        let client = client(id).unwrap();
        apply(&plan(client, &serving(), &places).unwrap(), &places).unwrap();
        let now = fs::read_to_string(&path).unwrap();
        for kept in [
            "// mine",
            "\"theme\": \"x\"",
            "// Zed",
            "\"vim_mode\": true",
            "\"a\": {",
            "\"allow\": [\"Bash\"]",
            "\"MINE\": \"1\"",
        ] {
            assert_eq!(theirs.contains(kept), now.contains(kept), "{id}: {kept} in {now}");
        }
        assert_eq!(inspect(client, &serving(), &places), State::Current, "{id}");
        assert_eq!(undo(client, &places).unwrap(), path);
        assert_eq!(fs::read_to_string(&path).unwrap(), theirs, "{id}");
    }
}

#[test]
fn a_file_that_changed_since_or_does_not_parse_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let places = places(home.path());
    let client = client("pi").unwrap();
    let plan = plan(client, &serving(), &places).unwrap();
    apply(&plan, &places).unwrap();
    let edited = fs::read_to_string(&plan.path).unwrap().replace("(local)", "(mine)");
    fs::write(&plan.path, &edited).unwrap();
    assert_eq!(inspect(client, &serving(), &places), State::Stale);
    let error = undo(client, &places).unwrap_err();
    assert!(matches!(error, AgentError::Changed { .. }), "{error}");
    assert_eq!(fs::read_to_string(&plan.path).unwrap(), edited);

    fs::write(&plan.path, "{ not json").unwrap();
    assert!(matches!(inspect(client, &serving(), &places), State::Unreadable(_)));
    let error = dspark_agents::plan(client, &serving(), &places).unwrap_err().to_string();
    assert!(error.contains("agents show pi"), "{error}");
    assert_eq!(fs::read_to_string(&plan.path).unwrap(), "{ not json");

    // YAML of their own is not rewritten.
    let theirs = home.path().join(".continue/config.yaml");
    fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    fs::write(&theirs, "name: mine\n").unwrap();
    assert!(matches!(
        dspark_agents::plan(dspark_agents::client("continue").unwrap(), &serving(), &places),
        Err(AgentError::Unreadable { .. })
    ));
}

#[cfg(unix)]
#[test]
fn links_are_followed_permissions_kept_and_new_files_private() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let home = tempfile::tempdir().unwrap();
    let places = places(home.path());
    let real = home.path().join("dotfiles/crush.json");
    let link = home.path().join(".config/crush/crush.json");
    for folder in [real.parent().unwrap(), link.parent().unwrap()] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(&real, "{}").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&real, &link).unwrap();
    apply(&plan(client("crush").unwrap(), &serving(), &places).unwrap(), &places).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("mlx-dspark"));
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    let new = plan(client("pi").unwrap(), &serving(), &places).unwrap();
    apply(&new, &places).unwrap();
    assert_eq!(fs::metadata(&new.path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_files_say_what_their_readers_need() {
    let home = tempfile::tempdir().unwrap();
    let places = places(home.path());
    let keyed = Serving {
        key: Some("$ecret".into()),
        ..serving()
    };
    let content = |id: &str, serving: &Serving| plan(client(id).unwrap(), serving, &places).unwrap().after;
    let codex: toml::Table = toml::from_str(&content("codex", &serving())).unwrap();
    assert_eq!(codex["model_auto_compact_token_limit"].as_integer(), Some(32_768));
    let provider = &codex["model_providers"]["mlx-dspark"];
    assert_eq!(provider["base_url"].as_str(), Some("http://127.0.0.1:8080/v1"));
    assert!(
        provider.get("env_key").is_none(),
        "named and unset it would keep Codex from starting"
    );
    assert!(content("codex", &keyed).contains("env_key = \"MLX_DSPARK_KEY\""));
    assert!(!content("codex", &keyed).contains("$ecret"));
    let pi: Value = serde_json::from_str(&content("pi", &keyed)).unwrap();
    assert_eq!(pi["providers"]["mlx-dspark"]["apiKey"], "$$ecret");
    let opencode: Value = serde_json::from_str(&content("opencode", &serving())).unwrap();
    assert_eq!(
        opencode["provider"]["mlx-dspark"]["models"]["Qwen3-8B-8bit"]["limit"],
        json!({"context": 40960, "output": 10240})
    );
    let zed: Value = serde_json::from_str(&content("zed", &serving())).unwrap();
    assert_eq!(
        zed["language_models"]["openai_compatible"]["mlx-dspark"]["available_models"][0]["capabilities"]["images"],
        false
    );
    let diff = plan(client("crush").unwrap(), &keyed, &places).unwrap().diff(keyed.key.as_deref());
    assert!(!diff.contains("$ecret") && diff.contains("••••"), "{diff}");
}

#[test]
fn every_client_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let places = places(home.path());
    for client in &CLIENTS {
        let steps = client.steps(&serving(), &places);
        assert!(!steps.is_empty(), "{}", client.id);
        let text = client.describe(&serving(), &places).to_string();
        assert!(text.contains("127.0.0.1:8080") || client.id == "claude", "{}: {text}", client.id);
        for step in &steps {
            if let Step::Fields { fields, .. } = step {
                assert!(fields.iter().all(|(_, value)| !value.is_empty()));
            }
        }
    }
    assert_eq!(client("CODEX").map(|client| client.id), Some("codex"));
    assert!(client("nobody").is_none());
}
