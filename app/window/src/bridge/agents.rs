//! Settings of other programs, read and written on a thread of their own: one thing after the other.

use super::{Inbox, Job, desk, run};
use crate::{
    shell::picker::expand,
    state::{AgentsMsg, Looked, Msg},
};
use dspark_agents::{AgentError, CLIENTS, Client, Places, Plan, Serving, Standing};
use dspark_strings::t;
use std::sync::mpsc;

pub(super) struct AgentDesk {
    places: Option<Places>,
    desk: mpsc::Sender<Job>,
    inbox: Inbox,
}

impl AgentDesk {
    /// Without places there is no home folder, and nothing to set up.
    pub(super) fn new(places: Option<Places>, inbox: Inbox) -> Self {
        Self {
            places,
            desk: desk("agents"),
            inbox,
        }
    }

    /// `project` is a folder as typed; empty is where the program was started.
    pub(super) fn look(&self, serving: Option<Serving>, project: &str) {
        let inbox = self.inbox.clone();
        let Some(places) = self.places_in(project) else {
            let reason = t!(no_home);
            return inbox.push(Msg::Agents(AgentsMsg::Looked(Err(reason.into()))));
        };
        run(&self.desk, move || {
            let tell = |standings: Vec<Standing>, complete| {
                let looked = Looked {
                    standings,
                    project: places.project.clone(),
                    home: places.home.clone(),
                    complete,
                };
                inbox.push(Msg::Agents(AgentsMsg::Looked(Ok(Box::new(looked)))));
            };
            let mut standings: Vec<Standing> = CLIENTS
                .iter()
                .map(|client| dspark_agents::look(client, serving.as_ref(), &places))
                .collect();
            tell(standings.clone(), false);
            // Programs take their time to say which they are.
            for standing in &mut standings {
                standing.found = standing.found.take().map(dspark_agents::Found::asked);
            }
            tell(standings, true);
        });
    }

    pub(super) fn apply(&self, plan: Plan) {
        let id = plan.client.id;
        self.write(move |places| {
            let result = dspark_agents::apply(&plan, places).map(|()| plan.path.clone());
            AgentsMsg::Applied { id, result: told(result) }
        });
    }

    /// `changed`: although others have changed the file. Otherwise what they did is told instead.
    pub(super) fn undo(&self, id: &'static str, changed: bool) {
        self.write(move |places| {
            let act = if changed {
                dspark_agents::undo_changed
            } else {
                dspark_agents::undo
            };
            let both = |client| {
                Ok(Box::new((
                    dspark_agents::since(client, places)?,
                    dspark_agents::undoing(client, places)?,
                )))
            };
            match of(id, |client| Ok(act(client, places))) {
                Ok(Err(AgentError::Changed { .. })) => AgentsMsg::Differences { id, result: of(id, both) },
                Ok(result) => AgentsMsg::Undone { id, result: told(result) },
                Err(reason) => AgentsMsg::Undone { id, result: Err(reason) },
            }
        });
    }

    pub(super) fn keep(&self, id: &'static str) {
        self.write(move |places| AgentsMsg::Kept {
            id,
            result: of(id, |client| dspark_agents::keep(client, places)),
        });
    }

    fn write(&self, work: impl FnOnce(&Places) -> AgentsMsg + Send + 'static) {
        let Some(places) = self.places.clone() else { return };
        let inbox = self.inbox.clone();
        run(&self.desk, move || inbox.push(Msg::Agents(work(&places))));
    }

    fn places_in(&self, project: &str) -> Option<Places> {
        let places = self.places.clone()?;
        let project = match project.trim() {
            // A program started from a dock stands in the root of the disk, which is no project.
            "" if places.project.parent().is_none() => places.home.clone(),
            "" => places.project.clone(),
            typed => expand(typed),
        };
        Some(Places { project, ..places })
    }
}

fn of<T>(id: &str, act: impl FnOnce(&'static Client) -> Result<T, AgentError>) -> Result<T, String> {
    let client = dspark_agents::client(id).ok_or_else(|| t!(no_such_client, id = id))?;
    told(act(client))
}

fn told<T>(result: Result<T, AgentError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
