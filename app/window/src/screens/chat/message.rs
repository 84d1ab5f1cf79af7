//! One message: the question in its bubble, the answer as a column with what can be done about it.

use super::{composer::lines, view::MessageView};
use crate::{
    markdown,
    screens::lab::words::mode_named,
    shell::text::{count, ordinal, seconds},
    state::{ChatMsg, Edit, LabMsg, LabView, Live, Msg, Phase, RaceMsg, Screen, Sources, State, Tint, split_reasoning},
};
use dspark_attach::Attachment;
use dspark_look::{
    Behind, Button, Chip, ErrorCard, Icon, IconButton, ReasoningHead, Theme, Tile, Tone, Type, actions_row, paint_ring, progress_bar,
    reasoning, tip, turn_tiles, user_message,
};
use dspark_sessions::{Finish, Message, MessageState};
use dspark_strings::t;
use egui::{Frame, Key, Layout, Margin, Stroke, TextEdit, Ui, UiBuilder, vec2};

/// Characters of a file that are shown where it is opened.
const FILE_SHOWN: usize = 8000;

pub(super) fn question(ui: &mut Ui, state: &State, stored: &Message, focus: &mut bool, out: &mut Vec<Msg>) {
    if let Some(edit) = state.chat.edit.as_ref().filter(|edit| edit.message == stored.id) {
        if !edit.files.is_empty() {
            attached(ui, stored.id, &edit.files);
        }
        return editor(ui, state, edit, focus, out);
    }
    let top = ui.cursor().top();
    let (files, words) = dspark_attach::split(&stored.text);
    let response = if files.is_empty() {
        user_message(ui, &stored.text)
    } else {
        attached(ui, stored.id, &files);
        user_message(ui, if words.is_empty() { t!(no_words) } else { words })
    };
    ui.add_space(2.0);
    let row = egui::Rect::from_min_max(
        egui::pos2(ui.max_rect().left(), top),
        egui::pos2(ui.max_rect().right(), response.rect.bottom() + 14.0),
    );
    let hovered = ui.rect_contains_pointer(row);
    let alternatives = state.chat.tree.alternatives(stored.id);
    let busy = state.live().is_some();
    // At the left of the bubble, so that showing them moves nothing.
    let place = egui::Rect::from_min_max(
        egui::pos2(row.left(), response.rect.center().y - 13.0),
        egui::pos2(response.rect.left() - 8.0, response.rect.center().y + 13.0),
    );
    let builder = UiBuilder::new().max_rect(place).layout(Layout::right_to_left(egui::Align::Center));
    ui.scope_builder(builder, |ui| {
        ui.spacing_mut().item_spacing.x = 2.0;
        if alternatives.ids.len() > 1 {
            stepper(ui, stored.id, alternatives.index, alternatives.ids.len(), busy, out);
        }
        let focused = ui.memory(|memory| {
            memory
                .focused()
                .is_some_and(|id| ui.data(|data| data.get_temp::<egui::Id>(id)) == Some(ui.scope_id()))
        });
        ui.set_opacity(if hovered || focused { 1.0 } else { 0.0 });
        let mut button = |ui: &mut Ui, icon: Icon, label: &str, message: ChatMsg| {
            let response = ui.add(
                IconButton::new(icon, label)
                    .small()
                    .enabled(!busy || matches!(message, ChatMsg::CopyMessage(_))),
            );
            ui.data_mut(|data| data.insert_temp(response.id, ui.scope_id()));
            if response.clicked() {
                out.push(Msg::Chat(message));
            }
        };
        button(ui, Icon::Trash, t!(delete_message), ChatMsg::Delete(stored.id));
        button(ui, Icon::Copy, t!(copy_message), ChatMsg::CopyMessage(stored.id));
        button(ui, Icon::PencilSimple, t!(edit_message), ChatMsg::StartEdit(stored.id));
        // Its answer was deleted, or never came.
        if state.has_model() && state.chat.tree.leaf().is_some_and(|leaf| leaf.id == stored.id) {
            button(ui, Icon::ArrowsClockwise, t!(answer_this), ChatMsg::RegenerateLast);
        }
        let race = ui.add(IconButton::new(Icon::FlagCheckered, t!(race_prompt)).small());
        ui.data_mut(|data| data.insert_temp(race.id, ui.scope_id()));
        if race.clicked() {
            out.push(RaceMsg::Prompt(stored.text.clone()).into());
            out.push(Msg::Lab(LabMsg::View(LabView::Race)));
            out.push(Msg::Show(Screen::Lab));
        }
    });
}

