//! Keeping the machine from sleeping by itself: the desktop's session service, whose inhibition stops its own automatic
//! suspend, and logind's `idle` lock, which stops logind's. Neither keeps the screen lit, and neither stands in the way of
//! a person who closes the lid or asks for sleep.

use super::{reason, session, system};
use crate::Awake;
use zbus::{blocking::Connection, zvariant::OwnedFd};

/// A service of the session that takes inhibitions and gives cookies for them.
#[derive(Debug, Clone, Copy)]
enum Service {
    /// GNOME, Cinnamon, MATE, Budgie.
    SessionManager,
    /// KDE, Xfce, LXQt.
    PowerManagement,
}

/// `org.gnome.SessionManager`: inhibit suspending.
const SUSPEND: u32 = 4;

impl Service {
    /// Bus name, path and interface.
    fn place(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::SessionManager => ("org.gnome.SessionManager", "/org/gnome/SessionManager", "org.gnome.SessionManager"),
            Self::PowerManagement => (
                "org.freedesktop.PowerManagement",
                "/org/freedesktop/PowerManagement/Inhibit",
                "org.freedesktop.PowerManagement.Inhibit",
            ),
        }
    }

    fn inhibit(self, bus: &Connection, why: &str) -> zbus::Result<u32> {
        let (name, path, interface) = self.place();
        let answer = match self {
            Self::SessionManager => {
                let body = ("mlx-dspark", 0u32, why, SUSPEND);
                bus.call_method(Some(name), path, Some(interface), "Inhibit", &body)
            }
            Self::PowerManagement => bus.call_method(Some(name), path, Some(interface), "Inhibit", &("mlx-dspark", why)),
        };
        answer?.body().deserialize()
    }

    fn release(self, bus: &Connection, cookie: u32) -> zbus::Result<()> {
        let (name, path, interface) = self.place();
        let method = match self {
            Self::SessionManager => "Uninhibit",
            Self::PowerManagement => "UnInhibit",
        };
        bus.call_method(Some(name), path, Some(interface), method, &(cookie,)).map(|_| ())
    }
}

/// A promise that holds.
enum Promise {
    /// Until it is given back.
    Cookie(Service, u32),
    /// Until it is closed.
    Lock(#[allow(dead_code, reason = "closed when it is dropped")] OwnedFd),
}

#[derive(Default)]
pub(super) struct Holder {
    session: Option<Connection>,
    promises: Vec<Promise>,
}

impl Holder {
    /// Asks for a promise if there is a reason and none holds; gives all back without a reason.
    pub(super) fn hold(&mut self, why: Option<&str>) -> Awake {
        let Some(why) = why else {
            self.release();
            return Awake::Free;
        };
        let mut refusals = Vec::new();
        if self.promises.is_empty() {
            self.ask_session(why, &mut refusals);
            match lock(why) {
                Ok(lock) => self.promises.push(Promise::Lock(lock)),
                Err(error) => refusals.push(format!("logind: {}", reason(&error))),
            }
        }
        if self.promises.is_empty() {
            return Awake::Refused(format!("Nothing here keeps this machine awake ({}).", refusals.join("; ")));
        }
        let held = self.promises.iter().map(|promise| match promise {
            Promise::Cookie(Service::SessionManager, _) => "the session",
            Promise::Cookie(Service::PowerManagement, _) => "the power manager",
            Promise::Lock(_) => "logind",
        });
        Awake::Held(held.collect::<Vec<_>>().join(" and "))
    }

    fn ask_session(&mut self, why: &str, refusals: &mut Vec<String>) {
        if self.session.is_none() {
            match session() {
                Ok(bus) => self.session = Some(bus),
                Err(error) => refusals.push(format!("session bus: {}", reason(&error))),
            }
        }
        let Some(bus) = &self.session else { return };
        for service in [Service::SessionManager, Service::PowerManagement] {
            match service.inhibit(bus, why) {
                Ok(cookie) => {
                    self.promises.push(Promise::Cookie(service, cookie));
                    return;
                }
                Err(error) => refusals.push(format!("{}: {}", service.place().0, reason(&error))),
            }
        }
    }

    fn release(&mut self) {
        for promise in std::mem::take(&mut self.promises) {
            if let (Promise::Cookie(service, cookie), Some(bus)) = (promise, &self.session)
                && let Err(error) = service.release(bus, cookie)
            {
                // The service has gone, and the promise with it; the next one is asked on a new connection.
                tracing::debug!("an inhibition was not given back: {error}");
                self.session = None;
            }
        }
    }
}

/// logind's lock holds as long as the file it answers with is open.
fn lock(why: &str) -> zbus::Result<OwnedFd> {
    let body = ("idle", "mlx-dspark", why, "block");
    let answer = system()?.call_method(
        Some("org.freedesktop.login1"),
        "/org/freedesktop/login1",
        Some("org.freedesktop.login1.Manager"),
        "Inhibit",
        &body,
    )?;
    answer.body().deserialize()
}
