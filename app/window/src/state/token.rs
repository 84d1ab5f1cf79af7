//! The hub's access token: where one comes from, and giving one to keep. The token itself is never part of the state.

use super::{DownloadMsg, Effect, Focus, Msg, Screen, SettingsPage, State, Toast};
use crate::bridge::{Kind, TokenState};
use dspark_strings::t;
use std::fmt;

/// A word that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(word: String) -> Self {
        Self(word)
    }

    /// For whoever keeps or sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(set)")
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum TokenAsk {
    Look,
    Keep(Secret),
    Forget,
}

#[derive(Debug, Clone)]
pub enum TokenMsg {
    /// To the field for it.
    Enter,
    Look,
    Keep(Secret),
    Forget,
    Looked(TokenState),
    /// After `Keep` (true) or `Forget`.
    Changed {
        kept: bool,
        result: Result<TokenState, String>,
    },
}

impl From<TokenMsg> for Msg {
    fn from(message: TokenMsg) -> Self {
        Self::Token(message)
    }
}

pub(super) fn update(state: &mut State, message: TokenMsg, out: &mut Vec<Effect>) {
    match message {
        TokenMsg::Enter => {
            state.settings_page = SettingsPage::Models;
            out.extend(super::update(state, Msg::Show(Screen::Settings)));
            out.push(Effect::Token(TokenAsk::Look));
            out.push(Effect::Focus(Focus::Token));
        }
        TokenMsg::Look => out.push(Effect::Token(TokenAsk::Look)),
        TokenMsg::Keep(secret) => out.push(Effect::Token(TokenAsk::Keep(secret))),
        TokenMsg::Forget => out.push(Effect::Token(TokenAsk::Forget)),
        TokenMsg::Looked(found) => state.models.token = Some(found),
        TokenMsg::Changed { result: Err(reason), .. } => state.toasts.push(Toast::error(t!(token_not_kept), reason)),
        TokenMsg::Changed { kept, result: Ok(found) } => {
            state.models.token = Some(found);
            let toast = if kept {
                Toast::good(t!(token_is_kept), t!(token_is_sent))
            } else {
                Toast::info(t!(token_forgotten), "")
            };
            // What was refused for want of it can go on.
            let refused = state.models.downloads.held.iter().find(|held| {
                let kind = held.trouble.as_ref().map(|trouble| trouble.kind);
                matches!(kind, Some(Kind::Gated | Kind::Refused))
            });
            let toast = match refused.filter(|_| kept) {
                Some(held) => toast.action(t!(download_again), vec![DownloadMsg::Resume(held.offer.id.clone()).into()]),
                None => toast,
            };
            state.toasts.push(toast);
        }
    }
}