/// The files of a question, folded; one at a time can be opened.
fn attached(ui: &mut Ui, message: i64, files: &[Attachment]) {
    let id = egui::Id::unique(("attached", message));
    let mut open: Option<usize> = ui.data(|data| data.get_temp(id)).flatten();
    ui.with_layout(Layout::right_to_left(egui::Align::Min).with_main_wrap(true), |ui| {
        ui.spacing_mut().item_spacing = vec2(6.0, 6.0);
        for (at, file) in files.iter().enumerate().rev() {
            let (detail, label) = (lines(file), t!(show_named, name = file.name));
            let chip = Button::secondary(&file.name)
                .small()
                .icon(Icon::FileText)
                .detail(&detail)
                .label(&label);
            if ui.add(chip).clicked() {
                open = (open != Some(at)).then_some(at);
            }
        }
    });
    ui.data_mut(|data| data.insert_temp(id, open));
    ui.add_space(6.0);
    if let Some(file) = open.and_then(|at| files.get(at)) {
        let theme = Theme::of(ui);
        Frame::new()
            .fill(theme.raised)
            .stroke(Stroke::new(1.0, theme.line))
            .corner_radius(dspark_look::space::radius::MESSAGE)
            .inner_margin(Margin::symmetric(14, 10))
            .show(ui, |ui| {
                ui.set_width(ui.available_width());
                egui::ScrollArea::vertical().id_salt(id).max_height(280.0).show(ui, |ui| {
                    // Laid out whole, a long file would hold up the frame: a page of it says what it is.
                    let shown: String = file.text.chars().take(FILE_SHOWN).collect();
                    let more = if shown.len() < file.text.len() { "\n…" } else { "" };
                    ui.add(
                        egui::Label::new(Type::CODE.rich(format!("{shown}{more}"), theme.t1))
                            .selectable(true)
                            .wrap(),
                    );
                });
            });
        ui.add_space(6.0);
    }
}

/// `‹ 2/3 ›` between alternatives. Added from the right.
fn stepper(ui: &mut Ui, id: i64, index: usize, count: usize, busy: bool, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let rtl = ui.layout().prefer_right_to_left();
    let mut step = |ui: &mut Ui, icon: Icon, label: &str, step: isize, enabled: bool| {
        if ui.add(IconButton::new(icon, label).small().enabled(enabled && !busy)).clicked() {
            out.push(Msg::Chat(ChatMsg::Alternative { message: id, step }));
        }
    };
    let words = format!("{}/{count}", index + 1);
    let next = |ui: &mut Ui, step: &mut dyn FnMut(&mut Ui, Icon, &str, isize, bool)| {
        step(ui, Icon::CaretRight, t!(next_alternative), 1, index + 1 < count);
    };
    let previous = |ui: &mut Ui, step: &mut dyn FnMut(&mut Ui, Icon, &str, isize, bool)| {
        step(ui, Icon::CaretLeft, t!(previous_alternative), -1, index > 0);
    };
    if rtl {
        next(ui, &mut step);
        ui.label(Type::SMALL.rich(words, theme.t2));
        previous(ui, &mut step);
    } else {
        previous(ui, &mut step);
        ui.label(Type::SMALL.rich(words, theme.t2));
        next(ui, &mut step);
    }
}

