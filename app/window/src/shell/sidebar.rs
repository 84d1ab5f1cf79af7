//! Screens, then chats by date; memory at the foot.

use super::{
    keys::{Action, label_of},
    text::{self, memory_foot},
};
use crate::state::{ChatMsg, Msg, Screen, SidebarMsg, State};
use dspark_look::{
    ChatRow, ChatRowAction, Density, Icon, MenuItem, ScreenRow, TextField, Theme, Type, context_menu, date_heading, menu_separator, paint,
    sidebar_background, sidebar_note,
};
use dspark_sessions::{Group, Hit, SessionHead, group};
use dspark_strings::{Key, key, t};
use egui::{Align, Layout, Rect, ScrollArea, Sense, Ui, UiBuilder, pos2, text::LayoutJob, vec2};
use jiff::tz::TimeZone;

const ROW: f32 = 30.0;
const HEADING: f32 = 36.0;

/// What the sidebar remembers between frames.
#[derive(Default)]
pub(super) struct SidebarView {
    groups: Vec<Group>,
    /// What `groups` was made from.
    key: Option<(usize, i64, i64)>,
    pub(super) search_focus: bool,
}

const SCREENS: [(Screen, Icon, Icon, Key, Action); 5] = [
    (Screen::Chat, Icon::ChatCircle, Icon::ChatCircleFill, key!(chat), Action::Chat),
    (Screen::Lab, Icon::Flask, Icon::FlaskFill, key!(lab), Action::Lab),
    (Screen::Models, Icon::Cube, Icon::CubeFill, key!(models), Action::Models),
    (
        Screen::Agents,
        Icon::PlugsConnected,
        Icon::PlugsConnectedFill,
        key!(agents),
        Action::Agents,
    ),
    (Screen::Settings, Icon::GearSix, Icon::GearSixFill, key!(settings), Action::Settings),
];

pub(super) fn show(ui: &mut Ui, state: &State, view: &mut SidebarView, density: Density, out: &mut Vec<Msg>) {
    sidebar_background(ui);
    ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
    let rail = density == Density::Narrow;
    // macOS draws its window buttons here.
    ui.add_space(if cfg!(target_os = "macos") {
        dspark_look::WINDOW_BUTTONS
    } else {
        11.0
    });
    for (screen, icon, filled, name, action) in SCREENS {
        let key = label_of(action);
        let row = ScreenRow::new(icon, filled, name.text())
            .shortcut(&key)
            .selected(state.screen == screen);
        let response = if rail { row.rail(ui) } else { ui.add(row) };
        if response.clicked() {
            out.push(Msg::Show(screen));
        }
        ui.add_space(if rail { 4.0 } else { 2.0 });
    }
    let foot = memory_foot(state);
    let height = foot.as_foot().height(rail);
    let bottom = ui.max_rect().bottom();
    if rail {
        rail_history(ui, state, out);
    } else {
        let list = Rect::from_min_max(ui.cursor().min, pos2(ui.max_rect().right() - 1.0, bottom - height));
        ui.scope_builder(UiBuilder::new().max_rect(list), |ui| chats(ui, state, view, out));
    }
    let foot_rect = Rect::from_min_max(pos2(ui.max_rect().left(), bottom - height), ui.max_rect().max);
    ui.scope_builder(UiBuilder::new().max_rect(foot_rect), |ui| {
        let response = foot.as_foot().show(ui, rail);
        dspark_look::tip(response, foot.term, &foot.definition);
    });
}

fn rail_history(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    ui.add_space(6.0);
    let y = ui.cursor().top();
    paint::hline(ui.painter(), ui.max_rect().x_range(), y, theme.line);
    ui.add_space(10.0);
    let history = ScreenRow::new(Icon::ClockCounterClockwise, Icon::ClockCounterClockwise, t!(history)).selected(state.sidebar.popover);
    if history.rail(ui).clicked() {
        out.push(Msg::Sidebar(SidebarMsg::Popover(!state.sidebar.popover)));
    }
    ui.add_space(4.0);
    if ScreenRow::new(Icon::NotePencil, Icon::NotePencil, t!(new)).rail(ui).clicked() {
        out.push(Msg::Chat(ChatMsg::New));
    }
}

/// The list in a popover beside the rail.
pub(super) fn popover(ui: &Ui, state: &State, view: &mut SidebarView, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let screen = ui.ctx().content_rect();
    let at = pos2(dspark_look::space::RAIL + 8.0, 64.0);
    let height = (screen.bottom() - at.y - 20.0).min(560.0);
    let shown = egui::Area::new(egui::Id::unique("history"))
        .order(egui::Order::Foreground)
        .fixed_pos(at)
        .show(ui.ctx(), |ui| {
            dspark_look::menu_frame(theme).show(ui, |ui| {
                ui.set_width(280.0);
                ui.set_height(height);
                ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
                chats(ui, state, view, out);
            });
        });
    let outside =
        ui.input(|input| input.pointer.any_pressed() && input.pointer.interact_pos().is_some_and(|pos| !shown.response.rect.contains(pos)));
    let on_rail = ui.input(|input| input.pointer.interact_pos().is_some_and(|pos| pos.x < dspark_look::space::RAIL));
    if outside && !on_rail && !egui::Popup::is_any_open(ui.ctx()) {
        out.push(Msg::Sidebar(SidebarMsg::Popover(false)));
    }
}

