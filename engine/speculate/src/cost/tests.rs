use super::*;

fn curve(first: usize, values: &[f64]) -> BTreeMap<usize, f64> {
    (first..).zip(values.iter().copied()).collect()
}

fn model(verify: &[f64], drafter: &[f64], overhead: f64) -> CostModel {
    CostModel::new(Curves {
        verify: curve(1, verify),
        drafter: curve(1, drafter),
        overhead,
        context: 512,
        ..Curves::default()
    })
    .unwrap()
}

#[test]
fn the_reference_machines_get_their_caps() {
    let bonsai = model(&[40.8, 53.2, 72.0, 89.6, 107.9], &[7.7, 7.9, 8.3, 9.7], 7.9);
    let ornith = model(
        &[36.7, 37.0, 37.8, 38.5, 40.6, 51.8, 61.9, 62.7],
        &[10.4, 10.8, 11.4, 12.5, 13.5, 14.9, 16.5],
        0.3,
    );
    let gemma = model(
        &[57.9, 58.4, 59.6, 60.8, 63.7, 81.9, 97.0, 97.7],
        &[11.6, 11.9, 12.6, 13.8, 14.9, 16.1, 18.0],
        4.7,
    );
    for (name, model, max, cap) in [("bonsai", &bonsai, 4, 2), ("ornith", &ornith, 7, 4), ("gemma", &gemma, 7, 4)] {
        assert_eq!(model.best_cap(PRIOR, 512, max), cap, "{name}");
        assert_eq!(model.derived_cap(max), cap, "{name}");
    }
    // On the first of them two drafts gain 2 % at the usual survival: not enough to count on.
    assert!(!bonsai.wins(2, PRIOR, 512) && bonsai.wins(2, 0.8, 512));
    assert!(ornith.wins(4, PRIOR, 512) && gemma.wins(4, PRIOR, 512));
}

#[test]
fn flat_curves_go_wide_and_steep_ones_step_aside() {
    let flat = model(&[10.0; 9], &[0.5; 8], 0.0);
    assert_eq!(flat.derived_cap(8), 8);
    let steep = model(&[10.0, 20.0, 30.0, 40.0], &[1.0; 3], 0.0);
    assert_eq!(steep.derived_cap(3), 1);
    assert!((1..=3).all(|cap| !steep.wins(cap, 1.0, 512)), "every row costs a step");
    // A gain below 3 % is none.
    let close = model(&[10.0, 16.3], &[0.3], 0.0);
    assert!(close.rate(1, PRIOR, 512) > close.rate(0, PRIOR, 512));
    assert!(!close.wins(1, PRIOR, 512) && !close.wins(0, PRIOR, 512));
    // A cliff at width 2, then flat (an unquantized target): go wide once it is paid.
    let cliff = model(&[67.8, 134.4, 136.0, 137.0, 138.0, 138.5, 139.0, 139.0], &[8.0; 7], 1.0);
    assert_eq!(cliff.derived_cap(7), 7);
}

#[test]
fn a_block_drafter_follows_its_curve() {
    let mut curves = model(&[20.0, 20.5, 21.0, 22.0, 23.0], &[], 0.0).curves().clone();
    curves.verify.extend([(7, 30.0), (9, 38.0), (12, 50.0), (16, 66.0)]);
    curves.drafter = [(15, 6.0)].into();
    let model = CostModel::new(curves).unwrap();
    assert_eq!(model.round_ms(1, 512), 6.0 + 20.5);
    assert_eq!(model.round_ms(15, 512), 6.0 + 66.0);
    assert_eq!(model.derived_cap(15), 4);
}

#[test]
fn depth_narrows_derived_caps() {
    let verify = [67.6, 70.0, 72.0, 74.0, 78.0, 89.0, 100.0, 111.0];
    let mut curves = model(&verify, &[25.0; 7], 0.0).curves().clone();
    curves.slope = [(1, 0.0004), (4, 0.0018), (8, 0.0046)].into();
    let model = CostModel::new(curves.clone()).unwrap();
    assert_eq!(model.cap_at_depth(7, 7, 512), 7);
    assert_eq!(model.cap_at_depth(7, 7, 2048), 7);
    assert!(model.cap_at_depth(7, 7, 32768) <= 3);
    let mut before = 7;
    for depth in (0..200_000).step_by(1000) {
        let cap = model.cap_at_depth(7, 7, depth);
        assert!(cap <= before, "{depth}: {cap} after {before}");
        before = cap;
    }
    curves.slope.clear();
    assert_eq!(CostModel::new(curves).unwrap().cap_at_depth(7, 7, 100_000), 7);
}

#[test]
fn interpolation() {
    let curve = BTreeMap::from([(2, 10.0), (4, 14.0), (8, 30.0)]);
    for (x, y) in [(0, 10.0), (2, 10.0), (3, 12.0), (4, 14.0), (6, 22.0), (8, 30.0), (10, 38.0)] {
        assert_eq!(interpolate(&curve, x), Some(y), "{x}");
    }
    assert_eq!(interpolate(&BTreeMap::from([(5, 3.0)]), 50), Some(3.0));
    assert_eq!(interpolate(&BTreeMap::new(), 1), None);
    assert_eq!(expected(0.5, 3), 1.875);
    assert_eq!((expected(0.3, 0), expected(0.0, 9), expected(1.0, 4)), (1.0, 1.0, 5.0));
}

#[test]
fn curves_without_a_price_are_refused() {
    let good = model(&[1.0], &[1.0], 0.0).curves().clone();
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        assert_eq!(
            CostModel::new(Curves {
                overhead: bad,
                ..good.clone()
            }),
            None
        );
        for place in 0..3 {
            let mut curves = good.clone();
            [&mut curves.verify, &mut curves.drafter, &mut curves.slope][place].insert(1, bad);
            assert_eq!(CostModel::new(curves), None, "{bad} {place}");
        }
    }
    assert_eq!(CostModel::new(Curves::default()), None);
    let free = Curves {
        verify: [(1, 0.0)].into(),
        ..good
    };
    assert_eq!(CostModel::new(free), None);
}

#[test]
fn knees() {
    let knee = |values: &[f64]| knee(&curve(1, values));
    assert_eq!(knee(&[40.0, 41.0, 42.0, 60.0, 80.0]), 4, "convex");
    assert_eq!(knee(&[10.0, 12.0, 14.0, 16.0]), 4, "linear: none");
    assert_eq!(
        knee(&[21.0, 22.0, 22.0, 23.0, 24.0, 30.0, 34.0, 36.0]),
        6,
        "a flat step is no baseline"
    );
    assert_eq!(knee(&[67.8, 134.4, 137.0, 138.0, 139.0]), 2, "a cliff at two");
    assert_eq!(knee(&[50.0, 50.5, 50.2, 51.9, 50.8]), 5, "noise");
    assert_eq!((knee(&[]), knee(&[5.0]), knee(&[5.0, 50.0])), (0, 1, 2));
}
