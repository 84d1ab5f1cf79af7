//! Races and benchmarks of one invented machine.

use dspark_compare::{Arm, Bench, Difference, Figures, Lane, Piece, Race, Run, Skipped, Stamp, Verdict};
use dspark_protocol::{Cap, Mode, SpeculationOptions, TreeSetting};

pub const PROMPT: &str = "Write a Python function for the longest run of equal items, with two asserts.";
pub const CODE: &str = "```python
# longest run of equal items
def longest_run(xs):
    \"\"\"Length of the longest run of equal
    neighbours in xs, or 0 when xs is empty.\"\"\"
    best = run = 0
    prev = object()
    for x in xs:
        run = run + 1 if x == prev else 1
        prev = x
        if run > best:
            best = run
    return best

assert longest_run([]) == 0
assert longest_run(\"aabbb\") == 3
```

It walks the list once and keeps two counters, so it needs linear time and constant space.
";

fn stamp(at: u64, version: &str) -> Stamp {
    Stamp {
        at,
        version: version.into(),
        target: "Qwen3-8B-8bit".into(),
        quantization: "8-bit g64".into(),
        drafter: Some("Qwen3-8B-DSpark".into()),
        device: "Apple M4 Pro".into(),
        backend: "metal".into(),
        mlx: "0.32.2".into(),
        cores: 14,
        ram: 48 << 30,
    }
}

fn arm(mode: Mode, change: impl FnOnce(&mut SpeculationOptions)) -> Arm {
    let mut options = SpeculationOptions {
        cap: Cap::Derived,
        tree: TreeSetting::Off,
        lookup: Some(false),
        ..SpeculationOptions::default()
    };
    change(&mut options);
    Arm {
        mode,
        options: Some(options),
    }
}

/// A lane of 200 tokens: so many a pass, at this rate.
fn lane(arm: Arm, rate: f64, accept: f64, verdict: Option<Verdict>) -> Lane {
    const TOKENS: usize = 200;
    let (prefill, step) = (0.12, accept / rate);
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut tokens, mut shown) = (0, 0);
    for pass in 0.. {
        if tokens == TOKENS {
            break;
        }
        let due = (((pass + 1) as f64 * accept).round() as usize).min(TOKENS);
        let end = CODE.len() * due / TOKENS;
        pieces.push(Piece {
            at: prefill + step * pass as f64,
            tokens: due - tokens,
            text: CODE[shown..end].into(),
        });
        (tokens, shown) = (due, end);
    }
    let seconds = pieces.last().map_or(0.0, |piece| piece.at);
    Lane {
        arm,
        name: arm.name(),
        effective_mode: if arm.mode == Mode::Auto { Mode::Dspark } else { arm.mode },
        reason: None,
        cap: (arm.mode != Mode::Baseline).then_some(4),
        tokens: TOKENS,
        seconds,
        prefill_seconds: prefill,
        tok_s: TOKENS as f64 / seconds,
        decode_tok_s: rate,
        accept,
        target_forwards: pieces.len(),
        lookup_rounds: 0,
        verdict,
        ids: (0..TOKENS as u32).collect(),
        pieces,
    }
}

fn race(at: u64, lanes: Vec<Lane>) -> Race {
    Race {
        stamp: stamp(at, "0.1.0 (4572af1)"),
        prompt: PROMPT.into(),
        max_tokens: 200,
        thinking: Some(false),
        beside: Vec::new(),
        stopped: None,
        lanes,
    }
}

pub fn two() -> Race {
    let fast = lane(arm(Mode::Dspark, |_| {}), 69.0, 3.17, Some(Verdict::Identical));
    race(1_795_874_520, vec![fast, lane(Arm::plain(), 25.8, 1.0, None)])
}

pub fn four() -> Race {
    let tie = Verdict::NearTie(Difference {
        at: 141,
        reference_token: 279,
        token: 1378,
        reference_text: " the".into(),
        text: " two".into(),
        margin: 0.0625,
        ulps: 0.5,
        logits: Some((21.125, 21.0625)),
    });
    let usual = Arm {
        mode: Mode::Auto,
        options: None,
    };
    let lanes = vec![
        lane(usual, 71.4, 3.31, Some(Verdict::Identical)),
        lane(arm(Mode::Dspark, |options| options.cap = Cap::Fixed(7)), 58.2, 3.64, Some(tie)),
        lane(arm(Mode::Lookup, |_| {}), 31.7, 1.29, Some(Verdict::Identical)),
        lane(Arm::plain(), 25.8, 1.0, None),
    ];
    race(1_795_878_120, lanes)
}

/// The newest first; the older one is of another version, and slower.
pub fn benches() -> Vec<Bench> {
    let bench = |at, version: &str, times: f64, flags: Vec<String>| {
        let run = |run: &str, plain: f64, per_kind: [(f64, f64); 5]| {
            let kinds = KINDS.iter().zip(per_kind).map(|(kind, (speedup, accept))| {
                let figures = Figures {
                    tok_s: plain * speedup * 0.94,
                    decode_tok_s: plain * speedup,
                    tok_cpu_s: 0.0,
                    accept,
                    speedup,
                    cpu_speedup: 0.0,
                    same_text: true,
                };
                ((*kind).to_owned(), figures)
            });
            let per_kind: std::collections::BTreeMap<String, Figures> = kinds.collect();
            let mean = |value: fn(&Figures) -> f64| per_kind.values().map(value).sum::<f64>() / 5.0;
            Run {
                run: run.into(),
                reason: None,
                tok_s: mean(|at| at.tok_s),
                decode_tok_s: mean(|at| at.decode_tok_s),
                tok_cpu_s: 0.0,
                accept: mean(|at| at.accept),
                speedup: mean(|at| at.speedup),
                spread: Some(0.02),
                per_kind,
            }
        };
        let scaled = |values: [(f64, f64); 5]| values.map(|(speedup, accept)| (speedup * times, accept));
        Bench {
            stamp: stamp(at, version),
            prompts: 13,
            max_tokens: 200,
            trials: 3,
            kinds: KINDS.map(String::from).to_vec(),
            runs: vec![
                run("baseline", 25.8, [(1.0, 1.0); 5]),
                run(
                    "auto",
                    25.8,
                    scaled([(1.88, 2.34), (2.61, 3.18), (2.44, 2.96), (2.07, 2.52), (3.42, 4.41)]),
                ),
                run(
                    "dspark cap 7",
                    25.8,
                    scaled([(1.55, 2.41), (2.53, 3.61), (2.31, 3.37), (1.82, 2.66), (3.61, 5.02)]),
                ),
                run(
                    "lookup",
                    25.8,
                    [(1.02, 1.05), (1.23, 1.29), (1.11, 1.15), (1.08, 1.11), (3.08, 3.67)],
                ),
            ],
            skipped: vec![Skipped {
                run: "dflash".into(),
                reason: "the loaded drafter `Qwen3-8B-DSpark` is a dspark one".into(),
            }],
            flags,
        }
    };
    vec![
        bench(1_795_874_520, "0.1.0 (4572af1)", 1.0, Vec::new()),
        bench(1_795_701_720, "0.1.0 (d3ffcb4)", 0.91, Vec::new()),
        bench(
            1_795_442_520,
            "0.1.0 (eb599fb)",
            0.84,
            vec!["the turns of auto lie 14 % apart".into()],
        ),
    ]
}

const KINDS: [&str; 5] = ["chat", "code", "list", "math", "copy"];
