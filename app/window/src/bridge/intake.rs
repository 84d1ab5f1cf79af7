//! What a file on the disk is to this program.

use crate::state::Intake;
use dspark_sessions::import::{self, ImportError};
use dspark_strings::t;
use std::path::Path;

/// Largest export that is read: years of chats.
const LIMIT_EXPORT: u64 = 1 << 30;

/// Reads `path`. Where only `chats` are sought, a folder is one of exported chats; else it is a model.
pub fn read(path: &Path, chats: bool) -> Vec<Intake> {
    if chats {
        return vec![exported(path)];
    }
    let ending = path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
    let ending = ending.as_deref().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    let shard = path.file_name().is_some_and(|name| name == "config.json") && path.with_file_name("tokenizer.json").is_file();
    if path.is_dir() || ending == "gguf" {
        return vec![Intake::Model(path.into())];
    }
    if ending == "safetensors" || shard {
        return vec![Intake::Model(path.parent().unwrap_or(path).into())];
    }
    let name = path
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let size = path.metadata().map_or(0, |data| data.len());
    if ending == "json" && size <= LIMIT_EXPORT {
        match chats_of(path) {
            Ok(import) => return vec![Intake::Chats(import)],
            Err(Trouble::File(body)) => return vec![refused(&name, body)],
            // JSON for a message, then.
            Err(Trouble::Import(_)) => {}
        }
    }
    if size > dspark_attach::LIMIT_BYTES as u64 {
        let error = dspark_attach::AttachError::TooLarge {
            name: name.clone(),
            size: (size / 1_000_000) as usize,
            most: dspark_attach::LIMIT_BYTES / 1_000_000,
        };
        return vec![refused(&name, error.to_string())];
    }
    let read = match std::fs::read(path) {
        Ok(bytes) => dspark_attach::read(&name, &bytes).map_err(|error| error.to_string()),
        Err(error) => Err(unreadable(path, &error)),
    };
    vec![read.map_or_else(|body| refused(&name, body), Intake::Text)]
}

enum Trouble {
    File(String),
    Import(ImportError),
}

fn chats_of(path: &Path) -> Result<import::Import, Trouble> {
    let bytes = std::fs::read(path).map_err(|error| Trouble::File(unreadable(path, &error)))?;
    import::read(&bytes).map_err(Trouble::Import)
}

/// The chats of a file; of a folder, those of every JSON file in it and below.
fn exported(path: &Path) -> Intake {
    let mut all: Option<import::Import> = None;
    let mut trouble = None;
    let mut folders = vec![path.to_path_buf()];
    while let Some(next) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else {
            // A file, or nothing that is there.
            add(&mut all, &mut trouble, chats_of(&next));
            continue;
        };
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "json") {
                add(&mut all, &mut trouble, chats_of(&path));
            }
        }
    }
    match (all, trouble) {
        (Some(import), _) => Intake::Chats(import),
        (None, Some(body)) => refused("", body),
        (None, None) => refused("", t!(no_json_file, path = path.display())),
    }
}

/// Chats of one program go together; what is none is counted.
fn add(all: &mut Option<import::Import>, trouble: &mut Option<String>, read: Result<import::Import, Trouble>) {
    match (all.as_mut(), read) {
        (None, Ok(import)) => *all = Some(import),
        (Some(all), Ok(import)) => {
            all.chats.extend(import.chats);
            all.skipped += import.skipped;
        }
        (Some(all), Err(_)) => all.skipped += 1,
        (None, Err(Trouble::File(body))) => *trouble = Some(body),
        (None, Err(Trouble::Import(error))) => *trouble = Some(error.to_string()),
    }
}

fn refused(name: &str, body: String) -> Intake {
    let title = if name.is_empty() {
        t!(no_chats_imported).into()
    } else {
        t!(was_not_added, name = name)
    };
    Intake::Refused { title, body }
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    t!(cannot_be_read, path = path.display(), error = error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LM_STUDIO: &str = r#"{"name":"Trip","createdAt":1700000000000,"messages":[{"versions":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"currentlySelected":0}]}"#;

    #[test]
    fn files_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            read(&path, false).remove(0)
        };
        assert!(matches!(file("a.py", b"print(1)"), Intake::Text(file) if file.name == "a.py"));
        assert!(matches!(file("data.json", b"{\"a\": 1}"), Intake::Text(_)));
        assert!(matches!(file("x.conversation.json", LM_STUDIO.as_bytes()), Intake::Chats(import) if import.chats.len() == 1));
        assert!(matches!(file("m.GGUF", b"GGUF"), Intake::Model(path) if path.ends_with("m.GGUF")));
        assert!(matches!(file("model.safetensors", b""), Intake::Model(path) if path == folder.path()));
        assert!(matches!(read(folder.path(), false).remove(0), Intake::Model(_)));
        assert!(
            matches!(file("p.png", b"\x89PNG"), Intake::Refused { title, body } if title.contains("p.png") && body.contains("picture"))
        );
        assert!(
            matches!(read(&folder.path().join("gone.txt"), false).remove(0), Intake::Refused { body, .. } if body.contains("cannot be read"))
        );
    }

    #[test]
    fn a_folder_of_exports_is_one_import() {
        let folder = tempfile::tempdir().unwrap();
        let sub = folder.path().join("work");
        std::fs::create_dir(&sub).unwrap();
        for at in [folder.path().join("1.conversation.json"), sub.join("2.conversation.json")] {
            std::fs::write(at, LM_STUDIO).unwrap();
        }
        std::fs::write(sub.join("settings.json"), "{}").unwrap();
        let Intake::Chats(import) = read(folder.path(), true).remove(0) else {
            panic!()
        };
        assert_eq!((import.chats.len(), import.skipped), (2, 1));
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(read(empty.path(), true).remove(0), Intake::Refused { body, .. } if body.contains("no JSON file")));
        std::fs::write(empty.path().join("a.json"), "{}").unwrap();
        assert!(matches!(read(empty.path(), true).remove(0), Intake::Refused { body, .. } if body.contains("conversations.json")));
    }
}
