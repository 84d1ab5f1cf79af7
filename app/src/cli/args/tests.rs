use super::*;
use crate::pairing::{MaxDraft, Wish};
use clap::CommandFactory;
use dspark_protocol::{Mode, TreeSetting};

fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
    let words = ["mlx-dspark"].iter().chain(words).map(OsString::from);
    super::parse(with_default_command(words))
}

#[test]
fn the_grammar_holds() {
    negatives(Arguments::command()).debug_assert();
}

#[test]
fn options_without_a_command_mean_generate() {
    assert!(matches!(parse(&["--prompt", "hi"]).unwrap().command, Some(Command::Generate(_))));
    assert!(parse(&[]).unwrap().command.is_none());
}

#[test]
fn where_chats_are_kept_alone_means_the_app() {
    for words in [&["--data-dir", "x"][..], &["--data-dir=x"]] {
        let Some(Command::App(args)) = parse(words).unwrap().command else {
            panic!("{words:?}")
        };
        assert_eq!(args.data_dir.as_deref(), Some(std::path::Path::new("x")));
    }
}

/// Options of the group may come after the word that says what to do.
#[test]
fn which_server_may_be_said_last() {
    for words in [
        &["agents", "--url", "http://127.0.0.1:9", "apply", "opencode"][..],
        &["agents", "apply", "opencode", "--url", "http://127.0.0.1:9"],
        &["agents", "list", "--url=http://127.0.0.1:9"],
    ] {
        let Some(Command::Agents(args)) = parse(words).unwrap().command else {
            panic!("{words:?}")
        };
        assert_eq!(args.server.url, "http://127.0.0.1:9", "{words:?}");
    }
}

#[test]
fn unknown_commands_suggest_the_nearest() {
    let error = parse(&["generat"]).unwrap_err();
    assert!(error.use_stderr());
    assert!(error.to_string().contains("generate"), "{error}");
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    for (flag, value) in [
        ("--temperature", "-1"),
        ("--temperature", "NaN"),
        ("--top-p", "1.5"),
        ("--repetition-penalty", "0"),
        ("--top-k", "-1"),
        ("--seed", "-1"),
        ("--context-window", "0"),
        ("--reasoning-effort", "silly"),
        ("--logprobs", "21"),
    ] {
        let error = parse(&["generate", &format!("{flag}={value}")]).unwrap_err();
        assert!(error.to_string().contains(flag), "{error}");
    }
    for flag in ["--temperature", "--top-p", "--top-k", "--repetition-penalty", "--seed"] {
        let error = parse(&["generate", flag, "-1"]).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::ValueValidation, "{error}");
    }
    let error = parse(&["generate", "--top-k", "4294967296"]).unwrap_err();
    assert!(error.to_string().contains("4294967295"), "{error}");
    assert!(parse(&["generate", "--seed", "18446744073709551615"]).is_ok());
}

/// Every flag that takes a number says what it may be, whichever command it is of.
#[test]
fn negative_numbers_are_told_what_they_may_be() {
    for (command, flag) in [
        ("generate", "--max-new-tokens"),
        ("generate", "--context-window"),
        ("generate", "--logprobs"),
        ("generate", "--drafter-bits"),
        ("serve", "--port"),
        ("serve", "--max-queue"),
        ("serve", "--default-max-tokens"),
        ("serve", "--max-tokens-cap"),
        ("serve", "--default-top-k"),
        ("serve", "--default-top-p"),
        ("serve", "--prompt-cache-gb"),
        ("probe", "--max-new-tokens"),
        ("probe", "--max-draft"),
        ("benchmark", "--trials"),
    ] {
        let error = parse(&[command, flag, "-5"]).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::ValueValidation, "{command} {flag}: {error}");
        let text = error.to_string();
        let says = ["must be", "is not in"].iter().any(|words| text.contains(words));
        assert!(text.contains(flag) && says, "{text}");
    }
    // A penalty may be negative.
    assert!(parse(&["generate", "--presence-penalty", "-0.5"]).is_ok());
}

