//! The versions of the plugin contract. Records and variants of one are frozen once it is published, and a host goes on
//! speaking all of them: a plugin that was built years ago is not built again because the host is newer.
//!
//! `tests/fixtures/contract-VERSION` keeps a plugin of each, as it was built then.

/// A published version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contract {
    /// The first; its bindings are [`super::bindings`].
    V0_1_0,
}

/// The interface that makes a component a plugin, without its version.
const PROCESSOR: &str = "tidegate:plugin/processor";

impl Contract {
    /// All of them, the newest last.
    pub(super) const PUBLISHED: [Self; 1] = [Self::V0_1_0];
    /// What the SDK of this version builds for.
    pub(super) const NEWEST: Self = Self::V0_1_0;

    /// As in the names of the interfaces.
    pub(super) fn version(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
        }
    }

    /// Whether an import belongs to it: the types, which every component imports, and the log.
    pub(super) fn offers(self, import: &str) -> bool {
        let own = ["tidegate:plugin/types", "tidegate:plugin/log"];
        own.iter().any(|own| import.strip_prefix(own).and_then(|rest| rest.strip_prefix('@')) == Some(self.version()))
    }

    /// By the interface that a component exports.
    ///
    /// # Errors
    /// With a text that says what to do, where it exports none of them.
    pub(super) fn of(exports: &[&str]) -> Result<Self, String> {
        let speaks = |contract: &Self| exports.contains(&format!("{PROCESSOR}@{}", contract.version()).as_str());
        if let Some(contract) = Self::PUBLISHED.into_iter().rev().find(speaks) {
            return Ok(contract);
        }
        let other = exports.iter().find(|name| name.split('@').next() == Some(PROCESSOR));
        let versions = Self::PUBLISHED.map(Self::version).join(", ");
        Err(match other {
            Some(other) => format!(
                "is built for {other}; this host speaks {versions}: run a host of its time, or build it with the SDK of \
                 this version"
            ),
            None => format!(
                "is no plugin: it does not export {PROCESSOR}@{}. Build it with the SDK (`tidegate plugin build DIR`)",
                Self::NEWEST.version()
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_both_speak() {
        let processor = "tidegate:plugin/processor@0.1.0";
        assert_eq!(Contract::of(&["other:thing/x@1.0.0", processor]), Ok(Contract::V0_1_0));
        assert_eq!(Contract::PUBLISHED.last(), Some(&Contract::NEWEST));
        let newer = Contract::of(&["tidegate:plugin/processor@0.9.0"]).expect_err("nobody knows it yet");
        assert!(newer.starts_with("is built for tidegate:plugin/processor@0.9.0; this host speaks 0.1.0: "), "{newer}");
        assert!(Contract::V0_1_0.offers("tidegate:plugin/log@0.1.0"));
        assert!(!Contract::V0_1_0.offers("tidegate:plugin/log@0.2.0"));
        assert!(!Contract::V0_1_0.offers("tidegate:plugin/sql@0.1.0"));
    }
}
