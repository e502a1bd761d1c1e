//! Running a plugin natively, in its own unit tests, as the host would.

use std::collections::BTreeMap;

use crate::{
    Identity, Message, Operation, Plugin, Value,
    bindings::tidegate::plugin::types::{Accepted, ComputeResult, Computed, KeyResult},
    session::Session,
};

/// What became of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It changes these rows.
    Apply {
        /// Who it is.
        identity: Identity,
        /// The rows, in order.
        rows: Vec<WrittenRow>,
    },
    /// It is passed by.
    Skip(String),
    /// It is broken.
    Reject {
        /// The rejection's code.
        code: String,
        /// The rejection's text.
        message: String,
    },
}

/// A row that a plugin gave.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenRow {
    /// What to do with it.
    pub operation: Operation,
    /// The target's name.
    pub target: String,
    /// Values by column.
    pub values: BTreeMap<String, Value>,
}

impl Verdict {
    /// The values, by column, of the only row of this target.
    ///
    /// # Panics
    /// Where there is none, or more than one.
    #[must_use]
    #[allow(clippy::panic, reason = "for tests, where a panic is the failure")]
    pub fn row(&self, target: &str) -> &BTreeMap<String, Value> {
        let Self::Apply { rows, .. } = self else { panic!("no rows: {self:?}") };
        let mut found = rows.iter().filter(|row| row.target == target);
        match (found.next(), found.next()) {
            (Some(row), None) => &row.values,
            (None, _) => panic!("no row of target {target:?}: {rows:?}"),
            (Some(_), Some(_)) => panic!("more than one row of target {target:?}: {rows:?}"),
        }
    }

    /// The rejection's code, where it is one.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Reject { code, .. } => Some(code),
            _ => None,
        }
    }
}

/// Runs messages through a plugin, as one batch: one verdict per message, in order. `settings` is JSON.
///
/// # Panics
/// Where the plugin refuses the settings, or panics itself.
#[allow(clippy::panic, reason = "for tests, where a panic is the failure")]
pub fn run<P: Plugin>(settings: &str, messages: impl IntoIterator<Item = Message>) -> Vec<Verdict> {
    let messages: Vec<Message> = messages.into_iter().collect();
    let mut session = match Session::<P>::configure(settings) {
        Ok(session) => session,
        Err(error) => panic!("the settings are refused: {error}"),
    };
    let mut verdicts = Vec::with_capacity(messages.len());
    let mut accepted = Vec::new();
    for (index, key) in (0..).zip(session.extract_keys(&messages)) {
        verdicts.push(match key {
            KeyResult::Identity(identity) => {
                accepted.push(Accepted { index, record_time_ms: None, seed: seed(&identity.message_id) });
                Verdict::Apply { identity, rows: Vec::new() }
            }
            KeyResult::Skip(why) => Verdict::Skip(why),
            KeyResult::Reject(no) => Verdict::Reject { code: no.code, message: no.message },
        });
    }
    let Computed { shapes, results } = session.compute(&accepted);
    let waiting = verdicts.iter_mut().filter(|verdict| matches!(verdict, Verdict::Apply { .. }));
    for (verdict, result) in waiting.zip(results) {
        match result {
            ComputeResult::Changes(changes) => {
                let Verdict::Apply { rows, .. } = verdict else { continue };
                for change in changes {
                    let Some(shape) = usize::try_from(change.shape).ok().and_then(|shape| shapes.get(shape)) else {
                        continue;
                    };
                    let values = shape.columns.iter().cloned().zip(change.values).collect();
                    rows.push(WrittenRow { operation: shape.operation, target: shape.target.clone(), values });
                }
            }
            ComputeResult::Skip(why) => *verdict = Verdict::Skip(why),
            ComputeResult::Reject(no) => *verdict = Verdict::Reject { code: no.code, message: no.message },
        }
    }
    verdicts
}

