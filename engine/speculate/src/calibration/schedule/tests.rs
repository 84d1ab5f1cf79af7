use super::*;
use proptest::prelude::*;
use std::convert::Infallible;

/// A machine whose verify takes `step` per row above `first`, with a slow first run of everything.
struct Machine {
    first: f64,
    step: f64,
    log: Vec<Probe>,
    spent: f64,
}

impl Machine {
    fn new(first: f64, step: f64) -> Self {
        Self {
            first,
            step,
            log: Vec::new(),
            spent: 0.0,
        }
    }

    fn truth(&self, probe: Probe) -> f64 {
        let verify = |rows: usize| self.first + self.step * (rows - 1) as f64;
        match probe {
            Probe::Verify { rows, context } => verify(rows) + (context.saturating_sub(512) * rows) as f64 * 1e-4 * self.first,
            Probe::Draft { cap } => 0.1 * self.first + 0.01 * self.first * cap as f64,
            Probe::Round { cap } => 0.1 * self.first + 0.01 * self.first * cap as f64 + verify(cap + 1) + 0.3,
        }
    }

    fn run(&mut self, probe: Probe) -> f64 {
        let seen = self.log.iter().filter(|&&seen| seen == probe).count();
        self.log.push(probe);
        // Kernels compile in the first run; the third is disturbed.
        let ms = self.truth(probe) * [4.0, 1.0, 1.0, 2.5][seen.min(if seen > 3 { 1 } else { 3 })];
        self.spent += ms;
        ms
    }

    fn measure(&mut self, schedule: &Schedule) -> Curves {
        measure(schedule, |probe| Ok::<_, Infallible>(self.run(probe))).unwrap()
    }
}

#[test]
fn a_fast_machine_is_measured_fully() {
    let mut machine = Machine::new(4.0, 0.5);
    let curves = machine.measure(&Schedule::chain(7, 3000.0));
    let expected: BTreeMap<usize, f64> = (1..=8).map(|rows| (rows, 4.0 + 0.5 * (rows - 1) as f64)).collect();
    assert_eq!(curves.verify, expected);
    assert_eq!(curves.drafter.len(), 7);
    assert!((curves.overhead - 0.3).abs() < 1e-9, "{}", curves.overhead);
    assert_eq!(curves.slope.keys().copied().collect::<Vec<_>>(), [1, 4, 8]);
    assert!((curves.slope[&8] - 8.0 * 4e-4).abs() < 1e-4, "{:?}", curves.slope);
    assert_eq!(curves.context, 512);
    assert!(crate::cost::CostModel::new(curves).is_some());
    assert!(machine.spent < 3000.0);
    // What needs a deep cache comes last, so that it is filled once.
    let deep = |probe: &Probe| matches!(probe, Probe::Verify { context: DEEP, .. });
    let first = machine.log.iter().position(deep).unwrap();
    assert!(machine.log[first..].iter().all(deep));
}

#[test]
fn a_slow_machine_is_measured_within_its_time() {
    for first in [20.0, 60.0, 150.0, 300.0] {
        for step in [0.05 * first, first] {
            let mut machine = Machine::new(first, step);
            let curves = machine.measure(&Schedule::chain(7, 2500.0));
            // The last thing begun may end late, and what is needed at all is done at any price.
            let least = 5.0 * (machine.truth(Probe::Verify { rows: 8, context: 512 }) + 1.3 * first);
            assert!(machine.spent < 2500.0 + least, "{first} {step}: {}", machine.spent);
            assert!(
                curves.verify.contains_key(&1) && curves.verify.contains_key(&8),
                "{first}: {curves:?}"
            );
            let model = crate::cost::CostModel::new(curves).unwrap();
            for rows in 1..=8 {
                let truth = machine.truth(Probe::Verify { rows, context: 512 });
                assert!((model.verify_ms(rows, 512) / truth - 1.0).abs() < 0.01, "{first} {rows}");
            }
        }
    }
}

#[test]
fn ends_come_first_then_the_first_step_then_the_gaps() {
    assert_eq!(Schedule::chain(7, 1.0).verify, [1, 8, 2, 5, 3, 4, 6, 7]);
    assert_eq!(Schedule::chain(1, 1.0).verify, [1, 2]);
    let block = Schedule::block(15, 1.0);
    assert_eq!(block.verify[..3], [1, 16, 2]);
    assert_eq!(
        block.verify.iter().copied().collect::<std::collections::BTreeSet<_>>(),
        [1, 2, 3, 4, 5, 7, 9, 12, 16].into()
    );
    assert_eq!((&block.drafter[..], block.overhead), (&[15][..], false));
    assert!(Schedule::lookup(32, 1.0).drafter.is_empty());
    assert_eq!(Schedule::lookup(3, 1.0).verify, [1, 4, 2, 3]);
}

#[test]
fn short_contexts_go_without_depth() {
    let schedule = Schedule::chain(7, 3000.0).within(4096);
    assert_eq!((schedule.context, schedule.deep, schedule.slope.len()), (512, 4096, 3));
    let schedule = Schedule::chain(7, 3000.0).within(800);
    assert_eq!((schedule.deep, schedule.slope.len()), (800, 0));
    let mut machine = Machine::new(4.0, 0.5);
    assert!(machine.measure(&schedule).slope.is_empty());
    assert_eq!(Schedule::chain(7, 3000.0).within(100).context, 100);
}

#[test]
fn a_failure_ends_it() {
    let mut runs = 0;
    let failed = measure(&Schedule::block(7, 100.0), |_| {
        runs += 1;
        if runs == 3 { Err("out of memory") } else { Ok(1.0) }
    });
    assert_eq!((failed, runs), (Err("out of memory"), 3));
}

#[test]
fn medians_ignore_what_disturbed() {
    assert_eq!(median(&[3.0, 1.0, 900.0, 2.0, f64::NAN]), Some(2.5));
    assert_eq!(median(&[5.0]), Some(5.0));
    assert_eq!((median(&[]), median(&[f64::NAN])), (None, None));
}

proptest! {
    #[test]
    fn a_monotone_curve_never_falls_and_a_rising_one_is_left_alone(values in prop::collection::vec(1.0..100.0_f64, 0..12)) {
        let curve: BTreeMap<usize, f64> = values.iter().copied().enumerate().collect();
        let mut smooth = curve.clone();
        monotone(&mut smooth);
        let after: Vec<f64> = smooth.values().copied().collect();
        prop_assert!(after.windows(2).all(|pair| pair[0] <= pair[1]));
        // Least squares keeps the sum.
        prop_assert!((after.iter().sum::<f64>() - values.iter().sum::<f64>()).abs() < 1e-6);
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let mut rising: BTreeMap<usize, f64> = sorted.into_iter().enumerate().collect();
        let before = rising.clone();
        monotone(&mut rising);
        prop_assert_eq!(rising, before);
    }
}

#[test]
fn what_a_busy_machine_measured_is_told_apart() {
    assert!(steady(10.0, &[10.1, 9.8, 10.4, 30.0, 9.9]));
    // Timings are apart, or all of them are far from what was measured before.
    assert!(!steady(10.0, &[10.0, 28.0, 15.0, 22.0, 9.0]));
    assert!(!steady(28.0, &[10.0, 10.1, 9.9]));
    assert!(!steady(5.0, &[10.0, 10.1, 9.9]));
    assert!(!steady(10.0, &[]));
}
