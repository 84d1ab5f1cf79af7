use super::*;
use mlx_rs::Array;

/// Counts tokens; refuses to drop more than `slack`.
struct Counter {
    len: usize,
    slack: usize,
}

impl Cache for Counter {
    fn len(&self) -> usize {
        self.len
    }
    fn trim(&mut self, n: usize) -> Result<(), Exception> {
        if n > self.slack {
            return Err(Exception::custom("moved on"));
        }
        self.len -= n;
        Ok(())
    }
    fn commit(&mut self, _rows: usize, _path: &[usize]) -> Result<(), Exception> {
        Ok(())
    }
    fn trimmable(&self) -> bool {
        true
    }
    fn droppable(&self) -> usize {
        self.slack.min(self.len)
    }
    fn arrays(&self) -> Vec<&Array> {
        Vec::new()
    }
    fn bytes(&self) -> usize {
        self.len
    }
}

fn cache(len: usize) -> Box<dyn Cache> {
    Box::new(Counter { len, slack: usize::MAX })
}

fn ids(start: u32, n: usize) -> Vec<u32> {
    (start..start + n as u32).collect()
}

fn kept(tokens: Vec<u32>, cache: Box<dyn Cache>) -> Kept {
    Kept {
        tokens,
        cache,
        context: None,
        rungs: Vec::new(),
        side: false,
    }
}

fn take(store: &mut PrefixStore, prompt: &[u32]) -> Option<Reused> {
    store.acquire(prompt, &|| cache(0), None)
}

fn put(store: &mut PrefixStore, tokens: Vec<u32>) {
    let n = tokens.len();
    store.store(kept(tokens, cache(n))).unwrap();
}

#[test]
fn takes_the_longest_prefix_and_leaves_one_token_to_compute() {
    let mut store = PrefixStore::new(2, None);
    put(&mut store, ids(0, 40));
    let reused = take(&mut store, &ids(0, 40)).unwrap();
    assert_eq!((reused.tokens, reused.cache.len()), (39, 39));
    assert!(store.is_empty(), "checked out");

    put(&mut store, ids(0, 40));
    let mut other = ids(0, 30);
    other.extend(ids(500, 60));
    put(&mut store, other.clone());
    other.truncate(50);
    other.push(9);
    let reused = take(&mut store, &other).unwrap();
    assert_eq!((reused.tokens, reused.cache.len()), (50, 50));
}

#[test]
fn short_matches_are_misses() {
    let mut store = PrefixStore::new(2, None);
    put(&mut store, ids(0, 40));
    let mut prompt = ids(0, 15);
    prompt.extend(ids(900, 5));
    assert!(take(&mut store, &prompt).is_none());
    assert!(!store.is_empty(), "a miss takes nothing");
}

/// Case pc-004: a side task between two turns of a long chat.
#[test]
fn a_small_side_task_does_not_cost_the_long_chat() {
    for limit in [1, 2] {
        let mut store = PrefixStore::new(limit, None);
        put(&mut store, ids(0, 20_000));
        if limit == 2 {
            put(&mut store, ids(50_000, 9_000));
        }
        assert!(take(&mut store, &ids(100_000, 600)).is_none());
        put(&mut store, ids(100_000, 600));
        assert_eq!(take(&mut store, &ids(0, 20_050)).unwrap().tokens, 20_000, "{limit} slots");
    }
}

#[test]
fn short_chats_beside_long_ones_are_kept_too() {
    let mut store = PrefixStore::new(2, None);
    put(&mut store, ids(0, 3000));
    put(&mut store, ids(10_000, 480));
    let before = |length| if length == 118 { 100 } else { length - 20 };
    for length in [60, 80, 100, 118] {
        for start in [20_000, 30_000] {
            let kept = take(&mut store, &ids(start, length)).map(|reused| reused.tokens);
            assert_eq!(kept, (length > 60).then_some(before(length)), "{length} from {start}");
            put(&mut store, ids(start, length));
        }
    }
    // Many more short ones take the places of the older short ones, and of none of the long ones.
    for start in 0..8 {
        put(&mut store, ids(40_000 + 1000 * start, 90));
    }
    assert!(take(&mut store, &ids(20_000, 130)).is_none());
    assert_eq!(take(&mut store, &ids(47_000, 130)).unwrap().tokens, 90);
    assert_eq!(take(&mut store, &ids(0, 3001)).unwrap().tokens, 3000);
}

