//! All chats into one file, and a report of the program.

use super::{Catalog, Inbox, MachineSource, thread};
use crate::{
    settings::Chat,
    state::{DataMsg, Exported, Gathered, chat_as_json, scrubbed},
};
use dspark_desktop::{Choice, Desktop, Wish};
use dspark_sessions::{SessionHead, Store};
use dspark_strings::t;
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Chats read at a time.
const PAGE: usize = 100;
const NAME: &str = "mlx-dspark-chats.json";

/// Where a person says; into `folder` where there is no dialog to say it in.
pub(super) fn export(desktop: &Arc<dyn Desktop>, store: Store, system_prompt: String, folder: PathBuf, inbox: Inbox) {
    let wish = Wish::Save {
        title: t!(export_all_chats).into(),
        name: NAME.into(),
    };
    let answer = move |choice| {
        let path = match choice {
            Choice::Cancelled => return inbox.push(DataMsg::Exported(Ok(None)).into()),
            Choice::Chosen(paths) => paths.into_iter().next(),
            Choice::Unavailable(_) => None,
        };
        let path = path.unwrap_or_else(|| free(&folder));
        // The dialog's thread is not ours to keep.
        thread("export", move || {
            let written = write_all(&store, &path, &system_prompt).map(|chats| Some(Exported { path, chats }));
            inbox.push(DataMsg::Exported(written).into());
        });
    };
    desktop.choose(wish, Box::new(answer));
}

/// A name that nothing has in the folder.
fn free(folder: &Path) -> PathBuf {
    let names = std::iter::once(NAME.to_owned()).chain((2..1000).map(|nth| format!("mlx-dspark-chats {nth}.json")));
    let mut paths = names.map(|name| folder.join(name));
    paths.find(|path| !path.exists()).unwrap_or_else(|| folder.join(NAME))
}

/// One list, as the import of this program and others reads it; a chat at a time is in memory.
fn write_all(store: &Store, path: &Path, system_prompt: &str) -> Result<usize, String> {
    let unwritten = |error: &dyn std::fmt::Display| t!(not_written_there, path = path.display(), error = error.to_string());
    let unread = |error: &dyn std::fmt::Display| t!(chats_not_read, error = error.to_string());
    // What was just said is part of it.
    store.flush().map_err(|error| unread(&error))?;
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut file = BufWriter::new(File::create(&part).map_err(|error| unwritten(&error))?);
    let mut count = 0;
    let mut last: Option<SessionHead> = None;
    loop {
        let page = store.sessions(last.as_ref(), PAGE).map_err(|error| unread(&error))?;
        for head in &page {
            let tree = store.tree(head.id).map_err(|error| unread(&error))?;
            let options = store.options(head.id).ok().flatten();
            let own = options.and_then(|text| serde_json::from_str::<Chat>(&text).ok());
            let prompt = own.as_ref().map_or(system_prompt, |own| own.system_prompt.as_str());
            let chat = chat_as_json(&head.title, prompt, &tree);
            let before = if count == 0 { "[\n" } else { ",\n" };
            file.write_all(before.as_bytes())
                .and_then(|()| serde_json::to_writer(&mut file, &chat).map_err(std::io::Error::from))
                .map_err(|error| unwritten(&error))?;
            count += 1;
        }
        match page.last() {
            Some(head) if page.len() == PAGE => last = Some(head.clone()),
            _ => break,
        }
    }
    let end = if count == 0 { "[]\n" } else { "\n]\n" };
    file.write_all(end.as_bytes())
        .and_then(|()| file.flush())
        .and_then(|()| file.get_ref().sync_all())
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(|error| unwritten(&error))?;
    Ok(count)
}

/// What only the outside knows is added, and all of it cleaned.
pub(super) fn report(gathered: Gathered, catalog: Arc<dyn Catalog>, machine: Arc<dyn MachineSource>, inbox: Inbox) {
    thread("report", move || {
        let system = sysinfo::System::long_os_version().unwrap_or_else(|_| "unknown".into());
        let kernel = sysinfo::System::kernel_version().unwrap_or_else(|_| "unknown".into());
        let mut text = format!(
            "mlx-dspark diagnostics\nNo chats, no prompts and no keys are in here.\n\nSystem: {system}, kernel {kernel}, {}\n{}\nMachine now: {:?}\n",
            std::env::consts::ARCH,
            gathered.text,
            machine.read(),
        );
        let facts = catalog.facts();
        if !facts.is_empty() {
            text.push_str("\nChecks\n");
            text.push_str(&facts);
        }
        let home = std::env::home_dir().map_or_else(String::new, |home| home.to_string_lossy().into_owned());
        inbox.push(DataMsg::Reported(scrubbed(&text, &home, &gathered.secrets)).into());
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use dspark_sessions::{NewMessage, Role, import};

    #[test]
    fn all_chats_come_back_by_an_import() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("chats")).unwrap().store;
        let path = folder.path().join("all.json");
        assert_eq!(write_all(&store, &path, "").unwrap(), 0);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[]\n");
        for nth in 0..PAGE + 7 {
            let session = store.create_session(format!("Chat {nth}"));
            let asked = store.add_message(NewMessage::new(session, None, Role::User, "Why?"));
            let answer = "<think>\nhm\n</think>\n\nBecause.";
            store.add_message(NewMessage::new(session, Some(asked), Role::Assistant, answer));
        }
        let gone = store.create_session("Gone");
        store.delete_session(gone);
        assert_eq!(write_all(&store, &path, "").unwrap(), PAGE + 7);
        let read = import::read(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((read.chats.len(), read.skipped), (PAGE + 7, 0));
        let titles: std::collections::BTreeSet<&str> = read.chats.iter().map(|chat| chat.title.as_str()).collect();
        assert_eq!(titles.len(), PAGE + 7);
        assert!(!titles.contains("Gone"));
        assert!(read.chats.iter().all(|chat| chat.messages[1].text.ends_with("Because.")));
        let left = std::fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .filter(|file| file.path().extension() == Some("part".as_ref()));
        assert_eq!(left.count(), 0);
        let refused = write_all(&store, &folder.path().join("no/folder/all.json"), "").unwrap_err();
        assert!(refused.contains("all.json"), "{refused}");
    }
}
