//! The API key: how it is carried, compared and made.

use axum::http::HeaderMap;
use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// A secret that clients must show. Only its digest is compared, so the time taken says nothing about the key.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// `None` for an empty or blank key, which would let everyone in.
    pub fn new(key: impl Into<String>) -> Option<Self> {
        let key = key.into().trim().to_owned();
        (!key.is_empty()).then_some(Self(key))
    }

    /// The secret itself, for the one place that shows it to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn matches(&self, candidate: &[u8]) -> bool {
        Sha256::digest(self.0.as_bytes())
            .as_slice()
            .ct_eq(Sha256::digest(candidate).as_slice())
            .into()
    }

    /// Whether the headers carry this key: `Authorization: Bearer`, `x-api-key` or `api-key`; any one suffices.
    pub(crate) fn allows(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get_all("authorization").iter().filter_map(|value| bearer(value.as_bytes()));
        let plain = ["x-api-key", "api-key"].into_iter().flat_map(|name| headers.get_all(name));
        bearer
            .chain(plain.map(axum::http::HeaderValue::as_bytes))
            .any(|candidate| self.matches(candidate.trim_ascii()))
    }
}

/// Never the key: this ends up in logs.
impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// The token of `Bearer <token>`, the scheme in any case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(6)?;
    (scheme.eq_ignore_ascii_case(b"bearer") && token.first()?.is_ascii_whitespace()).then_some(token)
}

/// A fresh key of 192 random bits, `sk-dspark-…`.
///
/// # Errors
/// The machine has no source of randomness; a guessable key would be worse than none.
pub fn generate_key() -> std::io::Result<ApiKey> {
    let mut probe = [0; 1];
    getrandom::fill(&mut probe).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(ApiKey(format!("sk-dspark-{}", crate::ids::hex(24))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (axum::http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    /// Case se-005: both carriers, case of the key matters, case of the scheme does not.
    #[test]
    fn any_one_carrier_suffices() {
        let key = ApiKey::new("K").unwrap();
        for good in [
            ("authorization", "Bearer K"),
            ("authorization", "bearer  K"),
            ("x-api-key", "K"),
            ("api-key", "K"),
        ] {
            assert!(key.allows(&headers(&[good])), "{good:?}");
        }
        for bad in [
            ("authorization", "Bearer k"),
            ("authorization", "BearerK"),
            ("authorization", "Basic K"),
            ("authorization", "Bearer"),
            ("x-api-key", "KK"),
            ("x-api-key", ""),
        ] {
            assert!(!key.allows(&headers(&[bad])), "{bad:?}");
        }
        assert!(!key.allows(&HeaderMap::new()));
        assert!(key.allows(&headers(&[("authorization", "Bearer wrong"), ("x-api-key", "K")])));
    }

    #[test]
    fn a_key_never_prints_itself_and_is_never_blank() {
        let key = generate_key().unwrap();
        assert!(key.reveal().len() > 40);
        assert!(!format!("{key:?}").contains(key.reveal()));
        assert_eq!(ApiKey::new("  "), None);
        assert_ne!(key.reveal(), generate_key().unwrap().reveal());
    }
}
