//! Between the state and the world: carries effects out on other threads and sends back messages. Every call here
//! returns at once.

mod agents;
mod compare;
mod connections;
mod data;
mod desktop;
mod files;
mod inbox;
pub mod intake;
mod keeper;
mod latest;
mod seams;
mod shelf;
mod watch;

pub use connections::{Activity, CallEnd, CallState, ClientTotals, Difference, EndedCall, LiveCall, Receipt, dialect};
pub use inbox::{FRAME, Inbox};
pub(crate) use seams::slowdown;
pub use seams::{MachineSource, NoMachine, NoServer, Reading, ServerConfig, ServerControl, ServerFailure};
pub use shelf::{
    Catalog, Check, Disk, Drafter, FetchError, FetchProgress, Fit, FitAt, FitLevel, Kind, Leftover, Listed, ModelEntry, Offer, Pace, Part,
    Survey, TokenFrom, TokenState, Trouble,
};

use crate::{
    settings::{DrafterChoice, Settings},
    state::{
        Asker, ChatMsg, DataMsg, Effect, FilesMsg, FirstRunMsg, LabMsg, MachineMsg, Measured, ModelsMsg, Msg, SettingsMsg, SidebarMsg,
        StoreWrite,
    },
};
use agents::AgentDesk;
use desktop::Around;
use dspark_agents::Places;
use dspark_desktop::{Desktop, NoDesktop};
use dspark_protocol::{EngineError, EngineHandle, Event, LoadEvent, LoadRequest, Prompt, Request};
use dspark_sessions::{SessionHead, Store};
use dspark_strings::t;
use keeper::Keeper;
use latest::Latest;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Lines of the sidebar read at a time.
const PAGE: usize = 200;
const HITS: usize = 60;

type Job = Box<dyn FnOnce() + Send>;

/// Cancels a load that may not have reached the engine yet.
#[derive(Clone, Default)]
struct LoadCancel(Arc<Mutex<(bool, Option<CancellationToken>)>>);

impl LoadCancel {
    fn cancel(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(token) = &state.1 {
            token.cancel();
        }
    }

    fn is_of(&self, token: CancellationToken) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 {
            token.cancel();
        }
        state.1 = Some(token);
    }
}

pub struct Bridge {
    pub inbox: Inbox,
    engine: EngineHandle,
    store: Option<Store>,
    catalog: Arc<dyn Catalog>,
    server: Arc<dyn ServerControl>,
    machine: Arc<dyn MachineSource>,
    agents: AgentDesk,
    around: Around,
    pub(crate) settings_path: PathBuf,
    /// Reads of the chats, one after the other.
    desk: mpsc::Sender<Job>,
    /// Starting and stopping the server, in the order asked.
    server_desk: mpsc::Sender<Job>,
    counting: Latest<(u64, Prompt)>,
    searching: Latest<String>,
    saving: Latest<Settings>,
    turns: BTreeMap<i64, CancellationToken>,
    measuring: Option<CancellationToken>,
    reading_memory: Option<CancellationToken>,
    comparing: Option<CancellationToken>,
    load_cancel: LoadCancel,
    keeper: Keeper,
    watching: CancellationToken,
}

