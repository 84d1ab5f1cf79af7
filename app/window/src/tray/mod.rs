//! The gauge beside the clock: what the engine does, and a menu that works while the window is closed.

pub(crate) mod icon;
mod view;

pub use view::{TrayView, view};

use crate::{
    bridge::Inbox,
    state::{ChatMsg, ModelsMsg, Msg, Screen, SettingsMsg, State},
};
use dspark_strings::{Key, Language, key, t};
use std::time::{Duration, Instant};
use tray_icon::{
    TrayIcon, TrayIconBuilder,
    menu::{Menu, MenuEvent, MenuItem, PredefinedMenuItem},
};

/// At most twice a second: each change redraws the item in the system's own process.
const PACE: Duration = Duration::from_millis(500);

/// Ids of the menu items, stable so that scripts and tests find them.
pub const OPEN: &str = "open";
pub const NEW: &str = "new";
pub const STOP: &str = "stop";
pub const UNLOAD: &str = "unload";
pub const PAUSE: &str = "pause";
pub const SETTINGS: &str = "settings";
pub const QUIT: &str = "quit";

pub struct Tray {
    icon: TrayIcon,
    model: MenuItem,
    state: MenuItem,
    server: MenuItem,
    stop: MenuItem,
    unload: MenuItem,
    pause: MenuItem,
    /// Those whose words change with the language alone.
    fixed: Vec<(MenuItem, Key)>,
    language: Language,
    shown: Option<TrayView>,
    last: Option<Instant>,
}

impl Tray {
    /// Puts the item up. `None` where there is no place for it (no session bus, say).
    pub fn new(inbox: Inbox) -> Option<Self> {
        let line = |text: &str, enabled: bool| MenuItem::new(text, enabled, None);
        let item = |id: &str, text: &str| MenuItem::with_id(id, text, true, None);
        let model = line(t!(no_model), false);
        let state = line(t!(starting), false);
        let server = line(t!(server_off), false);
        let stop = item(STOP, t!(stop_generating));
        let unload = item(UNLOAD, t!(unload_model));
        let pause = item(PAUSE, t!(pause_server));
        let fixed = vec![
            (item(OPEN, t!(open_app)), key!(open_app)),
            (item(NEW, t!(new_chat)), key!(new_chat)),
            (item(SETTINGS, t!(tray_settings)), key!(tray_settings)),
            (item(QUIT, t!(quit_app)), key!(quit_app)),
            (stop.clone(), key!(stop_generating)),
            (unload.clone(), key!(unload_model)),
        ];
        let menu = Menu::new();
        let parts = menu.append_items(&[
            &model,
            &state,
            &server,
            &PredefinedMenuItem::separator(),
            &stop,
            &unload,
            &pause,
            &PredefinedMenuItem::separator(),
            &fixed[0].0,
            &fixed[1].0,
            &fixed[2].0,
            &PredefinedMenuItem::separator(),
            &fixed[3].0,
        ]);
        if let Err(error) = parts {
            tracing::warn!("the tray menu could not be made: {error}");
            return None;
        }
        MenuEvent::set_event_handler(Some(move |event: MenuEvent| {
            for message in messages(event.id().as_ref()) {
                inbox.push(message);
            }
        }));
        let image = icon::bolt(false)?;
        let builder = TrayIconBuilder::new();
        #[cfg(target_os = "macos")]
        let builder = builder.with_icon_templated(image);
        #[cfg(not(target_os = "macos"))]
        let builder = builder.with_icon(image);
        let built = builder
            .with_id("mlx-dspark")
            .with_menu(Box::new(menu))
            .with_title("mlx-dspark")
            .with_tooltip("mlx-dspark")
            .build();
        match built {
            Ok(icon) => Some(Self {
                icon,
                model,
                state,
                server,
                stop,
                unload,
                pause,
                fixed,
                language: dspark_strings::current(),
                shown: None,
                last: None,
            }),
            Err(error) => {
                tracing::warn!("no tray icon: {error}");
                None
            }
        }
    }

    /// Somebody shows the item, so a hidden window can come back.
    pub fn is_shown(&self) -> bool {
        has_host()
    }

