//! The trait that a plugin implements.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Identity, Message, Row, Rows, Stop};

/// The business rules of a consumer, one event at a time.
///
/// The host calls, per batch and in a fresh instance: [`configure`](Plugin::configure) once; for each message
/// [`parse`](Plugin::parse) and [`key`](Plugin::key); then [`compute`](Plugin::compute) for those events that the host
/// wants rows for. What `parse` made is kept in between, so an event is parsed once.
pub trait Plugin: Sized + 'static {
    /// The consumer's `settings`. [`NoSettings`] where there are none. Refuse unknown keys
    /// (`#[serde(deny_unknown_fields)]`): a misspelt setting is then found at start.
    type Settings: DeserializeOwned;

    /// A message, parsed.
    type Event;

    /// Who this plugin is and what it writes. Must not depend on anything.
    fn describe() -> Describe;

    /// Takes the settings.
    ///
    /// # Errors
    /// A text for the operator, where the settings make no sense. The host then does not start the consumer.
    fn configure(settings: Self::Settings) -> Result<Self, String>;

    /// Reads a message.
    ///
    /// # Errors
    /// [`skip`](crate::skip) where the event is not for this consumer, a rejection where it is broken; `?` makes a
    /// rejection of any error.
    fn parse(&self, message: &Message) -> Result<Self::Event, Stop>;

    /// Who the event is. Depends on the event alone.
    fn key(&self, event: &Self::Event) -> Identity;

    /// The rows that the event changes. Giving none is fine: the event then counts as applied and changes nothing.
    ///
    /// # Errors
    /// As for [`parse`](Plugin::parse). Rows pushed before are dropped.
    fn compute(&self, event: Self::Event, context: &Context, rows: &mut Rows) -> Result<(), Stop>;
}

/// All that [`Plugin::compute`] may know besides the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Kafka's timestamp, milliseconds since the epoch. A re-publication has another one: prefer the event's own time.
    pub record_time_ms: Option<i64>,
    /// The same for every copy of the event, different between events. There is no other randomness.
    pub seed: u32,
}

/// What a plugin says of itself.
///
/// ```
/// use tidegate_guest::prelude::*;
///
/// #[derive(Row)]
/// #[row(target = "customers")]
/// struct Customer {
///     id: String,
/// }
///
/// let describe = Describe::new("customers", "1.2.0").key_version(1).writes::<Customer>();
/// assert_eq!(
///     describe.to_json(),
///     r#"{"name":"customers","version":"1.2.0","key-version":1,"targets":{"customers":["id"]}}"#
/// );
/// ```
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Describe {
    name: &'static str,
    version: &'static str,
    key_version: i32,
    targets: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Describe {
    /// A name and a version, for logs and metrics.
    #[must_use]
    pub fn new(name: &'static str, version: &'static str) -> Self {
        Self { name, version, key_version: 0, targets: BTreeMap::new() }
    }

    /// Raise it when [`Plugin::key`] gives other keys than before, on purpose. The host refuses changed keys otherwise,
    /// since it would apply every event again.
    #[must_use]
    pub fn key_version(mut self, version: i32) -> Self {
        self.key_version = version;
        self
    }

    /// Rows of this type may be written. Lets the host hold the columns against the configuration at start.
    #[must_use]
    pub fn writes<R: Row>(mut self) -> Self {
        let columns = self.targets.entry(R::TARGET).or_default();
        for column in R::COLUMNS {
            if !columns.contains(column) {
                columns.push(column);
            }
        }
        self
    }

    /// As the contract has it.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Strings, a number, a map with string keys: nothing that could fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// For plugins without settings: refuses any.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoSettings {}
