//! Tables of models: their columns, their rows, and the row that is open.

use super::{
    detail,
    line::{Line, drafted, plain},
};
use crate::{
    bridge::{Drafter, FitAt, FitLevel, ModelEntry},
    screens::first_run::chip,
    shell::text::bytes,
    state::{HubMsg, ModelsMsg, Msg, Preview, Screen, ShelfMsg, State},
};
use dspark_look::{Button, Chip, Columns, Density, Icon, TableRow, Theme, Type, card_flush, name_lines, runs, table_head, tip, two_lines};
use dspark_strings::t;
use egui::{Align, Ui};

/// What a table shows between the name and the button.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Download,
    Plain,
    Drafts,
    Where,
    Used,
    Popular,
    Fit,
}

impl Column {
    fn head(self) -> (&'static str, Align) {
        match self {
            Self::Download => (t!(head_size), Align::Max),
            Self::Plain => (t!(head_plain_ceiling), Align::Max),
            Self::Drafts => (t!(head_drafts), Align::Max),
            Self::Where => (t!(head_where), Align::Min),
            Self::Used => (t!(head_used), Align::Min),
            Self::Popular => (t!(head_popular), Align::Max),
            Self::Fit => (t!(head_fit), Align::Min),
        }
    }

    fn width(self) -> f32 {
        match self {
            Self::Download => 112.0,
            Self::Drafts => 132.0,
            Self::Where => 140.0,
            Self::Plain | Self::Used | Self::Popular => 84.0,
            Self::Fit => 124.0,
        }
    }
}

