//! Reuse of computed prompts across the turns of a chat (trim mode): a few finished caches are kept with the tokens
//! they hold; a new prompt takes over the one that shares the longest prefix and drops the rest of it.
//!
//! Source: `spec/caching-batching.md` §1.1, §1.2. Invariant: a slot's cache holds exactly its tokens. A slot in use is
//! checked out, so whatever fails leaves no stale slot behind.

use crate::{drafters::Context, target::Cache};
use mlx_rs::{error::Exception, transforms};

/// Shorter matches cost more to keep track of than they save.
const MIN_REUSE: usize = 16;
/// A text below this length does not push out slots of [`SMALL_SHARE`] times its length (it is kept aside), nor cut one
/// down to itself.
const SMALL: usize = 1024;
const SMALL_SHARE: usize = 4;

struct Slot {
    tokens: Vec<u32>,
    cache: Box<dyn Cache>,
    /// What the drafter holds of the same tokens.
    context: Option<Context>,
    used: u64,
    /// Kept beside the others, which are all much longer.
    aside: bool,
}

/// A cache taken out for a generation, with the tokens it already holds.
pub(crate) struct Reused {
    pub(crate) cache: Box<dyn Cache>,
    /// The drafter's context of the same tokens, where one was kept and could be cut as well.
    pub(crate) context: Option<Context>,
    /// The first this many prompt tokens are in the cache.
    pub(crate) tokens: usize,
}

/// Finished caches, the least recently used leaving first. A short conversation neither pushes out long ones nor goes
/// without reuse: where only long ones are kept, it is kept beside them, and short ones push out each other.
pub(crate) struct PrefixStore {
    slots: Vec<Slot>,
    limit: usize,
    clock: u64,
}

impl PrefixStore {
    /// Keeps at most `limit` caches, and as many short ones beside them; 0 keeps none.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slots: Vec::new(),
            limit,
            clock: 0,
        }
    }

    /// Takes out the cache that saves the most of `prompt`, cut down to the shared prefix. At least one token is left
    /// to compute, since logits come from computing.
    pub(crate) fn acquire(&mut self, prompt: &[u32]) -> Option<Reused> {
        let most = prompt.len().saturating_sub(1);
        let (index, reuse) = self
            .slots
            .iter()
            .enumerate()
            .map(|(index, slot)| (index, common_prefix(&slot.tokens, prompt).min(most)))
            .filter(|&(index, reuse)| reuse >= MIN_REUSE && !Self::too_costly(&self.slots[index], reuse))
            .max_by_key(|&(index, reuse)| (reuse, self.slots[index].used))?;
        let mut slot = self.slots.swap_remove(index);
        // A window that has moved on cannot be cut: the slot is of no use to this prompt, nor likely to a later one.
        slot.cache.trim(slot.cache.len() - reuse).ok()?;
        let context = slot.context.and_then(|mut context| {
            context.trim(context.len().checked_sub(reuse)?).ok()?;
            Some(context)
        });
        Some(Reused {
            cache: slot.cache,
            context,
            tokens: reuse,
        })
    }

    /// A short shared beginning (a system prompt) is not worth destroying a longer conversation for.
    fn too_costly(slot: &Slot, reuse: usize) -> bool {
        (reuse < SMALL) && SMALL_SHARE * reuse <= slot.tokens.len()
    }

    /// Keeps a finished cache, with the drafter's context where it covers the same tokens. `tokens` are the ones fed to
    /// it, in order. Call [`Self::settle`] when there is time.
    ///
    /// # Errors
    /// When the cache does not hold these tokens; it is then dropped.
    pub(crate) fn store(&mut self, tokens: Vec<u32>, mut cache: Box<dyn Cache>, context: Option<Context>) -> Result<(), Exception> {
        if cache.len() < tokens.len() {
            return Err(Exception::custom(format!(
                "the cache holds {} tokens, its record {}",
                cache.len(),
                tokens.len()
            )));
        }
        let surplus = cache.len() - tokens.len();
        if surplus > 0 {
            cache.trim(surplus)?;
        }
        if self.limit == 0 || tokens.len() < MIN_REUSE {
            return Ok(());
        }
        // A conversation that an extension covers has no use of its own.
        self.slots.retain(|slot| !tokens.starts_with(&slot.tokens));
        let aside = self.guarded(tokens.len());
        while self.slots.iter().filter(|slot| slot.aside == aside).count() >= self.limit {
            let alike = (0..self.slots.len()).filter(|&index| self.slots[index].aside == aside);
            let oldest = alike.min_by_key(|&index| self.slots[index].used);
            oldest.map(|index| self.slots.swap_remove(index));
        }
        self.clock += 1;
        self.slots.push(Slot {
            context: context.filter(|context| context.len() == tokens.len()),
            tokens,
            cache,
            used: self.clock,
            aside,
        });
        Ok(())
    }

    /// Computes what the decode loop left lazy in the newest slot: it fails here or never.
    ///
    /// # Errors
    /// When it cannot be computed; the slot is then dropped.
    pub(crate) fn settle(&mut self) -> Result<(), Exception> {
        let Some(newest) = self.slots.last() else { return Ok(()) };
        let context = newest.context.iter().flat_map(Context::arrays);
        transforms::eval(newest.cache.arrays().into_iter().chain(context)).inspect_err(|_| drop(self.slots.pop()))
    }

    /// Whether a small newcomer would push out much larger residents.
    fn guarded(&self, tokens: usize) -> bool {
        let mut residents = self.slots.iter().filter(|slot| !slot.aside);
        tokens < SMALL && residents.clone().count() >= self.limit && residents.all(|slot| slot.tokens.len() >= SMALL_SHARE * tokens)
    }

    /// Drops every slot; true when there was one.
    pub(crate) fn clear(&mut self) -> bool {
        !std::mem::take(&mut self.slots).is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Tokens held in all slots.
    pub(crate) fn tokens(&self) -> usize {
        self.slots.iter().map(|slot| slot.tokens.len()).sum()
    }
}

fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
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

    fn put(store: &mut PrefixStore, tokens: Vec<u32>) {
        let n = tokens.len();
        store.store(tokens, cache(n), None).unwrap();
    }

    #[test]
    fn takes_the_longest_prefix_and_leaves_one_token_to_compute() {
        let mut store = PrefixStore::new(2);
        put(&mut store, ids(0, 40));
        let reused = store.acquire(&ids(0, 40)).unwrap();
        assert_eq!((reused.tokens, reused.cache.len()), (39, 39));
        assert!(store.is_empty(), "checked out");

        put(&mut store, ids(0, 40));
        let mut other = ids(0, 30);
        other.extend(ids(500, 60));
        put(&mut store, other.clone());
        other.truncate(50);
        other.push(9);
        let reused = store.acquire(&other).unwrap();
        assert_eq!((reused.tokens, reused.cache.len()), (50, 50));
    }

    #[test]
    fn short_matches_are_misses() {
        let mut store = PrefixStore::new(2);
        put(&mut store, ids(0, 40));
        let mut prompt = ids(0, 15);
        prompt.extend(ids(900, 5));
        assert!(store.acquire(&prompt).is_none());
        assert!(!store.is_empty(), "a miss takes nothing");
    }

    /// Case pc-004: a side task between two turns of a long chat.
    #[test]
    fn a_small_side_task_does_not_cost_the_long_chat() {
        for limit in [1, 2] {
            let mut store = PrefixStore::new(limit);
            put(&mut store, ids(0, 20_000));
            if limit == 2 {
                put(&mut store, ids(50_000, 9_000));
            }
            assert!(store.acquire(&ids(100_000, 600)).is_none());
            put(&mut store, ids(100_000, 600));
            assert_eq!(store.acquire(&ids(0, 20_050)).unwrap().tokens, 20_000, "{limit} slots");
        }
    }

    #[test]
    fn short_chats_beside_long_ones_are_kept_too() {
        let mut store = PrefixStore::new(2);
        put(&mut store, ids(0, 3000));
        put(&mut store, ids(10_000, 480));
        let before = |length| if length == 118 { 100 } else { length - 20 };
        for length in [60, 80, 100, 118] {
            for start in [20_000, 30_000] {
                let kept = store.acquire(&ids(start, length)).map(|reused| reused.tokens);
                assert_eq!(kept, (length > 60).then_some(before(length)), "{length} from {start}");
                put(&mut store, ids(start, length));
            }
        }
        // A third short one takes the place of the older short one, and of none of the long ones.
        put(&mut store, ids(40_000, 90));
        assert!(store.acquire(&ids(20_000, 130)).is_none());
        assert_eq!(store.acquire(&ids(30_000, 130)).unwrap().tokens, 118);
        assert_eq!(store.acquire(&ids(0, 3001)).unwrap().tokens, 3000);
        assert_eq!(store.acquire(&ids(10_000, 481)).unwrap().tokens, 480);
    }

    #[test]
    fn a_shared_system_prompt_does_not_cut_down_a_long_chat() {
        for (long, shared) in [(20_000, 300), (400, 60)] {
            let mut store = PrefixStore::new(2);
            put(&mut store, ids(0, long));
            let mut prompt = ids(0, shared);
            prompt.extend(ids(70_000, 50));
            assert!(store.acquire(&prompt).is_none());
            put(&mut store, prompt);
            assert_eq!(store.acquire(&ids(0, long + 1)).unwrap().tokens, long);
        }
    }

    #[test]
    fn the_least_recently_used_leaves_and_extensions_replace() {
        let mut store = PrefixStore::new(2);
        put(&mut store, ids(0, 100));
        put(&mut store, ids(1000, 100));
        put(&mut store, ids(0, 150));
        assert_eq!(store.tokens(), 250);
        put(&mut store, ids(2000, 100));
        assert!(store.acquire(&ids(1000, 101)).is_none(), "oldest");
        assert_eq!(store.acquire(&ids(0, 151)).unwrap().tokens, 150);
    }

    #[test]
    fn a_cache_that_cannot_be_cut_is_a_miss_but_an_extension_of_it_is_a_hit() {
        let rigid = || Box::new(Counter { len: 100, slack: 3 });
        let mut store = PrefixStore::new(1);
        store.store(ids(0, 100), rigid(), None).unwrap();
        assert_eq!(store.acquire(&ids(0, 120)).unwrap().tokens, 100);
        store.store(ids(0, 100), rigid(), None).unwrap();
        assert!(store.acquire(&ids(0, 50)).is_none());
        assert!(store.is_empty());
    }

    #[test]
    fn a_surplus_is_trimmed_and_a_shortage_refused() {
        let mut store = PrefixStore::new(1);
        store.store(ids(0, 40), cache(42), None).unwrap();
        assert_eq!(store.tokens(), 40);
        assert!(store.store(ids(0, 40), cache(39), None).is_err());
    }
}
