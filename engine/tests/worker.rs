//! The engine thread on a toy model: what one generation gives, and what a later one reuses of it.
#![allow(clippy::unwrap_used)]

mod toy;

use dspark_engine::{
    protocol::{EngineError, EngineState, Event, FinishReason, Message, Mode, Prompt, Request, Sampling, Source, TemplateOptions},
    sample::Place,
};
use std::{
    collections::BTreeMap,
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};
use toy::{VOCAB, bench, bench_with, prompt, raw_logits, read, read_rest, request, sampled};

#[test]
fn a_generation_has_exactly_max_tokens_and_says_so() {
    let bench = bench();
    for n in [1, 2, 3, 17] {
        let answer = bench.ask(request(prompt("hello, world: this is a prompt"), n));
        assert_eq!(answer.ids().len(), n);
        assert_eq!(answer.tokens.len(), n);
        assert_eq!(answer.summary().finish, FinishReason::Length);
        assert_eq!(answer.summary().usage.completion_tokens, n);
        assert_eq!(answer.summary().target_forwards, n - 1);
        assert_eq!(answer.tokens.iter().map(|token| token.id).collect::<Vec<_>>(), answer.ids());
        assert!(
            answer
                .tokens
                .iter()
                .all(|token| token.source == Source::Target && token.logprob.is_none())
        );
    }
}

#[test]
fn max_tokens_of_zero_only_prefills_and_keeps_the_prompt() {
    let bench = bench();
    let ids = prompt(&"x".repeat(100));
    let answer = bench.ask(request(ids.clone(), 0));
    assert_eq!((answer.ids().len(), &answer.summary().finish), (0, &FinishReason::Length));
    assert_eq!(answer.prefill.last(), Some(&(100, 100)));
    assert_eq!((answer.summary().target_forwards, answer.summary().accept_len), (0, 0.0));
    let answer = bench.ask(request(ids, 2));
    assert_eq!(answer.started, Some((100, 99)));
}

#[test]
fn long_prompts_are_prefilled_in_chunks_with_progress() {
    let bench = bench();
    let answer = bench.ask(request(prompt(&"y".repeat(100)), 1));
    assert_eq!(answer.prefill, [(32, 100), (64, 100), (96, 100), (100, 100)]);
    assert_eq!(answer.started, Some((100, 0)));
}

#[test]
fn chunks_do_not_change_the_text() {
    let text: Vec<u32> = (0..150).map(|i| (i * 37 + 11) % 256).collect();
    let expected = bench_with(|options| options.prefill_chunk = Some(4096)).ask(request(text.clone(), 24));
    for chunk in [1, 7, 149, 150, 151] {
        let answer = bench_with(|options| options.prefill_chunk = Some(chunk)).ask(request(text.clone(), 24));
        assert_eq!(answer.ids(), expected.ids(), "chunk {chunk}");
    }
}

#[test]
fn the_end_token_ends_the_text_without_being_in_it() {
    let bench = bench();
    bench.switches.say(10, "abc");
    let answer = bench.ask(Request {
        ignore_eos: false,
        ..request(prompt("0123456789"), 50)
    });
    assert_eq!(answer.text, "abc");
    assert_eq!(answer.ids(), [97, 98, 99]);
    assert_eq!(answer.summary().finish, FinishReason::Stop { matched: None });
    assert_eq!(answer.summary().usage.completion_tokens, 3);

    // Benchmarks may go on past it.
    let answer = bench.ask(request(prompt("0123456789"), 6));
    assert_eq!(answer.ids(), [97, 98, 99, 256, 256, 256]);
    assert_eq!(answer.text, "abc");
}

