//! Draft trees: which nodes a round verifies, and how they lie in rows. A chain is a tree with one child per node.
//!
//! Source: `spec/speculation.md` §8.1, §8.4.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashSet},
};

/// Drafted tokens, parents before children, children of one parent in order of preference. The root (the anchor) is
/// not among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DraftTree {
    pub tokens: Vec<u32>,
    /// Index of each node's parent, -1 for a child of the anchor.
    pub parents: Vec<i32>,
}

impl DraftTree {
    /// One child per node.
    pub fn chain(tokens: Vec<u32>) -> Self {
        let parents = (0..tokens.len() as i32).map(|i| i - 1).collect();
        Self { tokens, parents }
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub fn is_chain(&self) -> bool {
        self.parents.iter().enumerate().all(|(i, &parent)| parent == i as i32 - 1)
    }

    /// `None` for a child of the anchor.
    pub fn parent(&self, node: usize) -> Option<usize> {
        usize::try_from(self.parents[node]).ok()
    }

    /// The child of `parent` (`None`: of the anchor) with this token.
    pub fn child(&self, parent: Option<usize>, token: u32) -> Option<usize> {
        let parent = parent.map_or(-1, |node| node as i32);
        (0..self.len()).find(|&node| self.parents[node] == parent && self.tokens[node] == token)
    }

    /// Steps from the anchor, 1 and up.
    pub fn depth(&self, node: usize) -> usize {
        self.path(node).len()
    }

    /// The longest path; 0 without nodes.
    pub fn max_depth(&self) -> usize {
        let mut depths: Vec<usize> = Vec::with_capacity(self.len());
        for node in 0..self.len() {
            depths.push(self.parent(node).map_or(1, |parent| depths[parent] + 1));
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// The nodes from the anchor's child down to `node`.
    pub fn path(&self, node: usize) -> Vec<usize> {
        let mut path = vec![node];
        while let Some(parent) = self.parent(path[path.len() - 1]) {
            path.push(parent);
        }
        path.reverse();
        path
    }

    /// The tokens of [`Self::path`]: what a row's penalties count beyond the committed text.
    pub fn path_tokens(&self, node: usize) -> Vec<u32> {
        self.path(node).into_iter().map(|node| self.tokens[node]).collect()
    }

    /// The preferred chain: first children from the anchor down.
    pub fn spine(&self) -> Vec<usize> {
        let mut spine = Vec::new();
        let mut end = -1;
        while let Some(node) = self.parents.iter().position(|&parent| parent == end) {
            spine.push(node);
            end = node as i32;
        }
        spine
    }

    /// The verify forward's tokens: the anchor is row 0, node i is row i + 1.
    pub fn row_tokens(&self, anchor: u32) -> Vec<u32> {
        [anchor].into_iter().chain(self.tokens.iter().copied()).collect()
    }

    /// The nodes that `keep` names, without those whose parents it does not; order and rows follow.
    #[must_use]
    pub fn retaining(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::default();
        let mut places = vec![None; self.len()];
        for node in 0..self.len() {
            let parent = match usize::try_from(self.parents[node]) {
                Ok(parent) => places[parent],
                Err(_) => Some(-1),
            };
            if let (true, Some(parent)) = (keep(node), parent) {
                places[node] = Some(kept.len() as i32);
                kept.tokens.push(self.tokens[node]);
                kept.parents.push(parent);
            }
        }
        kept
    }

    /// The verify forward's `parents`: -1 for row 0, the row of the parent otherwise.
    pub fn row_parents(&self) -> Vec<i32> {
        [-1].into_iter().chain(self.parents.iter().map(|parent| parent + 1)).collect()
    }
}

/// The rows that stay after a round: the anchor's and those of the accepted nodes, in order.
pub fn kept_rows(nodes: &[usize]) -> Vec<usize> {
    [0].into_iter().chain(nodes.iter().map(|node| node + 1)).collect()
}

/// Whether those rows are the first ones, so that nothing has to be moved.
pub fn is_prefix(rows: &[usize]) -> bool {
    rows.iter().enumerate().all(|(i, &row)| i == row)
}

/// A continuation that could still be chosen.
struct Candidate {
    score: f64,
    depth: usize,
    token: u32,
    parent: i32,
}

impl Ord for Candidate {
    /// Greater is better: likelier, then shallower, then the lower id, then the earlier parent.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then(other.depth.cmp(&self.depth))
            .then(other.token.cmp(&self.token))
            .then(other.parent.cmp(&self.parent))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// The `budget` likeliest nodes, each with its ancestors, at most `max_depth` deep, laid out with the preferred chain
/// in front (its rows then need no moving on commit).
///
/// `root` are the continuations of the anchor as (token, natural-log probability), in any order; `expand` gives those
/// behind a path of tokens. Each node is expanded at most once, and only while something can still come of it. Where
/// a token is named twice the likelier counts; what has no finite log-probability is left out. Ties go to the
/// shallower node, then to the lower id.
///
/// # Errors
/// Those of `expand`.
pub fn best_first<E>(
    budget: usize,
    max_depth: usize,
    root: &[(u32, f32)],
    mut expand: impl FnMut(&[u32]) -> Result<Vec<(u32, f32)>, E>,
) -> Result<DraftTree, E> {
    let mut chosen = DraftTree::default();
    let mut open = BinaryHeap::new();
    let mut paths: Vec<Vec<u32>> = Vec::new();
    if max_depth > 0 {
        open.extend(candidates(root, 0.0, 1, -1));
    }
    while chosen.len() < budget {
        let Some(best) = open.pop() else { break };
        let node = chosen.len() as i32;
        let mut path = usize::try_from(best.parent).map_or_else(|_| Vec::new(), |parent| paths[parent].clone());
        path.push(best.token);
        chosen.tokens.push(best.token);
        chosen.parents.push(best.parent);
        if best.depth < max_depth && chosen.len() < budget {
            open.extend(candidates(&expand(&path)?, best.score, best.depth + 1, node));
        }
        paths.push(path);
    }
    Ok(preferred_first(&chosen))
}

fn candidates(continuations: &[(u32, f32)], score: f64, depth: usize, parent: i32) -> Vec<Candidate> {
    let mut sorted: Vec<(u32, f32)> = continuations.iter().copied().filter(|(_, logp)| logp.is_finite()).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut seen = HashSet::new();
    sorted.retain(|&(token, _)| seen.insert(token));
    sorted
        .into_iter()
        .map(|(token, logp)| Candidate {
            // Rounding must not make a child likelier than its parent.
            score: score + f64::from(logp.min(0.0)),
            depth,
            token,
            parent,
        })
        .collect()
}

/// The same tree, depth first: a node's best child follows it at once. Children were chosen best first, so they keep
/// their order.
fn preferred_first(tree: &DraftTree) -> DraftTree {
    let mut children = vec![Vec::new(); tree.len() + 1];
    for (node, &parent) in tree.parents.iter().enumerate() {
        children[(parent + 1) as usize].push(node);
    }
    let mut laid = DraftTree::default();
    let mut pending: Vec<(usize, i32)> = children[0].iter().rev().map(|&node| (node, -1)).collect();
    while let Some((node, parent)) = pending.pop() {
        let at = laid.len() as i32;
        laid.tokens.push(tree.tokens[node]);
        laid.parents.push(parent);
        pending.extend(children[node + 1].iter().rev().map(|&child| (child, at)));
    }
    laid
}

#[cfg(test)]
mod tests;