/// The rows in one card. `popular` says how often each is fetched from the hub in a month.
pub(super) fn table(ui: &mut Ui, state: &State, shown: &[Column], lines: &[(Line<'_>, u64)], out: &mut Vec<Msg>) {
    let narrow = Density::of(ui.ctx()) == Density::Narrow;
    let hidden = |column: &Column| narrow && matches!(column, Column::Download | Column::Where | Column::Popular);
    let shown: Vec<Column> = shown.iter().copied().filter(|column| !hidden(column)).collect();
    let mut widths = vec![None];
    widths.extend(shown.iter().map(|column| Some(column.width())));
    widths.push(Some(88.0));
    // Over the names, which stand behind their carets.
    let inset = if lines.iter().any(|(line, _)| line.can_open()) { 20.0 } else { 0.0 };
    let columns = Columns::new(widths).head_inset(0, inset);
    card_flush(ui, |ui| {
        let mut heads = vec![(t!(model_head), Align::Min)];
        heads.extend(shown.iter().map(|column| column.head()));
        heads.push(("", Align::Max));
        table_head(ui, &columns, &heads);
        for (line, popular) in lines {
            row(ui, state, &columns, &shown, (line, *popular), narrow, out);
        }
    });
}

fn row(
    ui: &mut Ui,
    state: &State,
    columns: &Columns,
    shown: &[Column],
    (line, popular): (&Line<'_>, u64),
    narrow: bool,
    out: &mut Vec<Msg>,
) {
    let open = line.is_open(state);
    let can_open = line.can_open();
    let mut row = TableRow::new(ui, columns, line.name, 58.0, open);
    let (size, below) = line.size();
    // What has no column of its own goes under the name.
    let folded = if narrow && line.problem.is_none() {
        let more = if below == t!(download_small) || below == t!(on_disk_small) {
            String::new()
        } else {
            format!(" {below}")
        };
        format!("{size}{more}, {}", line.detail)
    } else {
        line.detail.to_owned()
    };
    row.cell(ui, Align::Min, |ui| {
        name_lines(ui, line.name, &line.chips, &folded, can_open.then_some(open))
    });
    for column in shown {
        let align = column.head().1;
        row.cell(ui, align, |ui| cell(ui, state, *column, line, popular));
    }
    // An open row has its own, larger button.
    row.cell(ui, Align::Max, |ui| {
        if !open || line.is_loaded(state) {
            action(ui, state, line, out);
        }
    });
    let response = row.response();
    if response.clicked() && can_open {
        out.push(Msg::Models(ModelsMsg::Open(line.key.clone())));
    }
    if open {
        detail::show(ui, state, line, out);
    }
}

fn cell(ui: &mut Ui, state: &State, column: Column, line: &Line<'_>, popular: u64) {
    let theme = Theme::of(ui);
    let plain_text = |text: &str| runs(&[(text, Type::BASE, theme.t1)]);
    match column {
        Column::Download => {
            let (size, below) = line.size();
            let response = two_lines(ui, plain_text(&size), &below, Align::Max);
            if let Drafter::Missing(name, _) = line.drafter {
                tip(response, t!(drafter), &t!(comes_with_it, name = name));
            }
        }
        Column::Plain => {
            let Some(rate) = plain(state, line.pace) else { return };
            let digits = usize::from(rate < 100.0);
            let label = ui.add(egui::Label::new(Type::BASE.rich(format!("{rate:.digits$}"), theme.t2)));
            let from = if line.pace.estimate { t!(from_parameters) } else { t!(from_files) };
            let words = t!(plain_ceiling_definition, size = bytes(line.pace.active), from = from);
            tip(label, t!(plain_ceiling), &words);
        }
        Column::Drafts => {
            let Some(drafts) = drafted(state, line) else { return };
            let job = if drafts.unit.is_empty() {
                runs(&[(drafts.figure.as_str(), Type::BASE, theme.t2)])
            } else {
                let unit = format!(" {}", drafts.unit);
                runs(&[
                    (drafts.figure.as_str(), Type::CONTROL, theme.t1),
                    (unit.as_str(), Type::BASE, theme.t2),
                ])
            };
            let response = two_lines(ui, job, &drafts.basis, Align::Max);
            tip(response, t!(with_drafts), &drafts.explain);
        }
        Column::Where => {
            let Some(entry) = line.entry else { return };
            let label = ui.add(egui::Label::new(Type::SMALL.rich(&entry.source, theme.t2)).truncate());
            tip(label, t!(folder), &entry.path.display().to_string());
        }
        Column::Used => {
            let used = line
                .path()
                .and_then(|path| state.models.shelf.known.0.get(path))
                .filter(|used| used.at > 0);
            let words = match used {
                _ if line.is_loaded(state) => t!(in_use).into(),
                Some(used) => since(state, used.at),
                None => t!(not_yet).into(),
            };
            ui.add(egui::Label::new(Type::SMALL.rich(words, theme.t3)).truncate());
        }
        Column::Popular => {
            let label = ui.add(egui::Label::new(Type::BASE.rich(thousands(popular), theme.t2)));
            tip(label, t!(downloads), t!(downloads_definition));
        }
        Column::Fit if line.is_open(state) => fit(ui, line.fit.near(detail::context(state, line)), line.fit.context_unknown),
        Column::Fit => fit(ui, &line.fit.at, line.fit.context_unknown),
    }
}

pub(super) fn fit(ui: &mut Ui, at: &FitAt, unknown: bool) {
    let Some((words, tone, icon)) = chip(at) else { return };
    let response = ui.add(Chip::new(&words).tone(tone).icon(icon));
    if at.parts.is_empty() {
        return;
    }
    let sum: Vec<String> = at
        .parts
        .iter()
        .map(|(part, size)| format!("{} {}", part.label(), bytes(*size)))
        .collect();
    let end = if unknown { t!(context_not_counted) } else { "" };
    let context = t!(at_tokens, tokens = crate::shell::text::count(at.context as usize));
    tip(response, &words, &format!("{context}: {}{end}", sum.join(", ")));
}

/// The one thing to do with a model, from its row.
fn action(ui: &mut Ui, state: &State, line: &Line<'_>, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let models = &state.models;
    if let Some(entry) = line.entry {
        if line.is_loaded(state) {
            let label = t!(unload_named, name = entry.name);
            let button = Button::quiet(t!(unload))
                .small()
                .flush_right()
                .enabled(!models.unloading)
                .label(&label);
            if ui.add(button).clicked() {
                out.push(Msg::Models(ModelsMsg::Unload));
            }
        } else if state.uses(&entry.path) {
            dspark_look::busy_ring(ui, 14.0, theme.accent, t!(loading));
        } else {
            let label = t!(load_named, name = entry.name);
            let enabled = entry.problem.is_none() && models.loading.is_none();
            if ui.add(Button::secondary(t!(load)).small().enabled(enabled).label(&label)).clicked() {
                out.push(Msg::Models(ModelsMsg::Load(entry.clone())));
            }
        }
        return;
    }
    let Some(offer) = line.offer.filter(|_| line.problem.is_none()) else {
        return;
    };
    if !line.gate.is_empty() {
        let label = t!(accept_licence_of, name = line.name);
        if ui
            .add(Button::secondary(t!(open)).small().icon(Icon::ArrowSquareOut).label(&label))
            .clicked()
        {
            out.push(Msg::Open(line.gate.to_owned()));
        }
    } else if models.fetching.as_ref().is_some_and(|fetching| fetching.id == offer.id) {
        dspark_look::busy_ring(ui, 14.0, theme.accent, t!(downloading));
    } else if models.downloads.queue.iter().any(|waiting| waiting.id == offer.id) {
        ui.label(Type::SMALL.rich(t!(waiting_small), theme.t3));
    } else if line.fit.level() != FitLevel::TooBig {
        let label = t!(get_size, size = line.name);
        let button = Button::secondary(t!(get)).small().icon(Icon::DownloadSimple).label(&label);
        if ui.add(button).clicked() {
            out.push(Msg::Models(ModelsMsg::Fetch(models.known(offer).clone())));
        }
    }
}

/// What can be done with the files of a model that is here.
pub(super) fn files(ui: &mut Ui, state: &State, line: &Line<'_>, out: &mut Vec<Msg>) {
    let Some(entry) = line.entry else { return };
    let checking = state.models.shelf.checking.as_ref();
    let name = &entry.name;
    let label = t!(verify_named, name = name);
    let verify = Button::quiet(t!(verify))
        .small()
        .icon(Icon::SealCheck)
        .enabled(checking.is_none())
        .label(&label);
    let response = ui.add(verify);
    if response.clicked() {
        out.push(ShelfMsg::Verify(entry.path.clone()).into());
    }
    tip(response, t!(verify), t!(verify_definition));
    let label = t!(reveal_named, name = name);
    if ui
        .add(Button::quiet(t!(reveal)).small().icon(Icon::FolderOpen).label(&label))
        .clicked()
    {
        out.push(ShelfMsg::Reveal(entry.path.clone()).into());
    }
    newer(ui, state, entry, out);
    match &entry.removal {
        Some(Ok(_)) => {
            let label = t!(delete_named, name = name);
            if ui
                .add(
                    Button::quiet(t!(delete))
                        .small()
                        .icon(Icon::Trash)
                        .enabled(!state.uses(&entry.path))
                        .label(&label),
                )
                .clicked()
            {
                out.push(ShelfMsg::AskDelete(Box::new(entry.clone())).into());
            }
        }
        Some(Err(reason)) => {
            let words = ui.add(Button::quiet(t!(not_ours)).small().icon(Icon::LockSimple).enabled(false));
            tip(words, t!(not_deleted_here), reason);
        }
        None => {}
    }
}

/// Whether the hub has a newer revision: asked only when a person asks.
fn newer(ui: &mut Ui, state: &State, entry: &ModelEntry, out: &mut Vec<Msg>) {
    let Some(repo) = &entry.repo else { return };
    match state.models.hub.previews.get(repo) {
        Some(Preview::Asked) => {
            dspark_look::busy_ring(ui, 14.0, Theme::of(ui).t3, t!(asking_hub));
        }
        Some(Preview::Known(listed)) if listed.offer.newer => {
            let label = t!(get_newer_of, name = entry.name);
            let get = Button::secondary(t!(get_newer)).small().icon(Icon::DownloadSimple);
            let idle = state.models.fetching.as_ref().is_none_or(|fetching| fetching.id != *repo);
            let get = ui.add(get.enabled(idle).label(&label));
            if get.clicked() {
                out.push(Msg::Models(ModelsMsg::Fetch(listed.offer.clone())));
            }
            let words = t!(newer_explain);
            tip(get, t!(newer_title), words);
        }
        Some(Preview::Known(_)) => {
            ui.add(Chip::new(t!(newest_revision)).icon(Icon::Check));
        }
        Some(Preview::Failed(_)) | None => {
            let label = t!(look_for_newer, name = entry.name);
            let ask = ui.add(Button::quiet(t!(newer_button)).small().icon(Icon::ArrowsClockwise).label(&label));
            if ask.clicked() {
                out.push(HubMsg::Preview(repo.clone()).into());
            }
            let failed = match state.models.hub.previews.get(repo) {
                Some(Preview::Failed(trouble)) => trouble.words.as_str(),
                _ => t!(newer_asks),
            };
            tip(ask, t!(newer_revision), failed);
        }
    }
}

/// `just now`, `5 min ago`, `3 days ago`.
pub(super) fn since(state: &State, at: u64) -> String {
    let seconds = ((state.clock.millis / 1000).max(0) as u64).saturating_sub(at);
    match seconds {
        0..60 => t!(just_now).into(),
        60..3600 => t!(minutes_ago, n = seconds / 60),
        3600..86_400 => t!(hours_ago, n = seconds / 3600),
        86_400..172_800 => t!(yesterday).into(),
        _ => t!(days_ago, n = seconds / 86_400),
    }
}

/// `41k`.
fn thousands(value: u64) -> String {
    match value {
        0 => String::new(),
        1..1000 => value.to_string(),
        1000..1_000_000 => format!("{}k", value / 1000),
        _ => format!("{:.1}M", value as f64 / 1e6),
    }
}

/// To the part of the screen where the models on this machine are.
pub(super) fn show_here() -> Vec<Msg> {
    vec![
        Msg::Show(Screen::Models),
        Msg::Models(ModelsMsg::Tab(crate::state::ModelsTab::Here)),
    ]
}