#[test]
fn a_stop_string_ends_the_text_before_it_at_every_cut() {
    let bench = bench();
    let text = "one two STOP three";
    for offset in 0..6 {
        // The prompt's length moves the text against the tokens; every byte is a token here, so a stop string always
        // spans several.
        let ids = prompt(&"p".repeat(10 + offset));
        bench.switches.say(ids.len(), text);
        for (stop, expected) in [
            ("STOP", "one two "),
            ("o", ""),
            ("ee", "one two STOP thr"),
            ("two STOP three", "one "),
            ("wo S", "one t"),
        ] {
            let answer = bench.ask(Request {
                stop: vec![String::new(), "never".into(), stop.into()],
                ..request(ids.clone(), 100)
            });
            assert_eq!(answer.text, expected, "stop {stop:?}");
            assert_eq!(
                answer.summary().finish,
                FinishReason::Stop {
                    matched: Some(stop.into())
                }
            );
            let end = text.find(stop).unwrap() + stop.len();
            assert_eq!(answer.ids().len(), end, "tokens up to the stop string's end");
        }
    }
}

#[test]
fn held_back_text_comes_out_when_the_stop_string_does_not() {
    let bench = bench();
    bench.switches.say(5, "ab STO");
    let stopped = |max_tokens, ignore_eos| {
        bench.ask(Request {
            stop: vec!["STOP".into()],
            ignore_eos,
            ..request(prompt("12345"), max_tokens)
        })
    };
    let answer = stopped(100, false);
    assert_eq!(
        (answer.text.as_str(), &answer.summary().finish),
        ("ab STO", &FinishReason::Stop { matched: None })
    );
    assert_eq!(answer.deltas.last().map(String::as_str), Some("STO"));
    let answer = stopped(5, true);
    assert_eq!((answer.text.as_str(), &answer.summary().finish), ("ab ST", &FinishReason::Length));
}

#[test]
fn characters_of_several_tokens_arrive_whole() {
    let bench = bench();
    bench.switches.say(5, "Hi 你好 😊!");
    let answer = bench.ask(Request {
        ignore_eos: false,
        ..request(prompt("12345"), 100)
    });
    assert_eq!(answer.text, "Hi 你好 😊!");
    assert!(!answer.deltas.iter().any(|delta| delta.contains('\u{fffd}')));
    assert_eq!(answer.tokens[3].bytes, [0xE4], "tokens report their own bytes");
}

#[test]
fn a_bound_in_the_middle_of_a_character_leaves_it_out() {
    let bench = bench();
    let text = "a你😊b";
    bench.switches.say(5, text);
    for bound in 1..=text.len() {
        let answer = bench.ask(request(prompt("12345"), bound));
        let whole = (0..=bound).rev().find(|end| text.is_char_boundary(*end)).unwrap();
        assert_eq!(answer.text, text[..whole], "{bound}");
        assert_eq!((answer.tokens.len(), &answer.summary().finish), (bound, &FinishReason::Length));
    }
}

#[test]
fn the_same_seed_gives_the_same_text_whatever_else_runs() {
    let ids = prompt("seeded");
    for place in [Place::Host, Place::Device] {
        let bench = bench_with(|options| options.place = Some(place));
        let alone = bench.ask(sampled(ids.clone(), 48, Some(1)));
        assert_eq!(alone.summary().seed, Some(1));
        // The same seed again, with other requests before, between and after it.
        let others: Vec<_> = (0..4)
            .map(|i| bench.engine.submit(sampled(prompt("other"), 30 + i, Some(9))).unwrap())
            .collect();
        let again = bench.engine.submit(sampled(ids.clone(), 48, Some(1))).unwrap();
        let more = bench.engine.submit(sampled(prompt("more"), 20, None)).unwrap();
        assert_eq!(read(again).ids(), alone.ids());
        let reference = read(bench.engine.submit(sampled(prompt("other"), 33, Some(9))).unwrap());
        for (i, other) in others.into_iter().enumerate() {
            assert_eq!(read(other).ids(), &reference.ids()[..30 + i]);
        }
        read(more);

        assert_ne!(bench.ask(sampled(ids.clone(), 48, Some(2))).ids(), alone.ids());
        let (a, b) = (bench.ask(sampled(ids.clone(), 48, None)), bench.ask(sampled(ids.clone(), 48, None)));
        assert_ne!(a.ids(), b.ids());
        assert_eq!(
            bench.ask(sampled(ids.clone(), 48, a.summary().seed)).ids(),
            a.ids(),
            "the drawn seed is reported"
        );
    }
}

