//! Races and benchmarks: run on the engine from a thread of their own, kept on disk, shared as a picture.

use super::{Bridge, files, notice, run, thread};
use crate::{
    screens::lab::card,
    state::{BenchMsg, Effect, Msg, RaceMsg},
};
use dspark_compare::{BENCHES, Plan, RACES, Race, Wish, append_bench, keep_races, measure, race, read_benches, read_races};
use dspark_protocol::EngineError;
use dspark_strings::t;
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;

impl Bridge {
    /// Carries out what belongs to comparisons; hands the rest back.
    pub(super) fn compare(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Race(wish) => self.race(*wish),
            Effect::Bench(plan) => self.bench(*plan),
            Effect::CancelComparison => {
                if let Some(cancel) = self.comparing.take() {
                    cancel.cancel();
                }
            }
            Effect::ReadHistory(folder) => self.read_history(folder),
            Effect::KeepRaces { folder, races } => {
                let inbox = self.inbox.clone();
                run(&self.desk, move || {
                    if let Err(error) = keep_races(&folder.join(RACES), &races) {
                        inbox.push(notice(t!(race_not_kept), &error));
                    }
                });
            }
            Effect::KeepBench { folder, bench } => {
                let inbox = self.inbox.clone();
                run(&self.desk, move || {
                    if let Err(error) = append_bench(&folder.join(BENCHES), &bench) {
                        inbox.push(notice(t!(benchmark_not_kept), &error));
                    }
                });
            }
            Effect::SaveRaceCard(race) => self.save_card(race),
            other => return Some(other),
        }
        None
    }

    fn token(&mut self) -> CancellationToken {
        let cancel = self.watching.child_token();
        self.comparing = Some(cancel.clone());
        cancel
    }

    fn race(&mut self, wish: Wish) {
        let (engine, inbox, cancel) = (self.engine.clone(), self.inbox.clone(), self.token());
        thread("race", move || {
            let news = inbox.clone();
            let mut report = move |at| news.push(RaceMsg::News(at).into());
            let result = blocking(race(&engine, &wish, &cancel, &mut report));
            inbox.push(match result {
                Ok(race) => RaceMsg::Ended(Ok(Box::new(race))).into(),
                Err(EngineError::Cancelled) => RaceMsg::Cancelled.into(),
                Err(error) => RaceMsg::Ended(Err(error.to_string())).into(),
            });
        });
    }

    fn bench(&mut self, plan: Plan) {
        let (engine, inbox, cancel) = (self.engine.clone(), self.inbox.clone(), self.token());
        thread("benchmark", move || {
            let news = inbox.clone();
            let mut report = move |at| news.push(BenchMsg::Progress(at).into());
            let result = blocking(measure(&engine, &plan, &cancel, &mut report));
            inbox.push(match result {
                Ok(bench) => BenchMsg::Ended(Ok(Box::new(bench))).into(),
                Err(EngineError::Cancelled) => BenchMsg::Cancelled.into(),
                Err(error) => BenchMsg::Ended(Err(error.to_string())).into(),
            });
        });
    }

    fn read_history(&self, folder: PathBuf) {
        let inbox = self.inbox.clone();
        run(&self.desk, move || {
            match read_races(&folder.join(RACES)) {
                Ok(races) => inbox.push(RaceMsg::Known(races).into()),
                Err(error) => inbox.push(notice(t!(races_unreadable), &error)),
            }
            match read_benches(&folder.join(BENCHES)) {
                Ok(all) => inbox.push(BenchMsg::Known(all).into()),
                Err(error) => inbox.push(notice(t!(benchmarks_unreadable), &error)),
            }
        });
    }

    fn save_card(&self, race: Arc<Race>) {
        let (inbox, folder) = (self.inbox.clone(), self.downloads());
        thread("card", move || {
            let saved = card::png(&race).and_then(|picture| files::save_new(&folder, "mlx-dspark-race.png", &picture));
            inbox.push(Msg::Saved(saved));
        });
    }
}

/// On this thread, to the end.
fn blocking<T>(work: impl Future<Output = dspark_protocol::Result<T>>) -> dspark_protocol::Result<T> {
    match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(EngineError::Compute(error.to_string())),
    }
}
