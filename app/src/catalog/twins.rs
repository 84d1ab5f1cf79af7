//! A model that lies in two places: which copy a name means, and why.

use dspark_hub::{Hub, Source};
use dspark_strings::t;
use dspark_window::bridge::ModelEntry;
use std::path::Path;

/// Says so in each of the copies.
pub(super) fn note(hub: &Hub, installed: &mut [ModelEntry]) {
    let names: Vec<String> = installed
        .iter()
        .map(|entry| entry.name.clone())
        .filter(|name| name.contains('/'))
        .collect();
    let same = |a: &Path, b: &Path| {
        a == b
            || std::fs::canonicalize(a)
                .ok()
                .zip(std::fs::canonicalize(b).ok())
                .is_some_and(|(a, b)| a == b)
    };
    for name in names {
        let copies = hub.copies(&name);
        let [(first, source), others @ ..] = &copies[..] else { continue };
        if others.is_empty() {
            continue;
        }
        for entry in installed
            .iter_mut()
            .filter(|entry| copies.iter().any(|(path, _)| same(path, &entry.path)))
        {
            let words = if same(first, &entry.path) {
                let also: Vec<String> = others.iter().map(|(path, source)| place(*source, path)).collect();
                t!(twin_meant, places = also.join(t!(and_between)))
            } else {
                entry.second = true;
                t!(twin_other, place = place(*source, first))
            };
            entry.note = Some(words);
        }
    }
}

fn place(source: Source, path: &Path) -> String {
    let name = match source {
        Source::Path => t!(place_folder),
        Source::Cache => t!(place_downloads),
        Source::LmStudio => "LM Studio",
        Source::ModelDirs => t!(place_model_folder),
        Source::HubCache => t!(place_hub_cache),
    };
    t!(place_with_path, name = name, path = path.display())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn model(folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("config.json"), r#"{"model_type":"qwen3"}"#).unwrap();
        std::fs::write(folder.join("tokenizer.json"), "{}").unwrap();
        let header = r#"{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[0; 4]);
        std::fs::write(folder.join("model.safetensors"), bytes).unwrap();
    }

    #[test]
    fn both_copies_say_which_one_a_name_means() {
        let home = tempfile::tempdir().unwrap();
        let studio = home.path().join(".lmstudio/models/owner/Model-8bit");
        let folder = home.path().join("mine/owner/Model-8bit");
        let alone = home.path().join("mine/owner/Other-8bit");
        for path in [&studio, &folder, &alone] {
            model(path);
        }
        let hub = Hub::from_vars(home.path(), &|_| None).with_model_dirs([home.path().join("mine")]);
        let mut installed: Vec<ModelEntry> = hub
            .installed()
            .into_iter()
            .map(|row| ModelEntry {
                name: row.repo,
                path: row.folder.path,
                ..ModelEntry::default()
            })
            .collect();
        assert_eq!(installed.len(), 3);
        note(&hub, &mut installed);
        let of = |path: &Path| installed.iter().find(|entry| entry.path == path).unwrap();
        let (first, second) = (of(&studio), of(&folder));
        assert!(
            !first.second && first.note.as_ref().unwrap().contains("a model folder"),
            "{:?}",
            first.note
        );
        assert!(
            second.second && second.note.as_ref().unwrap().contains("LM Studio"),
            "{:?}",
            second.note
        );
        assert_eq!(of(&alone).note, None);
        assert_eq!(hub.resolve("owner/Model-8bit").unwrap().path, studio, "as the note says");
    }
}
