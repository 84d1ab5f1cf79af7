use super::*;

#[test]
fn greedy_takes_the_agreeing_prefix() {
    // sp-001, sp-002, sp-003
    for (drafts, best, committed) in [
        (&[1][..], &[2, 7][..], &[2][..]),
        (&[5, 7, 9], &[5, 7, 4, 8], &[5, 7, 4]),
        (&[5, 7, 9], &[5, 7, 9, 8], &[5, 7, 9, 8]),
        (&[], &[3], &[3]),
    ] {
        let accepted = greedy(drafts, best);
        let outcome = Outcome {
            accepted,
            token: best[accepted],
        };
        assert_eq!(outcome.committed(drafts), committed);
    }
}
