//! The desktop, asked off the window's thread.

use super::{Inbox, files, run};
use crate::state::{DesktopAsk, DesktopMsg, Msg, Purpose};
use dspark_desktop::{Choice, Desktop, Wish};
use dspark_strings::t;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
};

pub(super) struct Around {
    desktop: Arc<dyn Desktop>,
    inbox: Inbox,
}

impl Around {
    pub(super) fn new(desktop: Arc<dyn Desktop>, inbox: Inbox) -> Self {
        let hears = inbox.clone();
        desktop.listen(Arc::new(move |event| hears.push(DesktopMsg::Said(event).into())));
        Self { desktop, inbox }
    }

    pub(super) fn desktop(&self) -> &Arc<dyn Desktop> {
        &self.desktop
    }

    pub(super) fn perform(&self, ask: DesktopAsk, desk: &mpsc::Sender<super::Job>) {
        let (desktop, inbox) = (self.desktop.clone(), self.inbox.clone());
        match ask {
            DesktopAsk::LookAtLogin => run(desk, move || inbox.push(DesktopMsg::Login(Ok(desktop.login())).into())),
            DesktopAsk::SetLogin(on) => run(desk, move || inbox.push(DesktopMsg::Login(desktop.set_login(on)).into())),
            DesktopAsk::Awake(why) => desktop.stay_awake(why.map(str::to_owned)),
            DesktopAsk::Note(note) => desktop.notify(note),
            DesktopAsk::Choose(purpose) => {
                let answer = move |choice| inbox.push(DesktopMsg::Chosen { purpose, choice }.into());
                desktop.choose(wish(purpose), Box::new(answer));
            }
        }
    }

    /// Where a person says; into `folder` where there is no dialog to say it in.
    pub(super) fn save(&self, name: String, text: String, folder: PathBuf) {
        let inbox = self.inbox.clone();
        let wish = Wish::Save {
            title: t!(save).into(),
            name: name.clone(),
        };
        let answer = move |choice| {
            if let Some(saved) = saved(choice, &folder, &name, text.as_bytes()) {
                inbox.push(Msg::Saved(saved));
            }
        };
        self.desktop.choose(wish, Box::new(answer));
    }
}

/// `None`: the person thought better of it.
fn saved(choice: Choice, folder: &Path, name: &str, content: &[u8]) -> Option<Result<PathBuf, String>> {
    match choice {
        Choice::Cancelled => None,
        Choice::Chosen(paths) => {
            // The dialog has asked about a file that is there already.
            let path = paths.into_iter().next()?;
            let written =
                std::fs::write(&path, content).map_err(|error| t!(not_written_there, path = path.display(), error = error.to_string()));
            Some(written.map(|()| path))
        }
        Choice::Unavailable(_) => Some(files::save_new(folder, name, content)),
    }
}

fn wish(purpose: Purpose) -> Wish {
    match purpose {
        Purpose::Attach => Wish::Files {
            title: t!(attach_files).into(),
            endings: Vec::new(),
        },
        Purpose::ModelFolder => Wish::Folder {
            title: t!(folder_with_models).into(),
        },
        Purpose::Import => Wish::Files {
            title: t!(exported_chats).into(),
            endings: vec!["json".into()],
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_goes_where_a_person_says() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("mine.md");
        assert_eq!(saved(Choice::Cancelled, folder.path(), "Chat.md", b"x"), None);
        let chosen = saved(Choice::Chosen(vec![place.clone()]), folder.path(), "Chat.md", b"x").unwrap();
        assert_eq!(chosen.unwrap(), place);
        let fallen = saved(Choice::Unavailable(String::new()), folder.path(), "Chat.md", b"y").unwrap();
        assert_eq!(std::fs::read(fallen.unwrap()).unwrap(), b"y");
        let gone = Choice::Chosen(vec![folder.path().join("no/such/folder.md")]);
        let refused = saved(gone, folder.path(), "Chat.md", b"x").unwrap().unwrap_err();
        assert!(refused.contains("folder.md"), "{refused}");
    }
}