/// Log-probabilities, penalties of no effect, and the loop they choose do not move the draws.
#[test]
fn the_text_does_not_depend_on_which_loop_decodes_it() {
    let bench = bench();
    let pipelined = bench.ask(sampled(prompt("abc"), 40, Some(5)));
    let with_logprobs = bench.ask(Request {
        logprobs: Some(3),
        ..sampled(prompt("abc"), 40, Some(5))
    });
    assert_eq!(with_logprobs.ids(), pipelined.ids());
    let mut sequential = sampled(prompt("abc"), 40, Some(5));
    sequential.sampling.presence_penalty = 1e-30;
    assert_eq!(bench.ask(sequential).ids(), pipelined.ids());
}

#[test]
fn penalties_follow_a_plain_reference() {
    let bench = bench();
    let ids = prompt("penalised prompt");
    let sampling = Sampling {
        repetition_penalty: 1.3,
        presence_penalty: 0.4,
        frequency_penalty: 0.7,
        logit_bias: [(101, 1.5), (32, -2.0)].into(),
        ..Sampling::default()
    };
    let penalised = bench.ask(Request {
        sampling: sampling.clone(),
        ..request(ids.clone(), 60)
    });
    assert_ne!(penalised.ids(), bench.ask(request(ids.clone(), 60)).ids());

    // Greedy by hand: raw log-probabilities of every token at each position come from runs of one token with all of
    // the alternatives reachable through a bias; simpler and exact, the toy's own logits one step at a time.
    let mut fed = ids.clone();
    let mut counts = vec![0_u32; VOCAB];
    for &expected in penalised.ids() {
        let logits = raw_logits(&fed);
        let best = (0..VOCAB as u32)
            .map(|id| {
                let mut value = logits[id as usize];
                if ids.contains(&id) || counts[id as usize] > 0 {
                    value = if value > 0.0 { value / 1.3 } else { value * 1.3 };
                }
                if counts[id as usize] > 0 {
                    value -= 0.4 + 0.7 * counts[id as usize] as f32;
                }
                (value + sampling.logit_bias.get(&id).unwrap_or(&0.0), id)
            })
            .fold((f32::NEG_INFINITY, 0), |best, next| if next.0 > best.0 { next } else { best });
        assert_eq!(best.1, expected);
        counts[expected as usize] += 1;
        fed.push(expected);
    }
}

#[test]
fn logprobs_report_the_raw_row_for_chosen_and_best() {
    let bench = bench();
    let ids = prompt("logs");
    let answer = bench.ask(Request {
        logprobs: Some(4),
        sampling: Sampling {
            temperature: 2.0,
            seed: Some(3),
            logit_bias: [(7, 50.0)].into(),
            ..Sampling::default()
        },
        ..request(ids.clone(), 12)
    });
    let mut fed = ids;
    for token in &answer.tokens {
        let logits = raw_logits(&fed);
        let norm = logits.iter().map(|l| f64::from(*l).exp()).sum::<f64>().ln();
        let expect = f64::from(logits[token.id as usize]) - norm;
        assert!((f64::from(token.logprob.unwrap()) - expect).abs() < 1e-4);
        let mut order: Vec<u32> = (0..VOCAB as u32).collect();
        order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
        assert_eq!(token.top.iter().map(|top| top.id).collect::<Vec<_>>(), order[..4]);
        fed.push(token.id);
    }
}