fn chats(ui: &mut Ui, state: &State, view: &mut SidebarView, out: &mut Vec<Msg>) {
    if state.sidebar.search_open {
        search(ui, state, view, out);
        if state.sidebar.hits.is_some() || !state.sidebar.search.trim().is_empty() {
            return hits(ui, state, out);
        }
    }
    if state.sidebar.sessions.is_empty() {
        date_heading(ui, t!(chats), None);
        let here = if cfg!(target_os = "macos") {
            t!(this_mac)
        } else {
            t!(this_computer)
        };
        sidebar_note(ui, &t!(chats_listed_here, here = here));
        return;
    }
    list(ui, state, view, out);
}

fn search(ui: &mut Ui, state: &State, view: &mut SidebarView, out: &mut Vec<Msg>) {
    ui.add_space(10.0);
    let mut query = state.sidebar.search.clone();
    let row = Rect::from_min_size(ui.cursor().min + vec2(10.0, 0.0), vec2(ui.available_width() - 20.0, 30.0));
    ui.scope_builder(UiBuilder::new().max_rect(row), |ui| {
        let mut field = TextField::new(&mut query, t!(search_chats))
            .hint(t!(search_chats))
            .icon(Icon::MagnifyingGlass);
        if std::mem::take(&mut view.search_focus) {
            field = field.focus();
        }
        ui.add(field);
    });
    if query != state.sidebar.search {
        out.push(Msg::Sidebar(SidebarMsg::Search(query)));
    }
}

fn hits(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let Some(hits) = &state.sidebar.hits else { return };
    let count = match hits.len() {
        0 if state.sidebar.searching => t!(searching).to_owned(),
        0 => t!(no_chat_matches).to_owned(),
        many => t!(count_chats, n = many),
    };
    date_heading(ui, &count, None);
    ScrollArea::vertical().id_salt("hits").auto_shrink([false, false]).show(ui, |ui| {
        for hit in hits {
            if hit_row(ui, state, hit) {
                out.push(Msg::Chat(ChatMsg::Reveal {
                    session: hit.session.id,
                    message: hit.message,
                }));
            }
        }
    });
}

/// A title over the words around the match.
fn hit_row(ui: &mut Ui, state: &State, hit: &Hit) -> bool {
    let theme = Theme::of(ui);
    let width = ui.available_width();
    let text_width = width - 40.0;
    let snippet = hit.snippet.as_ref().map(|snippet| {
        let mut job = LayoutJob::default();
        let mut at = 0;
        for range in &snippet.matches {
            if range.start < at {
                continue;
            }
            job.append(&snippet.text[at..range.start], 0.0, Type::SMALL.format(theme.t3));
            job.append(&snippet.text[range.clone()], 0.0, Type::SMALL_CONTROL.format(theme.accent));
            at = range.end;
        }
        job.append(&snippet.text[at..], 0.0, Type::SMALL.format(theme.t3));
        job.wrap = egui::text::TextWrapping {
            max_width: text_width,
            max_rows: 2,
            ..egui::text::TextWrapping::default()
        };
        ui.fonts_mut(|fonts| fonts.layout_job(job))
    });
    let height = 30.0 + snippet.as_ref().map_or(0.0, |galley| galley.size().y + 4.0);
    let (slot, response) = ui.allocate_exact_size(vec2(width, height), Sense::click());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ListItem, true, &hit.session.title));
    let rect = slot.shrink2(vec2(10.0, 1.0));
    let selected = state.chat.session == Some(hit.session.id);
    let rest = if selected { theme.press } else { egui::Color32::TRANSPARENT };
    let fill = paint::state_fill(ui, &response, rest, theme.hover, theme.press);
    paint::boxed(
        ui.painter(),
        rect,
        dspark_look::space::radius::CONTROL,
        fill,
        egui::Color32::TRANSPARENT,
    );
    let ink = if selected { theme.t1 } else { theme.t2 };
    let title = Type::BASE.ellipsis(ui, &hit.session.title, ink, text_width);
    ui.painter().galley(rect.min + vec2(10.0, 4.0), title, ink);
    if let Some(galley) = snippet {
        ui.painter().galley(rect.min + vec2(10.0, 25.0), galley, theme.t3);
    }
    paint::focus_ring(ui, &response, rect, dspark_look::space::radius::CONTROL);
    response.clicked()
}