#[test]
fn a_shared_system_prompt_does_not_cut_down_a_long_chat() {
    for (long, shared) in [(20_000, 300), (400, 60)] {
        let mut store = PrefixStore::new(2, None);
        put(&mut store, ids(0, long));
        let mut prompt = ids(0, shared);
        prompt.extend(ids(70_000, 50));
        assert!(take(&mut store, &prompt).is_none());
        put(&mut store, prompt);
        assert_eq!(take(&mut store, &ids(0, long + 1)).unwrap().tokens, long);
    }
}

#[test]
fn the_least_recently_used_leaves_and_extensions_replace() {
    let mut store = PrefixStore::new(2, None);
    put(&mut store, ids(0, 2000));
    put(&mut store, ids(10_000, 2000));
    put(&mut store, ids(0, 2500));
    assert_eq!(store.tokens(), 4500);
    put(&mut store, ids(20_000, 2000));
    assert!(take(&mut store, &ids(10_000, 2001)).is_none(), "oldest");
    assert_eq!(take(&mut store, &ids(0, 2501)).unwrap().tokens, 2500);
}

/// A chat program's errands between two turns, each with the talk pasted in: as long as the talk itself.
#[test]
fn errands_of_any_usual_length_do_not_cost_the_chat() {
    for length in [300, 5000] {
        let mut store = PrefixStore::new(2, None);
        put(&mut store, ids(0, length));
        for errand in 1..=5 {
            let tokens = ids(100_000 * errand, length + 100);
            let cache = cache(tokens.len());
            store
                .store(Kept {
                    side: true,
                    ..kept(tokens, cache)
                })
                .unwrap();
        }
        assert_eq!(take(&mut store, &ids(0, length + 20)).unwrap().tokens, length);
    }
    let asked = |max_tokens, messages| Request::chat("test", messages, max_tokens);
    let user = || dspark_protocol::Message::user("Write a title.");
    assert!(is_side_call(&asked(1000, vec![user()])));
    assert!(!is_side_call(&asked(32_000, vec![user()])));
    assert!(!is_side_call(&asked(
        1000,
        vec![user(), dspark_protocol::Message::assistant("A"), user()]
    )));
}

#[test]
fn a_cache_that_cannot_be_cut_is_a_miss_but_an_extension_of_it_is_a_hit() {
    let rigid = || Box::new(Counter { len: 100, slack: 3 });
    let mut store = PrefixStore::new(1, None);
    store.store(kept(ids(0, 100), rigid())).unwrap();
    assert_eq!(take(&mut store, &ids(0, 120)).unwrap().tokens, 100);
    store.store(kept(ids(0, 100), rigid())).unwrap();
    assert!(take(&mut store, &ids(0, 50)).is_none());
    assert!(!store.is_empty(), "what cannot serve this prompt may serve another");
}

#[test]
fn a_surplus_is_trimmed_and_a_shortage_refused() {
    let mut store = PrefixStore::new(1, None);
    store.store(kept(ids(0, 40), cache(42))).unwrap();
    assert_eq!(store.tokens(), 40);
    assert!(store.store(kept(ids(0, 40), cache(39))).is_err());
}

/// Of a state that every token changes: its length is all it knows, and it goes back to checkpoints alone.
struct Rigid(usize);

impl Cache for Rigid {
    fn len(&self) -> usize {
        self.0
    }
    fn trim(&mut self, n: usize) -> Result<(), Exception> {
        if n > 0 { Err(Exception::custom("rigid")) } else { Ok(()) }
    }
    fn commit(&mut self, _rows: usize, _path: &[usize]) -> Result<(), Exception> {
        Ok(())
    }
    fn trimmable(&self) -> bool {
        false
    }
    fn rigid(&self) -> bool {
        true
    }
    fn snapshot(&self) -> Option<Box<dyn Cache>> {
        Some(Box::new(Self(self.0)))
    }
    fn checkpoint(&self) -> Option<Box<dyn Cache>> {
        self.snapshot()
    }
    fn restore(&mut self, checkpoint: &dyn Cache) -> Result<(), Exception> {
        self.0 = checkpoint.len();
        Ok(())
    }
    fn arrays(&self) -> Vec<&Array> {
        Vec::new()
    }
    fn bytes(&self) -> usize {
        8
    }
}

