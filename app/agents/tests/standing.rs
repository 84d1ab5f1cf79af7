//! Where clients stand: found or not, set up, out of date and why, changed by somebody else.

#![allow(clippy::unwrap_used)]

use dspark_agents::{
    AgentError, CLIENTS, Places, Serving, State, Undo, apply, client, keep, look, plan, since, undo, undo_changed, undoing,
};
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

#[test]
fn a_moved_server_another_key_and_another_model_are_told_for_every_file() {
    for client in CLIENTS.iter().filter(|client| client.file.is_some()) {
        let home = tempfile::tempdir().unwrap();
        let places = places(home.path());
        let id = client.id;
        let at = |serving: &Serving| look(client, Some(serving), &places);
        assert_eq!(
            (at(&serving()).state, at(&serving()).undo),
            (State::NotSetUp, Undo::Nothing),
            "{id}"
        );
        apply(&plan(client, &serving(), &places).unwrap(), &places).unwrap();
        let fresh = at(&serving());
        assert_eq!(
            (fresh.state, fresh.undo, fresh.edited),
            (State::Current, Undo::Ready, false),
            "{id}"
        );
        assert_eq!(look(client, None, &places).state, State::SetUp, "{id}");

        let moved = at(&Serving {
            base_url: "http://127.0.0.1:8081".into(),
            ..serving()
        });
        assert_eq!((&moved.state, moved.edited), (&State::Stale, false), "{id}");
        assert_eq!(moved.reasons, ["it points at port 8080"], "{id}");
        assert_eq!(moved.words(), "out of date: it points at port 8080", "{id}");
        let other = at(&Serving {
            model: "Other".into(),
            ..serving()
        });
        assert_eq!(other.reasons, ["it is for another model than Other"], "{id}");
        // Zed keeps the key elsewhere.
        let keyed = at(&Serving {
            key: Some("sk-1".into()),
            ..serving()
        });
        if id == "zed" {
            assert_eq!(keyed.state, State::Current);
        } else {
            assert_eq!(keyed.state, State::Stale, "{id}");
            assert_eq!(keyed.reasons.len(), 1, "{id}: {:?}", keyed.reasons);
            assert!(!format!("{:?}", keyed.reasons).contains("sk-1"), "the key itself is never told");
        }
        undo(client, &places).unwrap();
        assert_eq!(at(&serving()).undo, Undo::Nothing, "{id}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_kept_for_undoing_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let places = places(home.path());
    apply(&plan(client("crush").unwrap(), &serving(), &places).unwrap(), &places).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&places.records), 0o700);
    for record in fs::read_dir(&places.records).unwrap() {
        assert_eq!(mode(&record.unwrap().path()), 0o600);
    }
}

#[test]
fn what_somebody_else_changed_is_told_shown_and_can_be_undone_or_kept() {
    let home = tempfile::tempdir().unwrap();
    let places = places(home.path());
    let crush = client("crush").unwrap();
    let first = plan(crush, &serving(), &places).unwrap();
    fs::create_dir_all(first.path.parent().unwrap()).unwrap();
    fs::write(&first.path, "{\"mine\": 1}\n").unwrap();
    apply(&plan(crush, &serving(), &places).unwrap(), &places).unwrap();
    let ours = fs::read_to_string(&first.path).unwrap();

    // Beside our entry: up to date, but not to be undone without a look.
    fs::write(&first.path, ours.replace("\"mine\": 1", "\"mine\": 2")).unwrap();
    let now = look(crush, Some(&serving()), &places);
    assert_eq!((now.state, now.undo, now.edited), (State::Current, Undo::Changed, false));
    let theirs = since(crush, &places).unwrap().diff(None);
    assert!(
        theirs.contains("\n-") && theirs.contains("\"mine\": 2") && theirs.contains("\"mine\": 1"),
        "{theirs}"
    );
    // In our entry.
    let edited = ours.replace("(local)", "(mine)");
    fs::write(&first.path, &edited).unwrap();
    let now = look(crush, Some(&serving()), &places);
    assert_eq!((&now.state, now.undo, now.edited), (&State::Stale, Undo::Changed, true));
    assert_eq!(now.words(), "changed by hand since");
    assert_eq!(now.reasons, ["it was changed by hand since it was set up"]);
    assert!(matches!(undo(crush, &places), Err(AgentError::Changed { .. })));
    let back = undoing(crush, &places).unwrap();
    assert_eq!(
        (back.before.as_deref(), back.after.as_str()),
        (Some(edited.as_str()), "{\"mine\": 1}\n")
    );
    assert_eq!(undo_changed(crush, &places).unwrap(), first.path);
    assert_eq!(fs::read_to_string(&first.path).unwrap(), "{\"mine\": 1}\n");
    let copies: Vec<String> = fs::read_dir(&places.records)
        .unwrap()
        .flatten()
        .map(|entry| fs::read_to_string(entry.path()).unwrap())
        .collect();
    assert_eq!(copies, [edited], "what was there is kept beside the records");

    // Keeping the file takes the undo away and loses nothing.
    apply(&plan(crush, &serving(), &places).unwrap(), &places).unwrap();
    fs::write(&first.path, "{}\n").unwrap();
    let kept = keep(crush, &places).unwrap();
    assert!(fs::read_to_string(kept).unwrap().contains("mine"));
    assert_eq!(fs::read_to_string(&first.path).unwrap(), "{}\n");
    assert!(matches!(undo(crush, &places), Err(AgentError::NothingToUndo { .. })));
    assert_eq!(look(crush, Some(&serving()), &places).undo, Undo::Nothing);
}

