//! The program as scripts meet it: exit codes, one JSON object, failed writes. Nothing here loads a model or needs a network.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of a test")]

use serde_json::Value;
use std::{
    fs::File,
    path::Path,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

/// The program with a home of its own.
fn program(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlx-dspark"));
    command
        .args(words)
        .env_clear()
        .env("HOME", home)
        .env("HF_HUB_OFFLINE", "1")
        .env("MLX_DSPARK_PYTHON", home.join("no-python"))
        .stdin(Stdio::null());
    command
}

fn run(words: &[&str]) -> (TempDir, Output) {
    let home = tempfile::tempdir().unwrap();
    let output = program(home.path(), words).output().unwrap();
    (home, output)
}

/// Standard output as the one object it must be.
fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn usage_errors_are_one_object_with_json_and_a_text_without() {
    for words in [
        ["generate", "--bogus", "--json"],
        ["--json", "generate", "--top-p=2"],
        ["generat", "--json", "-q"],
        ["models", "path", "--json"],
    ] {
        let (_home, output) = run(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let object = object(&output);
        assert_eq!(object["error"]["code"], 2, "{object}");
        assert!(object["error"]["message"].as_str().is_some_and(|text| text.len() > 10), "{object}");
    }
    let (_home, output) = run(&["generate", "--bogus"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(errors(&output).contains("--bogus"));
}

#[test]
fn unknown_commands_are_usage_errors() {
    let (_home, output) = run(&["generat"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("generate"), "{}", errors(&output));
}

#[test]
fn what_cannot_be_written_is_a_failure_and_a_reader_that_left_is_not() {
    let full = Path::new("/dev/full");
    let home = tempfile::tempdir().unwrap();
    if full.exists() {
        let out = File::options().write(true).open(full).unwrap();
        let output = program(home.path(), &["models", "--json"]).stdout(out).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(errors(&output).contains("standard output"), "{}", errors(&output));
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = program(home.path(), &["models", "--json"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), errors(&output)), (Some(0), String::new()));
}

#[test]
fn removing_what_is_not_here_says_so_before_it_asks() {
    let (_home, output) = run(&["models", "rm", "nope"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("no model named `nope`"), "{}", errors(&output));
}

/// A folder that looks enough like a model to be listed and removed.
fn model(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("config.json"), r#"{"model_type": "llama"}"#).unwrap();
    std::fs::write(folder.join("model.safetensors"), vec![0; 1000]).unwrap();
}

/// A folder's path may read like a repository's name: what is wrong with the folder is told, not how to fetch a namesake.
#[test]
fn a_damaged_folder_is_told_as_damaged_however_it_is_named() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("bad/trunc");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), r#"{"model_type": "llama"}"#).unwrap();
    let header = r#"{"w": {"dtype": "U8", "shape": [1000], "data_offsets": [0, 1000]}}"#;
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header.as_bytes());
    weights.extend([0; 500]);
    std::fs::write(folder.join("model.safetensors"), weights).unwrap();
    for name in ["bad/trunc", "./bad/trunc", "~/bad/trunc", folder.to_str().unwrap()] {
        let mut command = program(home.path(), &["generate", "--prompt", "hi", "--model", name]);
        let output = command.current_dir(home.path()).output().unwrap();
        let told = errors(&output);
        assert_eq!(output.status.code(), Some(5), "{name}: {told}");
        assert!(told.contains("damaged") && !told.contains("models pull"), "{name}: {told}");
    }
    // Where nothing of that name is here, the way to have it is told.
    let output = program(home.path(), &["generate", "--prompt", "hi", "--model", "bad/other"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("models pull bad/other"), "{}", errors(&output));
}

#[cfg(unix)]
#[test]
fn removing_a_link_keeps_and_counts_nothing_of_what_it_points_to() {
    let home = tempfile::tempdir().unwrap();
    let (models, mine) = (home.path().join(".cache/mlx_dspark/models"), home.path().join("mine"));
    model(&mine);
    std::fs::create_dir_all(&models).unwrap();
    std::os::unix::fs::symlink(&mine, models.join("linked")).unwrap();
    let output = program(home.path(), &["models", "rm", "linked", "--yes", "--json"])
        .output()
        .unwrap();
    let object = object(&output);
    assert_eq!((&object["bytes"], &object["link"]), (&0.into(), &true.into()), "{object}");
    assert!(mine.join("model.safetensors").exists() && !models.join("linked").is_symlink());
}

#[test]
fn an_empty_prompt_is_said_to_be_empty_wherever_it_comes_from() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("prompt.txt");
    std::fs::write(&file, "\u{feff} \n").unwrap();
    let file = file.display().to_string();
    for (words, named) in [
        (&["generate"][..], "standard input is empty"),
        (&["generate", "--prompt", "-"], "standard input is empty"),
        (&["generate", "--prompt-file", &file], "prompt.txt` is empty"),
    ] {
        let output = program(home.path(), words).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{words:?}");
        assert!(errors(&output).contains(named), "{words:?}: {}", errors(&output));
    }
}

#[test]
fn log_probabilities_without_json_are_not_silently_dropped() {
    let (_home, output) = run(&["generate", "--prompt", "hi", "--logprobs", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("add `--json`"), "{}", errors(&output));
}

/// Exit code 3: it could be read, and its own code is not run.
#[test]
fn a_checkpoint_that_needs_its_own_code_is_refused() {
    let home = tempfile::tempdir().unwrap();
    installed(home.path(), "Homemade-1B");
    let folder = home.path().join(".cache/mlx_dspark/models/Homemade-1B");
    let config = r#"{"model_type": "homemade", "auto_map": {"AutoModel": "modeling.Homemade"}}"#;
    std::fs::write(folder.join("config.json"), config).unwrap();
    let words = ["generate", "--model", "Homemade-1B", "--prompt", "hi"];
    let output = program(home.path(), &words).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(errors(&output).contains("config.json:auto_map"), "{}", errors(&output));
    let output = program(home.path(), &[&words[..], &["--json"]].concat()).output().unwrap();
    assert_eq!(object(&output)["error"]["code"], 3);
}

/// Exit code 3 as well: it could be loaded, and the machine would not survive it. A file of a terabyte without its bytes.
#[test]
fn a_model_too_big_for_the_machine_wants_force() {
    let home = tempfile::tempdir().unwrap();
    installed(home.path(), "Vast-1T");
    let weights = home.path().join(".cache/mlx_dspark/models/Vast-1T/model.safetensors");
    let header = r#"{"w":{"dtype":"F32","shape":[274877906944],"data_offsets":[0,1099511627776]}}"#;
    let start = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    std::fs::write(&weights, &start).unwrap();
    let file = std::fs::File::options().write(true).open(weights).unwrap();
    file.set_len(start.len() as u64 + (1 << 40)).unwrap();
    let words = ["generate", "--model", "Vast-1T", "--prompt", "hi"];
    let output = program(home.path(), &words).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    let said = errors(&output);
    assert!(said.contains("1099.5 GB") && said.contains("`--force`"), "{said}");
    let insisted = program(home.path(), &[&words[..], &["--force"]].concat()).output().unwrap();
    assert_eq!(insisted.status.code(), Some(5), "it lacks what its kind has: {}", errors(&insisted));
}

/// A library's panic on a malformed file is an error like any other, without its trace.
#[test]
fn a_tokenizer_that_makes_its_reader_panic_is_a_plain_error() {
    let home = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/targets/llama");
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(from.join(name), home.path().join(name)).unwrap();
    }
    // The joined word of the merge is not in the vocabulary.
    let tokenizer = r#"{"model": {"type": "BPE", "vocab": {"h": 0, "i": 1}, "merges": ["h i"]}, "added_tokens": []}"#;
    std::fs::write(home.path().join("tokenizer.json"), tokenizer).unwrap();
    let words = ["generate", "--model", home.path().to_str().unwrap(), "--prompt", "hi"];
    let output = program(home.path(), &words).env("RUST_BACKTRACE", "1").output().unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("it is malformed") && !said.contains("panicked"), "{said}");
    let loud = program(home.path(), &[&words[..], &["-vv"]].concat()).output().unwrap();
    assert!(errors(&loud).contains("panicked"), "{}", errors(&loud));
}

#[test]
fn files_that_are_not_there_are_called_that() {
    let (_home, output) = run(&["models", "pull", "missing.gguf"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("no file `missing.gguf`"), "{}", errors(&output));
}

#[test]
fn a_ready_file_that_cannot_be_written_is_refused_at_once() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("missing/ready.json").display().to_string();
    let output = program(home.path(), &["serve", "--no-model", "--port", "0", "--ready-file", &file])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("--ready-file"), "{}", errors(&output));
}

/// A model in our cache under this name.
fn installed(home: &Path, name: &str) {
    let folder = home.join(".cache/mlx_dspark/models").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let header = r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([0; 4]);
    std::fs::write(folder.join("config.json"), r#"{"model_type": "qwen3", "hidden_size": 2560}"#).unwrap();
    std::fs::write(folder.join("model.safetensors"), bytes).unwrap();
}

#[test]
fn drafters_that_cannot_be_had_are_named_before_anything_loads() {
    let home = tempfile::tempdir().unwrap();
    installed(home.path(), "Qwen3-4B-8bit");
    for (words, code, named) in [
        (&["--drafter", "nobody/nothing"][..], 2, "models pull nobody/nothing"),
        (&["--drafter", "smollm2-135m-dspark"], 5, "hidden size is 576, the target's is 2560"),
        (
            &["--mode", "dspark"],
            2,
            "`deepseek-ai/dspark_qwen3_4b_block7` is not installed: `mlx-dspark models pull",
        ),
    ] {
        for command in ["generate", "serve", "probe"] {
            let mut words: Vec<&str> = [command, "--model", "Qwen3-4B-8bit"].iter().chain(words).copied().collect();
            if command == "generate" {
                words.extend(["--prompt", "hi"]);
            }
            let output = program(home.path(), &words).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{words:?}: {}", errors(&output));
            assert!(errors(&output).contains(named), "{words:?}: {}", errors(&output));
        }
    }
}

#[test]
fn models_tell_their_drafters() {
    let home = tempfile::tempdir().unwrap();
    installed(home.path(), "Qwen3-4B-8bit");
    installed(home.path(), "Mystery-7B");
    let output = program(home.path(), &["models", "--json"]).output().unwrap();
    let object = object(&output);
    let of = |name: &str| -> Value {
        let rows = object["installed"].as_array().unwrap();
        rows.iter().find(|row| row["repo"] == name).unwrap()["drafter"].clone()
    };
    assert_eq!(of("Qwen3-4B-8bit")["name"], "deepseek-ai/dspark_qwen3_4b_block7");
    assert_eq!(of("Qwen3-4B-8bit")["installed"], false);
    assert_eq!(of("Mystery-7B"), Value::Null);
    assert!(object["registry"].as_array().is_some_and(|rows| rows.len() > 15));
    let output = program(home.path(), &["models"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("deepseek-ai/dspark_qwen3_4b_block7 (not installed)"), "{text}");
}

#[test]
fn convert_makes_a_folder_once_and_names_what_it_refuses() {
    let home = tempfile::tempdir().unwrap();
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/targets");
    let (source, packed) = (oracle.join("qwen3"), oracle.join("qwen3-q4g64"));
    let (source, packed) = (source.to_str().unwrap(), packed.to_str().unwrap());
    let dest = home.path().join("made");
    let dest = dest.to_str().unwrap();
    let run = |words: &[&str]| program(home.path(), &[&["convert"], words].concat()).output().unwrap();

    for (code, part, words) in [
        (2, "7 bits", &[source, dest, "--bits", "7"][..]),
        (2, "must be PATTERN=", &[source, dest, "--bits", "4", "--override", "lm_head"]),
        (
            2,
            "`head` matches no matrix",
            &[source, dest, "--bits", "4", "--group-size", "32", "--override", "head=8:32"],
        ),
        (2, "say `--bits` or `--mode`", &[source, dest, "--override", "lm_head=keep"]),
        (2, "there is no folder or file `nowhere`", &["nowhere", dest]),
        (3, "is quantized already", &[packed, dest, "--bits", "4"]),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!(errors(&output).contains(part), "{}", errors(&output));
    }
    let output = run(&[
        source,
        dest,
        "--bits",
        "4",
        "--group-size",
        "32",
        "--override",
        "lm_head=8:32",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let told = object(&output);
    assert_eq!((told["path"].as_str(), told["model_type"].as_str()), (Some(dest), Some("qwen3")));
    assert!(
        told["bits_per_weight"].as_f64().is_some_and(|bits| bits > 4.5 && bits < 6.5),
        "{told}"
    );
    let output = run(&[source, dest, "--bits", "4", "--json"]);
    assert_eq!(
        (output.status.code(), object(&output)["error"]["code"].as_u64()),
        (Some(3), Some(3))
    );
    // What it made is quantized, and comes along as it is where nothing is asked.
    let again = home.path().join("again");
    let output = run(&[dest, again.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("read back and equal"));
    assert!(errors(&output).contains("converting"), "{}", errors(&output));
}

#[test]
fn benchmarks_that_were_run_are_listed_without_a_model() {
    let home = tempfile::tempdir().unwrap();
    let none = program(home.path(), &["benchmark", "--history"]).output().unwrap();
    assert_eq!(none.status.code(), Some(0), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stdout).contains("No benchmark has been run yet"));
    let data = home.path().join("data");
    let run = |name: &str, rate: f64, speedup: f64| dspark_compare::Run {
        run: name.into(),
        decode_tok_s: rate,
        speedup,
        ..dspark_compare::Run::default()
    };
    let bench = dspark_compare::Bench {
        stamp: dspark_compare::Stamp {
            at: 1_795_874_520,
            target: "tiny".into(),
            device: "a machine".into(),
            ..dspark_compare::Stamp::default()
        },
        runs: vec![run("baseline", 40.0, 1.0), run("auto", 84.0, 2.1)],
        flags: vec!["other requests ran".into()],
        ..dspark_compare::Bench::default()
    };
    dspark_compare::append_bench(&data.join(dspark_compare::BENCHES), &bench).unwrap();
    let folder = data.to_str().unwrap();
    let listed = program(home.path(), &["benchmark", "--history", "--data-dir", folder])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&listed.stdout);
    for part in [
        "tiny",
        "a machine",
        "40.0",
        "auto cap derived 2.10×",
        "other requests ran",
        "2026-11-28",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let listed = program(home.path(), &["benchmark", "--history", "--json", "--data-dir", folder])
        .output()
        .unwrap();
    assert_eq!(object(&listed)["benchmarks"][0]["runs"][1]["run"], "auto");
}
