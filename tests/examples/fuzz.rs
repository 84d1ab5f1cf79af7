//! A mutation fuzzer over everything that reads what others wrote: the body of every dialect, the output of models in every
//! syntax, stop strings, templates, tokenizers, configurations and the headers of weights.
//!
//! ```text
//! cargo run --release -p dspark-tests --example fuzz -- --seconds 600 [--only chat,output] [--seed 1]
//! ```
//! Starts from the kept corpus in `tests/fuzz/<target>/` and mutates bytes, words of the format and, where a sample is JSON,
//! its values. A panic, an answer with status 500, a reply that is not JSON, text that depends on how it is cut, or an input
//! that takes more than [`SLOW`] of processor time is a find: it is written to `target/fuzz/` and the program ends with a non-zero status.
//! There is no coverage feedback (that needs a nightly compiler): what it finds, it finds by volume.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for developers")]

use axum::{body::Body, extract::Request};
use dspark_engine::load::Checkpoint;
use dspark_protocol::double::{Script, start};
use dspark_serve::{App, ServeConfig, service};
use dspark_text::{
    StopScanner, Tokenizer,
    output::{OutputSyntax, Piece, ReasoningSyntax, Splitter, SplitterOptions, ToolSchema, ToolSyntax},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tower::ServiceExt;

/// An input that takes longer ties up a server. Of processor time: a busy machine is no find.
const SLOW: Duration = Duration::from_secs(3);
/// Inputs are kept below this.
const LARGEST: usize = 64 << 10;

static PANICS: AtomicUsize = AtomicUsize::new(0);
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// What a target says of one input: `Err` is a find.
type Check = Box<dyn FnMut(&[u8], &mut Dice) -> Result<(), String>>;

struct Target {
    name: &'static str,
    /// Words of its format.
    words: &'static [&'static str],
    check: Check,
}

/// A small generator of random numbers: runs repeat by their seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Byte values and numbers at which readers err.
const ODD: [&str; 12] = [
    "0",
    "-1",
    "1e999",
    "-0.0",
    "18446744073709551616",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "\"\\ud800\"",
    "\u{202e}😀",
];

fn mutate(seeds: &[Vec<u8>], words: &[&str], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = dice.one(seeds).clone();
    if dice.below(2) == 0
        && let Ok(mut value) = serde_json::from_slice::<Value>(&bytes)
    {
        for _ in 0..=dice.below(3) {
            edit(&mut value, dice, 0);
        }
        bytes = value.to_string().into_bytes();
        if dice.below(4) > 0 {
            return bytes;
        }
    }
    for _ in 0..=dice.below(6) {
        let at = dice.below(bytes.len() + 1);
        let end = (at + 1 + dice.below(16)).min(bytes.len());
        match dice.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 if at < bytes.len() => bytes[at] = dice.next() as u8,
            2 if at < end => drop(bytes.drain(at..end)),
            3 if at < end => {
                let part = bytes[at..end].to_vec();
                for _ in 0..=dice.below(40) {
                    bytes.splice(at..at, part.iter().copied());
                }
            }
            4 => {
                let other = dice.one(seeds).clone();
                let from = dice.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
            5 => drop(bytes.splice(at..at, dice.one(&ODD).bytes())),
            6 if !words.is_empty() => drop(bytes.splice(at..at, dice.one(words).bytes())),
            _ => bytes.truncate(at),
        }
        bytes.truncate(LARGEST);
    }
    bytes
}

/// Changes one value somewhere inside.
fn edit(value: &mut Value, dice: &mut Dice, depth: usize) {
    let down = dice.below(4) > 0 && depth < 12;
    match value {
        Value::Array(items) if down && !items.is_empty() => {
            let at = dice.below(items.len());
            match dice.below(6) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => edit(&mut items[at], dice, depth + 1),
            }
        }
        Value::Object(map) if down && !map.is_empty() => {
            let key = map.keys().nth(dice.below(map.len())).unwrap().clone();
            match dice.below(8) {
                0 => drop(map.remove(&key)),
                1 => drop(map.remove(&key).map(|value| map.insert("unheard_of".into(), value))),
                _ => edit(&mut map[&key], dice, depth + 1),
            }
        }
        Value::String(text) if dice.below(2) == 0 => {
            let word = *dice.one(&[
                "",
                "\u{0}",
                "😀",
                "</think>",
                "<|im_end|>",
                "\\",
                "\"",
                "\n\n",
                "auto",
                "none",
                "json_schema",
            ]);
            let at = (0..=dice.below(text.len() + 1))
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
            text.insert_str(at, word);
        }
        other => {
            *other = match dice.below(9) {
                0 => Value::Null,
                1 => json!(dice.below(2) == 0),
                2 => json!(dice.next() as i64 >> dice.below(64)),
                3 => json!(f64::from_bits(dice.next())),
                4 => json!(""),
                5 => json!([]),
                6 => json!({}),
                7 => json!([other.take()]),
                _ => json!({"type": other.take()}),
            }
        }
    }
}