fn wish(words: &[&str]) -> Result<Wish, clap::Error> {
    let words: Vec<&str> = ["generate"].iter().chain(words).copied().collect();
    parse(&words).map(|arguments| match arguments.command {
        Some(Command::Generate(args)) => args.pair.wish(&args.rounds),
        other => panic!("{other:?}"),
    })
}

#[test]
fn speculation_is_said_in_words_and_numbers() {
    assert_eq!(wish(&[]).unwrap(), Wish::default());
    let all = wish(&[
        "--mode",
        "dflash",
        "--drafter=x/y",
        "--drafter-bits=0",
        "--max-draft",
        "auto",
        "--tree",
        "7",
        "--confidence",
        "0.3",
        "--lookup",
        "off",
    ]);
    let all = all.unwrap();
    assert_eq!((all.mode, all.drafter.as_deref(), all.bits), (Mode::Dflash, Some("x/y"), Some(0)));
    assert_eq!(all.max_draft, Some(MaxDraft::Auto));
    assert_eq!((all.speculation.tree, all.speculation.lookup), (TreeSetting::Nodes(7), Some(false)));
    assert!((all.speculation.confidence - 0.3).abs() < 1e-6);
    let max = |value: &str| wish(&["--max-draft", value]).unwrap().max_draft;
    assert_eq!(
        [max("full"), max("3"), max("-1")],
        [Some(MaxDraft::Full), Some(MaxDraft::Number(3)), Some(MaxDraft::Number(-1))]
    );
    // As the Python program spells them.
    assert_eq!(wish(&["--lookup-drafts"]).unwrap().speculation.lookup, Some(true));
    assert_eq!(wish(&["--no-lookup-drafts"]).unwrap().speculation.lookup, Some(false));
    assert!(wish(&["--confidence-threshold", "0.5"]).unwrap().speculation.confidence > 0.4);
    assert!(wish(&["--lookup", "on", "--no-lookup-drafts"]).is_err());
    for command in ["serve", "app"] {
        assert!(
            parse(&[command, "--mode", "lookup", "--tree", "off", "--max-draft", "2"]).is_ok(),
            "{command}"
        );
    }
    for (flag, value, wanted) in [
        ("--max-draft", "many", "`derived` or `full`"),
        ("--tree", "0", "1 to 256"),
        ("--tree", "yes", "`on`, `off`"),
        ("--confidence", "2", "0 to 1"),
        ("--lookup", "maybe", "`on` or `off`"),
        ("--drafter-bits", "7", "2, 3, 4, 5, 6 or 8"),
        ("--mode", "eagle", "dspark"),
    ] {
        let error = wish(&[flag, value]).unwrap_err().to_string();
        assert!(error.contains(flag) && error.contains(wanted), "{error}");
    }
}

#[test]
fn texts_may_begin_with_a_dash() {
    let words = [
        "generate",
        "--prompt",
        "- one\n- two",
        "--system",
        "-v is a flag",
        "--stop",
        "--",
        "--stop",
        "-x",
    ];
    let Some(Command::Generate(args)) = parse(&words).unwrap().command else {
        panic!("{words:?}")
    };
    assert_eq!(args.prompt.as_deref(), Some("- one\n- two"));
    assert_eq!(args.system.as_deref(), Some("-v is a flag"));
    assert_eq!(args.stop, ["--", "-x"]);
}

#[test]
fn json_is_asked_for_anywhere_before_the_operands() {
    let asks = |words: &[&str]| ask_for_json(&words.iter().map(OsString::from).collect::<Vec<_>>());
    assert!(asks(&["m", "generate", "--bogus", "--json"]));
    assert!(!asks(&["m", "generate", "--bogus"]));
    assert!(!asks(&["m", "--", "--json"]));
}
