use super::{
    Screen,
    agents::AgentsMsg,
    bench::BenchMsg,
    chat::ChatMsg,
    data::DataMsg,
    decoding::DecodingMsg,
    desktop::{DesktopAsk, DesktopMsg},
    downloads::DownloadMsg,
    files::FilesMsg,
    first_run::FirstRunMsg,
    hub::HubMsg,
    lab::LabMsg,
    machine::{MachineMsg, Measured},
    models::ModelsMsg,
    palette::PaletteMsg,
    race::RaceMsg,
    report::Gathered,
    settings::SettingsMsg,
    shelf::{Known, ShelfMsg},
    sidebar::SidebarMsg,
    token::{TokenAsk, TokenMsg},
};
use crate::{
    bridge::ServerConfig,
    settings::{DrafterChoice, Settings},
};
use dspark_agents::{Plan, Serving};
use dspark_compare::{Bench, Plan as BenchPlan, Race, Wish};
use dspark_protocol::{LoadRequest, Prompt, Request, Snapshot};
use dspark_sessions::{Message, MessageState, Meta, SessionHead};
use std::{path::PathBuf, sync::Arc};

/// What happened: a person did something, or the engine, the chats, or the server answered.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "a few a second, each moved once")]
pub enum Msg {
    Show(Screen),
    Snapshot(Arc<Snapshot>),
    Chat(ChatMsg),
    Sidebar(SidebarMsg),
    Models(ModelsMsg),
    Downloads(DownloadMsg),
    Hub(HubMsg),
    Shelf(ShelfMsg),
    FirstRun(FirstRunMsg),
    Lab(LabMsg),
    Files(FilesMsg),
    Machine(MachineMsg),
    Race(RaceMsg),
    Bench(BenchMsg),
    Agents(AgentsMsg),
    Decoding(DecodingMsg),
    Desktop(DesktopMsg),
    Data(DataMsg),
    Palette(PaletteMsg),
    /// A file that was asked for is written, or is not.
    Saved(Result<PathBuf, String>),
    Settings(SettingsMsg),
    Token(TokenMsg),
    ToastAction(u64),
    /// Something a person should know.
    Notice {
        title: String,
        body: String,
    },
    /// The same, until it is closed: something may be lost.
    Fault {
        title: String,
        body: String,
    },
    Open(String),
    Copy(String),
    /// Stop every reply, whoever asked for it.
    StopEverything,
    CloseWindow,
    ShowWindow,
    Quit,
    QuitConfirmed,
    QuitCancelled,
}

impl From<crate::markdown::Event> for Msg {
    fn from(event: crate::markdown::Event) -> Self {
        match event {
            crate::markdown::Event::Copy(text) => Self::Copy(text),
            crate::markdown::Event::OpenLink(url) => Self::Open(url),
        }
    }
}

/// What is to be done outside the state.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Store(StoreWrite),
    ListSessions {
        after: Option<SessionHead>,
    },
    OpenSession(i64),
    Search(String),
    /// The turn is named by the message it writes.
    Submit {
        message: i64,
        request: Box<Request>,
    },
    CancelTurn(i64),
    /// A short reply for its figures; nobody reads it.
    Measure(Box<Request>),
    CancelMeasure,
    ReadMachine,
    /// Of the model in this folder.
    ReadFootprint(PathBuf),
    MeasureBandwidth,
    CancelBandwidth,
    SaveBandwidth(Measured),
    /// One prompt by several ways of decoding.
    Race(Box<Wish>),
    /// Many prompts by several ways of decoding.
    Bench(Box<BenchPlan>),
    /// Ends whichever of both runs.
    CancelComparison,
    /// Races and benchmarks that are kept in this folder.
    ReadHistory(PathBuf),
    KeepRaces {
        folder: PathBuf,
        races: Vec<Arc<Race>>,
    },
    KeepBench {
        folder: PathBuf,
        bench: Arc<Bench>,
    },
    /// A picture of a race, into the person's downloads.
    SaveRaceCard(Arc<Race>),
    CancelAll,
    CountTokens {
        revision: u64,
        prompt: Prompt,
    },
    /// The drafter is looked for first, where the settings leave it open.
    Load {
        request: Box<LoadRequest>,
        drafter: DrafterChoice,
    },
    CancelLoad,
    Unload,
    Fetch(String),
    /// The newest revision of a repository that is here.
    Update(String),
    CancelFetch,
    Survey {
        folders: Vec<PathBuf>,
    },
    Inspect(PathBuf),
    /// Words, or one repository.
    SearchHub(String),
    CancelSearch,
    PreviewModel(String),
    /// The files of the model in this folder.
    Verify(PathBuf),
    CancelVerify,
    Remove {
        path: PathBuf,
        name: String,
    },
    /// What an unfinished download left.
    Discard(String),
    /// In the system's file manager.
    Reveal(PathBuf),
    SaveKnown(Known),
    Token(TokenAsk),
    /// Bytes a second of all downloads, also of one that runs; 0 for no limit.
    LimitDownloads(u64),
    SaveSettings(Box<Settings>),
    ApplyAppearance,
    StartServer(ServerConfig),
    StopServer,
    /// Where every client stands with this server; without one, whether it is set up at all.
    LookAtAgents {
        serving: Option<Serving>,
        project: String,
    },
    ApplyAgent(Box<Plan>),
    /// `changed`: although others have changed the file.
    UndoAgent {
        id: &'static str,
        changed: bool,
    },
    KeepAgent(&'static str),
    /// A request of another program.
    CancelCall(String),
    Copy(String),
    Desktop(DesktopAsk),
    /// All of them into one file; the prompt is that of chats without their own.
    ExportChats {
        system_prompt: String,
    },
    GatherReport(Box<Gathered>),
    /// What they are is found out; `chats` are sought for in them and nothing else.
    ReadFiles {
        paths: Vec<PathBuf>,
        chats: bool,
    },
    /// Where the person says, else into their downloads.
    SaveFile {
        name: String,
        text: String,
    },
    OpenUrl(String),
    Focus(Focus),
    ScrollToEnd,
    ShowWindow,
    HideWindow,
    Quit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Focus {
    Composer,
    Search,
    Edit,
    Rename,
    /// The field for the hub's access token.
    Token,
}

/// A change to the chats. Streaming text is not among them: the thread that receives it saves it, whatever the
/// window is doing.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreWrite {
    CreateSession {
        id: i64,
        title: String,
    },
    /// A chat that began elsewhere, at this time in milliseconds.
    ImportSession {
        id: i64,
        title: String,
        at: i64,
    },
    Rename {
        session: i64,
        title: String,
    },
    Pin {
        session: i64,
        pinned: bool,
    },
    DeleteSession(i64),
    RestoreSession(i64),
    /// Every session, at this time in milliseconds.
    DeleteAll {
        at: i64,
    },
    /// Those that went at that time.
    RestoreAll {
        at: i64,
    },
    Add(Box<Message>),
    Finish {
        message: i64,
        state: MessageState,
        meta: Box<Meta>,
    },
    Resume(i64),
    Activate {
        session: i64,
        parent: Option<i64>,
        child: i64,
    },
    DeleteMessage(i64),
    RestoreMessage(i64),
    Draft {
        session: i64,
        text: String,
    },
    /// JSON; `None` follows the app's settings again.
    Options {
        session: i64,
        options: Option<String>,
    },
}