/// The server's routes without a socket: no status 500, and JSON or whole frames.
fn body(path: &'static str) -> Check {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let engine = start(Script::saying(
        "<think>So.</think>\n\nHello there. <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
    ));
    while engine.snapshot().model.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let config = ServeConfig {
        max_tokens_cap: 64,
        ..ServeConfig::default()
    };
    let app = App::new(config, engine, IpAddr::V4(Ipv4Addr::LOCALHOST));
    Box::new(move |bytes, _| {
        let request = Request::post(path)
            .header("host", "127.0.0.1")
            .header("content-type", "application/json")
            .body(Body::from(bytes.to_vec()))
            .unwrap();
        runtime.block_on(async {
            let response = service(app.clone()).oneshot(request).await.map_err(|error| error.to_string())?;
            let status = response.status().as_u16();
            let stream = response.headers()["content-type"] == "text/event-stream";
            let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
            if status == 500 {
                return Err(format!("status 500: {}", String::from_utf8_lossy(&body)));
            }
            let well = if stream {
                body.ends_with(b"\n\n") && std::str::from_utf8(&body).is_ok()
            } else {
                serde_json::from_slice::<Value>(&body).is_ok()
            };
            well.then_some(())
                .ok_or_else(|| format!("not well formed: {}", String::from_utf8_lossy(&body)))
        })
    })
}

/// Joined by kind: how the text was cut must not show.
fn told(pieces: Vec<Piece>) -> String {
    let (mut out, mut last) = (String::new(), "");
    for piece in pieces {
        let (kind, text) = match piece {
            Piece::Text(text) => ("text", text),
            Piece::Reasoning(text) => ("reasoning", text),
            Piece::ToolStart { index, name, .. } => ("call", format!("{index} {name}")),
            Piece::ToolArguments { fragment, .. } => ("arguments", fragment),
            Piece::ToolEnd { index } => ("end", index.to_string()),
            Piece::ToolAborted { index } => ("aborted", index.to_string()),
            Piece::Unfinished(text) => ("unfinished", text),
        };
        if kind != last || kind == "call" {
            out.extend(["\n[", kind, "] "]);
        }
        out += &text;
        last = kind;
    }
    out
}

fn output() -> Check {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer"}, "on": {"type": "boolean"},
        "todos": {"type": "array", "items": {"type": "object"}}, "maybe": {"type": ["string", "null"]}}});
    let tools = vec![
        ToolSchema::new("get_weather", schema.clone()),
        ToolSchema::new("f", schema),
        ToolSchema::new("q", Value::Null),
    ];
    let kinds: Vec<SplitterOptions> = [
        OutputSyntax::default(),
        OutputSyntax {
            reasoning: ReasoningSyntax::Harmony,
            tools: None,
        },
        OutputSyntax {
            tools: Some(ToolSyntax::PlainJson),
            ..OutputSyntax::default()
        },
    ]
    .into_iter()
    .flat_map(|syntax| {
        let options = move |prompt: &str, tools: Vec<ToolSchema>| SplitterOptions {
            syntax,
            prompt: prompt.into(),
            tools,
            ..SplitterOptions::default()
        };
        [
            options("", tools.clone()),
            options("<|im_start|>assistant\n<think>\n", tools.clone()),
            options("", Vec::new()),
        ]
    })
    .collect();
    Box::new(move |bytes, dice| {
        let text = String::from_utf8_lossy(bytes);
        let options = dice.one(&kinds);
        let whole = {
            let mut splitter = Splitter::new(options.clone());
            let mut pieces = splitter.push(&text);
            pieces.extend(splitter.finish());
            told(pieces)
        };
        let mut splitter = Splitter::new(options.clone());
        let (mut pieces, mut rest) = (Vec::new(), &*text);
        while !rest.is_empty() {
            let cut = (1 + dice.below(12)..=rest.len())
                .find(|at| rest.is_char_boundary(*at))
                .unwrap_or(rest.len());
            pieces.extend(splitter.push(&rest[..cut]));
            rest = &rest[cut..];
        }
        pieces.extend(splitter.finish());
        let cut = told(pieces);
        if cut == whole {
            Ok(())
        } else {
            Err(format!("cut differently: {cut:?} is not {whole:?}"))
        }
    })
}