    /// Brings the item up to date, if that is due. Returns when to call again.
    pub fn update(&mut self, state: &State) -> Option<Duration> {
        let language = dspark_strings::current();
        if self.language != language {
            self.language = language;
            for (item, words) in &self.fixed {
                item.set_text(words.text());
            }
        }
        let next = view(state);
        if self.shown.as_ref() == Some(&next) {
            return None;
        }
        if let Some(wait) = self.last.and_then(|last| PACE.checked_sub(last.elapsed())) {
            return Some(wait.max(Duration::from_millis(1)));
        }
        let before = self.shown.take().unwrap_or_default();
        let first = self.last.is_none();
        let changed = |old: &str, new: &str| first || old != new;
        if changed(&before.title, &next.title) {
            // On Linux the title is the item's name, which must not be empty.
            let title = if next.title.is_empty() && cfg!(not(target_os = "macos")) {
                "mlx-dspark"
            } else {
                &next.title
            };
            self.icon.set_title(Some(title));
        }
        if changed(&before.tooltip, &next.tooltip)
            && let Err(error) = self.icon.set_tooltip(Some(&next.tooltip))
        {
            tracing::debug!("the tray tooltip was not set: {error}");
        }
        if (first || before.paused != next.paused)
            && let Some(image) = icon::bolt(next.paused)
            && let Err(error) = self.icon.set_icon(Some(image))
        {
            tracing::debug!("the tray icon was not set: {error}");
        }
        for (item, old, new) in [
            (&self.model, &before.model, &next.model),
            (&self.state, &before.state, &next.state),
            (&self.server, &before.server, &next.server),
            (&self.pause, &before.pause, &next.pause),
        ] {
            if changed(old, new) {
                item.set_text(new);
            }
        }
        if first || before.can_stop != next.can_stop {
            self.stop.set_enabled(next.can_stop);
        }
        if first || before.can_unload != next.can_unload {
            self.unload.set_enabled(next.can_unload);
        }
        self.shown = Some(next);
        self.last = Some(Instant::now());
        None
    }
}

/// What a menu item means.
fn messages(id: &str) -> Vec<Msg> {
    match id {
        OPEN => vec![Msg::ShowWindow],
        NEW => vec![Msg::Chat(ChatMsg::New), Msg::ShowWindow],
        STOP => vec![Msg::StopEverything],
        UNLOAD => vec![Msg::Models(ModelsMsg::Unload)],
        PAUSE => vec![Msg::Settings(SettingsMsg::TogglePause)],
        SETTINGS => vec![Msg::Show(Screen::Settings), Msg::ShowWindow],
        QUIT => vec![Msg::Quit],
        _ => Vec::new(),
    }
}

/// Whether a panel shows tray items. Where none does (GNOME without an extension), closing the window must quit: a
/// hidden window could never come back.
#[cfg(target_os = "linux")]
fn has_host() -> bool {
    let ask = || -> zbus::Result<bool> {
        let bus = zbus::blocking::Connection::session()?;
        let proxy = zbus::blocking::fdo::DBusProxy::new(&bus)?;
        let name = "org.kde.StatusNotifierWatcher".try_into().map_err(zbus::Error::from)?;
        Ok(proxy.name_has_owner(name)?)
    };
    ask().unwrap_or(false)
}

#[cfg(not(target_os = "linux"))]
fn has_host() -> bool {
    true
}

/// At login panels start beside this program: one is waited for, as long as `limit`.
pub(crate) fn wait_for_host(limit: Duration) {
    let begin = Instant::now();
    while !has_host() && begin.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// With the window hidden the app leaves the Dock and lives in the menu bar.
#[cfg(target_os = "macos")]
pub(crate) fn show_in_dock(shown: bool) {
    use objc2_app_kit::{NSApplication, NSApplicationActivationPolicy};
    let Some(main) = objc2::MainThreadMarker::new() else { return };
    let app = NSApplication::sharedApplication(main);
    app.setActivationPolicy(if shown {
        NSApplicationActivationPolicy::Regular
    } else {
        NSApplicationActivationPolicy::Accessory
    });
}

#[cfg(not(target_os = "macos"))]
pub(crate) fn show_in_dock(_: bool) {}