/// Ten thousand rows cost what the visible ones cost.
fn list(ui: &mut Ui, state: &State, view: &mut SidebarView, out: &mut Vec<Msg>) {
    let sessions = &state.sidebar.sessions;
    let pinned = sessions.iter().take_while(|head| head.pinned).count();
    let newest = sessions.get(pinned).map_or(0, |head| head.updated_at) ^ sessions.first().map_or(0, |head| head.id);
    let minute = state.clock.millis / 60_000;
    if view.key != Some((sessions.len() * 1000 + pinned, newest, minute)) {
        view.key = Some((sessions.len() * 1000 + pinned, newest, minute));
        view.groups = group(sessions, state.clock.millis, &TimeZone::system());
    }
    let total: f32 = view.groups.iter().map(|group| HEADING + ROW * group.range.len() as f32).sum();
    ScrollArea::vertical()
        .id_salt("chats")
        .auto_shrink([false, false])
        .show_viewport(ui, |ui, viewport| {
            ui.set_height(total + 12.0);
            let top = ui.max_rect().top();
            let width = ui.max_rect().width();
            let left = ui.max_rect().left();
            let mut y = 0.0;
            for (nth, group) in view.groups.iter().enumerate() {
                let place = |y: f32, height: f32| Rect::from_min_size(pos2(left, top + y), vec2(width, height));
                if y + HEADING > viewport.top() && y < viewport.bottom() {
                    let builder = UiBuilder::new().max_rect(place(y, HEADING)).id_salt(("heading", group.kind));
                    ui.scope_builder(builder, |ui| {
                        let plus = (nth == 0).then_some(t!(new_chat));
                        if date_heading(ui, &text::group(group.kind), plus) {
                            out.push(Msg::Chat(ChatMsg::New));
                        }
                    });
                }
                y += HEADING;
                let first = ((viewport.top() - y) / ROW).floor().max(0.0) as usize;
                let last = ((viewport.bottom() - y) / ROW).ceil().max(0.0) as usize;
                let count = group.range.len();
                for index in first.min(count)..last.min(count) {
                    let head = &sessions[group.range.start + index];
                    let builder = UiBuilder::new()
                        .max_rect(place(y + ROW * index as f32, ROW))
                        .id_salt(("session", head.id))
                        .layout(Layout::top_down(Align::Min));
                    ui.scope_builder(builder, |ui| row(ui, state, head, out));
                }
                y += ROW * count as f32;
            }
            if viewport.bottom() > total - 20.0 * ROW && !state.sidebar.complete {
                out.push(Msg::Sidebar(SidebarMsg::More));
            }
        });
}

fn row(ui: &mut Ui, state: &State, head: &SessionHead, out: &mut Vec<Msg>) {
    let mut draft = state
        .sidebar
        .rename
        .as_ref()
        .filter(|rename| rename.session == head.id)
        .map(|rename| rename.title.clone());
    let before = draft.clone();
    let busy = state.lives.values().any(|live| live.session == head.id);
    let (response, action) = ChatRow::new(&head.title)
        .selected(state.screen == Screen::Chat && state.chat.session == Some(head.id))
        .busy(busy)
        .pinned(head.pinned)
        .renaming(draft.as_mut())
        .show(ui);
    if draft != before {
        out.push(Msg::Sidebar(SidebarMsg::RenameText(draft.unwrap_or_default())));
    }
    match action {
        Some(ChatRowAction::Open) => out.push(Msg::Chat(ChatMsg::Open(head.id))),
        Some(ChatRowAction::Rename) => out.push(Msg::Sidebar(SidebarMsg::StartRename(head.id))),
        Some(ChatRowAction::Renamed(title)) => {
            out.push(Msg::Sidebar(SidebarMsg::RenameText(title)));
            out.push(Msg::Sidebar(SidebarMsg::CommitRename));
        }
        Some(ChatRowAction::RenameCancelled) => out.push(Msg::Sidebar(SidebarMsg::CancelRename)),
        None => {}
    }
    context_menu(&response, |ui| session_menu(ui, head, out));
}

pub(super) fn session_menu(ui: &mut Ui, head: &SessionHead, out: &mut Vec<Msg>) {
    let mut item = |ui: &mut Ui, item: MenuItem<'_>, message: Msg| {
        if ui.add(item).clicked() {
            out.push(message);
            ui.close();
        }
    };
    let rename = label_of(Action::Rename);
    item(
        ui,
        MenuItem::new(t!(rename)).icon(Icon::PencilSimple).shortcut(&rename),
        Msg::Sidebar(SidebarMsg::StartRename(head.id)),
    );
    let (word, icon) = if head.pinned {
        (t!(unpin), Icon::PushPinSlash)
    } else {
        (t!(pin), Icon::PushPin)
    };
    let pin = SidebarMsg::Pin {
        session: head.id,
        pinned: !head.pinned,
    };
    item(ui, MenuItem::new(word).icon(icon), Msg::Sidebar(pin));
    menu_separator(ui);
    let delete = label_of(Action::DeleteChat);
    item(
        ui,
        MenuItem::new(t!(delete)).icon(Icon::Trash).shortcut(&delete).danger(),
        Msg::Sidebar(SidebarMsg::Delete(head.id)),
    );
}
