//! Reuse of computed prompts across the turns of a chat: a few finished caches are kept with the tokens they hold; a new
//! prompt takes over the one that saves the most of it and drops the rest.
//!
//! Where every layer can be cut, that is the longest shared prefix. Recurrent layers and windows that have moved on cannot
//! be; of these, copies are taken while a prompt is computed ([`marks`]), and a prompt goes back to the deepest of them
//! within what it shares. Source: `spec/caching-batching.md` §1. Invariant: a slot's cache holds exactly its tokens. A
//! slot in use is checked out, so whatever fails leaves no stale slot behind.
//!
//! | file | owns |
//! |---|---|
//! | `slot` | one kept text, its rungs, going back in it |
//! | `marks` | where to take rungs in a prompt |
//! | `disk` | slots that outlive the process |

pub(crate) mod disk;
mod marks;
mod slot;

use crate::{drafters::Context, target::Cache};
use disk::Disk;
pub use disk::DiskOptions;
use dspark_protocol::{PrefixSlot, PrefixState, Prompt, Request, Role};
pub(crate) use marks::marks;
use mlx_rs::{error::Exception, transforms};
pub(crate) use slot::Rung;
use slot::{Slot, Way, common_prefix, spread};
use std::{rc::Rc, time::Instant};

/// Shorter matches cost more to keep track of than they save.
const MIN_REUSE: usize = 16;
/// Texts below this length are kept aside, where they push out none but each other, and do not cut a text of
/// [`SMALL_SHARE`] times their length down to themselves.
const SMALL: usize = 1024;
const SMALL_SHARE: usize = 4;
/// Side calls below this length are kept aside too: clients ask for titles, tags and questions with the whole talk pasted in.
const SIDE: usize = 8192;
/// What is kept aside, for each slot: so many texts, and so many tokens in all.
const ASIDE_SLOTS: usize = 4;
const ASIDE_TOKENS: usize = 8192;
/// Tokens that a snapshot on disk has to save beyond what memory does.
const WORTH_READING: usize = 256;

/// A cache taken out for a generation, with the tokens it already holds.
pub(crate) struct Reused {
    pub(crate) cache: Box<dyn Cache>,
    /// The drafter's context of the same tokens, where one was kept and could be cut as well.
    pub(crate) context: Option<Context>,
    /// The first this many prompt tokens are in the cache.
    pub(crate) tokens: usize,
    /// Places to go back to among them.
    pub(crate) rungs: Vec<Rc<Rung>>,
}

/// A finished cache, to be kept.
pub(crate) struct Kept {
    /// Those fed to the cache, in order.
    pub(crate) tokens: Vec<u32>,
    pub(crate) cache: Box<dyn Cache>,
    pub(crate) context: Option<Context>,
    pub(crate) rungs: Vec<Rc<Rung>>,
    /// It is likely not to go on: see [`is_side_call`].
    pub(crate) side: bool,
}

/// Whether a request looks like a client's own errand (a title, tags, questions to ask next) rather than a turn: nothing was
/// answered before, and the answer is to be short. Source: `spec/http-api.md` §12, `spec/clients.md` §11.
pub(crate) fn is_side_call(request: &Request) -> bool {
    let Prompt::Chat { messages, .. } = &request.prompt else {
        return false;
    };
    request.max_tokens <= SMALL && messages.iter().all(|message| message.role != Role::Assistant)
}

/// Finished caches, the least recently used leaving first. Short conversations and side calls neither push out long ones
/// nor go without reuse: they are kept beside them, and push out each other.
pub(crate) struct PrefixStore {
    slots: Vec<Slot>,
    limit: usize,
    clock: u64,
    /// Evicted and not yet on disk.
    leaving: Vec<Slot>,
    disk: Option<Disk>,
    counts: PrefixState,
    /// When something was last asked or kept.
    used: Instant,
}

impl PrefixStore {
    /// Keeps at most `limit` caches, and [`ASIDE_SLOTS`] short ones for each beside them; 0 keeps none.
    pub(crate) fn new(limit: usize, disk: Option<Disk>) -> Self {
        Self {
            slots: Vec::new(),
            limit,
            clock: 0,
            leaving: Vec::new(),
            disk: disk.filter(|_| limit > 0),
            counts: PrefixState::default(),
            used: Instant::now(),
        }
    }

