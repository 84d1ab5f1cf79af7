//! One kept text: its tokens, the cache that holds them, and the places in it that can be gone back to.

use crate::{
    drafters::Context,
    target::{Cache, Parts},
};
use mlx_rs::{Array, error::Exception};
use std::rc::Rc;

/// Places to go back to that a text keeps, besides its end.
const MOST_RUNGS: usize = 8;
/// Those that stay when memory runs short beside the last: of the shortest texts, since they serve most others.
const FEW_RUNGS: usize = 2;

/// A place in a text that can be gone back to where layers cannot simply be cut.
pub(crate) struct Rung {
    pub(crate) len: usize,
    pub(crate) cache: Box<dyn Cache>,
    pub(crate) context: Option<Context>,
}

/// How a slot serves a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    /// Tokens that need not be computed.
    pub(super) reuse: usize,
    /// Which rung they end at; `None` where the cache is cut.
    pub(super) rung: Option<usize>,
}

/// The way of a text of `held` tokens whose last `droppable` can be dropped, for a prompt that shares `shared` of them.
pub(super) fn way(held: usize, droppable: usize, rungs: impl DoubleEndedIterator<Item = usize> + ExactSizeIterator, shared: usize) -> Way {
    if held - shared <= droppable {
        return Way { reuse: shared, rung: None };
    }
    let (index, reuse) = rungs.enumerate().rfind(|(_, len)| *len <= shared).unzip();
    Way {
        reuse: reuse.unwrap_or(0),
        rung: index,
    }
}

pub(super) struct Slot {
    pub(super) tokens: Vec<u32>,
    pub(super) cache: Box<dyn Cache>,
    /// What the drafter holds of the same tokens.
    pub(super) context: Option<Context>,
    /// Ascending.
    pub(super) rungs: Vec<Rc<Rung>>,
    pub(super) used: u64,
    /// Kept beside the others, which are all much longer.
    pub(super) aside: bool,
    /// On disk as it is here.
    pub(super) saved: bool,
}

impl Slot {
    pub(super) fn way(&self, prompt: &[u32]) -> Way {
        let shared = common_prefix(&self.tokens, prompt).min(prompt.len().saturating_sub(1));
        way(
            self.tokens.len(),
            self.cache.droppable(),
            self.rungs.iter().map(|rung| rung.len),
            shared,
        )
    }

    /// Goes back along a way.
    pub(super) fn rewind(&mut self, way: Way) -> Result<(), Exception> {
        let context = self.context.take();
        self.context = match way.rung {
            None => {
                self.cache.trim(self.cache.len() - way.reuse)?;
                context.and_then(|mut context| {
                    context.trim(context.len().checked_sub(way.reuse)?).ok()?;
                    Some(context)
                })
            }
            Some(index) => {
                let rung = self.rungs[index].clone();
                self.cache.restore(&*rung.cache)?;
                context.zip(rung.context.as_ref()).and_then(|(mut context, kept)| {
                    context.restore(kept).ok()?;
                    Some(context)
                })
            }
        };
        self.rungs.retain(|rung| rung.len <= way.reuse);
        self.tokens.truncate(way.reuse);
        self.saved = false;
        Ok(())
    }

    /// A copy that can be gone back in while this stays; `None` where there is none to be had.
    pub(super) fn copy(&self) -> Option<Self> {
        Some(Self {
            tokens: self.tokens.clone(),
            cache: self.cache.snapshot()?,
            context: self.context.clone(),
            rungs: self.rungs.clone(),
            used: self.used,
            aside: self.aside,
            saved: false,
        })
    }

    /// After a copy was cut: what is left of it alone.
    pub(super) fn detach(&mut self) -> Result<(), Exception> {
        self.cache.detach()?;
        self.context.as_mut().map_or(Ok(()), Context::detach)
    }

    /// Drops rungs that memory has no room for.
    pub(super) fn shed(&mut self) {
        let last = self.rungs.pop();
        self.rungs.truncate(FEW_RUNGS);
        self.rungs.extend(last);
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let context = self.context.iter().flat_map(Context::arrays);
        self.cache.arrays().into_iter().chain(context).collect()
    }

    /// Bytes allocated, rungs and the drafter's context included.
    pub(super) fn bytes(&self) -> usize {
        let context = |context: &Option<Context>| context.as_ref().map_or(0, Context::bytes);
        let rungs: usize = self.rungs.iter().map(|rung| rung.cache.bytes() + context(&rung.context)).sum();
        self.cache.bytes() + context(&self.context) + rungs
    }

    /// Everything but the tokens, taken apart; `None` where the cache cannot be.
    pub(super) fn export(&self) -> Result<Option<Parts>, Exception> {
        let mut parts = Parts::default();
        if !self.cache.export("target", &mut parts)? {
            return Ok(None);
        }
        if let Some(context) = &self.context {
            context.export("drafter", &mut parts)?;
        }
        for rung in &self.rungs {
            rung.cache.export(&format!("rung{}", rung.len), &mut parts)?;
            if let Some(context) = &rung.context {
                context.export(&format!("rung{}.drafter", rung.len), &mut parts)?;
            }
        }
        Ok(Some(parts))
    }

    /// Put together from what [`Self::export`] took apart. `context` is an empty one of the drafter at hand, where what
    /// was kept is of the same drafter.
    pub(super) fn import(
        tokens: Vec<u32>,
        rungs: &[usize],
        mut parts: Parts,
        new_cache: &dyn Fn() -> Box<dyn Cache>,
        context: Option<&Context>,
    ) -> Result<Self, Exception> {
        let mut cache = new_cache();
        cache.import("target", &mut parts)?;
        if cache.len() != tokens.len() {
            return Err(Exception::custom("a kept cache is not of its tokens"));
        }
        let kept = |name: &str, parts: &mut Parts| {
            let context = context.filter(|_| parts.numbers.contains_key(name)).cloned();
            context.map(|mut context| context.import(name, parts).map(|()| context)).transpose()
        };
        let own = kept("drafter", &mut parts)?;
        let rungs = rungs
            .iter()
            .map(|&len| {
                let mut cache = new_cache();
                cache.import(&format!("rung{len}"), &mut parts)?;
                let context = kept(&format!("rung{len}.drafter"), &mut parts)?;
                Ok(Rc::new(Rung { len, cache, context }))
            })
            .collect::<Result<_, Exception>>()?;
        Ok(Self {
            tokens,
            cache,
            context: own,
            rungs,
            used: 0,
            aside: false,
            saved: true,
        })
    }
}

/// At most [`MOST_RUNGS`], ascending and spread: the one nearest to its lower neighbour leaves first.
pub(super) fn spread(mut rungs: Vec<Rc<Rung>>) -> Vec<Rc<Rung>> {
    rungs.sort_by_key(|rung| rung.len);
    rungs.dedup_by_key(|rung| rung.len);
    while rungs.len() > MOST_RUNGS {
        let gap = |index: &usize| rungs[*index].len - rungs[index - 1].len;
        // The newest boundary is what the next turn needs.
        let Some(crowded) = (1..rungs.len() - 1).min_by_key(gap) else {
            break;
        };
        rungs.remove(crowded);
    }
    rungs
}

pub(super) fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
