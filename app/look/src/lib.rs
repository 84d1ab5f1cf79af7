//! The look of mlx-dspark: tokens, fonts, icons and components, drawn with egui.
//!
//! ```no_run
//! # use dspark_look::*;
//! # fn start(ctx: &egui::Context) {
//! fonts::install(ctx); // once
//! apply(ctx, Look { preference: egui::ThemePreference::System, ..Look::default() }); // on every change of a setting
//! # }
//! # fn screen(ui: &mut egui::Ui) {
//! let theme = Theme::of(ui); // &'static Theme: theme.base, theme.t2, theme.series.lookup …
//! ui.label(Type::PROSE.rich("chat text", theme.t1)); // text styles carry size, line height, tracking
//! if ui.add(Button::primary("Load").icon(Icon::DownloadSimple)).clicked() {}
//! # }
//! ```
//!
//! Rules: colours only from [`Theme`], text only through [`Type`], widths from [`space`], layouts
//! from [`Density`]. Every component reports role and label to AccessKit and shows the focus ring.
//! Widgets that draw a number or a state take it as an argument; nothing here knows the engine.
//! To lay items over a rectangle that is allocated already, use [`paint::over_left`],
//! [`paint::over_right`] or [`paint::over_down`]: egui's own `scope_builder` and `put` move the cursor.
//!
//! | for | use |
//! |---|---|
//! | buttons | [`Button::primary`] `secondary` `quiet` `danger`, `.small()` `.icon()` `.detail()` `.caret()`; [`IconButton`] |
//! | state | [`StatusPill`] with [`PillState`]; [`Chip`] with [`Tone`]; [`busy_ring`] |
//! | input | [`TextField`], [`select`], [`segmented`], [`tabs`], [`toggle`], [`Slider`] |
//! | menus | [`context_menu`], [`menu_below`], [`menu_above`], [`choices_below`] with [`MenuItem`], [`menu_separator`] |
//! | tooltips | [`tip`]`(response, "Decode rate", "tokens per second …")` |
//! | window | [`header`], [`column`], [`sidebar_background`], [`ScreenRow`] (`.rail(ui)` when narrow), [`ChatRow`], [`date_heading`], [`MemoryFoot`], [`Density`] |
//! | chat | [`user_message`], [`reasoning`], [`code_block`] with [`highlight`](highlight::highlight), [`turn_tiles`], [`actions_row`], [`Composer`] (send and stop, IME safe), [`stream_caret`] |
//! | prose | [`linked`] words whose addresses can be clicked; [`Prose`], or [`paint_behind`] before your own galley: inline code chips with a border, tints of accepted and lookup runs, underlined corrections |
//! | lists | [`Columns`], [`table_head`], [`TableRow`], [`name_lines`], [`two_lines`], [`row_caret`], [`OptionRow`], [`list_heading`] inside [`card_flush`] |
//! | cards | [`card`], [`card_title`], [`stat_row`], [`key_value`], [`progress_row`], [`ErrorCard`], [`empty_state`], [`memory_bar`], [`memory_legend`] |
//! | settings | [`settings_group`] with [`SettingsRow`], [`subnav_row`], [`reload_bar`] |
//! | over the window | [`Toasts`], [`palette`] with [`PaletteRow`], [`modal`], [`confirm`] |
//! | plots | [`plot::LinePlot`], [`plot::BarPlot`], [`plot::accept_ribbon`], [`plot::share_bar`] |
//! | pictures without a window | [`raster::picture`] |
//! | all of it on two pages | [`gallery::gallery`], [`gallery_more::gallery_more`]; `tests/screens` composes whole screens |

pub mod components;
pub mod fonts;
pub mod gallery;
pub mod gallery_more;
pub mod highlight;
pub mod icon;
pub mod motion;
pub mod paint;
pub mod plot;
pub mod raster;
pub mod space;
pub mod style;
pub mod theme;
pub mod type_style;
pub mod urls;

pub use components::*;
pub use highlight::highlight;
pub use icon::Icon;
pub use space::Density;
pub use style::{Look, apply, look};
pub use theme::{DARK, LIGHT, Theme};
pub use type_style::{Family, Type, middle_ellipsis, runs};
