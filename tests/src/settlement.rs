//! The settlement consumer as a configuration file has it, and what its table must end in.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{Database, host, oracle};

/// Its usual name.
pub const CONSUMER: &str = "settlement-service";

/// Amounts add up. Such a target is not idempotent, which makes it an oracle: whatever is applied twice, or lost, is a wrong
/// sum.
pub const ADDING_UP: &str =
    r#"merge = { amount = "add", event_version = "greatest", created_at = "least", order_id = "keep" }"#;

/// The newest version of a payment wins.
pub const NEWEST_WINS: &str = "merge = { created_at = \"keep\" }\nguard = { newer_by = \"event_version\" }";

/// A `[[consumer]]` of the settlement plugin. What is not said has the product's defaults.
#[derive(Clone, Debug)]
pub struct Settlement {
    name: String,
    group: String,
    topic: String,
    table: String,
    reading: String,
    merging: String,
    plugin: Option<PathBuf>,
}

impl Settlement {
    /// Of a topic, in a group of its own, into the table `settlements`.
    #[must_use]
    pub fn of(topic: &str) -> Self {
        Self {
            name: CONSUMER.to_owned(),
            group: format!("{CONSUMER}-{topic}"),
            topic: topic.to_owned(),
            table: "settlements".to_owned(),
            reading: String::new(),
            merging: String::new(),
            plugin: None,
        }
    }

    /// Under another name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// In this group.
    #[must_use]
    pub fn in_group(self, group: &str) -> Self {
        Self { group: group.to_owned(), ..self }
    }

    /// Into another table.
    #[must_use]
    pub fn into_table(self, table: &str) -> Self {
        Self { table: table.to_owned(), ..self }
    }

    /// From the topic's start, in these lanes; `batch` is the inside of that table.
    #[must_use]
    pub fn reading(self, lanes: usize, batch: &str) -> Self {
        Self { reading: format!("start = \"earliest\"\nlanes = {lanes}\nbatch = {{ {batch} }}\n"), ..self }
    }

    /// How rows meet: [`ADDING_UP`], [`NEWEST_WINS`].
    #[must_use]
    pub fn merging(self, merging: &str) -> Self {
        Self { merging: merging.to_owned(), ..self }
    }

    /// With this file as its plugin.
    #[must_use]
    pub fn with_plugin(self, path: &Path) -> Self {
        Self { plugin: Some(path.to_owned()), ..self }
    }

    /// As TOML.
    #[must_use]
    pub fn toml(&self) -> String {
        let Self { name, group, topic, table, reading, merging, plugin } = self;
        let plugin = plugin.clone().unwrap_or_else(|| host::plugin("settlement"));
        format!(
            r#"
[[consumer]]
name = "{name}"
group = "{group}"
topics = ["{topic}"]
{reading}[consumer.plugin]
path = "{}"
[[consumer.target]]
name = "settlements"
table = "{table}"
columns = ["payment_id", "order_id", "amount", "status", "event_version", "created_at"]
key = ["payment_id"]
{merging}
"#,
            plugin.display()
        )
    }
}

/// The amount that each payment stands at, in hundredths.
///
/// # Panics
/// Where there is no such table.
pub async fn amounts(database: &Database) -> BTreeMap<String, i64> {
    let rows: Vec<(String, i64)> = sqlx::query_as("SELECT payment_id, (amount * 100)::bigint FROM settlements")
        .fetch_all(database.pool())
        .await
        .unwrap();
    rows.into_iter().collect()
}

/// Under [`ADDING_UP`]: each payment once, with the sum that its events come to, in hundredths.
///
/// # Panics
/// With some of those that are wrong.
pub async fn assert_amounts(database: &Database, expected: &BTreeMap<String, i64>) {
    let found = amounts(database).await;
    let wrong: Vec<_> = expected.iter().filter(|(id, cents)| found.get(*id) != Some(cents)).take(5).collect();
    assert!(wrong.is_empty(), "wrong sums, such as (expected) {wrong:?}, (found) {:?}", found.get(wrong[0].0));
    assert_eq!(found.len(), expected.len(), "payments that nobody made");
    assert_eq!(oracle::target_duplicates(database, "settlements", "payment_id").await, 0);
}
