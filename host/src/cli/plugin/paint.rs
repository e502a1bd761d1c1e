//! Colours, where a person watches.

use std::io::IsTerminal;

use crate::plugin::cases::Difference;

/// Whether to colour, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(bool);

impl Paint {
    /// For stdout: colours on a terminal, unless `NO_COLOR` says otherwise.
    pub(super) fn stdout() -> Self {
        Self(std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    pub(super) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(super) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(super) fn difference(self, difference: &Difference) -> String {
        if self.0 { difference.coloured() } else { difference.to_string() }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
