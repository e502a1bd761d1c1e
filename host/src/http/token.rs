//! Who may change something: whoever shows the configured token.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::admin::refuse;
use crate::config::Secret;

/// Why somebody may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nobody may: there is no token to compare with.
    NoToken,
    /// None was shown, or another one.
    WrongToken,
}

/// Compares what the request shows with the token, in a time that tells nothing about either.
pub(super) fn check(token: Option<&Secret>, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(token) = token else { return Err(Refusal::NoToken) };
    let shown = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).and_then(bearer);
    // Digests have the same length, whatever was shown.
    let digest = |text: &[u8]| Sha256::digest(text);
    let same = digest(shown.unwrap_or_default()).as_slice().ct_eq(digest(token.expose().as_bytes()).as_slice());
    if bool::from(same) { Ok(()) } else { Err(Refusal::WrongToken) }
}

/// What follows `Bearer `.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::NoToken => refuse(
                StatusCode::FORBIDDEN,
                "nothing can be changed here: set `token` or `token_file` in [http] and start again",
            ),
            Self::WrongToken => {
                let why = "a change needs the header `Authorization: Bearer TOKEN` with the token of [http]";
                let mut response = refuse(StatusCode::UNAUTHORIZED, why);
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                response
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    use super::*;

    #[test]
    fn only_the_very_token_opens() {
        let token = Secret::new("0123456789abcdef");
        let shown = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(text).unwrap());
            check(Some(&token), &headers)
        };
        for right in ["Bearer 0123456789abcdef", "bearer 0123456789abcdef"] {
            assert_eq!(shown(right), Ok(()), "{right}");
        }
        for wrong in [
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer  0123456789abcdef",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
            "Bearer",
            "Bearer ",
            "",
        ] {
            assert_eq!(shown(wrong), Err(Refusal::WrongToken), "{wrong}");
        }
        assert_eq!(check(Some(&token), &HeaderMap::new()), Err(Refusal::WrongToken));
        assert_eq!(check(None, &HeaderMap::new()), Err(Refusal::NoToken));
    }
}
