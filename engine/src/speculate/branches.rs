//! A round over a tree: side branches ride in the same verify forward. Greedy requests only. Source:
//! `spec/speculation.md` §8.

use super::{
    companion::failed,
    guess::{floats, read},
    round::{Outcome, committed},
};
use crate::{
    grammar,
    sample::{Sampler, logits_of, not_numbers},
    worker::step::{Sequence, ids},
};
use dspark_grammar::{Matcher, TreeMasks};
use dspark_protocol::Source;
use dspark_speculate::{accept::greedy_tree, tree::kept_rows};
use mlx_rs::{Array, error::Exception, transforms::eval};

/// Offers at most `nodes` nodes after `anchor` and commits the path that the target takes through them.
pub(super) fn run(
    sequence: &mut Sequence<'_>,
    sampler: &Sampler,
    anchor: u32,
    nodes: usize,
    matcher: Option<&mut Matcher>,
) -> Result<Outcome, Exception> {
    let companion = sequence
        .companion
        .as_mut()
        .ok_or_else(|| Exception::custom("a tree was planned without a drafter"))?;
    let drafter = companion.drafter;
    let root = Array::from_slice(&[anchor], &[1]);
    let mut tree = drafter.tree(&root, nodes, companion.context()?).map_err(failed)?;
    let mut masks = Vec::new();
    if let Some(matcher) = matcher {
        let TreeMasks { root, nodes } = matcher.tree(&tree.tokens, &tree.parents).map_err(grammar::failed)?;
        // What the grammar does not allow the target would not take: it is not worth a row.
        tree = tree.retaining(|node| nodes[node].is_some());
        masks = std::iter::once(root).chain(nodes.into_iter().flatten()).collect();
    }
    let rows = tree.row_tokens(anchor);
    let output = sequence.verify(&ids(&rows), Some(&tree.row_parents()))?;
    let logits = output.logits.ok_or_else(|| Exception::custom("a verify gave no logits"))?;
    let mask = grammar::rows(masks.iter(), logits.dim(-1) as usize);
    let best = sampler.best(&logits, mask.as_ref())?;
    let own = logits_of(&best, &logits)?;
    eval([&best, &own])?;
    let walk = greedy_tree(&tree, &read(&best)?);
    let path = kept_rows(&walk.nodes);
    let own = floats(&own)?;
    if path.iter().any(|&row| own[row].is_nan()) {
        return Err(not_numbers());
    }
    let kept: Vec<u32> = path.iter().map(|&row| rows[row]).collect();
    let accepted = walk.nodes.len();
    sequence.keep_path(&kept, rows.len(), &path, output.features)?;
    sequence.drawn += accepted as u64 + 1;
    let depth = tree.max_depth();
    Ok(Outcome {
        committed: committed(&kept[1..], walk.token, depth, Source::Draft, None),
        drafted: tree.len(),
        tree_depth: depth,
        accepted,
    })
}
