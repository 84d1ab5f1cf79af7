//! What clients need to know of the server, and what is in the way when it does not answer.

use crate::{
    shell::text::count,
    state::{Msg, Screen, ServerState, SettingsMsg, SettingsPage, State},
};
use dspark_look::{Button, Icon, IconButton, Theme, Tone, Type, card, controls, tip};
use dspark_strings::t;
use egui::{Label, Rect, Role, Sense, Ui, WidgetInfo, pos2, vec2};

/// Tokens from which on agents have room for their work. Source: `spec/clients.md` §1.
const ROOMY: usize = 64 << 10;

/// A line with one action while the server is off, comes up, or did not start. Nothing while it runs.
pub(super) fn state(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let (tone, icon, title, line, action) = match &state.server {
        ServerState::On(_) => return,
        ServerState::Starting => (Tone::Accent, Icon::Power, t!(server_starts), String::new(), ""),
        ServerState::Off => (
            Tone::Warn,
            Icon::Power,
            t!(server_is_off),
            t!(server_off_line, url = state.base_url()),
            t!(turn_on_server),
        ),
        ServerState::Paused => (
            Tone::Warn,
            Icon::Pause,
            t!(server_is_paused),
            t!(server_paused_line).to_owned(),
            t!(go_on),
        ),
        ServerState::Failed(failure) => (
            Tone::Bad,
            Icon::WarningOctagonFill,
            t!(server_not_started),
            failure.reason.clone(),
            t!(try_again),
        ),
    };
    card(ui, |ui| {
        let theme = Theme::of(ui);
        controls(ui, |ui| {
            let (mark, _) = ui.allocate_exact_size(vec2(18.0, 18.0), Sense::hover());
            icon.paint(ui.painter(), mark.center(), dspark_look::icon::size::LARGE, tone.ink(theme));
            dspark_look::from_right(ui, |ui| {
                if !action.is_empty() && ui.add(Button::primary(action)).clicked() {
                    out.push(Msg::Settings(SettingsMsg::TogglePause));
                }
                if let ServerState::Failed(failure) = &state.server
                    && let Some(free) = failure.next_free
                    && ui.add(Button::secondary(&t!(use_port, free = free))).clicked()
                {
                    out.push(Msg::Settings(SettingsMsg::UsePort(free)));
                }
                ui.with_layout(egui::Layout::left_to_right(egui::Align::Center), |ui| {
                    let words = ui.label(Type::PANEL.rich(title, theme.t1));
                    words.widget_info(|| WidgetInfo::labeled(Role::Alert, true, format!("{title}. {line}")));
                    ui.add(Label::new(Type::NOTE.with_line(20.0).rich(&line, theme.t2)).truncate());
                });
            });
        });
    });
}

/// One fact: a label over its value.
struct Fact<'a> {
    label: &'a str,
    value: String,
    mono: bool,
    /// After the value, in the colour of a warning.
    warning: &'a str,
    /// What is copied, and the words of the button that does it.
    copy: Option<(String, &'a str)>,
    definition: &'a str,
}

/// Base URL, key, window and tools: what every client asks for.
pub(super) fn facts(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let model = state.engine.model.as_ref();
    let key = &state.settings.server.api_key;
    let base = format!("{}/v1", state.base_url());
    let window = model.map(|model| model.context_window);
    let raise = model.is_some_and(|model| model.context_window < ROOMY && model.max_context > model.context_window);
    let facts = [
        Fact {
            label: t!(base_url),
            value: base.clone(),
            mono: true,
            warning: "",
            copy: Some((base, t!(copy_base_url_fact))),
            definition: t!(base_url_definition),
        },
        Fact {
            label: t!(key),
            value: if key.is_empty() {
                "mlx-dspark".into()
            } else {
                "••••••••".into()
            },
            mono: true,
            warning: "",
            copy: Some((if key.is_empty() { "mlx-dspark".into() } else { key.clone() }, t!(copy_key_fact))),
            definition: if key.is_empty() {
                t!(key_none_definition)
            } else {
                t!(key_definition)
            },
        },
        Fact {
            label: t!(context_window),
            value: window.map_or_else(|| t!(fact_no_model).into(), count),
            mono: false,
            warning: if window.is_some_and(|window| window < ROOMY) {
                t!(better_64k)
            } else {
                ""
            },
            copy: None,
            definition: t!(window_definition),
        },
        Fact {
            label: t!(tool_calling),
            value: match model {
                None => t!(fact_no_model).into(),
                Some(model) if model.supports_tools => t!(supported).into(),
                Some(_) => t!(by_description).into(),
            },
            mono: false,
            warning: "",
            copy: None,
            definition: t!(tool_calling_definition),
        },
    ];
    card(ui, |ui| {
        let theme = Theme::of(ui);
        let (row, _) = ui.allocate_exact_size(vec2(ui.available_width(), 36.0), Sense::hover());
        let mut right = row.right();
        if raise {
            let words = t!(raise_window);
            right = dspark_look::paint::over_right(ui, row, |ui| {
                if ui.add(Button::secondary(words)).clicked() {
                    out.push(Msg::Settings(SettingsMsg::Page(SettingsPage::Decoding)));
                    out.push(Msg::Show(Screen::Settings));
                }
                ui.min_rect().left()
            }) - 16.0;
        }
        let mut x = row.left();
        for fact in &facts {
            let style = if fact.mono { Type::CODE_SMALL } else { Type::BASE };
            let room = (right - x).max(0.0);
            if room < 60.0 {
                break;
            }
            let mut job = dspark_look::runs(&[(&fact.value, style, theme.t1)]);
            if !fact.warning.is_empty() {
                job.append(fact.warning, 5.0, Type::BASE.format(theme.warn));
            }
            job.wrap = egui::text::TextWrapping::truncate_at_width(room);
            let value = ui.fonts_mut(|fonts| fonts.layout_job(job));
            let label = Type::LABEL.galley(ui, fact.label, theme.t3);
            let width = value.size().x.max(label.size().x);
            let place = Rect::from_min_size(pos2(x, row.top()), vec2(width, row.height()));
            let tile = ui.interact(place, ui.scope_id().with(("fact", fact.label)), Sense::hover());
            let told = format!("{}: {} {}", fact.label, fact.value, fact.warning);
            tile.widget_info(|| WidgetInfo::labeled(Role::Label, true, told.trim_end()));
            ui.painter().galley(place.min, label, theme.t3);
            ui.painter().galley(pos2(x, row.bottom() - value.size().y + 1.0), value, theme.t1);
            tip(tile, fact.label, fact.definition);
            x += width;
            if let Some((text, words)) = &fact.copy {
                let at = Rect::from_min_size(pos2(x + 4.0, row.bottom() - 22.0), vec2(26.0, 26.0));
                if dspark_look::paint::over_left(ui, at, |ui| ui.add(IconButton::new(Icon::Copy, words).small())).clicked() {
                    out.push(Msg::Copy(text.clone()));
                }
                x += 22.0;
            }
            x += 28.0;
        }
    });
}