fn editor(ui: &mut Ui, state: &State, edit: &Edit, focus: &mut bool, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let mut draft = edit.text.clone();
    Frame::new()
        .fill(theme.raised)
        .stroke(Stroke::new(1.0, theme.t3))
        .corner_radius(dspark_look::space::radius::MESSAGE)
        .inner_margin(Margin::symmetric(14, 10))
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            ui.spacing_mut().item_spacing.y = 8.0;
            let id = egui::Id::unique("edit message");
            let mut layout = |ui: &Ui, text: &dyn egui::TextBuffer, width: f32| {
                let mut job = egui::text::LayoutJob::single_section(text.as_str().into(), Type::PROSE.format(theme.t1));
                job.wrap.max_width = width;
                job.keep_trailing_whitespace = true;
                ui.fonts_mut(|fonts| fonts.layout_job(job))
            };
            // As in the composer: Enter sends, Shift+Enter breaks the line, an input method's Enter does neither.
            let key = ui.memory(|memory| memory.has_focus(id)) && dspark_look::takes_send_key(ui, id, dspark_look::SendKey::Enter);
            let response = ui.add(
                TextEdit::multiline(&mut draft)
                    .id(id)
                    .return_key(egui::KeyboardShortcut::new(egui::Modifiers::SHIFT, Key::Enter))
                    .frame(Frame::NONE)
                    .desired_rows(1)
                    .desired_width(f32::INFINITY)
                    .layouter(&mut layout),
            );
            response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::MultilineTextInput, true, t!(edit_message)));
            if std::mem::take(focus) {
                response.request_focus();
            }
            let command = response.has_focus() && ui.input_mut(|input| input.consume_key(egui::Modifiers::COMMAND, Key::Enter));
            let enabled = state.has_model() && (!draft.trim().is_empty() || !edit.files.is_empty());
            let send = (key || command) && enabled;
            dspark_look::controls(ui, |ui| {
                dspark_look::from_right(ui, |ui| {
                    if ui
                        .add(Button::primary(t!(send)).small().enabled(enabled).label(t!(send_edited)))
                        .clicked()
                        || send
                    {
                        out.push(Msg::Chat(ChatMsg::EditText(draft.clone())));
                        out.push(Msg::Chat(ChatMsg::SendEdit));
                    }
                    if ui.add(Button::quiet(t!(cancel)).small()).clicked() {
                        out.push(Msg::Chat(ChatMsg::CancelEdit));
                    }
                });
            });
        });
    if draft != edit.text
        && !out
            .iter()
            .any(|message| matches!(message, Msg::Chat(ChatMsg::SendEdit | ChatMsg::CancelEdit)))
    {
        out.push(Msg::Chat(ChatMsg::EditText(draft)));
    }
}

pub(super) fn answer(
    ui: &mut Ui,
    state: &State,
    stored: &Message,
    view: &mut MessageView,
    live: Option<&Live>,
    last: bool,
    out: &mut Vec<Msg>,
) {
    let start = ui.cursor().min;
    let id = stored.id;
    thoughts(ui, stored, view, live, out);
    let writing = live.is_some_and(|live| live.phase == Phase::Generating);
    if !view.answer.is_empty() {
        let tints = if state.settings.chat.show_sources {
            tints(stored, live)
        } else {
            Vec::new()
        };
        let events = markdown::show(ui, &view.answer, &mut view.answer_blocks, &tints, false, writing);
        out.extend(events.into_iter().map(Msg::from));
    }
    if let Some(live) = live {
        phase(ui, state, live);
    }
    if stored.state == MessageState::Failed && live.is_none() {
        failure(ui, stored, out);
    }
    ui.add_space(8.0);
    if last {
        let figures = tiles(state, stored, live);
        if !figures.is_empty() {
            let tiles: Vec<Tile<'_>> = figures.iter().map(Figure::tile).collect();
            let drafted = stored.meta.multiple.is_some() || state.multiple().is_some() || !stored.meta.sources.is_empty();
            turn_tiles(ui, &tiles, state.settings.chat.show_sources && drafted);
            ui.add_space(4.0);
        }
        if live.is_none() {
            why_plain(ui, stored);
        }
    }
    if live.is_some() {
        return;
    }
    let width = ui.max_rect().width();
    let area = egui::Rect::from_min_max(start, egui::pos2(start.x + width, ui.cursor().top() + 30.0));
    let hovered = ui.rect_contains_pointer(area);
    let quiet = !matches!(stored.state, MessageState::Stopped | MessageState::Interrupted) && stored.meta.finish != Some(Finish::Length);
    let alternatives = state.chat.tree.alternatives(id);
    let visible = hovered || last || alternatives.ids.len() > 1 || !quiet;
    actions_row(ui, visible, |ui| {
        actions(ui, state, stored, last, (alternatives.index, alternatives.ids.len()), out);
    });
}

