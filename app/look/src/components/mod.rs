//! The components, one family a file.

mod behind;
mod button;
mod card;
mod chip;
mod code_block;
mod composer;
mod field;
mod header;
mod linked;
mod memory;
mod menu;
mod message;
mod modal;
mod palette;
mod pill;
mod ring;
mod settings;
mod sidebar;
mod slider;
mod table;
mod toast;
mod toggle;
mod tooltip;

pub use behind::{Behind, Prose, inline_code_format, paint_behind};
pub use button::{Button, IconButton, controls, from_right};
pub use card::{
    ErrorAction, ErrorCard, Progress, ProgressAction, Stat, card, card_flush, card_frame, card_title, empty_card, empty_state, key_value,
    progress_bar, progress_row, stat_figure, stat_row,
};
pub use chip::{Chip, Tone, key};
pub use code_block::{CodeAction, code_block, command_strip};
pub use composer::{Composer, ComposerResponse, ComposerState, SendKey, takes_send_key};
pub use field::{TextField, field_error, select};
pub use header::{column, header};
pub use linked::linked;
pub use memory::{MemoryPart, memory_bar, memory_legend};
pub use menu::{MenuItem, choices_below, context_menu, menu_above, menu_below, menu_frame, menu_separator};
pub use message::{
    BLOCK_GAP, REPLY_GAP, ReasoningHead, TURN_GAP, Tile, actions_row, fold, reasoning, stream_caret, turn_tiles, user_message,
};
pub use modal::{Answer, confirm, modal};
pub use palette::{PaletteKeys, PaletteRow, palette, palette_heading};
pub use pill::{PillState, StatusPill, short_count};
pub use ring::{busy_ring, paint_ring};
pub use settings::{ReloadAnswer, SettingsRow, reload_bar, settings_group, subnav_row};
pub use sidebar::{ChatRow, ChatRowAction, MemoryFoot, ScreenRow, WINDOW_BUTTONS, date_heading, sidebar_background, sidebar_note};
pub use slider::Slider;
pub use table::{Columns, OptionRow, TableRow, list_heading, name_lines, row_caret, table_head, two_lines};
pub(crate) use toast::toast_in_place;
pub use toast::{Toast, Toasts};
pub use toggle::{radio_mark, segmented, segmented_sized, tabs, toggle};
pub use tooltip::{tip, tooltip_frame, tooltip_text};