impl Bridge {
    pub fn new(
        engine: EngineHandle,
        store: Option<Store>,
        catalog: Arc<dyn Catalog>,
        server: Arc<dyn ServerControl>,
        settings_path: PathBuf,
    ) -> Self {
        let inbox = Inbox::default();
        let watching = CancellationToken::new();
        watch::watch(engine.clone(), inbox.clone(), watching.clone());
        if let Some(store) = &store {
            let inbox = inbox.clone();
            store.on_error(move |body| {
                inbox.push(Msg::Fault {
                    title: t!(change_not_saved).into(),
                    body,
                });
            });
        }
        let counting = {
            let (engine, inbox) = (engine.clone(), inbox.clone());
            Latest::new("count", Duration::from_millis(120), move |(revision, prompt): (u64, Prompt)| {
                let tokens = engine.codec().and_then(|codec| codec.encode(&prompt)).ok().map(|ids| ids.len());
                inbox.push(Msg::Chat(ChatMsg::Tokens { revision, tokens }));
            })
        };
        let searching = {
            let (store, inbox) = (store.clone(), inbox.clone());
            Latest::new("search", Duration::ZERO, move |query: String| {
                let Some(store) = &store else { return };
                match store.search(&query, HITS) {
                    Ok(hits) => inbox.push(Msg::Sidebar(SidebarMsg::Found { query, hits })),
                    Err(error) => inbox.push(notice(t!(search_failed), &error)),
                }
            })
        };
        let saving = {
            let (path, inbox) = (settings_path.clone(), inbox.clone());
            Latest::new("settings", Duration::from_millis(250), move |settings: Settings| {
                if let Err(error) = settings.save(&path) {
                    inbox.push(notice(t!(settings_not_saved), &error));
                }
            })
        };
        let desk = desk("desk");
        let keeper = Keeper::new(
            catalog.clone(),
            engine.clone(),
            inbox.clone(),
            settings_path.with_file_name("models.json"),
        );
        keeper.recall(&desk);
        Self {
            agents: AgentDesk::new(None, inbox.clone()),
            around: Around::new(Arc::new(NoDesktop), inbox.clone()),
            inbox,
            engine,
            store,
            catalog,
            server,
            machine: Arc::new(NoMachine),
            settings_path,
            desk,
            server_desk: self::desk("server desk"),
            counting,
            searching,
            saving,
            turns: BTreeMap::new(),
            measuring: None,
            reading_memory: None,
            comparing: None,
            load_cancel: LoadCancel::default(),
            keeper,
            watching,
        }
    }

    /// With this machine to look at; what was measured of it before is read back.
    #[must_use]
    pub fn on_machine(mut self, machine: Arc<dyn MachineSource>) -> Self {
        self.machine = machine;
        let (path, inbox) = (self.measured_path(), self.inbox.clone());
        run(&self.desk, move || {
            if let Some(known) = Measured::read(&path) {
                inbox.push(MachineMsg::Known(known).into());
            }
        });
        self
    }

    /// Caps all downloads from now on; bytes a second, 0 for none.
    pub fn limit_downloads(&self, bytes_per_second: u64) {
        self.catalog.limit(bytes_per_second);
    }

    /// On this desktop.
    #[must_use]
    pub fn on_desktop(mut self, desktop: Arc<dyn Desktop>) -> Self {
        self.around = Around::new(desktop, self.inbox.clone());
        self
    }

    /// With settings of other programs in these places.
    #[must_use]
    pub fn among(mut self, places: Option<Places>) -> Self {
        self.agents = AgentDesk::new(places, self.inbox.clone());
        self
    }

    /// Who asks the server for what.
    pub fn activity(&self) -> Activity {
        self.server.activity()
    }

    fn measured_path(&self) -> PathBuf {
        Measured::file(&self.settings_path)
    }

    pub fn engine(&self) -> &EngineHandle {
        &self.engine
    }