/// Byte ranges of the answer by where they came from.
fn tints(stored: &Message, live: Option<&Live>) -> Vec<markdown::Tinted> {
    let text = &stored.text;
    let answer = split_reasoning(text).answer;
    let start = answer.as_ptr() as usize - text.as_ptr() as usize;
    let ranges = match live {
        Some(live) => live.sources.tints(start),
        None => Sources::after(&stored.meta.sources, 0).tints(start),
    };
    let behind = |tint| match tint {
        Tint::Draft => Behind::Accepted,
        Tint::Lookup => Behind::Lookup,
        Tint::Corrected => Behind::Corrected,
    };
    ranges.into_iter().map(|(range, tint)| (range, behind(tint))).collect()
}

/// A reply that could not be drafted, or not all of it, says why.
fn why_plain(ui: &mut Ui, stored: &Message) {
    let Some(reason) = &stored.meta.mode_reason else { return };
    let theme = Theme::of(ui);
    // More than one token a round: some of it was drafted or looked up.
    let part = stored.meta.accept.is_some_and(|accept| accept > 1.0);
    let reason = reason.trim_end_matches('.');
    let words = if part {
        t!(not_drafted_throughout, reason = reason)
    } else {
        t!(without_drafts, reason = reason)
    };
    let text = Type::SMALL.wrapped(ui, words.as_str(), theme.t3, ui.available_width() - 22.0);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), text.size().y + 4.0), egui::Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, words.as_str()));
    Icon::Info.paint(ui.painter(), rect.left_top() + vec2(7.0, 9.0), 14.0, theme.t3);
    ui.painter().galley(rect.left_top() + vec2(22.0, 0.0), text, theme.t3);
    ui.add_space(4.0);
}

fn thoughts(ui: &mut Ui, stored: &Message, view: &mut MessageView, live: Option<&Live>, out: &mut Vec<Msg>) {
    if view.thoughts.is_empty() {
        return;
    }
    let parts = split_reasoning(&stored.text);
    let busy = live.is_some() && !parts.closed;
    let took = stored
        .meta
        .reasoning_seconds
        .or_else(|| live.and_then(|live| live.thought).map(|thought| thought.as_secs_f64()));
    let value = took.map(|took| t!(took_seconds, took = format!("{took:.1}"))).unwrap_or_default();
    let tokens = live.map_or_else(|| stored.meta.usage.map_or(0, |usage| usage.reasoning), |live| live.thought_tokens);
    let note = (tokens > 0).then(|| t!(tokens_count, count = count(tokens)));
    let note = note.unwrap_or_default();
    let words = match (busy, took) {
        (true, _) => t!(thinking),
        (false, Some(_)) => t!(thought_for),
        (false, None) => t!(thoughts),
    };
    // Open while thoughts stream, folded when the answer begins, and as a person left it.
    let mut open = view.thoughts_open.unwrap_or(busy);
    let before = open;
    let head = ReasoningHead {
        words,
        value: &value,
        note: &note,
        busy,
    };
    let shown = reasoning(ui, &head, &mut open, |ui| {
        ui.add_space(10.0);
        markdown::show(ui, &view.thoughts, &mut view.thoughts_blocks, &[], true, busy)
    });
    out.extend(shown.unwrap_or_default().into_iter().map(Msg::from));
    if open != before {
        view.thoughts_open = Some(open);
    }
    ui.add_space(12.0);
}