fn stops() -> Check {
    Box::new(|bytes, dice| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut parts = text.split('\u{1}');
        let text = parts.next().unwrap_or_default();
        let stops: Vec<&str> = parts.collect();
        let mut scanner = StopScanner::new(stops.clone());
        let (mut out, mut rest) = (String::new(), text);
        while !rest.is_empty() && scanner.matched().is_none() {
            let cut = (1 + dice.below(5)..=rest.len())
                .find(|at| rest.is_char_boundary(*at))
                .unwrap_or(rest.len());
            out += &scanner.push(&rest[..cut]).text;
            rest = &rest[cut..];
        }
        if scanner.matched().is_none() {
            out += &scanner.finish();
        }
        // The stop string that is complete first ends the text; of several, the longest.
        let found = stops.iter().filter(|stop| !stop.is_empty());
        let first = found.filter_map(|stop| text.find(*stop).map(|at| (at + stop.len(), at))).min();
        let expected = &text[..first.map_or(text.len(), |(_, at)| at)];
        if out == expected {
            Ok(())
        } else {
            Err(format!("{out:?} is not {expected:?}"))
        }
    })
}

/// A folder in which one file is the input.
fn folder(file: &'static str, from: PathBuf, others: &'static [&'static str], look: fn(&Path)) -> Check {
    let place = tempfile::tempdir().unwrap();
    for other in others {
        fs::copy(from.join(other), place.path().join(other)).unwrap();
    }
    Box::new(move |bytes, _| {
        fs::write(place.path().join(file), bytes).unwrap();
        look(place.path());
        Ok(())
    })
}

fn targets(root: &Path) -> Vec<Target> {
    const JSON: &[&str] = &[
        "\"stream\": true",
        "\"tools\": [{}]",
        "\"role\": \"system\"",
        "\"n\": 8",
        "\"stop\": [\"\"]",
        "\"content\": null",
    ];
    const MARKS: &[&str] = &[
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<function=f>",
        "</function>",
        "<parameter=city>",
        "</parameter>",
        "<|tool_call>",
        "<tool_call|>",
        "<|\"|>",
        "call:f{",
        "<function name=\"f\">",
        "<param name=\"n\">",
        "<![CDATA[",
        "]]>",
        "<|tool_call_start|>[",
        "]<|tool_call_end|>",
        "<atem:function_calls>",
        "<atem:invoke name=\"f\">",
        "[TOOL_CALLS]",
        "<|channel|>",
        "<|message|>",
        "<|start|>",
        "<|eom|>",
        "<|channel>thought\n",
        "<channel|>",
        "{\"name\": \"f\", \"arguments\": {",
        "}}",
    ];
    let tiny = root.join("oracle/targets/llama");
    let tokenizers = root.join("../engine/text/tests/data/tokenizers");
    let tokens = tempfile::tempdir().unwrap().keep();
    fs::copy(tokenizers.join("byte.json"), tokens.join("tokenizer.json")).unwrap();
    let chat = |place: &Path| {
        if let Ok(tokenizer) = Tokenizer::load(place) {
            let talk = [dspark_protocol::Message::user("hi"), dspark_protocol::Message::assistant("ho")];
            let _ = tokenizer.chat_prompt(&talk, &dspark_protocol::TemplateOptions::default());
        }
    };
    let open = |place: &Path| drop(Checkpoint::open(place));
    let gguf = |place: &Path| drop(dspark_hub::gguf::GgufFile::open(&place.join("model.gguf")));
    let target = |name, words, check| Target { name, words, check };
    vec![
        target("chat", JSON, body("/v1/chat/completions")),
        target("completions", JSON, body("/v1/completions")),
        target("messages", JSON, body("/v1/messages")),
        target("count_tokens", JSON, body("/v1/messages/count_tokens")),
        target("responses", JSON, body("/v1/responses")),
        target("tokenize", JSON, body("/tokenize")),
        target("admin_load", JSON, body("/admin/load")),
        target("admin_race", JSON, body("/admin/race")),
        target("output", MARKS, output()),
        target("stops", &["\u{1}", "end", "\u{1}e"], stops()),
        target(
            "template",
            &[
                "{{",
                "}}",
                "{%",
                "%}",
                "for m in messages",
                "endfor",
                "| tojson",
                "[0:-1]",
                "raise_exception('x')",
                "namespace(a=1)",
            ],
            folder("chat_template.jinja", tokens.clone(), &["tokenizer.json"], chat),
        ),
        target(
            "tokenizer",
            &["\"vocab\"", "\"merges\"", "\"added_tokens\""],
            folder("tokenizer.json", tokens, &[], chat),
        ),
        target(
            "config",
            &["\"model_type\"", "\"quantization\"", "\"rope_scaling\""],
            folder("config.json", tiny.clone(), &["model.safetensors"], open),
        ),
        target(
            "safetensors",
            &["\"dtype\"", "\"shape\"", "\"data_offsets\"", "F32"],
            folder("model.safetensors", tiny, &["config.json"], open),
        ),
        target(
            "gguf",
            &["GGUF", "general.architecture", "tokenizer.ggml.tokens"],
            folder("model.gguf", PathBuf::new(), &[], gguf),
        ),
    ]
}

fn seeds(folder: &Path) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Processor time of this program so far, on all its threads.
fn spent() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut seconds, mut seed, mut only) = (120.0, 1, None::<Vec<String>>);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().expect("a value after each option");
        match argument.as_str() {
            "--seconds" => seconds = value.parse().expect("seconds"),
            "--seed" => seed = value.parse().expect("a number"),
            "--only" => only = Some(value.split(',').map(str::to_owned).collect()),
            other => panic!("unknown option {other}"),
        }
    }
    std::panic::set_hook(Box::new(|panic| {
        // Of a library that is known to, on files whose reader catches it and says so. Uncaught, it is a find below.
        if panic.location().is_some_and(|place| place.file().contains("/tokenizers-")) {
            return;
        }
        PANICS.fetch_add(1, Relaxed);
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = panic.to_string();
        }
    }));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = root.join("../target/fuzz");
    let mut finds = 0;
    println!("| target | inputs | a second | longest, CPU ms | finds |\n|---|---|---|---|---|");
    for mut target in targets(root)
        .into_iter()
        .filter(|target| only.as_ref().is_none_or(|only| only.iter().any(|name| name == target.name)))
    {
        let seeds = seeds(&root.join("fuzz").join(target.name));
        assert!(!seeds.is_empty(), "tests/fuzz/{} holds no samples", target.name);
        let (mut dice, begin) = (Dice(seed), Instant::now());
        let (mut inputs, mut longest, mut own) = (0u64, Duration::ZERO, Vec::<String>::new());
        while begin.elapsed().as_secs_f64() < seconds && own.len() < 5 {
            let input = if (inputs as usize) < seeds.len() {
                seeds[inputs as usize].clone()
            } else {
                mutate(&seeds, target.words, &mut dice)
            };
            let (panics, at) = (PANICS.load(Relaxed), spent());
            let checked = catch_unwind(AssertUnwindSafe(|| (target.check)(&input, &mut dice)));
            let took = spent().saturating_sub(at);
            longest = longest.max(took);
            inputs += 1;
            let reason = match checked {
                _ if PANICS.load(Relaxed) > panics => Some(LAST_PANIC.lock().map_or_else(|_| String::new(), |last| last.clone())),
                Ok(Err(reason)) => Some(reason),
                Err(_) => Some("a panic that was not caught".to_owned()),
                _ if took > SLOW => Some(format!("took {:.1} s", took.as_secs_f64())),
                _ => None,
            };
            if let Some(reason) = reason.filter(|reason| !own.contains(reason)) {
                fs::create_dir_all(&found).unwrap();
                let file = found.join(format!("{}-{}", target.name, own.len()));
                fs::write(&file, &input).unwrap();
                let short: String = reason.chars().take(600).collect();
                eprintln!("{}: {short}\n  input in {}", target.name, file.display());
                own.push(reason);
            }
        }
        let rate = inputs as f64 / begin.elapsed().as_secs_f64();
        println!(
            "| {} | {inputs} | {rate:.0} | {:.0} | {} |",
            target.name,
            longest.as_secs_f64() * 1e3,
            own.len()
        );
        finds += own.len();
    }
    println!("fuzz: {seconds} s a target, {finds} finds");
    std::process::exit(i32::from(finds > 0));
}
