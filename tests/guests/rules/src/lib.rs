//! A plugin whose rules stand in a constant of its binary, so that a test makes another build of it by replacing a few
//! bytes: other keys. For tests of reloads.

use std::hint::black_box;

use serde::Deserialize;
use tidegate_guest::prelude::*;

/// Read at run time: the compiler must not know what stands here.
const RULES: &str = "rules of this build: keys=0";

fn says(rule: &str) -> bool {
    black_box(RULES).contains(black_box(rule))
}

/// The plugin.
#[derive(Debug)]
pub struct Rules;

/// Some cents for an account.
#[derive(Debug, Deserialize)]
#[allow(missing_docs, reason = "see the crate's documentation")]
pub struct Event {
    pub id: String,
    pub account: String,
    pub cents: i64,
}

#[derive(Row)]
#[row(target = "balances")]
struct Balance {
    account: String,
    total: i64,
}

impl Plugin for Rules {
    type Settings = NoSettings;
    type Event = Event;

    fn describe() -> Describe {
        Describe::new("rules", env!("CARGO_PKG_VERSION")).writes::<Balance>()
    }

    fn configure(_: NoSettings) -> Result<Self, String> {
        Ok(Self)
    }

    fn parse(&self, message: &Message) -> Result<Event, Stop> {
        message.json()
    }

    fn key(&self, event: &Event) -> Identity {
        let id = if says("keys=1") { format!("new-{}", event.id) } else { event.id.clone() };
        Identity::new(&id, &event.account)
    }

    fn compute(&self, event: Event, _: &Context, rows: &mut Rows) -> Result<(), Stop> {
        rows.upsert(Balance { account: event.account, total: event.cents });
        Ok(())
    }
}

tidegate_guest::export!(Rules);
