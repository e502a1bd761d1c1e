//! The signs, with codes that are never reused. Those that `tidegate check` knows as well have its codes.

/// A sign that something is wrong with a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sign {
    /// TP001.
    NoPlugin,
    /// TP002.
    Imports,
    /// TP003.
    Size,
    /// TP004.
    Refused,
    /// TP005.
    Cases,
    /// TP006.
    Unseen,
    /// TP007.
    PayloadAsKey,
    /// TP008.
    TimeAsKey,
    /// TP009.
    MadeUpKey,
    /// TP010.
    Collision,
    /// TP011.
    Slow,
    /// TP012.
    Grants,
    /// TG001.
    PositionAsKey,
    /// TG010.
    NotDeterministic,
}

impl Sign {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::NoPlugin,
        Self::Imports,
        Self::Size,
        Self::Refused,
        Self::Cases,
        Self::Unseen,
        Self::PayloadAsKey,
        Self::TimeAsKey,
        Self::MadeUpKey,
        Self::Collision,
        Self::Slow,
        Self::Grants,
        Self::PositionAsKey,
        Self::NotDeterministic,
    ];

    /// The stable code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NoPlugin => "TP001",
            Self::Imports => "TP002",
            Self::Size => "TP003",
            Self::Refused => "TP004",
            Self::Cases => "TP005",
            Self::Unseen => "TP006",
            Self::PayloadAsKey => "TP007",
            Self::TimeAsKey => "TP008",
            Self::MadeUpKey => "TP009",
            Self::Collision => "TP010",
            Self::Slow => "TP011",
            Self::Grants => "TP012",
            Self::PositionAsKey => "TG001",
            Self::NotDeterministic => "TG010",
        }
    }

    /// Whether it must not run like this; otherwise somebody should look at it.
    #[must_use]
    pub fn is_error(self) -> bool {
        match self {
            Self::NoPlugin
            | Self::Imports
            | Self::Refused
            | Self::Cases
            | Self::PayloadAsKey
            | Self::Grants
            | Self::PositionAsKey
            | Self::NotDeterministic => true,
            Self::Size | Self::Unseen | Self::TimeAsKey | Self::MadeUpKey | Self::Collision | Self::Slow => false,
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::NoPlugin => "no plugin of this contract",
            Self::Imports => "imports what a plugin is not given",
            Self::Size => "a large file",
            Self::Refused => "cannot be loaded",
            Self::Cases => "golden cases fail",
            Self::Unseen => "nothing to try it on",
            Self::PayloadAsKey => "key from the payload's bytes",
            Self::TimeAsKey => "key from a time",
            Self::MadeUpKey => "key made up in the plugin",
            Self::Collision => "keys that collide",
            Self::Slow => "slow",
            Self::Grants => "writes what is not granted",
            Self::PositionAsKey => "key from a position",
            Self::NotDeterministic => "not deterministic",
        }
    }

    /// The way out.
    #[must_use]
    pub fn way_out(self) -> &'static str {
        match self {
            Self::NoPlugin => "build it with the SDK of this version: `tidegate plugin build DIR`",
            Self::Imports => "a plugin has no clock, randomness, file or network; take out what needs them",
            Self::Size => "an optimised build without debug information is smaller, and starts sooner",
            Self::Refused => "mend what it says; with --consumer NAME it gets that consumer's settings",
            Self::Cases => "`tidegate plugin test` shows the differences",
            Self::Unseen => {
                "give events of your own: cases (`tidegate plugin capture` takes real ones), or --samples FILE"
            }
            Self::PayloadAsKey => {
                "take the id that the producer put into the event: the same event may be written in other bytes when it is \
                 published again, and would be applied twice"
            }
            Self::TimeAsKey => {
                "take the id that the producer put into the event: two events may happen at the same time, and the second \
                 would be skipped"
            }
            Self::MadeUpKey => "take the id that the producer put into the event, as it stands there",
            Self::Collision => {
                "different events under one id: all but the first would be skipped. Take an id of the event, not of the \
                 object that it is about"
            }
            Self::Slow => "look for work per event that could be done once, in configure",
            Self::Grants => "make the target's `columns` exactly those that the plugin writes",
            Self::PositionAsKey => {
                "take the id that the producer put into the event: a position names a copy, not the event"
            }
            Self::NotDeterministic => "take clocks, randomness and the iteration order of hash maps out of the plugin",
        }
    }
}

/// A sign that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub sign: Sign,
    /// What was seen.
    pub seen: String,
}

impl Found {
    pub(super) fn new(sign: Sign, seen: impl Into<String>) -> Self {
        Self { sign, seen: seen.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_documented() {
        let document = include_str!("../../../../docs/checks.md");
        let codes: std::collections::BTreeSet<_> = Sign::ALL.iter().map(|sign| sign.code()).collect();
        assert_eq!(codes.len(), Sign::ALL.len());
        for sign in Sign::ALL.iter().filter(|sign| sign.code().starts_with("TP")) {
            let mark = if sign.is_error() { '✗' } else { '!' };
            let row = format!("| {} | {mark} | {}: ", sign.code(), sign.title());
            assert!(document.contains(&row), "docs/checks.md lacks {row}");
        }
    }
}
