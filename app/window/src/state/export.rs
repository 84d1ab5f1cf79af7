//! A chat as a file: the conversation that is shown, in three forms.

use super::{State, split_reasoning};
use dspark_sessions::{Message, Role, Tree};
use dspark_strings::t;
use std::fmt::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportChat {
    Markdown,
    Json,
    Html,
}

impl ExportChat {
    pub const ALL: [Self; 3] = [Self::Markdown, Self::Json, Self::Html];

    pub fn name(self) -> &'static str {
        match self {
            Self::Markdown => "Markdown",
            Self::Json => "JSON",
            Self::Html => "HTML",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Json => "json",
            Self::Html => "html",
        }
    }
}

/// File name and text.
pub(super) fn export(state: &State, kind: ExportChat) -> (String, String) {
    let text = match kind {
        ExportChat::Markdown => markdown(state),
        ExportChat::Json => json(state),
        ExportChat::Html => html(state),
    };
    (format!("{}.{}", file_name(&state.chat.title), kind.ending()), text)
}

/// Letters and digits of the title; every system takes them.
fn file_name(title: &str) -> String {
    let safe: String = title
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || matches!(c, ' ' | '-' | '_') {
                c
            } else {
                ' '
            }
        })
        .collect();
    let words: Vec<&str> = safe.split_whitespace().collect();
    let name: String = words.join(" ").chars().take(60).collect();
    if name.trim().is_empty() {
        t!(chat).into()
    } else {
        name.trim().into()
    }
}

fn shown(state: &State) -> impl Iterator<Item = &Message> {
    state.chat.tree.path().into_iter().filter_map(|id| state.chat.tree.get(id))
}

fn who(message: &Message) -> &str {
    match message.role {
        Role::User => t!(you),
        Role::System => t!(system),
        Role::Assistant => message.meta.model.as_deref().unwrap_or(t!(assistant)),
    }
}

/// The shown conversation, thoughts left out.
pub(super) fn markdown(state: &State) -> String {
    let mut parts = vec![format!("# {}\n", state.chat.title)];
    for message in shown(state) {
        parts.push(format!("## {}\n\n{}\n", who(message), split_reasoning(&message.text).answer.trim()));
    }
    parts.join("\n")
}

/// Everything: every branch, with thoughts, figures, and settings.
fn json(state: &State) -> String {
    let chat = chat_as_json(&state.chat.title, &state.chat_settings().system_prompt, &state.chat.tree);
    serde_json::to_string_pretty(&chat).unwrap_or_default()
}

/// A chat as this program reads it again.
pub(crate) fn chat_as_json(title: &str, system_prompt: &str, tree: &Tree) -> serde_json::Value {
    let path = tree.path();
    let mut messages: Vec<&Message> = tree.messages().collect();
    messages.sort_by_key(|message| message.id);
    let rows: Vec<serde_json::Value> = messages
        .into_iter()
        .map(|message| {
            let parts = split_reasoning(&message.text);
            serde_json::json!({
                "id": message.id,
                "parent": message.parent,
                "shown": path.contains(&message.id),
                "role": message.role,
                "state": message.state,
                "created_at": message.created_at,
                "text": parts.answer,
                "reasoning": parts.reasoning,
                "meta": message.meta,
            })
        })
        .collect();
    serde_json::json!({
        "format": "mlx-dspark-chat",
        "version": 1,
        "title": title,
        "system_prompt": system_prompt,
        "messages": rows,
    })
}

const STYLE: &str = "body{max-width:46rem;margin:2rem auto;padding:0 1rem;font:15px/1.6 system-ui,sans-serif;color:#191b1f;background:#fcfcfb}\
h1{font-size:1.3rem}h2{font-size:.8rem;color:#5c626c;margin:2rem 0 .3rem}pre{padding:.8rem 1rem;background:#f6f6f4;border:1px solid #e3e3df;\
border-radius:8px;overflow:auto}code{font:13px/1.5 ui-monospace,monospace}table{border-collapse:collapse}td,th{border:1px solid #e3e3df;\
padding:.3rem .6rem}.you{padding:.6rem .9rem;background:#f4f4f2;border-radius:10px;white-space:pre-wrap}\
@media(prefers-color-scheme:dark){body{color:#eceef1;background:#0f1114}h2{color:#9199a5}pre{background:#111418;border-color:#252a31}\
.you{background:#1d2127}td,th{border-color:#252a31}}";

/// One page without scripts or anything to fetch. HTML in the conversation stays text.
fn html(state: &State) -> String {
    let title = escape(&state.chat.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n"
    );
    for message in shown(state) {
        let answer = split_reasoning(&message.text).answer.trim();
        let body = if message.role == Role::User {
            format!("<div class=\"you\">{}</div>", escape(answer))
        } else {
            rendered(answer)
        };
        let _ = write!(page, "<h2>{}</h2>\n{body}\n", escape(who(message)));
    }
    page.push_str("</html>\n");
    page
}

fn rendered(markdown: &str) -> String {
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let safe = |url: &str| {
        let url = url.trim().to_ascii_lowercase();
        ["https://", "http://", "mailto:"].iter().any(|scheme| url.starts_with(scheme))
    };
    // Neither pictures nor scripts get in: the page must do nothing when it is opened.
    let events = Parser::new_ext(markdown, options).filter_map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        Event::Start(Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        }) => Some(Event::Start(Tag::Link {
            link_type,
            dest_url: if safe(&dest_url) { dest_url } else { "#".into() },
            title,
            id,
        })),
        event => Some(event),
    });
    let mut out = String::new();
    pulldown_cmark::html::push_html(&mut out, events);
    out
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_page_runs_or_is_fetched() {
        let page =
            rendered("<script>alert(1)</script>\n\n**bold** ![x](https://spy.example/a.png) [y](javascript:alert(1)) [z](https://x.org)");
        assert!(
            !page.contains("<script") && !page.contains("<img") && !page.contains("javascript:"),
            "{page}"
        );
        assert!(
            page.contains("<strong>bold</strong>") && page.contains("href=\"https://x.org\""),
            "{page}"
        );
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }

    #[test]
    fn titles_become_file_names() {
        assert_eq!(file_name("What is a/b: \"c\"?\n"), "What is a b c");
        assert_eq!(file_name("../../etc"), "etc");
        assert_eq!(file_name("…"), "Chat");
        assert_eq!(file_name("日本語のチャット"), "日本語のチャット");
    }
}