/// Computes a prompt as the worker does, with an answer of `answer` tokens behind it; what was reused of it.
fn turn(store: &mut PrefixStore, prompt: &[u32], unstable: usize, answer: usize) -> usize {
    let shared = store.shared(prompt);
    let found = store.acquire(prompt, &|| Box::new(Rigid(0)), None);
    let reuse = found.as_ref().map_or(0, |reused| {
        assert_eq!(reused.cache.len(), reused.tokens);
        reused.tokens
    });
    let mut rungs = found.map(|reused| reused.rungs).unwrap_or_default();
    for len in marks(prompt.len(), reuse, shared, unstable) {
        rungs.push(Rc::new(Rung {
            len,
            cache: Box::new(Rigid(len)),
            context: None,
        }));
    }
    let tokens = [prompt, &ids(900_000, answer)].concat();
    let cache = Box::new(Rigid(tokens.len()));
    store
        .store(Kept {
            tokens,
            cache,
            context: None,
            rungs,
            side: false,
        })
        .unwrap();
    reuse
}

/// Cases pc-001 and pc-002, for a state that cannot be cut: an identical prompt and the next turn both go on from the
/// stable boundary.
#[test]
fn what_cannot_be_cut_goes_back_to_the_stable_boundary() {
    let mut store = PrefixStore::new(2, None);
    assert_eq!(turn(&mut store, &ids(0, 4096), 5, 40), 0);
    assert_eq!(turn(&mut store, &ids(0, 4096), 5, 40), 4091, "an identical prompt");
    let next = [ids(0, 4091), ids(600_000, 60)].concat();
    assert_eq!(turn(&mut store, &next, 5, 40), 4091, "a turn whose opening was written anew");
    // A regenerated first turn still finds its own boundary.
    assert_eq!(turn(&mut store, &ids(0, 4096), 5, 40), 4091);
}

#[test]
fn a_fork_is_found_again_by_the_third_that_takes_it() {
    let mut store = PrefixStore::new(2, None);
    let with = |own: u32| [ids(0, 3000), ids(own, 3000)].concat();
    assert_eq!(turn(&mut store, &with(100_000), 1, 10), 0);
    assert_eq!(turn(&mut store, &with(200_000), 1, 10), 0, "nothing was kept at the fork yet");
    assert_eq!(turn(&mut store, &with(300_000), 1, 10), 3000);
    assert_eq!(turn(&mut store, &with(200_000), 1, 10), 5999, "and the trunk was left whole");
}

/// Case pc-004, for a state that cannot be cut.
#[test]
fn a_title_request_costs_a_rigid_chat_nothing() {
    let mut store = PrefixStore::new(1, None);
    turn(&mut store, &ids(0, 20_000), 3, 500);
    turn(&mut store, &ids(500_000, 600), 3, 20);
    let next = [ids(0, 19_997), ids(700_000, 80)].concat();
    assert_eq!(turn(&mut store, &next, 3, 20), 19_997);
}

#[test]
fn rungs_are_few_spread_and_shed() {
    let rung = |len| {
        Rc::new(Rung {
            len,
            cache: Box::new(Rigid(len)) as Box<dyn Cache>,
            context: None,
        })
    };
    let kept: Vec<usize> = spread((1..=20).map(|step| rung(step * 100)).collect())
        .iter()
        .map(|rung| rung.len)
        .collect();
    assert_eq!(kept.len(), 8);
    assert_eq!((kept[0], kept[7]), (100, 2000), "the shortest and the newest stay: {kept:?}");
    let mut store = PrefixStore::new(1, None);
    turn(&mut store, &ids(0, 60_000), 1, 10);
    store.shed();
    assert_eq!(store.state().slots[0].rungs, [8192, 16_384, 59_999]);
    assert_eq!(turn(&mut store, &[ids(0, 59_999), ids(1, 9)].concat(), 1, 10), 59_999);
}

#[test]
fn hits_are_counted() {
    let mut store = PrefixStore::new(2, None);
    put(&mut store, ids(0, 400));
    assert!(take(&mut store, &ids(7000, 100)).is_none());
    let reused = take(&mut store, &ids(0, 380)).unwrap().tokens;
    assert_eq!(reused, 379);
    let state = store.state();
    assert_eq!((state.hits, state.partial_hits, state.misses, state.reused_tokens), (1, 0, 1, 379));
}
