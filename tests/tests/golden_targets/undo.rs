//! Taking rows back: on every kind of layer, what is left is as if the rows had never been.
use crate::{CASES, Case, ids, rows, settled};
use dspark_engine::target::{Cache, Parts, Target};

/// Every mixer, feed-forward and cache.
const MANY: [&str; 17] = [
    "gemma4-dense",
    "gemma4-kvshared",
    "gemma4-moe",
    "gemma4-ple",
    "lfm2",
    "lfm2_moe-q4g32",
    "llama",
    "llama-sliding",
    "muse_glimmer",
    "nanbeige",
    "nemotron_h",
    "nemotron_h-latent",
    "qwen3-q4-override",
    "qwen3-q4g32",
    "qwen3-yarn",
    "qwen3_5",
    "qwen3_5_moe-q4g32",
];

fn close(case: &Case, found: &[Vec<f32>], expected: &[Vec<f32>], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        case.close(f64::from(*found), f64::from(*expected), what);
    }
}

/// A tree's rows are those of its paths, each run as a chain; a committed path goes on like that chain.
#[test]
fn a_tree_is_its_paths() {
    const PARENTS: [i32; 8] = [-1, 0, 0, 1, 2, 2, -1, 6];
    const PATH: [usize; 3] = [0, 2, 5];
    for case in MANY.map(Case::open) {
        let (prompt, nodes) = (case.prompt(), ids(&case.golden["verify"]["append"]));
        let mut cache = case.model.decoder.new_cache();
        case.rows(&prompt, &mut *cache);
        let tree = rows(&case.model, &nodes, Some(&PARENTS), &mut *cache);
        assert_eq!(cache.len(), 32);
        for leaf in 0..8 {
            let mut path = vec![leaf];
            while PARENTS[path[0]] >= 0 {
                path.insert(0, PARENTS[path[0]] as usize);
            }
            let chain: Vec<u32> = path.iter().map(|&node| nodes[node]).collect();
            let mut fresh = case.model.decoder.new_cache();
            case.rows(&prompt, &mut *fresh);
            let expected = case.rows(&chain, &mut *fresh);
            for (&node, expected) in path.iter().zip(expected) {
                for (found, expected) in tree[node].iter().zip(expected) {
                    case.close(f64::from(*found), f64::from(expected), &format!("tree node {node}"));
                }
            }
        }
        cache.commit(8, &PATH).unwrap();
        assert_eq!(cache.len(), 27);
        let next = case.rows(&[7, 9], &mut *cache);
        let mut fresh = case.model.decoder.new_cache();
        let whole: Vec<u32> = prompt.iter().copied().chain(PATH.map(|node| nodes[node])).chain([7, 9]).collect();
        let expected = case.rows(&whole, &mut *fresh);
        for (found, expected) in next.iter().flatten().zip(expected[27..].iter().flatten()) {
            case.close(f64::from(*found), f64::from(*expected), "after a committed path");
        }
    }
}

/// Long after the window has filled and old rows have been dropped, a verify can still be rolled back.
#[test]
fn a_window_that_moved_on_rolls_back() {
    let case = Case::open("llama-sliding");
    let text: Vec<u32> = (0..700).map(|i| 3 + (i * 37 + i * i) % 180).collect();
    let mut cache = case.model.decoder.cache(8);
    for chunk in text[..600].chunks(50) {
        case.rows(chunk, &mut cache);
    }
    assert!(!cache.trimmable());
    assert!(cache.trim(400).unwrap_err().to_string().contains("a window has moved on"));
    case.rows(&[5, 6, 7, 8, 9, 10, 11, 12], &mut cache);
    cache.trim(5).unwrap();
    let found = case.rows(&text[600..601], &mut cache);
    let cold: Vec<u32> = text[..600].iter().copied().chain([5, 6, 7, text[600]]).collect();
    let expected = case.rows(&cold, &mut *case.model.decoder.new_cache());
    assert_eq!(cache.len(), cold.len());
    for (found, expected) in found[0].iter().zip(&expected[603]) {
        case.close(f64::from(*found), f64::from(*expected), "after a rollback");
    }
    // The sliding layers hold a window, the full one everything.
    let (full, all) = (700 * 2 * 2 * 32 * 4, cache.bytes());
    assert!(all < 2 * full, "{all} bytes");
}

/// Rounds of verify and rollback, one behind the other, with every number of kept rows, against the kept tokens fed one by
/// one. A verify right behind another begins with the rows that the one before it left.
#[test]
fn kept_rows_are_those_fed_one_by_one() {
    for case in settled() {
        let (prompt, drafts) = (case.prompt(), ids(&case.golden["verify"]["append"]));
        let (mut rounds, mut single) = (case.model.decoder.new_cache(), case.model.decoder.new_cache());
        case.rows(&prompt[..9], &mut *rounds);
        case.rows(&prompt[..9], &mut *single);
        for (round, keep) in [8, 3, 0, 1, 5, 7, 2, 6, 4].into_iter().enumerate() {
            let rows: Vec<u32> = drafts.iter().map(|id| id / 2 + 7 * round as u32).collect();
            let verified = case.rows(&rows, &mut *rounds);
            rounds.trim(8 - keep).unwrap();
            let stepped: Vec<_> = rows[..keep].iter().flat_map(|id| case.rows(&[*id], &mut *single)).collect();
            close(&case, &verified[..keep], &stepped, &format!("{keep} kept in round {round}"));
            assert_eq!(rounds.len(), single.len());
        }
        let found = case.rows(&prompt[9..12], &mut *rounds);
        let expected = case.rows(&prompt[9..12], &mut *single);
        close(&case, &found, &expected, "after all rounds");
    }
}