    /// Tokens that `prompt` shares with the kept text that shares most.
    pub(crate) fn shared(&self, prompt: &[u32]) -> usize {
        self.slots.iter().map(|slot| common_prefix(&slot.tokens, prompt)).max().unwrap_or(0)
    }

    /// Takes out the cache that saves the most of `prompt`, cut down to what is of use. At least one token is left to
    /// compute, since logits come from computing.
    pub(crate) fn acquire(&mut self, prompt: &[u32], new_cache: &dyn Fn() -> Box<dyn Cache>, context: Option<&Context>) -> Option<Reused> {
        self.used = Instant::now();
        self.fetch(prompt, new_cache, context);
        let best = self
            .slots
            .iter()
            .enumerate()
            .map(|(index, slot)| (index, slot.way(prompt)))
            .filter(|(index, way)| way.reuse >= MIN_REUSE && self.affordable(*index, *way))
            .max_by_key(|(index, way)| (way.reuse, self.slots[*index].used));
        let Some((index, way)) = best else {
            self.counts.misses += 1;
            return None;
        };
        let held = self.slots[index].tokens.len();
        let copy = Self::branches(held, way.reuse).then(|| self.slots[index].copy()).flatten();
        let mut slot = if let Some(mut copy) = copy {
            self.clock += 1;
            self.slots[index].used = self.clock;
            copy.rewind(way).and_then(|()| copy.detach()).ok()?;
            copy
        } else {
            let mut slot = self.slots.swap_remove(index);
            // Where going back fails the slot is of no use to this prompt, nor likely to a later one.
            slot.rewind(way).ok()?;
            slot
        };
        if way.reuse < held.min(prompt.len().saturating_sub(1)) {
            self.counts.partial_hits += 1;
        } else {
            self.counts.hits += 1;
        }
        self.counts.reused_tokens += way.reuse as u64;
        Some(Reused {
            cache: slot.cache,
            context: slot.context.take(),
            tokens: way.reuse,
            rungs: slot.rungs,
        })
    }

    /// Brings a text from disk that saves much more than those in memory do.
    fn fetch(&mut self, prompt: &[u32], new_cache: &dyn Fn() -> Box<dyn Cache>, context: Option<&Context>) {
        let Some(disk) = &mut self.disk else { return };
        let here = self.slots.iter().map(|slot| slot.way(prompt).reuse).max().unwrap_or(0);
        let Some(mut slot) = disk.fetch(prompt, here + WORTH_READING, new_cache, context) else {
            return;
        };
        self.counts.disk_reads += 1;
        slot.aside = slot.tokens.len() < SMALL;
        self.place(slot);
    }

    /// Whether a prompt that keeps `reuse` of `held` tokens is another conversation rather than the same one gone on: the
    /// longer text is then worth more whole. Turns whose end a template rewrites lose less than half.
    fn branches(held: usize, reuse: usize) -> bool {
        let lost = held - reuse;
        (lost >= SMALL && 2 * lost >= reuse) || Self::small_share(held, reuse)
    }

    /// A short shared beginning (a system prompt) is not worth destroying a longer conversation for.
    fn small_share(held: usize, reuse: usize) -> bool {
        (reuse < SMALL) && SMALL_SHARE * reuse <= held
    }

    /// Whether going that way costs no more than it saves: a copy can be had, or little is lost.
    fn affordable(&self, index: usize, way: Way) -> bool {
        let slot = &self.slots[index];
        !Self::small_share(slot.tokens.len(), way.reuse) || slot.cache.snapshot().is_some()
    }

