//! Everything that can be done by name, and how a query finds it.

use super::{
    keys::{Action, MAP, act, label_parts},
    text::bytes,
};
use crate::state::{
    AgentsMsg, AgentsView, BenchAs, BenchMsg, ChatMsg, Comparing, DecodingMsg, DownloadMsg, ExportChat, FirstRunMsg, LabMsg, LabView,
    MachineMsg, ModelsMsg, ModelsTab, Msg, RaceMsg, Screen, SettingsMsg, SettingsPage, ShareAs, State,
};
use dspark_agents::CLIENTS;
use dspark_look::Icon;
use dspark_strings::t;
use std::ops::Range;

/// Rows of a group while nothing is typed, and at most.
const SHORT: usize = 5;
const MOST: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Models,
    Actions,
    Chats,
}

impl Group {
    pub fn name(self) -> &'static str {
        match self {
            Self::Models => t!(models),
            Self::Actions => t!(group_actions),
            Self::Chats => t!(chats),
        }
    }
}

/// One row.
#[derive(Debug, Clone)]
pub struct Command {
    pub group: Group,
    pub icon: Icon,
    pub text: String,
    pub detail: String,
    pub verb: &'static str,
    pub keys: Vec<String>,
    pub run: Vec<Msg>,
    /// What ⌥⏎ does instead.
    pub options: Vec<Msg>,
    /// Bytes of `text` that the query matched.
    pub matches: Vec<Range<usize>>,
    pub detail_matches: Vec<Range<usize>>,
}

impl Command {
    fn new(group: Group, icon: Icon, text: impl Into<String>, run: Vec<Msg>) -> Self {
        Self {
            group,
            icon,
            text: text.into(),
            detail: String::new(),
            verb: "",
            keys: Vec::new(),
            run,
            options: Vec::new(),
            matches: Vec::new(),
            detail_matches: Vec::new(),
        }
    }

    fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    fn verb(mut self, verb: &'static str) -> Self {
        self.verb = verb;
        self
    }
}

/// What the palette shows for `query`, group by group, best match first in each.
pub fn commands(state: &State, query: &str) -> Vec<Command> {
    let query = query.trim();
    let mut found = Vec::new();
    let groups: [fn(&State) -> Vec<Command>; 3] = [models, actions, chats];
    for group in groups {
        let mut rows: Vec<(u32, Command)> = group(state)
            .into_iter()
            .filter_map(|mut command| {
                let (score, matches) = matched(&command.text, query)?;
                command.matches = matches;
                Some((score, command))
            })
            .collect();
        rows.sort_by_key(|(score, _)| *score);
        rows.truncate(if query.is_empty() { SHORT } else { MOST });
        found.extend(rows.into_iter().map(|(_, command)| command));
    }
    found.extend(in_text(state, &found));
    found
}

fn models(state: &State) -> Vec<Command> {
    let loaded = state.engine.model.as_ref().map(|model| &model.path);
    let survey = state.models.survey.iter();
    survey
        .flat_map(|survey| &survey.installed)
        .filter(|entry| entry.problem.is_none() && loaded != Some(&entry.path))
        .map(|entry| {
            let show = vec![
                Msg::Show(Screen::Models),
                Msg::Models(ModelsMsg::Tab(ModelsTab::Here)),
                Msg::Models(ModelsMsg::Filter(entry.name.clone())),
            ];
            Command {
                options: show,
                ..Command::new(
                    Group::Models,
                    Icon::Cube,
                    t!(load_named, name = entry.name),
                    vec![Msg::Models(ModelsMsg::Load(entry.clone()))],
                )
                .detail(format!("{}, {}", bytes(entry.bytes), entry.source))
                .verb(t!(load))
            }
        })
        .collect()
}

