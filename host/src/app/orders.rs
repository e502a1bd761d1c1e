//! What a consumer's own task was told to do about its rules, and has not begun.

use std::sync::Mutex;

use tokio::sync::Notify;

use super::locked;
use crate::{config, key_gate::Acceptance};

/// A shadow's plugin as it was when an operator chose it.
#[derive(Clone, Debug)]
pub(super) struct Promotion {
    pub(super) plugin: config::Plugin,
    /// Of the shadow that looked on; `None` where none was ready yet.
    pub(super) digest: Option<[u8; 32]>,
}

/// One thing to do.
#[derive(Debug)]
pub(super) enum Told {
    /// Look at the plugin's file again.
    Look,
    /// Let this plugin rule.
    Promote(Box<Promotion>),
    /// Let the plugin rule that this word is good for, though its keys are others.
    Accept(Acceptance),
}

/// Orders that wait. The same twice is once; none makes another one be forgotten.
#[derive(Debug, Default)]
pub(super) struct Orders {
    waiting: Mutex<Waiting>,
    told: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    look: bool,
    promote: Option<Box<Promotion>>,
    accept: Option<Acceptance>,
}

impl Orders {
    pub(super) fn look(&self) {
        locked(&self.waiting).look = true;
        self.told.notify_one();
    }

    pub(super) fn promote(&self, promotion: Promotion) {
        locked(&self.waiting).promote = Some(Box::new(promotion));
        self.told.notify_one();
    }

    pub(super) fn accept(&self, word: Acceptance) {
        locked(&self.waiting).accept = Some(word);
        self.told.notify_one();
    }

    /// The next one: what was chosen by a person first.
    pub(super) async fn next(&self) -> Told {
        loop {
            if let Some(told) = self.take() {
                return told;
            }
            self.told.notified().await;
        }
    }

    fn take(&self) -> Option<Told> {
        let mut waiting = locked(&self.waiting);
        let promote = waiting.promote.take().map(Told::Promote);
        promote
            .or_else(|| waiting.accept.take().map(Told::Accept))
            .or_else(|| std::mem::take(&mut waiting.look).then_some(Told::Look))
    }

    /// Resolves once a look is wanted; the other orders wait on.
    pub(super) async fn look_wanted(&self) {
        while !std::mem::take(&mut locked(&self.waiting).look) {
            self.told.notified().await;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_order_makes_another_be_forgotten() {
        let orders = Orders::default();
        orders.look();
        orders.accept(Acceptance::new("c", "ann"));
        orders.look();
        // Whoever starts waits for looks alone.
        orders.look_wanted().await;
        orders.look();
        assert!(matches!(orders.next().await, Told::Accept(_)));
        assert!(matches!(orders.next().await, Told::Look));
        assert!(orders.take().is_none());
    }
}
