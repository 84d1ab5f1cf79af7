//! `~/.config/autostart/mlx-dspark.desktop`, after the Desktop Entry and Autostart specifications of freedesktop.org.

use super::{Entry, Login};
use crate::Program;
use std::path::{Path, PathBuf};

/// The entry of one program in one autostart folder.
#[derive(Debug, Clone)]
pub struct Autostart {
    path: PathBuf,
    program: Program,
}

impl Autostart {
    /// In the folder `autostart` of the user's settings folder.
    pub fn new(config: &Path, program: Program) -> Self {
        Self {
            path: config.join("autostart/mlx-dspark.desktop"),
            program,
        }
    }

    pub fn read(&self) -> Login {
        super::read(self)
    }

    /// # Errors
    /// Where the folder cannot be written to, in a sentence.
    pub fn set(&self, on: bool) -> Result<Login, String> {
        super::set(self, on)
    }
}

impl Entry for Autostart {
    fn path(&self) -> &Path {
        &self.path
    }

    fn text(&self) -> String {
        let mut command = quoted(&self.program.path.to_string_lossy());
        for argument in &self.program.arguments {
            command.push(' ');
            command.push_str(&quoted(argument));
        }
        format!(
            "[Desktop Entry]\nType=Application\nName=mlx-dspark\nComment=Language models on this machine\nExec={}\nIcon=mlx-dspark\n\
             Terminal=false\nX-GNOME-Autostart-enabled=true\n",
            escaped(&command)
        )
    }

    fn started(text: &str) -> Option<PathBuf> {
        let mut inside = false;
        let mut command = None;
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                inside = line == "[Desktop Entry]";
            }
            let Some((key, value)) = line.split_once('=').filter(|_| inside) else {
                continue;
            };
            let value = value.trim();
            match key.trim() {
                // What desktops write when a person switches the entry off in their own settings.
                "Hidden" if value == "true" => return None,
                "X-GNOME-Autostart-enabled" if value == "false" => return None,
                "Exec" => command = first_word(&unescaped(value)),
                _ => {}
            }
        }
        command.map(PathBuf::from)
    }

    fn program(&self) -> &Path {
        &self.program.path
    }
}

/// An argument of `Exec`: in quotes, with what a shell would touch escaped and `%` doubled.
fn quoted(argument: &str) -> String {
    let mut out = String::from("\"");
    for letter in argument.chars() {
        match letter {
            '"' | '`' | '$' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            '%' => out.push_str("%%"),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// A value of type string, in which a backslash begins an escape.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
        .replace('\r', "\\r")
}

fn unescaped(value: &str) -> String {
    let mut out = String::new();
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('s') => out.push(' '),
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

/// The program of a command line.
fn first_word(command: &str) -> Option<String> {
    let mut letters = command.trim_start().chars();
    let mut out = String::new();
    let mut open = false;
    while let Some(letter) = letters.next() {
        match letter {
            '"' => open = !open,
            '\\' if open => out.push(letters.next()?),
            '%' => {
                // `%%` is a percent sign; a field code is no part of a program's path.
                if letters.next() != Some('%') {
                    break;
                }
                out.push('%');
            }
            letter if letter.is_whitespace() && !open => break,
            letter => out.push(letter),
        }
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn program(path: &str) -> Program {
        Program {
            path: path.into(),
            arguments: vec!["app".into(), "--hidden".into()],
        }
    }

    #[test]
    fn on_and_off_and_whatever_the_path_holds() {
        let config = tempfile::tempdir().unwrap();
        for path in [
            "/usr/bin/mlx-dspark",
            "/opt/My Apps/mlx dspark",
            "/a\"b/$HOME/`id`/c\\d/50%/é",
            "/tab\there",
        ] {
            let entry = Autostart::new(config.path(), program(path));
            assert_eq!(entry.read(), Login::Off);
            assert_eq!(entry.set(true).unwrap(), Login::On, "{path}: {}", entry.text());
            // Another copy of the program sees whose the entry is, and takes it over.
            let other = Autostart::new(config.path(), program("/else/where"));
            assert_eq!(other.read(), Login::Other(path.into()));
            assert_eq!(other.set(true).unwrap(), Login::On);
            assert_eq!(other.set(false).unwrap(), Login::Off);
            assert_eq!(other.set(false).unwrap(), Login::Off, "off twice is off");
        }
        let left: Vec<_> = std::fs::read_dir(config.path().join("autostart")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn what_other_programs_made_of_the_entry_counts() {
        let config = tempfile::tempdir().unwrap();
        let entry = Autostart::new(config.path(), program("/usr/bin/mlx-dspark"));
        entry.set(true).unwrap();
        let text = std::fs::read_to_string(entry.path()).unwrap();
        assert!(text.contains("Exec=\"/usr/bin/mlx-dspark\" \"app\" \"--hidden\"\n"), "{text}");
        for (from, to) in [
            ("X-GNOME-Autostart-enabled=true", "X-GNOME-Autostart-enabled=false"),
            ("Terminal=false", "Hidden=true"),
        ] {
            std::fs::write(entry.path(), text.replace(from, to)).unwrap();
            assert_eq!(entry.read(), Login::Off, "{to}");
        }
        std::fs::write(
            entry.path(),
            "[Desktop Entry]\nExec=/usr/bin/mlx-dspark %U\n[Desktop Action x]\nExec=/bin/false\n",
        )
        .unwrap();
        assert_eq!(entry.read(), Login::On);
        std::fs::write(entry.path(), [0xff, 0xfe]).unwrap();
        assert!(matches!(entry.read(), Login::Unavailable(reason) if reason.contains("mlx-dspark.desktop")));
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_named() {
        let config = tempfile::tempdir().unwrap();
        std::fs::write(config.path().join("autostart"), "a file in its place").unwrap();
        let entry = Autostart::new(config.path(), program("/usr/bin/mlx-dspark"));
        let refused = entry.set(true).unwrap_err();
        assert!(
            refused.contains("autostart/mlx-dspark.desktop") && refused.contains("written"),
            "{refused}"
        );
    }
}