fn icon_of(action: Action) -> Icon {
    match action {
        Action::NewChat => Icon::NotePencil,
        Action::Chat => Icon::ChatCircle,
        Action::Lab => Icon::Flask,
        Action::Models | Action::Picker => Icon::Cube,
        Action::Agents => Icon::PlugsConnected,
        Action::Settings | Action::Preferences => Icon::GearSix,
        Action::SearchChats | Action::Palette => Icon::MagnifyingGlass,
        Action::Regenerate => Icon::ArrowsClockwise,
        Action::Rename => Icon::PencilSimple,
        Action::DeleteChat => Icon::Trash,
        Action::CloseWindow => Icon::X,
        Action::Quit => Icon::Power,
        Action::Bigger | Action::Smaller | Action::NormalSize => Icon::TextAa,
    }
}

/// To the parts of the models screen, and what can be done there from anywhere.
fn of_models(state: &State) -> Vec<Command> {
    let to = |icon, text: &str, tab| {
        let run = vec![Msg::Show(Screen::Models), Msg::Models(ModelsMsg::Tab(tab))];
        Command::new(Group::Actions, icon, text, run)
    };
    let mut rows = vec![
        to(Icon::MagnifyingGlass, t!(search_hub_models), ModelsTab::Search),
        to(Icon::HardDrives, t!(models_this_machine), ModelsTab::Here),
        to(Icon::Cube, t!(recommended_models), ModelsTab::Recommended),
        to(Icon::DownloadSimple, t!(downloads), ModelsTab::Downloads),
    ];
    if let Some(fetching) = &state.models.fetching {
        let text = t!(pause_download_of, name = fetching.name);
        rows.push(Command::new(Group::Actions, Icon::Pause, text, vec![DownloadMsg::Pause.into()]));
    }
    rows
}

fn actions(state: &State) -> Vec<Command> {
    let mut rows = Vec::new();
    let add = |icon, text: String, run: Vec<Msg>| Command::new(Group::Actions, icon, text, run);
    if state.live().is_some() {
        rows.push(add(Icon::StopFill, t!(stop_reply).into(), vec![Msg::Chat(ChatMsg::Stop)]));
    }
    rows.push(add(Icon::Desktop, t!(set_up_again).into(), vec![FirstRunMsg::Again.into()]));
    rows.push(add(
        Icon::FileText,
        t!(import_chats).into(),
        vec![Msg::Settings(SettingsMsg::Page(SettingsPage::Data)), Msg::Show(Screen::Settings)],
    ));
    for (action, modifiers, key, words) in MAP {
        let in_chat = matches!(action, Action::Rename | Action::DeleteChat | Action::Regenerate);
        let told = matches!(action, Action::Palette | Action::Preferences);
        let Some(words) = words.filter(|_| !told) else { continue };
        if in_chat && state.chat.session.is_none() {
            continue;
        }
        let mut run = Vec::new();
        act(*action, state, &mut run);
        rows.push(Command {
            keys: label_parts(*modifiers, *key),
            ..add(icon_of(*action), words.text().to_owned(), run)
        });
    }
    if let Some(model) = &state.engine.model {
        let frees = t!(frees, size = bytes(model.weight_bytes));
        rows.push(
            add(
                Icon::Eject,
                t!(unload_named, name = model.name),
                vec![Msg::Models(ModelsMsg::Unload)],
            )
            .detail(frees),
        );
        rows.push(add(Icon::Gauge, t!(measure_pair_again).into(), vec![Msg::Lab(LabMsg::Measure)]).detail(t!(reloads_model)));
    }
    if state.decoding.is_some() {
        rows.push(add(
            Icon::ArrowsClockwise,
            t!(reload_changed).into(),
            vec![Msg::Decoding(DecodingMsg::Apply)],
        ));
    }
    for (view, words) in [
        (LabView::Live, t!(lab_live)),
        (LabView::Curves, t!(lab_curves)),
        (LabView::Machine, t!(lab_machine)),
        (LabView::Race, t!(lab_race)),
        (LabView::Benchmark, t!(lab_benchmark)),
    ] {
        rows.push(add(
            Icon::Flask,
            words.into(),
            vec![Msg::Lab(LabMsg::View(view)), Msg::Show(Screen::Lab)],
        ));
    }
    rows.push(add(
        Icon::PlugsConnected,
        t!(agents_connections).into(),
        vec![AgentsMsg::View(AgentsView::Connections).into(), Msg::Show(Screen::Agents)],
    ));
    for client in &CLIENTS {
        let sheet = if client.file.is_some() {
            AgentsMsg::Change(client.id)
        } else {
            AgentsMsg::Steps(client.id)
        };
        rows.push(add(
            Icon::PlugsConnected,
            t!(agents_set_up, name = client.name),
            vec![AgentsMsg::View(AgentsView::SetUp).into(), Msg::Show(Screen::Agents), sheet.into()],
        ));
    }
    let base = format!("{}/v1", state.base_url());
    rows.push(add(Icon::Copy, t!(copy_base_url).into(), vec![Msg::Copy(base.clone())]).detail(base));
    rows.push(add(
        Icon::Gauge,
        t!(measure_bandwidth).into(),
        vec![
            Msg::Lab(LabMsg::View(LabView::Machine)),
            Msg::Show(Screen::Lab),
            MachineMsg::Measure.into(),
        ],
    ));
    rows.extend(comparisons(state));
    if !state.chat.tree.is_empty() {
        rows.push(add(Icon::Copy, t!(copy_chat_markdown).into(), vec![Msg::Chat(ChatMsg::CopyAll)]));
        for kind in ExportChat::ALL {
            let words = t!(export_chat_as, kind = kind.name());
            rows.push(add(Icon::Export, words, vec![Msg::Chat(ChatMsg::Export(kind))]));
        }
    }
    let tinted = state.settings.chat.show_sources;
    let mut settings = state.settings.clone();
    settings.chat.show_sources = !tinted;
    let words = if tinted { t!(hide_sources) } else { t!(show_sources) };
    rows.push(add(
        Icon::Eye,
        words.into(),
        vec![Msg::Settings(SettingsMsg::Changed(Box::new(settings)))],
    ));
    for (page, words) in [
        (SettingsPage::General, t!(settings_general)),
        (SettingsPage::Server, t!(settings_server)),
        (SettingsPage::Models, t!(settings_models)),
        (SettingsPage::Decoding, t!(settings_decoding)),
        (SettingsPage::Chat, t!(settings_chat)),
        (SettingsPage::Data, t!(settings_data)),
        (SettingsPage::About, t!(settings_about)),
    ] {
        rows.push(add(
            Icon::GearSix,
            words.into(),
            vec![Msg::Settings(SettingsMsg::Page(page)), Msg::Show(Screen::Settings)],
        ));
    }
    rows.extend(of_models(state));
    rows
}