#[test]
fn a_change_that_was_shown_is_the_one_that_is_made() {
    let home = tempfile::tempdir().unwrap();
    let places = places(home.path());
    let pi = client("pi").unwrap();
    let shown = plan(pi, &serving(), &places).unwrap();
    fs::create_dir_all(shown.path.parent().unwrap()).unwrap();
    fs::write(&shown.path, "{\"new\": true}").unwrap();
    assert!(matches!(apply(&shown, &places), Err(AgentError::Meanwhile { .. })));
    assert_eq!(fs::read_to_string(&shown.path).unwrap(), "{\"new\": true}");
    assert_eq!(look(pi, Some(&serving()), &places).undo, Undo::Nothing);
}

#[cfg(unix)]
#[test]
fn read_only_files_and_folders_in_the_way_are_named_and_nothing_is_kept_to_undo() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let places = places(home.path());
    let zed = client("zed").unwrap();
    let path = zed.path(&places).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{}\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let error = apply(&plan(zed, &serving(), &places).unwrap(), &places).unwrap_err().to_string();
    assert!(error.contains("settings.json") && error.contains("read-only"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n");
    assert_eq!(look(zed, Some(&serving()), &places).undo, Undo::Nothing);
    assert!(matches!(undo(zed, &places), Err(AgentError::NothingToUndo { .. })));

    // A file where a folder should be, and a folder where the file should be.
    fs::write(home.path().join(".pi"), "").unwrap();
    let pi = look(client("pi").unwrap(), Some(&serving()), &places);
    assert!(
        matches!(&pi.state, State::Unreadable(reason) if reason.contains("cannot be read")),
        "{pi:?}"
    );
    fs::create_dir_all(home.path().join(".codex/mlx-dspark.config.toml")).unwrap();
    let codex = look(client("codex").unwrap(), Some(&serving()), &places);
    assert!(matches!(codex.state, State::Unreadable(_)), "{codex:?}");
}

#[test]
fn files_that_do_not_parse_are_told_with_and_without_a_model() {
    let home = tempfile::tempdir().unwrap();
    let places = places(home.path());
    for (id, broken) in [
        ("zed", "{\n \"a\": [1\n"),
        ("pi", "[]"),
        ("crush", "{\"providers\": 7}"),
        ("continue", "name: mine\n"),
    ] {
        let client = client(id).unwrap();
        let path = client.path(&places).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, broken).unwrap();
        for serving in [None, Some(&serving())] {
            let now = look(client, serving, &places);
            assert!(matches!(now.state, State::Unreadable(_)), "{id}: {now:?}");
            assert_eq!(now.plan, None, "{id}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), broken);
    }
}

#[cfg(unix)]
#[test]
fn programs_bundles_and_extensions_are_found_with_their_versions() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let places = places(home.path());
    assert!(CLIENTS.iter().all(|client| look(client, None, &places).found.is_none()));
    let program = |name: &str, script: &str| {
        let path = home.path().join("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let claude = program("claude", "echo '2.1.36 (Claude Code)'");
    let found = look(client("claude").unwrap(), None, &places).found.unwrap();
    assert_eq!((&found.path, &found.version), (&claude, &None), "nothing is run by looking");
    assert_eq!(found.asked().version.as_deref(), Some("2.1.36"));
    program("codex", "exit 1");
    assert_eq!(look(client("codex").unwrap(), None, &places).found.unwrap().asked().version, None);
    // Not a program.
    fs::write(home.path().join("bin/crush"), "").unwrap();
    assert!(look(client("crush").unwrap(), None, &places).found.is_none());
    for version in ["1.9.2", "1.10.0-darwin-arm64"] {
        fs::create_dir_all(home.path().join(".vscode/extensions").join(format!("continue.continue-{version}"))).unwrap();
    }
    let found = look(client("continue").unwrap(), None, &places).found.unwrap();
    assert_eq!(found.version.as_deref(), Some("1.10.0"));
    let contents = home.path().join("Applications/Raycast.app/Contents");
    fs::create_dir_all(&contents).unwrap();
    fs::write(
        contents.join("Info.plist"),
        "<key>CFBundleShortVersionString</key><string>1.84.2</string>",
    )
    .unwrap();
    assert_eq!(
        look(client("raycast").unwrap(), None, &places).found.unwrap().version.as_deref(),
        Some("1.84.2")
    );
}

#[test]
fn what_else_is_in_the_way_is_told() {
    let home = tempfile::tempdir().unwrap();
    let mut places = places(home.path());
    let conflict = |id: &str, places: &Places| look(client(id).unwrap(), Some(&serving()), places).conflict;
    assert_eq!((conflict("codex", &places), conflict("claude", &places)), (None, None));
    fs::create_dir_all(&places.codex).unwrap();
    fs::write(places.codex.join("config.toml"), "[profiles.old]\nmodel = \"x\"\n").unwrap();
    places.variables.push("ANTHROPIC_API_KEY".into());
    assert!(conflict("codex", &places).unwrap().contains("[profiles]"));
    assert!(conflict("claude", &places).unwrap().contains("ANTHROPIC_API_KEY"));
}

#[test]
fn clients_are_told_by_their_user_agents() {
    let who = |name: &str| CLIENTS.iter().find(|client| client.is_agent(name)).map(|client| client.id);
    for (name, id) in [
        ("claude-cli", Some("claude")),
        ("codex_cli_rs", Some("codex")),
        ("Zed", Some("zed")),
        ("opencode", Some("opencode")),
        ("pi", Some("pi")),
        ("pip", None),
        ("curl", None),
        ("OpenAI/Python", None),
    ] {
        assert_eq!(who(name), id, "{name}");
    }
}