/// What is going on before the first word.
fn phase(ui: &mut Ui, state: &State, live: &Live) {
    let theme = Theme::of(ui);
    let words = match live.phase {
        Phase::Generating => return,
        _ if live.cancelled => t!(stopping).to_owned(),
        Phase::Submitted => t!(starting).to_owned(),
        Phase::Queued(position) => {
            let other = state
                .engine
                .requests
                .iter()
                .find(|request| !request.waiting)
                .map(|request| request.client.as_str());
            let who = other.map_or_else(String::new, |other| t!(being_answered_first, other = other));
            t!(queued, ordinal = ordinal(position), who = who)
        }
        Phase::Prefilling { processed, total } => t!(reading_prompt_of, done = count(processed), total = count(total)),
    };
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 8.0;
        let (mark, response) = ui.allocate_exact_size(vec2(16.0, 22.0), egui::Sense::hover());
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Status, true, &words));
        paint_ring(ui, mark.center(), 14.0, theme.accent);
        ui.label(Type::BASE.rich(&words, theme.t2));
    });
    if let Phase::Prefilling { processed, total } = live.phase
        && total > 0
    {
        ui.add_space(6.0);
        let bar = egui::Rect::from_min_size(ui.cursor().min, vec2(320.0_f32.min(ui.available_width()), 4.0));
        ui.scope_builder(UiBuilder::new().max_rect(bar), |ui| {
            progress_bar(ui, Some(processed as f32 / total as f32), theme.accent);
        });
    }
}

fn failure(ui: &mut Ui, stored: &Message, out: &mut Vec<Msg>) {
    let cause = stored.meta.error.as_deref().unwrap_or(t!(reason_not_recorded));
    if !stored.text.is_empty() {
        ui.add_space(12.0);
    }
    let title = if stored.text.is_empty() {
        t!(no_reply)
    } else {
        t!(reply_broke_off)
    };
    let card = ErrorCard {
        title,
        cause,
        primary: t!(retry),
        details: "",
    };
    let action = card.show(ui);
    if action.primary {
        out.push(Msg::Chat(ChatMsg::Regenerate(stored.id)));
    }
    if action.copy {
        out.push(Msg::Copy(format!("{title}: {cause}")));
    }
}

fn actions(ui: &mut Ui, state: &State, stored: &Message, last: bool, (index, count): (usize, usize), out: &mut Vec<Msg>) {
    let busy = state.live().is_some();
    ui.spacing_mut().item_spacing.x = 2.0;
    if count > 1 {
        stepper(ui, stored.id, index, count, busy, out);
        ui.add_space(4.0);
    }
    let mark = match (stored.state, stored.meta.finish) {
        (MessageState::Stopped, _) => Some((t!(stopped), t!(stopped_definition))),
        (MessageState::Interrupted, _) => Some((t!(interrupted), t!(interrupted_definition))),
        (MessageState::Done, Some(Finish::Length)) => Some((t!(cut_off), t!(cut_off_definition))),
        _ => None,
    };
    if let Some((word, why)) = mark {
        tip(ui.add(Chip::new(word).tone(Tone::Neutral)), word, why);
        ui.add_space(4.0);
        let can = state.has_model() && !busy && !stored.text.is_empty();
        if ui
            .add(Button::secondary(t!(continue_reply_short)).small().icon(Icon::Play).enabled(can))
            .clicked()
        {
            out.push(Msg::Chat(ChatMsg::Continue(stored.id)));
        }
        ui.add_space(4.0);
    }
    let mut button = |ui: &mut Ui, icon: Icon, label: &str, enabled: bool, message: ChatMsg| {
        if ui.add(IconButton::new(icon, label).small().enabled(enabled)).clicked() {
            out.push(Msg::Chat(message));
        }
    };
    button(
        ui,
        Icon::Copy,
        t!(copy_reply),
        !stored.text.is_empty(),
        ChatMsg::CopyMessage(stored.id),
    );
    let can = state.has_model() && !busy;
    button(ui, Icon::ArrowsClockwise, t!(another_answer), can, ChatMsg::Regenerate(stored.id));
    if mark.is_none() && stored.state == MessageState::Failed && !stored.text.is_empty() {
        button(ui, Icon::Play, t!(continue_reply), can, ChatMsg::Continue(stored.id));
    }
    button(ui, Icon::Trash, t!(delete_reply), !busy, ChatMsg::Delete(stored.id));
    if !last && let Some(line) = one_line(stored) {
        let info = ui.add(IconButton::new(Icon::Info, t!(figures_of_reply)).small().no_tooltip());
        tip(info, t!(this_reply), &line);
    }
}

/// A figure of a turn, with what it means.
struct Figure {
    label: &'static str,
    value: String,
    unit: String,
    definition: &'static str,
}

impl Figure {
    fn tile(&self) -> Tile<'_> {
        Tile {
            label: self.label,
            value: &self.value,
            unit: &self.unit,
            definition: self.definition,
        }
    }
}