/// Races and benchmarks, where they can be begun or ended.
fn comparisons(state: &State) -> Vec<Command> {
    let add = |icon, text: &str, view, message: Msg| {
        let run = vec![Msg::Lab(LabMsg::View(view)), Msg::Show(Screen::Lab), message];
        Command::new(Group::Actions, icon, text, run)
    };
    let mut rows = Vec::new();
    match state.comparing() {
        Some(Comparing::Race) => rows.push(add(Icon::X, t!(cancel_race), LabView::Race, RaceMsg::Cancel.into())),
        Some(Comparing::Benchmark) => rows.push(add(Icon::X, t!(cancel_benchmark), LabView::Benchmark, BenchMsg::Cancel.into())),
        None if state.has_model() => {
            rows.push(add(Icon::FlagCheckered, t!(race_ways), LabView::Race, RaceMsg::Start.into()));
            rows.push(add(Icon::Gauge, t!(run_benchmark), LabView::Benchmark, BenchMsg::Start.into()));
        }
        None => {}
    }
    if state.lab.race.shown.is_some() {
        for kind in ShareAs::ALL {
            let words = t!(share_race, kind = kind.name());
            rows.push(add(Icon::Export, &words, LabView::Race, RaceMsg::Share(kind).into()));
        }
    }
    if state.lab.bench.shown.is_some() {
        for (kind, name) in [(BenchAs::Csv, "CSV"), (BenchAs::Json, "JSON")] {
            let words = t!(export_benchmark_as, name = name);
            rows.push(add(Icon::Export, &words, LabView::Benchmark, BenchMsg::Export(kind).into()));
        }
    }
    rows
}

