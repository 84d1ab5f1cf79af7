//! `~/Library/LaunchAgents/org.mlx-dspark.app.plist`, which launchd reads at login (launchd.plist(5)). A file and not
//! `SMAppService`, which works from a signed bundle only. It shows in System Settings, Login Items, like any other.

use super::{Entry, Login};
use crate::Program;
use std::path::{Path, PathBuf};

const LABEL: &str = "org.mlx-dspark.app";

/// The launch agent of one program in one home folder.
#[derive(Debug, Clone)]
pub struct LaunchAgent {
    path: PathBuf,
    program: Program,
}

impl LaunchAgent {
    pub fn new(home: &Path, program: Program) -> Self {
        Self {
            path: home.join("Library/LaunchAgents").join(format!("{LABEL}.plist")),
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

impl Entry for LaunchAgent {
    fn path(&self) -> &Path {
        &self.path
    }

    fn text(&self) -> String {
        let path = self.program.path.to_string_lossy();
        let words = std::iter::once(path.as_ref()).chain(self.program.arguments.iter().map(String::as_str));
        let words: Vec<String> = words.map(|word| format!("    <string>{}</string>\n", escaped(word))).collect();
        let words = words.concat();
        // Not kept alive: a person who quits means it. In a graphical session only; `Interactive` keeps it out of the limits
        // that launchd puts on background work.
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n<dict>\n  <key>Label</key>\n  <string>{LABEL}</string>\n  <key>ProgramArguments</key>\n  <array>\n\
             {words}  </array>\n  <key>RunAtLoad</key>\n  <true/>\n  <key>LimitLoadToSessionType</key>\n  <string>Aqua</string>\n  \
             <key>ProcessType</key>\n  <string>Interactive</string>\n</dict>\n</plist>\n"
        )
    }

    fn started(text: &str) -> Option<PathBuf> {
        let after = |text: &'_ str, mark: &str| text.find(mark).map(|at| at + mark.len());
        if let Some(at) = after(text, "<key>Disabled</key>")
            && text[at..].trim_start().starts_with("<true/>")
        {
            return None;
        }
        let words = &text[after(text, "<key>ProgramArguments</key>")?..];
        let first = &words[after(words, "<string>")?..];
        let first = &first[..first.find("</string>")?];
        (!first.is_empty()).then(|| PathBuf::from(unescaped(first)))
    }

    fn program(&self) -> &Path {
        &self.program.path
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn on_and_off_and_whatever_the_path_holds() {
        let home = tempfile::tempdir().unwrap();
        for path in [
            "/Applications/mlx-dspark.app/Contents/MacOS/mlx-dspark",
            "/Users/a b/R&D <1>/mlx-dspark",
        ] {
            let program = Program {
                path: path.into(),
                arguments: vec!["app".into(), "--hidden".into()],
            };
            let agent = LaunchAgent::new(home.path(), program);
            assert_eq!(agent.read(), Login::Off);
            assert_eq!(agent.set(true).unwrap(), Login::On);
            let other = LaunchAgent::new(
                home.path(),
                Program {
                    path: "/else".into(),
                    ..Program::default()
                },
            );
            assert_eq!(other.read(), Login::Other(path.into()));
            assert_eq!(agent.set(false).unwrap(), Login::Off);
        }
    }

    #[test]
    fn the_file_is_a_property_list_that_asks_for_a_start_at_login() {
        let home = tempfile::tempdir().unwrap();
        let program = Program {
            path: "/Applications/x".into(),
            arguments: vec!["app".into(), "--hidden".into()],
        };
        let agent = LaunchAgent::new(home.path(), program);
        agent.set(true).unwrap();
        let path = home.path().join("Library/LaunchAgents/org.mlx-dspark.app.plist");
        let text = std::fs::read_to_string(&path).unwrap();
        let words = "<array>\n    <string>/Applications/x</string>\n    <string>app</string>\n    <string>--hidden</string>\n  </array>";
        assert!(text.contains(words) && text.contains("<key>RunAtLoad</key>\n  <true/>"), "{text}");
        std::fs::write(
            &path,
            text.replace("<key>RunAtLoad</key>", "<key>Disabled</key>\n<true/>\n<key>RunAtLoad</key>"),
        )
        .unwrap();
        assert_eq!(agent.read(), Login::Off, "a disabled agent starts nothing");
    }
}
