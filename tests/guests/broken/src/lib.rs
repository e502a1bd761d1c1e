//! A plugin that breaks when an event says so: `{"id":"e-1","does":"panic"}`. For tests of the whole path.
//!
//! `does`: `apply` (one row of target `rows`: id, n), `skip`, `reject`, `panic`, `loop`, `memory`.

use serde::Deserialize;
use tidegate_guest::prelude::*;

/// The plugin.
#[derive(Debug)]
pub struct Broken;

/// What to do.
#[derive(Debug, Deserialize)]
#[allow(missing_docs, reason = "see the crate's documentation")]
pub struct Event {
    pub id: String,
    pub does: String,
    #[serde(default)]
    pub n: i64,
}

#[derive(Row)]
#[row(target = "rows")]
struct OneRow {
    id: String,
    n: i64,
}

impl Plugin for Broken {
    type Settings = NoSettings;
    type Event = Event;

    fn describe() -> Describe {
        Describe::new("broken", env!("CARGO_PKG_VERSION")).writes::<OneRow>()
    }

    fn configure(_: NoSettings) -> Result<Self, String> {
        Ok(Self)
    }

    fn parse(&self, message: &Message) -> Result<Event, Stop> {
        message.json()
    }

    fn key(&self, event: &Event) -> Identity {
        Identity::new(&event.id, &event.id)
    }

    #[allow(clippy::panic, reason = "that is what it is for")]
    fn compute(&self, event: Event, _: &Context, rows: &mut Rows) -> Result<(), Stop> {
        match event.does.as_str() {
            "apply" => rows.upsert(OneRow { id: event.id, n: event.n }),
            "skip" => return Err(skip("asked to")),
            "reject" => return Err(reject("asked-to", "the event says so")),
            "panic" => panic!("the event {:?} says so", event.id),
            "loop" => loop {
                std::hint::black_box(&event);
            },
            "memory" => {
                let mut kept: Vec<Vec<u8>> = Vec::new();
                loop {
                    kept.push(vec![1; 1 << 20]);
                    std::hint::black_box(&kept);
                }
            }
            other => return Err(reject("bad-does", format!("{other:?}"))),
        }
        Ok(())
    }
}

tidegate_guest::export!(Broken);
