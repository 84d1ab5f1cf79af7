//! `chat-dark`, `chat-light`, `chat-900x640-dark`.

use dspark_look::{
    Behind, Button, Composer, ComposerState, Density, Icon, IconButton, PillState, Prose, ReasoningHead, SendKey, Theme, Tile, Type,
    code_block, column, highlight, reasoning, turn_tiles, user_message,
};
use egui::{Rect, ScrollArea, Ui, UiBuilder, pos2};

use super::shell::Shell;

#[derive(Default)]
pub(crate) struct State {
    open: bool,
    wrap: bool,
    text: String,
}

const CODE: &str = "pub fn max_disjoint(mut v: Vec<Span>) -> Vec<Span> {
    v.sort_unstable_by_key(|s| s.end);
    let mut last = 0;
    v.retain(|s| {
        let keep = s.start >= last;
        if keep { last = s.end }   // half-open: touching is fine
        keep
    });
    v
}";

pub(crate) fn screen(ui: &mut Ui, state: &mut State) {
    let shell = Shell {
        screen: 0,
        title: "Interval scheduling in Rust",
        chats: true,
        chat_selected: true,
        model: "Qwen3-8B-8bit",
        foot: Shell::LOADED,
    };
    let pill = PillState::Generating { tokens_per_second: 66.2 };
    let actions = |ui: &mut Ui| {
        ui.add_space(6.0);
        ui.add(IconButton::new(Icon::DotsThree, "More"));
        ui.add(IconButton::new(Icon::MagnifyingGlass, "Find"));
    };
    shell.show(ui, &pill, |_| {}, actions, |ui| content(ui, state));
}

pub(crate) fn content(ui: &mut Ui, state: &mut State) {
    let density = Density::of(ui.ctx());
    let area = ui.max_rect();
    let composer = Rect::from_min_max(pos2(area.left(), area.bottom() - 104.0), area.max);
    let turns = Rect::from_min_max(area.min, pos2(area.right(), composer.top()));
    ui.scope_builder(UiBuilder::new().max_rect(turns), |ui| {
        ScrollArea::vertical().stick_to_bottom(true).auto_shrink(false).show(ui, |ui| {
            column(ui, density.chat_column(), 44.0, |ui| turn(ui, state));
        });
    });
    ui.scope_builder(UiBuilder::new().max_rect(composer), |ui| {
        column(ui, density.chat_column(), 44.0, |ui| compose(ui, &mut state.text));
    });
}

fn turn(ui: &mut Ui, state: &mut State) {
    let theme = Theme::of(ui);
    ui.spacing_mut().item_spacing.y = 0.0;
    ui.add_space(20.0);
    user_message(
        ui,
        "Pick the most meetings that don’t overlap from a list of spans. Rust, no crates, and tell me why greedy works.",
    );
    ui.add_space(18.0);
    let head = ReasoningHead {
        words: "Thought for",
        value: "4.1 s",
        note: "268 tokens",
        busy: false,
    };
    reasoning(ui, &head, &mut state.open, |ui| {
        ui.label(Type::BASE.rich("Earliest end first leaves the most room.", theme.t2));
    });
    ui.add_space(12.0);
    let first = "Sort by end time, then walk once and keep every span that starts at or after the last kept end.";
    ui.add(egui::Label::new(Type::PROSE.rich(first, theme.t1)).wrap());
    ui.add_space(12.0);
    code_block(ui, "code", "rust", highlight(theme, CODE, "rust"), &mut state.wrap);
    ui.add_space(14.0);
    prose(ui);
    ui.add_space(12.0);
    let tile = |label, value, unit| Tile {
        label,
        value,
        unit,
        definition: "",
    };
    let tiles = [
        tile("First token", "0.42 s", ""),
        tile("Prompt", "726", "512 cached"),
        tile("Decode", "66.2", "tok/s"),
        tile("Accept", "3.06", "per round"),
        tile("Plain ceiling", "2.41×", ""),
    ];
    turn_tiles(ui, &tiles, true);
    ui.add_space(10.0);
}

fn prose(ui: &mut Ui) {
    let theme = Theme::of(ui);
    let (draft, lookup, own) = (Some(Behind::Accepted), Some(Behind::Lookup), Some(Behind::Corrected));
    let mut prose = Prose::default();
    for (text, behind) in [
        ("The greedy choice", draft),
        (" is ", None),
        ("safe by exchange: take any optimal", draft),
        (" schedule ", None),
        ("and swap its first span for the", draft),
        (" ", None),
        ("one", own),
        (" ", None),
        ("that ends earliest", lookup),
        (". ", None),
        ("It still fits, because it ends no later,", draft),
        (" and ", None),
        ("the count is unchanged.", draft),
        (" Repeat ", None),
        ("from there and the optimal schedule turns into", draft),
        (" ", None),
        ("ours", own),
        (" ", None),
        ("without losing a meeting. Sorting costs", draft),
        (" ", None),
        ("O(n log n)", Some(Behind::InlineCode)),
        ("; the walk is linear and", draft),
        (" in place, ", None),
        ("so no extra", draft),
    ] {
        prose.text(theme, text, behind);
    }
    prose.show(ui, true);
}

pub(crate) fn compose(ui: &mut Ui, text: &mut String) {
    let composer = Composer {
        accompanied: false,
        text,
        hint: "Reply to Qwen3-8B…",
        note: "1,184 of 40,960",
        state: ComposerState::Generating,
        send_key: SendKey::Enter,
        window_height: 800.0,
        id: egui::Id::unique("composer"),
    };
    composer.show(ui, |ui| {
        ui.add(IconButton::new(Icon::Paperclip, "Attach"));
        ui.add(Button::quiet("Options").small().icon(Icon::SlidersHorizontal).icon_size(15.0));
        ui.add(
            Button::quiet("Think")
                .small()
                .icon(Icon::Brain)
                .icon_size(15.0)
                .detail("medium")
                .caret(),
        );
    });
}
