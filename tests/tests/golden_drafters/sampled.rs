//! Drafts that the caller draws, through the one entry for all drafters.

use super::*;
use mlx_rs::ops::indexing::argmax_axis;

/// Draws the best column.
fn best(_: usize, row: &Array) -> Result<Array, mlx_rs::error::Exception> {
    argmax_axis(row, -1, false)
}

/// Drawing the best of every row is greedy drafting, whatever the drafter; and every token is its column's.
#[test]
fn the_best_of_every_row_is_greedy() {
    let names = DSPARK.into_iter().chain(DFLASH).chain(DFLASH2);
    for case in names.map(Case::open) {
        let most = case.drafter.spec().max_draft();
        let mut context = case.drafter.new_context();
        case.drafter.commit(&case.rows(0, 21), &mut context).unwrap();
        for cap in [1, 3, most] {
            let greedy = tokens(&case.drafter.draft(&one(9), cap, &mut context).unwrap());
            let found = case.drafter.sampled(&one(9), cap, &mut context, &mut best).unwrap();
            assert_eq!(tokens(&found.tokens), greedy, "{}, cap {cap}", case.name);
            let columns = tokens(&found.columns);
            let named = if let Some(candidates) = &found.candidates {
                let width = candidates.dim(1) as usize;
                let all = tokens(candidates);
                let at = |(slot, column): (usize, &u32)| all[slot * width + *column as usize];
                columns.iter().enumerate().map(at).collect()
            } else if let Some(table) = case.drafter.target_ids() {
                let table = tokens(table);
                columns.iter().map(|column| table[*column as usize]).collect()
            } else {
                columns
            };
            assert_eq!(named, greedy, "{}, columns", case.name);
            assert_eq!(found.logits.dim(0) as usize, cap, "{}", case.name);
            assert_eq!(found.confidence.is_some(), case.drafter.spec().confidence.is_some());
        }
    }
}

/// What is drawn steers the rows after it: the q of the reference for given tokens.
#[test]
fn rows_follow_what_was_drawn() {
    let seen = std::cell::Cell::new(0);
    for case in DSPARK.map(Case::open) {
        case.each_round(|case, round, context, what| {
            for proposal in round["proposal"].as_array().unwrap_or(&Vec::new()) {
                let (shape, previous) = (shape(proposal), ids(&proposal["given_prev"]));
                // Columns that lead to the given tokens.
                let column = |token: u32| match case.drafter.target_ids() {
                    None => token,
                    Some(table) => tokens(table).iter().position(|id| *id == token).unwrap() as u32,
                };
                let mut draw = |slot: usize, _: &Array| Ok(one(previous.get(slot + 1).copied().map_or(0, column)));
                let found = case.drafter.sampled(&one(previous[0]), previous.len(), context, &mut draw).unwrap();
                assert_eq!(tokens(&found.tokens)[..previous.len() - 1], previous[1..], "{what}");
                for (expected, row) in list(&proposal["rows"]).iter().zip(rows(&found.logits)) {
                    check_q(case, expected, &case.drafter.widen(&dense(&row, &shape)), what);
                    seen.set(seen.get() + 1);
                }
            }
        });
    }
    assert!(seen.get() > 50, "{}", seen.get());
}

/// A lattice's rows are scores of candidates: drawn by inverse cumulative probability they give the recorded walks.
#[test]
fn a_lattice_is_walked_by_the_draws() {
    for case in DFLASH2.map(Case::open) {
        case.each_round(|case, round, context, what| {
            for walk in list(&round["sampled_walk"]) {
                let uniforms: Vec<f64> = list(&walk["uniforms"]).iter().map(|u| u.as_f64().unwrap()).collect();
                let temperature = walk["temperature"].as_f64().unwrap();
                let mut draw = |slot: usize, row: &Array| {
                    let scores = floats(row);
                    let best = scores.iter().copied().fold(f32::MIN, f32::max);
                    let mass: Vec<f64> = scores.iter().map(|s| (f64::from(s - best) / temperature).exp()).collect();
                    let (sum, mut below) = (mass.iter().sum::<f64>(), 0.0);
                    let column = mass.iter().position(|p| {
                        below += p / sum;
                        below > uniforms[slot]
                    });
                    Ok(one(column.unwrap_or(scores.len() - 1) as u32))
                };
                let found = case.drafter.sampled(&anchor(round), uniforms.len(), context, &mut draw).unwrap();
                assert_eq!(tokens(&found.tokens), ids(&walk["ids"]), "{what}");
            }
        });
    }
}