/// A snapshot goes on from where it was taken, whatever became of the cache, in the middle of a round too.
#[test]
fn snapshots_are_apart() {
    for case in MANY.map(Case::open) {
        let prompt = case.prompt();
        let mut cache = case.model.decoder.new_cache();
        case.rows(&prompt[..12], &mut *cache);
        case.rows(&[7, 8, 9], &mut *cache);
        cache.trim(2).unwrap();
        let mut saved = cache.snapshot().unwrap();
        let first = case.rows(&prompt[12..20], &mut *cache);
        cache.trim(8).unwrap();
        case.rows(&[3, 4], &mut *cache);
        let again = case.rows(&prompt[12..20], &mut *saved);
        assert_eq!((saved.len(), first), (21, again), "{}", case.name);
    }
}

/// What is no longer known is said, not guessed.
#[test]
fn a_state_that_moved_on_is_refused() {
    for name in CASES.into_iter().filter(|name| ["lfm2", "qwen3_5", "nemotron_h"].contains(name)) {
        let case = Case::open(name);
        let mut cache = case.model.decoder.new_cache();
        case.rows(&case.prompt(), &mut *cache);
        assert!(!cache.trimmable(), "{name}");
        case.rows(&[5], &mut *cache);
        let message = cache.trim(2).unwrap_err().to_string();
        assert!(
            message.contains("at most 1") && message.contains("a state knows only its last rows"),
            "{message}"
        );
        cache.trim(1).unwrap();
        assert!(cache.trim(1).is_err());
        assert_eq!(cache.len(), 24);
    }
}

/// A long chunk is taken into the state at once, in pieces that do not show.
#[test]
fn chunks_of_a_prompt_do_not_show() {
    for case in ["lfm2", "nemotron_h", "nemotron_h-latent", "qwen3_5", "gemma4-kvshared"].map(Case::open) {
        let text: Vec<u32> = (0..150).map(|i| 3 + (i * 37 + i * i) % 180).collect();
        let mut whole = case.model.decoder.new_cache();
        let expected = case.rows(&text, &mut *whole);
        let mut cache = case.model.decoder.new_cache();
        let mut found = case.rows(&text[..100], &mut *cache);
        found.extend(case.rows(&text[100..129], &mut *cache));
        found.extend(case.rows(&text[129..], &mut *cache));
        close(&case, &found, &expected, "in chunks");
        cache.trim(21).unwrap();
        close(&case, &case.rows(&text[129..], &mut *cache), &expected[129..], "after a trim");
    }
}

/// Going back to a checkpoint, in memory and from parts that left it, goes on as the text did that was never longer.
#[test]
fn a_checkpoint_brings_back_what_cannot_be_cut() {
    for case in MANY.map(Case::open) {
        let (prompt, more) = (case.prompt(), ids(&case.golden["verify"]["append"]));
        let mut plain = case.model.decoder.new_cache();
        case.rows(&prompt, &mut *plain);
        let expected = case.rows(&more, &mut *plain);

        let mut cache = case.model.decoder.new_cache();
        case.rows(&prompt, &mut *cache);
        let checkpoint = cache.checkpoint();
        assert_eq!(checkpoint.is_some(), cache.rigid(), "{}", case.name);
        // So much that every window has moved on.
        for chunk in prompt.repeat(40).chunks(64) {
            case.rows(chunk, &mut *cache);
        }
        let mut parts = Parts::default();
        assert!(cache.export("all", &mut parts).unwrap());
        if let Some(checkpoint) = &checkpoint {
            assert!(checkpoint.bytes() < cache.bytes(), "{}", case.name);
            assert!(checkpoint.export("place", &mut parts).unwrap());
        }
        let mut kept = case.model.decoder.new_cache();
        kept.import("all", &mut parts).unwrap();
        let mut place = case.model.decoder.new_cache();
        for (cache, place) in [
            (&mut cache, checkpoint.as_deref()),
            (
                &mut kept,
                checkpoint.as_ref().map(|_| {
                    place.import("place", &mut parts).unwrap();
                    &*place
                }),
            ),
        ] {
            let mut branch = cache.snapshot().unwrap();
            match place {
                Some(place) => branch.restore(place).unwrap(),
                None => branch.trim(cache.len() - prompt.len()).unwrap(),
            }
            branch.detach().unwrap();
            assert_eq!(branch.len(), prompt.len());
            close(&case, &case.rows(&more, &mut *branch), &expected, "after going back");
            // The trunk is as it was: it takes a row like its own copy does.
            let mut copy = cache.snapshot().unwrap();
            close(
                &case,
                &case.rows(&more[..1], &mut **cache),
                &case.rows(&more[..1], &mut *copy),
                "the trunk",
            );
        }
        assert!(parts.arrays.is_empty(), "{}: {:?}", case.name, parts.arrays.keys());
    }
}