#[test]
fn a_later_turn_reuses_the_earlier_and_answers_as_a_cold_run() {
    let chat = |messages: Vec<Message>, n| Request {
        prompt: Prompt::Chat {
            messages,
            options: TemplateOptions::default(),
        },
        ..request(Vec::new(), n)
    };
    let warm = bench();
    let first = Message::user("What is the capital of France, please?");
    let answer = warm.ask(chat(vec![first.clone()], 20));
    assert_eq!(answer.summary().usage.cached_tokens, 0);
    let turns = vec![first, Message::assistant(answer.text.clone()), Message::user("And of Italy?")];
    let rows = warm.switches.rows.load(SeqCst);
    let second = warm.ask(chat(turns.clone(), 20));
    let usage = second.summary().usage;
    // The whole first prompt at least; how much of the answer depends on how its bytes re-tokenize.
    assert!(usage.cached_tokens >= answer.summary().usage.prompt_tokens, "{usage:?}");
    assert_eq!(second.started, Some((usage.prompt_tokens, usage.cached_tokens)));
    // Steps run one ahead at most.
    let computed = warm.switches.rows.load(SeqCst) - rows;
    assert!(
        computed <= usage.prompt_tokens - usage.cached_tokens + 20,
        "{computed} rows for {usage:?}"
    );

    let cold = bench().ask(chat(turns, 20));
    assert_eq!(cold.summary().usage.cached_tokens, 0);
    assert_eq!(second.ids(), cold.ids());
    assert_eq!(second.text, cold.text);
}

#[test]
fn a_short_chat_after_long_prompts_reuses_its_turns_and_costs_the_long_ones_nothing() {
    let bench = bench();
    let long = |salt: u32| -> Vec<u32> { (0..480).map(|i| (i * (7 + salt) + salt) % 256).collect() };
    for salt in [1, 2] {
        bench.ask(request(long(salt), 4));
    }
    let mut chat = prompt("A short question that opens a new conversation, of some seventy tokens");
    let mut before = 0;
    for turn in 0..3 {
        let answer = bench.ask(request(chat.clone(), 8));
        let (total, cached) = answer.started.unwrap();
        assert_eq!(cached, before, "turn {turn} of {total} tokens");
        chat.extend(answer.ids());
        // The last token is never fed.
        before = chat.len() - 1;
        chat.extend(prompt(" and so?"));
    }
    for salt in [1, 2] {
        assert_eq!(bench.ask(request(long(salt), 4)).started, Some((480, 479)));
    }
}

/// Case pc-002: an identical prompt computes one token.
#[test]
fn an_identical_prompt_computes_one_token() {
    let bench = bench();
    let ids: Vec<u32> = (0..300).map(|i| (i * 7) % 256).collect();
    let first = bench.ask(request(ids.clone(), 8));
    let second = bench.ask(request(ids.clone(), 8));
    assert_eq!(second.started, Some((300, 299)));
    assert_eq!(second.ids(), first.ids());
    assert_eq!(second.prefill, [(300, 300)]);
    let totals = bench.engine.snapshot().totals;
    assert_eq!(
        (totals.prompt_tokens, totals.cached_tokens, totals.completion_tokens),
        (600, 299, 16)
    );
}