    /// Carries out what needs no window; hands the rest back.
    pub fn perform(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Store(write) => self.write(write),
            Effect::ListSessions { after } => self.list(after),
            Effect::OpenSession(session) => self.open(session),
            Effect::Search(query) => self.searching.set(query),
            Effect::Submit { message, request } => self.submit(message, *request),
            Effect::CancelTurn(message) => {
                if let Some(cancel) = self.turns.remove(&message) {
                    cancel.cancel();
                }
            }
            Effect::Measure(request) => self.measure(*request),
            Effect::CancelMeasure => {
                if let Some(cancel) = self.measuring.take() {
                    cancel.cancel();
                }
            }
            Effect::ReadMachine => {
                let (machine, inbox) = (self.machine.clone(), self.inbox.clone());
                run(&self.desk, move || inbox.push(MachineMsg::Read(machine.read()).into()));
            }
            Effect::ReadFootprint(path) => {
                let (machine, inbox) = (self.machine.clone(), self.inbox.clone());
                run(&self.desk, move || {
                    let footprint = machine.footprint(&path);
                    inbox.push(MachineMsg::Footprint { path, footprint }.into());
                });
            }
            Effect::MeasureBandwidth => self.measure_bandwidth(),
            Effect::CancelBandwidth => {
                if let Some(cancel) = self.reading_memory.take() {
                    cancel.cancel();
                }
            }
            Effect::SaveBandwidth(measured) => self.save_bandwidth(&measured),
            Effect::CancelAll => self.engine.cancel_all(),
            Effect::CountTokens { revision, prompt } => self.counting.set((revision, prompt)),
            Effect::Load { request, drafter } => self.load(*request, drafter),
            Effect::CancelLoad => self.load_cancel.cancel(),
            Effect::Unload => self.unload(),
            Effect::SaveSettings(settings) => self.saving.set(*settings),
            Effect::StartServer(config) => {
                let (server, inbox) = (self.server.clone(), self.inbox.clone());
                run(&self.server_desk, move || {
                    inbox.push(Msg::Settings(SettingsMsg::ServerAnswer(server.start(&config))));
                });
            }
            Effect::StopServer => {
                let server = self.server.clone();
                run(&self.server_desk, move || server.stop());
            }
            Effect::LookAtAgents { serving, project } => self.agents.look(serving, &project),
            Effect::ApplyAgent(plan) => self.agents.apply(*plan),
            Effect::UndoAgent { id, changed } => self.agents.undo(id, changed),
            Effect::KeepAgent(id) => self.agents.keep(id),
            Effect::CancelCall(id) => {
                self.server.cancel(&id);
            }
            Effect::SaveFile { name, text } => self.around.save(name, text, self.downloads()),
            Effect::ExportChats { system_prompt } => match self.store.clone() {
                Some(store) => data::export(self.around.desktop(), store, system_prompt, self.downloads(), self.inbox.clone()),
                None => self.inbox.push(DataMsg::Exported(Err(t!(no_chats_kept).into())).into()),
            },
            Effect::GatherReport(gathered) => data::report(*gathered, self.catalog.clone(), self.machine.clone(), self.inbox.clone()),
            Effect::Desktop(ask) => self.around.perform(ask, &self.desk),
            Effect::ReadFiles { paths, chats } => {
                let inbox = self.inbox.clone();
                thread("files", move || {
                    let read = paths.iter().flat_map(|path| intake::read(path, chats)).collect();
                    inbox.push(Msg::Files(FilesMsg::Read(read)));
                });
            }
            other => {
                let other = self.compare(other)?;
                return self.keeper.perform(other, &self.desk);
            }
        }
        None
    }

    /// The last word before the app ends: everything that must be on disk is.
    pub fn close(&mut self, settings: &Settings) {
        self.watching.cancel();
        self.keeper.close();
        for cancel in std::mem::take(&mut self.turns).into_values() {
            cancel.cancel();
        }
        if let Err(error) = settings.save(&self.settings_path) {
            tracing::error!("the settings could not be saved: {error}");
        }
        self.server.stop();
        if let Some(store) = &self.store {
            if let Err(error) = store.flush() {
                tracing::error!("the chats could not be saved: {error}");
            }
            store.close();
        }
    }

    fn write(&self, write: StoreWrite) {
        let Some(store) = &self.store else { return };
        match write {
            StoreWrite::CreateSession { id, title } => store.insert_session(id, title),
            StoreWrite::ImportSession { id, title, at } => store.insert_session_at(id, title, at),
            StoreWrite::Rename { session, title } => store.rename(session, title),
            StoreWrite::Pin { session, pinned } => store.pin(session, pinned),
            StoreWrite::DeleteSession(session) => store.delete_session(session),
            StoreWrite::RestoreSession(session) => store.restore_session(session),
            StoreWrite::DeleteAll { at } => store.delete_all(at),
            StoreWrite::RestoreAll { at } => store.restore_all(at),
            StoreWrite::Add(message) => store.insert_message(*message),
            StoreWrite::Finish { message, state, meta } => store.finish(message, state, *meta),
            StoreWrite::Resume(message) => store.resume(message),
            StoreWrite::Activate { session, parent, child } => store.activate(session, parent, child),
            StoreWrite::DeleteMessage(message) => store.delete_message(message),
            StoreWrite::RestoreMessage(message) => store.restore_message(message),
            StoreWrite::Draft { session, text } => store.save_draft(session, text),
            StoreWrite::Options { session, options } => store.save_options(session, options),
        }
    }

    fn list(&self, after: Option<SessionHead>) {
        let Some(store) = self.store.clone() else { return };
        let inbox = self.inbox.clone();
        run(&self.desk, move || {
            // What was just brought back is in the list.
            let _ = store.flush();
            let pinned = if after.is_none() { store.pinned() } else { Ok(Vec::new()) };
            let page = store.sessions(after.as_ref(), PAGE);
            match pinned.and_then(|pinned| Ok((pinned, page?))) {
                Ok((mut sessions, page)) => {
                    let end = page.len() < PAGE;
                    sessions.extend(page);
                    inbox.push(Msg::Sidebar(SidebarMsg::Listed { sessions, end }));
                }
                Err(error) => inbox.push(notice(t!(chats_unreadable), &error)),
            }
        });
    }

    fn open(&self, session: i64) {
        let Some(store) = self.store.clone() else { return };
        let inbox = self.inbox.clone();
        run(&self.desk, move || {
            // What was just written is read back, whatever the writer is doing.
            let _ = store.flush();
            let read = store
                .tree(session)
                .and_then(|tree| Ok((tree, store.draft(session)?, store.options(session)?)));
            match read {
                Ok((tree, draft, options)) => {
                    // Options of another version that cannot be read are the app's.
                    let options = options.and_then(|text| serde_json::from_str(&text).ok());
                    inbox.push(Msg::Chat(ChatMsg::Opened {
                        session,
                        tree,
                        draft,
                        options,
                    }));
                }
                Err(error) => inbox.push(notice(t!(chat_unreadable), &error)),
            }
        });
    }

    fn submit(&mut self, message: i64, request: Request) {
        let client = request.client.clone();
        let mut generation = match self.engine.submit(request) {
            Ok(generation) => generation,
            Err(error) => {
                self.inbox.push(event(message, Event::Failed(error)));
                return;
            }
        };
        self.turns.insert(message, generation.canceller());
        let (inbox, store) = (self.inbox.clone(), self.store.clone());
        let machine = self.machine.clone();
        thread("answer", move || {
            let swap = |begins| {
                let used = machine.read().swap_used;
                inbox.push(MachineMsg::Swap { begins, used }.into());
            };
            swap(true);
            let mut last = false;
            while let Some(next) = generation.next_blocking() {
                // Saved here and not in the window's turn: a hidden or busy window must not cost text in a crash.
                if let (Event::Delta(delta), Some(store)) = (&next, &store)
                    && !delta.text.is_empty()
                {
                    store.append(message, delta.text.as_str());
                }
                if let Event::Started { prompt_tokens, .. } = next {
                    // A quick reply may be over before a snapshot has named it.
                    let asker = Asker {
                        client: client.clone(),
                        prompt_tokens,
                    };
                    inbox.push(Msg::Lab(LabMsg::Asked {
                        request: generation.id,
                        asker,
                    }));
                }
                last = matches!(next, Event::Finished(_) | Event::Failed(_));
                if last {
                    swap(false);
                }
                inbox.push(event(message, next));
            }
            if !last {
                inbox.push(event(message, Event::Failed(dspark_protocol::EngineError::Stopped)));
            }
        });
    }

    fn measure_bandwidth(&mut self) {
        let inbox = self.inbox.clone();
        let answered = move |result: Result<_, EngineError>| {
            inbox.push(MachineMsg::Measured(result.map_err(|error| error.to_string())).into());
        };
        let answer = match self.engine.bandwidth() {
            Ok(answer) => answer,
            Err(error) => return answered(Err(error)),
        };
        let cancel = CancellationToken::new();
        self.reading_memory = Some(cancel.clone());
        thread("bandwidth", move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let result = runtime.map(|runtime| {
                runtime.block_on(async {
                    tokio::select! {
                        answer = answer => answer.unwrap_or(Err(EngineError::Stopped)),
                        () = cancel.cancelled() => Err(EngineError::Cancelled),
                    }
                })
            });
            answered(result.unwrap_or(Err(EngineError::Stopped)));
        });
    }

    fn save_bandwidth(&self, measured: &Measured) {
        let (path, inbox) = (self.measured_path(), self.inbox.clone());
        let text = serde_json::to_vec_pretty(measured).unwrap_or_default();
        run(&self.desk, move || {
            if let Err(error) = std::fs::write(path, text) {
                inbox.push(notice(t!(measurement_not_saved), &error));
            }
        });
    }

    fn measure(&mut self, request: Request) {
        let mut generation = match self.engine.submit(request) {
            Ok(generation) => generation,
            Err(error) => return self.inbox.push(FirstRunMsg::Measured(Err(error)).into()),
        };
        self.measuring = Some(generation.canceller());
        let inbox = self.inbox.clone();
        thread("measure", move || {
            let mut result = Err(EngineError::Stopped);
            while let Some(next) = generation.next_blocking() {
                match next {
                    Event::Finished(summary) => result = Ok(summary),
                    Event::Failed(error) => result = Err(error),
                    _ => {}
                }
            }
            inbox.push(FirstRunMsg::Measured(result).into());
        });
    }

    fn load(&mut self, request: LoadRequest, drafter: DrafterChoice) {
        self.load_cancel = LoadCancel::default();
        let (engine, catalog) = (self.engine.clone(), self.catalog.clone());
        let (inbox, cancel) = (self.inbox.clone(), self.load_cancel.clone());
        // Looking for the drafter reads folders.
        thread("load", move || {
            let failed = |error| inbox.push(Msg::Models(ModelsMsg::LoadEvent(LoadEvent::Failed(error))));
            let model = request.name.clone();
            let request = match drafter {
                DrafterChoice::Off => Ok(request),
                DrafterChoice::Auto => catalog.prepare(request),
                DrafterChoice::Path(path) => catalog.prepare(LoadRequest {
                    drafter: Some(path),
                    drafter_required: true,
                    ..request
                }),
            };
            let loading = request
                .map_err(|reason| EngineError::Load { model, reason })
                .and_then(|request| engine.load(request));
            let mut loading = match loading {
                Ok(loading) => loading,
                Err(error) => return failed(error),
            };
            cancel.is_of(loading.canceller());
            let mut ended = false;
            while let Some(event) = loading.next_blocking() {
                ended = !matches!(event, LoadEvent::Stage { .. });
                inbox.push(Msg::Models(ModelsMsg::LoadEvent(event)));
            }
            if !ended {
                failed(EngineError::Stopped);
            }
        });
    }

    /// Where a person looks for what was saved; beside the settings where there is no such folder.
    fn downloads(&self) -> PathBuf {
        let fallback = || self.settings_path.parent().map(std::path::Path::to_path_buf).unwrap_or_default();
        files::for_saving().unwrap_or_else(fallback)
    }

    fn unload(&self) {
        let inbox = self.inbox.clone();
        let answer = self.engine.unload();
        thread("unload", move || {
            let result = match answer {
                Ok(answer) => answer.blocking_recv().unwrap_or(Err(dspark_protocol::EngineError::Stopped)),
                Err(error) => Err(error),
            };
            inbox.push(Msg::Models(ModelsMsg::Unloaded(result.map_err(|error| error.to_string()))));
        });
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.watching.cancel();
    }
}

fn event(message: i64, event: Event) -> Msg {
    Msg::Chat(ChatMsg::Event { message, event })
}

fn notice(title: &str, error: &dyn std::fmt::Display) -> Msg {
    Msg::Notice {
        title: title.into(),
        body: error.to_string(),
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.into()).spawn(work) {
        tracing::error!("cannot start the thread `{name}`: {error}");
    }
}

/// A thread that does one thing after the other.
fn desk(name: &str) -> mpsc::Sender<Job> {
    let (sender, jobs) = mpsc::channel::<Job>();
    thread(name, move || {
        while let Ok(job) = jobs.recv() {
            job();
        }
    });
    sender
}

fn run(desk: &mpsc::Sender<Job>, job: impl FnOnce() + Send + 'static) {
    if desk.send(Box::new(job)).is_err() {
        tracing::error!("a background thread has ended early");
    }
}