fn tiles(state: &State, stored: &Message, live: Option<&Live>) -> Vec<Figure> {
    let meta = &stored.meta;
    if live.is_none() && meta.usage.is_some_and(|usage| usage.completion == 0) {
        // Stopped before the first token: there is nothing to tell the speed of.
        return Vec::new();
    }
    let ttft = live.map_or(meta.ttft, |live| live.first_token.map(|first| first.as_secs_f64()));
    let prompt = live.map_or_else(
        || meta.usage.map(|usage| (usage.prompt, usage.cached)),
        |live| Some(live.prompt).filter(|(prompt, _)| *prompt > 0),
    );
    let rate = match (&state.engine.state, live) {
        (dspark_protocol::EngineState::Generating { tokens_per_sec }, Some(live)) if live.phase == Phase::Generating => {
            Some(*tokens_per_sec)
        }
        (_, Some(_)) => None,
        (_, None) => meta.decode_rate,
    };
    let mut figures = Vec::new();
    if let Some(ttft) = ttft {
        figures.push(Figure {
            label: t!(first_token),
            value: seconds(ttft),
            unit: String::new(),
            definition: t!(first_token_definition),
        });
    }
    if let Some((prompt, cached)) = prompt.filter(|_| ttft.is_some()) {
        figures.push(Figure {
            label: t!(prompt),
            value: count(prompt),
            unit: if cached > 0 {
                t!(count_cached, count = count(cached))
            } else {
                t!(unit_tokens).into()
            },
            definition: t!(prompt_definition),
        });
    }
    if let Some(rate) = rate {
        figures.push(Figure {
            label: t!(decode),
            value: format!("{rate:.1}"),
            unit: "tok/s".into(),
            definition: t!(decode_definition),
        });
    }
    if let Some(accept) = meta.accept.filter(|_| live.is_none()) {
        figures.push(Figure {
            label: t!(accept),
            value: format!("{accept:.2}"),
            unit: t!(per_round).into(),
            definition: t!(accept_definition),
        });
    }
    let multiple = if live.is_some() {
        state.multiple().filter(|_| rate.is_some())
    } else {
        meta.multiple
    };
    if let Some(multiple) = multiple {
        figures.push(Figure {
            label: t!(plain),
            value: format!("{multiple:.2}×"),
            unit: String::new(),
            definition: t!(times_plain_definition),
        });
    }
    if live.is_some() {
        return figures;
    }
    if let Some(mode) = &meta.mode {
        let cap = meta.cap.filter(|cap| *cap > 0);
        figures.push(Figure {
            label: t!(mode),
            value: mode_named(mode).into(),
            unit: cap.map(|cap| t!(cap_n, cap = cap)).unwrap_or_default(),
            definition: t!(mode_definition),
        });
    }
    if let Some(usage) = meta.usage {
        figures.push(Figure {
            label: t!(reply),
            value: count(usage.completion),
            unit: match meta.finish {
                Some(Finish::Length) => t!(unit_tokens_cut).into(),
                Some(Finish::Cancelled) => t!(unit_tokens_stopped).into(),
                _ => t!(unit_tokens).into(),
            },
            definition: t!(reply_definition),
        });
    }
    if let Some(rate) = meta.end_to_end_rate {
        figures.push(Figure {
            label: t!(end_to_end),
            value: format!("{rate:.1}"),
            unit: "tok/s".into(),
            definition: t!(end_to_end_definition),
        });
    }
    figures
}

fn one_line(stored: &Message) -> Option<String> {
    let meta = &stored.meta;
    let usage = meta.usage?;
    let tokens = count(usage.completion);
    let parts = [
        Some(match meta.decode_rate {
            Some(rate) => t!(tokens_at_rate, count = tokens, rate = format!("{rate:.1}")),
            None => t!(tokens_count, count = tokens),
        }),
        meta.ttft.map(|ttft| t!(first_after, time = seconds(ttft))),
        meta.model.as_ref().map(|model| t!(by_model, model = model)),
        meta.seed.map(|seed| t!(seed_n, seed = seed)),
    ];
    Some(format!("{}.", parts.into_iter().flatten().collect::<Vec<_>>().join(", ")))
}