/// The seed that the host gives: 32-bit FNV-1a over the message id.
fn seed(id: &str) -> u32 {
    id.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Holds a plugin to what every plugin promises: an event gives the same answer alone, in reverse order and in a batch
/// that holds everything twice. Worth a test in each plugin, over its golden cases.
///
/// # Panics
/// Where an answer depends on company or order, and as [`run`].
pub fn assert_each_stands_alone<P: Plugin>(settings: &str, messages: &[Message]) {
    let expected = run::<P>(settings, messages.iter().cloned());
    for (message, expected) in messages.iter().zip(&expected) {
        let alone = run::<P>(settings, [message.clone()]);
        assert_eq!(&alone[0], expected, "alone, this message gives another answer: {message:?}");
    }
    let mut reversed = run::<P>(settings, messages.iter().rev().cloned());
    reversed.reverse();
    assert_eq!(reversed, expected, "in reverse order, the messages give other answers");
    let twice = run::<P>(settings, messages.iter().chain(messages).cloned());
    assert_eq!(twice, [expected.clone(), expected].concat(), "seen twice, the messages give other answers");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[derive(Row)]
    #[row(target = "t")]
    struct Full {
        id: String,
        n: i64,
    }

    #[derive(Row)]
    #[row(target = "t")]
    struct Key {
        id: String,
    }

    struct Words;

    impl Plugin for Words {
        type Settings = NoSettings;
        type Event = String;

        fn describe() -> Describe {
            Describe::new("words", "1").writes::<Full>()
        }

        fn configure(_: NoSettings) -> Result<Self, String> {
            Ok(Self)
        }

        fn parse(&self, message: &Message) -> Result<String, Stop> {
            match message.text()? {
                "skip" => Err(skip("asked to")),
                text => Ok(text.to_owned()),
            }
        }

        fn key(&self, event: &String) -> Identity {
            Identity::new(event, "a")
        }

        fn compute(&self, event: String, _: &Context, rows: &mut Rows) -> Result<(), Stop> {
            rows.upsert(Full { id: event.clone(), n: 1 });
            if event == "late" {
                return Err(reject("late", "after a row"));
            }
            rows.delete(Key { id: event });
            Ok(())
        }
    }

    #[test]
    fn a_batch_through_a_plugin() {
        let messages = ["one", "skip", "late", "two"].map(|text| Message::from_text("s", text));
        let verdicts = run::<Words>("{}", messages);
        assert_eq!(verdicts[1], Verdict::Skip("asked to".into()));
        assert_eq!(verdicts[2].code(), Some("late"));
        let Verdict::Apply { rows, identity } = &verdicts[3] else { unreachable!("two applies") };
        assert_eq!(identity.message_id, "two");
        // The rows of an event that is rejected late are gone, and the shapes still fit.
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].values["n"], Value::Integer(1));
        assert_eq!((rows[1].operation, rows[1].values.len()), (Operation::Delete, 1));
    }

    #[test]
    fn words_stand_alone() {
        assert_each_stands_alone::<Words>(
            "{}",
            &["one", "skip", "late", "two"].map(|text| Message::from_text("s", text)),
        );
    }

    /// Numbers what it sees: the mistake of an offset for a key, made by hand.
    struct Counting(std::cell::Cell<u32>);

    impl Plugin for Counting {
        type Settings = NoSettings;
        type Event = u32;

        fn describe() -> Describe {
            Describe::new("counting", "1")
        }

        fn configure(_: NoSettings) -> Result<Self, String> {
            Ok(Self(std::cell::Cell::new(0)))
        }

        fn parse(&self, _: &Message) -> Result<u32, Stop> {
            self.0.set(self.0.get() + 1);
            Ok(self.0.get())
        }

        fn key(&self, event: &u32) -> Identity {
            Identity::new(event.to_string(), "a")
        }

        fn compute(&self, _: u32, _: &Context, _: &mut Rows) -> Result<(), Stop> {
            Ok(())
        }
    }

    #[test]
    #[should_panic(expected = "alone, this message gives another answer")]
    fn a_key_made_up_here_is_found() {
        assert_each_stands_alone::<Counting>("{}", &["a", "b"].map(|text| Message::from_text("s", text)));
    }

    #[test]
    #[should_panic(expected = "unknown field `x`")]
    fn unknown_settings_are_refused() {
        run::<Words>(r#"{"x":1}"#, []);
    }
}
