//! Long work on models, off the window's thread: downloads, searches, checks, deletions.

use super::{Catalog, FetchProgress, Inbox, notice, run, thread};
use crate::state::{DownloadMsg, Effect, HubMsg, Known, ModelsMsg, Msg, ShelfMsg, TokenAsk, TokenMsg};
use dspark_protocol::EngineHandle;
use dspark_strings::t;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, mpsc},
};
use tokio_util::sync::CancellationToken;

pub(super) struct Keeper {
    catalog: Arc<dyn Catalog>,
    engine: EngineHandle,
    inbox: Inbox,
    /// What is remembered of models.
    file: PathBuf,
    fetching: CancellationToken,
    searching: CancellationToken,
    checking: CancellationToken,
}

impl Keeper {
    pub(super) fn new(catalog: Arc<dyn Catalog>, engine: EngineHandle, inbox: Inbox, file: PathBuf) -> Self {
        Self {
            catalog,
            engine,
            inbox,
            file,
            fetching: CancellationToken::new(),
            searching: CancellationToken::new(),
            checking: CancellationToken::new(),
        }
    }

    /// Reads back what is remembered. A file of another version begins anew.
    pub(super) fn recall(&self, desk: &mpsc::Sender<super::Job>) {
        let (file, inbox) = (self.file.clone(), self.inbox.clone());
        run(desk, move || {
            let known = std::fs::read(file)
                .ok()
                .and_then(|text| serde_json::from_slice::<Known>(&text).ok());
            if let Some(known) = known {
                inbox.push(ShelfMsg::Known(known).into());
            }
        });
    }

    pub(super) fn close(&self) {
        for token in [&self.fetching, &self.searching, &self.checking] {
            token.cancel();
        }
    }

    /// Carries out what is about models; hands the rest back.
    pub(super) fn perform(&mut self, effect: Effect, desk: &mpsc::Sender<super::Job>) -> Option<Effect> {
        let (catalog, inbox) = (self.catalog.clone(), self.inbox.clone());
        let snapshot = self.engine.snapshot();
        match effect {
            Effect::Fetch(_) | Effect::Update(_) => {
                self.fetching = CancellationToken::new();
                let cancel = self.fetching.clone();
                thread("fetch", move || {
                    let progress = inbox.clone();
                    let mut report = move |at: FetchProgress| progress.push(Msg::Models(ModelsMsg::Fetching(at)));
                    let result = match effect {
                        Effect::Update(id) => catalog.update(&id, &mut report, &cancel),
                        Effect::Fetch(id) => catalog.fetch(&id, &mut report, &cancel),
                        _ => return,
                    };
                    inbox.push(Msg::Models(ModelsMsg::Fetched(result)));
                });
            }
            Effect::CancelFetch => self.fetching.cancel(),
            Effect::Survey { folders } => thread("survey", move || {
                let survey = catalog.survey(&folders, &snapshot.machine, snapshot.memory.limit);
                inbox.push(Msg::Models(ModelsMsg::Surveyed(survey)));
            }),
            Effect::Inspect(path) => thread("inspect", move || {
                let found = catalog.inspect(&path);
                inbox.push(Msg::Models(ModelsMsg::Inspected { path, found }));
            }),
            Effect::SearchHub(asked) => {
                self.searching.cancel();
                self.searching = CancellationToken::new();
                let cancel = self.searching.clone();
                thread("search", move || {
                    let found = catalog.search(&asked, &snapshot.machine, snapshot.memory.limit, &cancel);
                    inbox.push(HubMsg::Found { asked, found }.into());
                });
            }
            Effect::CancelSearch => self.searching.cancel(),
            Effect::PreviewModel(id) => thread("preview", move || {
                let found = catalog.preview(&id, &snapshot.machine, snapshot.memory.limit, &CancellationToken::new());
                let found = found.map(Box::new);
                inbox.push(HubMsg::Previewed { id, found }.into());
            }),
            Effect::Verify(path) => {
                self.checking = CancellationToken::new();
                let cancel = self.checking.clone();
                thread("verify", move || {
                    let progress = inbox.clone();
                    let mut report = move |at: FetchProgress| progress.push(ShelfMsg::Verifying(at).into());
                    let result = catalog.verify(&path, &mut report, &cancel);
                    inbox.push(ShelfMsg::Verified { path, result }.into());
                });
            }
            Effect::CancelVerify => self.checking.cancel(),
            Effect::Remove { path, name } => thread("delete", move || {
                let result = catalog.remove(&path);
                inbox.push(ShelfMsg::Deleted { name, result }.into());
            }),
            Effect::Discard(id) => thread("discard", move || {
                let result = catalog.discard(&id);
                inbox.push(DownloadMsg::Discarded { id, result }.into());
            }),
            Effect::Reveal(path) => thread("reveal", move || inbox.push(ShelfMsg::Revealed(reveal(&path)).into())),
            Effect::SaveKnown(known) => {
                let file = self.file.clone();
                let text = serde_json::to_vec_pretty(&known).unwrap_or_default();
                run(desk, move || {
                    if let Err(error) = std::fs::write(file, text) {
                        inbox.push(notice(t!(remembered_not_saved), &error));
                    }
                });
            }
            Effect::LimitDownloads(rate) => catalog.limit(rate),
            Effect::Token(ask) => run(desk, move || {
                let message = match ask {
                    TokenAsk::Look => TokenMsg::Looked(catalog.token()),
                    TokenAsk::Keep(secret) => TokenMsg::Changed {
                        kept: true,
                        result: catalog.keep_token(Some(secret.expose())),
                    },
                    TokenAsk::Forget => TokenMsg::Changed {
                        kept: false,
                        result: catalog.keep_token(None),
                    },
                };
                inbox.push(message.into());
            }),
            other => return Some(other),
        }
        None
    }
}

/// Shows a folder in the system's file manager.
fn reveal(path: &Path) -> Result<(), String> {
    let mut command = if cfg!(target_os = "macos") {
        let mut command = Command::new("open");
        command.arg("-R");
        command
    } else {
        Command::new("xdg-open")
    };
    let here = || t!(it_is_path, path = path.display());
    let status = command
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| t!(no_file_manager, error = error.to_string(), here = here()))?;
    if status.success() {
        Ok(())
    } else {
        Err(t!(file_manager_refused, here = here()))
    }
}
