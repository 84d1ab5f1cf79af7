use crate::{
    sample::{rng::Lane, shape::Distribution},
    tree::DraftTree,
};

/// The end of a tree round: the accepted nodes from the root down, then `token`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    pub nodes: Vec<usize>,
    pub token: u32,
}

impl Walk {
    /// The tokens the round adds, at least one.
    pub fn committed(&self, tree: &DraftTree) -> Vec<u32> {
        self.nodes.iter().map(|&node| tree.tokens[node]).chain([self.token]).collect()
    }
}

/// Follows the child that is the target's best token. `best` holds one id a row: the root's, then each node's.
pub fn greedy_tree(tree: &DraftTree, best: &[u32]) -> Walk {
    let mut nodes = Vec::new();
    loop {
        let token = best[nodes.last().map_or(0, |&node| node + 1)];
        match tree.child(nodes.last().copied(), token) {
            Some(child) => nodes.push(child),
            None => return Walk { nodes, token },
        }
    }
}

/// Lossless walk of a tree whose children were chosen, not drawn: point masses. `p(row)` is the target's row (0 the
/// root, i + 1 node i), asked for along the path only; `uniform(depth)` a number of the position that many behind the
/// anchor's successor, from lane [`Lane::Token`].
///
/// Trying child after child with probability p and taking each refused one out of p is a draw from p that is then
/// looked up among the children; so that is what happens, with one number a position.
///
/// # Errors
/// Those of `p`.
pub fn sampled_tree<E>(
    tree: &DraftTree,
    mut p: impl FnMut(usize) -> Result<Distribution, E>,
    mut uniform: impl FnMut(usize, Lane) -> f64,
) -> Result<Walk, E> {
    let mut nodes = Vec::new();
    loop {
        let row = nodes.last().map_or(0, |&node| node + 1);
        let token = p(row)?.draw(uniform(nodes.len(), Lane::Token));
        match tree.child(nodes.last().copied(), token) {
            Some(child) => nodes.push(child),
            None => return Ok(Walk { nodes, token }),
        }
    }
}