fn chats(state: &State) -> Vec<Command> {
    let open = state.chat.session;
    let others = state.sidebar.sessions.iter().filter(|head| Some(head.id) != open);
    others
        .map(|head| Command::new(Group::Chats, Icon::ChatCircle, &head.title, vec![Msg::Chat(ChatMsg::Open(head.id))]))
        .collect()
}

/// Chats that have the query in their text, with the words around it.
fn in_text(state: &State, found: &[Command]) -> Vec<Command> {
    let Some(palette) = &state.palette else { return Vec::new() };
    let listed = |title: &str| found.iter().any(|command| command.group == Group::Chats && command.text == title);
    let hits = palette.hits.iter().filter(|hit| !listed(&hit.session.title)).take(SHORT);
    hits.map(|hit| {
        let run = vec![Msg::Chat(ChatMsg::Reveal {
            session: hit.session.id,
            message: hit.message,
        })];
        let command = Command::new(Group::Chats, Icon::ChatCircle, &hit.session.title, run);
        match &hit.snippet {
            Some(snippet) => Command {
                detail: snippet.text.clone(),
                detail_matches: snippet.matches.clone(),
                ..command
            },
            None => command,
        }
    })
    .collect()
}

/// How well `query` is in `text`, less is better, and which bytes it takes: every word as it stands, or else its
/// letters one by one in order. `None` where it is not in it.
fn matched(text: &str, query: &str) -> Option<(u32, Vec<Range<usize>>)> {
    if query.is_empty() {
        return Some((0, Vec::new()));
    }
    words(text, query).or_else(|| letters(text, query))
}

fn words(text: &str, query: &str) -> Option<(u32, Vec<Range<usize>>)> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut score = 0;
    for word in query.split_whitespace() {
        // The start of a word counts more than its middle.
        let found = places(text, word).min_by_key(|range| (!starts_word(text, range.start), range.start))?;
        score += if starts_word(text, found.start) { 0 } else { 10 } + u32::try_from(found.start).unwrap_or(u32::MAX).min(9);
        ranges.push(found);
    }
    Some((score, joined(text, ranges)))
}

/// Where `word` stands in `text`, whatever the case of its letters.
fn places<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    text.char_indices().filter_map(move |(start, _)| {
        let mut rest = text[start..].chars();
        for wanted in word.chars() {
            let letter = rest.next()?;
            if !letter.to_lowercase().eq(wanted.to_lowercase()) {
                return None;
            }
        }
        Some(start..text.len() - rest.as_str().len())
    })
}

fn starts_word(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric())
}

fn letters(text: &str, query: &str) -> Option<(u32, Vec<Range<usize>>)> {
    let mut ranges = Vec::new();
    let mut from = text.char_indices();
    for wanted in query.chars().filter(|letter| !letter.is_whitespace()) {
        let (at, letter) = from.find(|(_, letter)| letter.to_lowercase().eq(wanted.to_lowercase()))?;
        ranges.push(at..at + letter.len_utf8());
    }
    // Letters strewn over the whole text are hardly what was meant.
    let ranges = joined(text, ranges);
    let pieces = ranges.len();
    (pieces <= 3).then(|| (100 + pieces as u32, ranges))
}

/// In order, and as one where only spaces lie between.
fn joined(text: &str, mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end || text[last.end..range.start].trim().is_empty() => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
    use super::*;

    #[test]
    fn words_in_any_order_then_letters() {
        assert_eq!(matched("Load Qwen3-8B", "load q").unwrap().1, [0..6]);
        assert_eq!(matched("Load Qwen3-8B", "QWEN load").unwrap().1, [0..9]);
        assert_eq!(matched("Unload Qwen3", "load").unwrap().1, [2..6]);
        assert!(matched("Load it", "load").unwrap().0 < matched("Unload it", "load").unwrap().0);
        assert_eq!(matched("New chat", "nch").unwrap().1, [0..1, 4..6]);
        assert_eq!(matched("New chat", "xyz"), None);
        assert_eq!(matched("Über uns", "über").unwrap().1, [0..5]);
        assert_eq!(matched("数学の質問", "質").unwrap().1, [9..12]);
    }
}