/// Whatever ended the earlier generation, the caches it leaves are right.
#[test]
fn caches_are_right_after_every_kind_of_end() {
    let bench = bench();
    let ids: Vec<u32> = (0..80).map(|i| (i * 13 + 5) % 256).collect();
    let expected = toy::bench().ask(request(ids.clone(), 30));
    let check = |what: &str| {
        // Continue from what the earlier answer was, so that its own rows are reused too.
        let mut longer = ids.clone();
        longer.extend(&expected.ids()[..12]);
        let answer = bench.ask(request(longer, 18));
        assert_eq!(answer.ids(), &expected.ids()[12..], "after {what}");
        let answer = bench.ask(request(ids.clone(), 30));
        assert_eq!(answer.ids(), expected.ids(), "after {what}");
        answer.summary().usage.cached_tokens
    };
    bench.ask(request(ids.clone(), 20));
    assert_eq!(check("length"), 79);

    bench.switches.delay_us.store(1000, SeqCst);
    let mut generation = bench.engine.submit(request(ids.clone(), 3000)).unwrap();
    while !matches!(generation.next_blocking(), Some(Event::Delta(_))) {}
    generation.cancel();
    read_rest(generation).unwrap();
    bench.switches.delay_us.store(0, SeqCst);
    assert_eq!(check("a cancel"), 79);

    bench.switches.fail_past.store(90, SeqCst);
    let failed = bench.ask(request(ids.clone(), 30));
    assert!(matches!(failed.end, Err(EngineError::Compute(text)) if text.contains("planted failure")));
    // Case mf-008: what might have been too much memory is given up.
    assert_eq!(bench.engine.snapshot().context_tokens, 0);
    check("a failure");

    bench.switches.panic_past.store(90, SeqCst);
    let failed = bench.ask(request(ids.clone(), 30));
    assert!(matches!(failed.end, Err(EngineError::Compute(text)) if text.contains("planted panic")));
    check("a panic");

    bench.switches.panic_past.store(40, SeqCst);
    let other: Vec<u32> = ids.iter().rev().copied().collect();
    assert!(bench.ask(request(other, 30)).end.is_err(), "a panic in prefill");
    check("a panic in prefill");

    let stopped = bench.ask(Request {
        stop: vec![expected.text.chars().skip(3).take(2).collect()],
        ..request(ids.clone(), 30)
    });
    assert!(matches!(stopped.summary().finish, FinishReason::Stop { matched: Some(_) }));
    check("a stop string");
}

#[test]
fn logits_that_are_not_numbers_fail_the_request() {
    let bench = bench();
    bench.switches.nan.store(true, SeqCst);
    for asked in [sampled(prompt("abc"), 5, None), request(prompt("abc"), 5)] {
        let end = bench.ask(asked).end;
        assert!(
            matches!(&end, Err(EngineError::Compute(text)) if text.contains("are not numbers")),
            "{end:?}"
        );
    }
    bench.switches.nan.store(false, SeqCst);
    assert_eq!(bench.ask(sampled(prompt("abc"), 5, None)).ids().len(), 5);
}

#[test]
fn the_window_bounds_prompt_and_answer() {
    let bench = bench();
    for length in [4096, 5000] {
        let answer = bench.ask(request(vec![1; length], 5));
        assert_eq!(
            answer.end,
            Err(EngineError::ContextOverflow {
                prompt: length,
                window: 4096
            })
        );
    }
    let answer = bench.ask(request(vec![1; 4090], 100));
    assert_eq!(answer.ids().len(), 6);
    assert_eq!(answer.summary().finish, FinishReason::Length);
}

