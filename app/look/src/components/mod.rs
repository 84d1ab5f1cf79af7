//! The components, one family a file.

mod button;
mod chip;
mod field;
mod menu;
mod pill;
mod ring;
mod slider;
mod toggle;
mod tooltip;

pub use button::{Button, IconButton, controls, from_right};
pub use chip::{Chip, Tone, key};
pub use field::{TextField, field_error, select};
pub use menu::{MenuItem, context_menu, menu_above, menu_below, menu_frame, menu_separator};
pub use pill::{PillState, StatusPill, short_count};
pub use ring::{busy_ring, paint_ring};
pub use slider::Slider;
pub use toggle::{radio_mark, segmented, segmented_sized, tabs, toggle};
pub use tooltip::{tip, tooltip_frame, tooltip_text};