    /// Keeps a finished cache, with the drafter's context where it covers the same tokens. Call [`Self::settle`] when there
    /// is time.
    ///
    /// # Errors
    /// When the cache does not hold these tokens; it is then dropped.
    pub(crate) fn store(&mut self, kept: Kept) -> Result<(), Exception> {
        let Kept {
            tokens,
            mut cache,
            context,
            mut rungs,
            side,
        } = kept;
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
        self.used = Instant::now();
        rungs.retain(|rung| rung.len < tokens.len());
        // A conversation that an extension covers has no use of its own, but for the places in it.
        self.slots.retain(|slot| {
            let covered = tokens.starts_with(&slot.tokens);
            if covered {
                rungs.extend(slot.rungs.iter().cloned());
            }
            !covered
        });
        let aside = tokens.len() < SMALL || (side && tokens.len() < SIDE);
        self.place(Slot {
            context: context.filter(|context| context.len() == tokens.len()),
            tokens,
            cache,
            rungs: spread(rungs),
            used: 0,
            aside,
            saved: false,
        });
        Ok(())
    }

    /// Puts a slot in, pushing out the least recently used of its kind.
    fn place(&mut self, mut slot: Slot) {
        while self.is_full(&slot) {
            let alike = (0..self.slots.len()).filter(|&index| self.slots[index].aside == slot.aside);
            let Some(oldest) = alike.min_by_key(|&index| self.slots[index].used) else {
                break;
            };
            let gone = self.slots.swap_remove(oldest);
            if self.disk.is_some() && !gone.saved {
                self.leaving.push(gone);
            }
        }
        self.clock += 1;
        slot.used = self.clock;
        self.slots.push(slot);
    }

    /// Computes what the decode loop left lazy in the newest slot: it fails here or never. Slots pushed out go to disk.
    ///
    /// # Errors
    /// When it cannot be computed; the slot is then dropped.
    pub(crate) fn settle(&mut self) -> Result<(), Exception> {
        if let Some(newest) = self.slots.last() {
            transforms::eval(newest.arrays()).inspect_err(|_| drop(self.slots.pop()))?;
        }
        let leaving = std::mem::take(&mut self.leaving);
        if let Some(disk) = &mut self.disk {
            for slot in &leaving {
                disk.write(slot);
            }
        }
        Ok(())
    }

    /// Writes one text that the disk has not, when nothing has been asked for a while; all of them when the model leaves.
    pub(crate) fn save(&mut self, leaving: bool) {
        let Some(disk) = &mut self.disk else { return };
        if !leaving && self.used.elapsed() < disk.patience() {
            return;
        }
        let most = if leaving { usize::MAX } else { 1 };
        for slot in self.slots.iter_mut().filter(|slot| !slot.saved).take(most) {
            disk.write(slot);
            slot.saved = true;
        }
    }

    /// Whether another has to go for this one, of the same kind.
    fn is_full(&self, new: &Slot) -> bool {
        let alike = self.slots.iter().filter(|slot| slot.aside == new.aside);
        if !new.aside {
            return alike.count() >= self.limit;
        }
        let (count, tokens) = alike.fold((0, new.tokens.len()), |(count, tokens), slot| {
            (count + 1, tokens + slot.tokens.len())
        });
        count >= ASIDE_SLOTS * self.limit || (count > 0 && tokens > ASIDE_TOKENS * self.limit)
    }

    /// Drops every slot; true when there was one.
    pub(crate) fn clear(&mut self) -> bool {
        self.leaving.clear();
        !std::mem::take(&mut self.slots).is_empty()
    }

    /// Memory runs short: all but the places that serve most texts are dropped.
    pub(crate) fn shed(&mut self) {
        self.slots.iter_mut().for_each(Slot::shed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Tokens held in all slots.
    pub(crate) fn tokens(&self) -> usize {
        self.slots.iter().map(|slot| slot.tokens.len()).sum()
    }

    /// What is kept, and how it served.
    pub(crate) fn state(&self) -> PrefixState {
        let slot = |slot: &Slot| PrefixSlot {
            tokens: slot.tokens.len(),
            bytes: slot.bytes() as u64,
            rungs: slot.rungs.iter().map(|rung| rung.len).collect(),
            aside: slot.aside,
            saved: slot.saved,
        };
        let mut slots: Vec<&Slot> = self.slots.iter().collect();
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.used));
        PrefixState {
            limit: self.limit,
            slots: slots.into_iter().map(slot).collect(),
            disk: self.disk.as_ref().map(Disk::state),
            ..self.counts.clone()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