#[test]
fn requests_that_cannot_be_honoured_are_refused_by_name() {
    let bench = bench();
    let refused = |request: Request| match bench.ask(request).end {
        Err(EngineError::BadRequest(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(refused(request(Vec::new(), 5)).contains("prompt is empty"));
    assert!(refused(request(vec![3, 999], 5)).contains("999"));
    assert!(
        refused(Request {
            logprobs: Some(21),
            ..request(vec![1], 5)
        })
        .contains("logprobs")
    );
    let with = |sampling| Request {
        sampling,
        ..request(vec![1], 5)
    };
    assert!(
        refused(with(Sampling {
            temperature: -1.0,
            ..Sampling::default()
        }))
        .contains("temperature")
    );
    assert!(
        refused(with(Sampling {
            top_p: 2.0,
            ..Sampling::default()
        }))
        .contains("top_p")
    );
}

/// Clients carry biases from one model to the next; `spec/http-api.md` §2 lets `logit_bias` never fail a request.
#[test]
fn biases_of_tokens_that_the_model_lacks_are_ignored_and_reported() {
    let bench = bench();
    let biased = |logit_bias: BTreeMap<u32, f32>| {
        let sampling = Sampling {
            logit_bias,
            ..Sampling::default()
        };
        let answer = bench.ask(Request {
            sampling,
            ..request(prompt("abc"), 6)
        });
        (answer.ids().to_vec(), answer.summary().warnings.clone())
    };
    let (plain, none) = biased(BTreeMap::new());
    assert_eq!(none, Vec::<String>::new());
    let (ids, warnings) = biased([(5000, 100.0)].into());
    assert_eq!((&ids, warnings.len()), (&plain, 1));
    assert!(warnings[0].contains("`logit_bias` names token 5000, "), "{warnings:?}");
    // What the model has still counts.
    let (ids, warnings) = biased([(65, 100.0), (5000, 1.0), (u32::MAX, -1.0)].into());
    assert_eq!(ids, [65; 6]);
    assert!(warnings[0].contains("token 5000 and 1 more"), "{warnings:?}");
}

/// Without a drafter `auto` still guesses from repeated text; a mode that needs one runs plain; each says why.
#[test]
fn modes_run_as_far_as_they_can_and_say_why() {
    let bench = bench();
    let ran = |mode, effective| {
        let summary = bench
            .ask(Request {
                mode,
                ..request(prompt("abc"), 4)
            })
            .end
            .unwrap();
        assert_eq!((summary.mode, summary.effective_mode), (mode, effective));
        assert_eq!(summary.speculation.is_some(), effective != Mode::Baseline);
        summary.mode_reason
    };
    assert_eq!(ran(Mode::Baseline, Mode::Baseline), None);
    assert_eq!(ran(Mode::Lookup, Mode::Lookup), None);
    assert!(ran(Mode::Auto, Mode::Lookup).unwrap().contains("no drafter"));
    assert!(ran(Mode::Dspark, Mode::Baseline).unwrap().contains("dspark"));
}

#[test]
fn rounds_and_snapshots_tell_what_happens() {
    let bench = bench();
    bench.switches.delay_us.store(1_000, SeqCst);
    let mut seen = bench.engine.subscribe();
    let begun = Instant::now();
    let generation = bench.engine.submit(request(prompt(&"q".repeat(40)), 200)).unwrap();
    let id = generation.id;
    let reader = std::thread::spawn(move || read(generation));
    let mut frames = 0;
    let mut rate = 0.0;
    while !reader.is_finished() {
        if seen.has_changed().unwrap() {
            let now = seen.borrow_and_update().clone();
            if let EngineState::Generating { tokens_per_sec } = now.state {
                frames += 1;
                rate = tokens_per_sec;
                let active = &now.requests[0];
                assert_eq!(
                    (active.id, active.client.as_str(), active.prompt_tokens, active.waiting),
                    (id, "test", 40, false)
                );
                assert!(now.context_tokens >= 40 && now.context_tokens <= 241);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let answer = reader.join().unwrap();
    let most = (begun.elapsed().as_secs_f64() * 30.0).ceil() as usize + 1;
    assert!((2..=most).contains(&frames), "{frames} frames, at most {most}");
    assert!(rate > 1.0);
    let rounds: Vec<_> = bench
        .engine
        .rounds()
        .since(None)
        .into_iter()
        .filter(|round| round.request == id)
        .collect();
    assert_eq!(rounds.len(), 199);
    assert!(
        rounds
            .windows(2)
            .all(|pair| pair[0].seq < pair[1].seq && pair[0].t_ms <= pair[1].t_ms)
    );
    assert!(
        rounds
            .iter()
            .all(|round| round.committed == 1 && round.drafted == 0 && round.source == Source::Target && round.ms > 0.0)
    );
    let (summary, now) = (answer.summary(), bench.engine.snapshot());
    assert_eq!(now.last_decode_rate, Some(summary.timings.decode_rate(&summary.usage)));
    assert!(summary.timings.ttft > 0.0 && summary.timings.decode > 0.0);
    assert!(now.requests.is_empty() && now.machine.cores >= 1 && !now.machine.device.is_empty());
}
