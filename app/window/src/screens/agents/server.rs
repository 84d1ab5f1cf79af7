//! What clients need to know of the server, and what is in the way when it does not answer.

use crate::{
    shell::text::count,
    state::{Msg, Screen, ServerState, SettingsMsg, SettingsPage, State},
};
use dspark_look::{Button, Icon, IconButton, Theme, Tone, Type, card, controls, tip};
use egui::{Label, Rect, Role, Sense, Ui, WidgetInfo, pos2, vec2};

/// Tokens from which on agents have room for their work. Source: `spec/clients.md` §1.
const ROOMY: usize = 64 << 10;

/// A line with one action while the server is off, comes up, or did not start. Nothing while it runs.
pub(super) fn state(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let (tone, icon, title, line, action) = match &state.server {
        ServerState::On(_) => return,
        ServerState::Starting => (Tone::Accent, Icon::Power, "The server starts", String::new(), ""),
        ServerState::Off => (
            Tone::Warn,
            Icon::Power,
            "The server is off",
            format!("Other programs reach the model through it, at {}.", state.base_url()),
            "Turn on the server",
        ),
        ServerState::Paused => (
            Tone::Warn,
            Icon::Pause,
            "The server is paused",
            "It was stopped from the menu; other programs meet a closed door.".to_owned(),
            "Go on",
        ),
        ServerState::Failed(failure) => (
            Tone::Bad,
            Icon::WarningOctagonFill,
            "The server did not start",
            failure.reason.clone(),
            "Try again",
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
                    && ui.add(Button::secondary(&format!("Use port {free}"))).clicked()
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
    /// What is copied.
    copy: Option<String>,
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
            label: "Base URL",
            value: base.clone(),
            mono: true,
            warning: "",
            copy: Some(base),
            definition: "what OpenAI's clients take; Anthropic's take it without /v1.",
        },
        Fact {
            label: "Key",
            value: if key.is_empty() {
                "mlx-dspark".into()
            } else {
                "••••••••".into()
            },
            mono: true,
            warning: "",
            copy: Some(if key.is_empty() { "mlx-dspark".into() } else { key.clone() }),
            definition: if key.is_empty() {
                "none is asked for. Several programs refuse an empty one, so any word does."
            } else {
                "the one of Settings, Local server. It is copied, never shown here."
            },
        },
        Fact {
            label: "Context window",
            value: window.map_or_else(|| "no model".into(), count),
            mono: false,
            warning: if window.is_some_and(|window| window < ROOMY) {
                "64k is better for agents"
            } else {
                ""
            },
            copy: None,
            definition: "tokens of prompt and answer together. An agent's own instructions take 15 to 25 thousand of them.",
        },
        Fact {
            label: "Tool calling",
            value: match model {
                None => "no model".into(),
                Some(model) if model.supports_tools => "Supported".into(),
                Some(_) => "By description".into(),
            },
            mono: false,
            warning: "",
            copy: None,
            definition: "whether the model's template knows tools. Others are told of them in words, and miss them more often.",
        },
    ];
    card(ui, |ui| {
        let theme = Theme::of(ui);
        let (row, _) = ui.allocate_exact_size(vec2(ui.available_width(), 36.0), Sense::hover());
        let mut right = row.right();
        if raise {
            let words = "Raise window";
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
            if let Some(text) = &fact.copy {
                let at = Rect::from_min_size(pos2(x + 4.0, row.bottom() - 22.0), vec2(26.0, 26.0));
                let words = format!("Copy {}", fact.label.to_lowercase());
                if dspark_look::paint::over_left(ui, at, |ui| ui.add(IconButton::new(Icon::Copy, &words).small())).clicked() {
                    out.push(Msg::Copy(text.clone()));
                }
                x += 22.0;
            }
            x += 28.0;
        }
    });
}
