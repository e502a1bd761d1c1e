//! A small business for tests of the path: events add to a balance (an adding column shows whatever is applied twice or
//! lost) and say what was the latest. The plugin is made of closures.
//!
//! An event is `id|account|amount|version`; what is no event is `skip`, `broken` or without an id.

use std::{collections::BTreeSet, sync::Arc};

use tidegate::{
    config::Dialect,
    merge::{ColumnSpec, Guard, Merge, Operation, TableName, TargetSpec},
    plugin::{Body, ComputeResult, KeyResult, Message, Plugin, RawIdentity, Shape, native::Native},
    value::Value,
};

/// The tables of one consumer, under a prefix, where they are not there yet.
pub(crate) fn tables(dialect: Dialect, prefix: &str) -> String {
    let (integer, strict) = match dialect {
        Dialect::Postgres => ("BIGINT", ""),
        Dialect::Sqlite => ("INTEGER", " STRICT"),
    };
    let table = |name: &str, columns: &str| {
        format!(
            "CREATE TABLE IF NOT EXISTS {prefix}{name} (account TEXT NOT NULL PRIMARY KEY, {}){strict};\n",
            columns.replace("BIGINT", integer)
        )
    };
    table("balances", "total BIGINT NOT NULL") + &table("latest", "version BIGINT NOT NULL, note TEXT NOT NULL")
}

/// An event's text.
pub(crate) fn event(id: impl std::fmt::Display, account: &str, amount: i64, version: i64) -> String {
    format!("{id}|{account}|{amount}|{version}")
}

/// The values of both rows.
pub(crate) fn values(text: &str) -> [Vec<Value>; 2] {
    let parts: Vec<&str> = text.split('|').collect();
    let other = |text: &str| match text.parse::<f64>() {
        Ok(_) => Value::Decimal(text.to_owned()),
        Err(_) => Value::Text(text.to_owned()),
    };
    let amount = parts[2].parse().map_or_else(|_| other(parts[2]), Value::Integer);
    let account = Value::Text(parts[1].to_owned());
    [
        vec![account.clone(), amount],
        vec![account, Value::Integer(parts[3].parse().unwrap()), Value::Text(parts[0].to_owned())],
    ]
}

fn text(message: &Message) -> String {
    match &message.body {
        Body::Text(bytes) | Body::Binary(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Body::Absent => String::new(),
    }
}

/// The business rules.
pub(crate) fn plugin() -> Arc<dyn Plugin> {
    Arc::new(native("accounts"))
}

/// Other keys for the same events, without a word about it.
pub(crate) fn with_other_keys(name: &str) -> Native {
    native(name).keys(|message| match keys(message) {
        KeyResult::Identity(identity) => {
            let message_id = format!("new-{}", identity.message_id);
            KeyResult::Identity(RawIdentity { message_id, ..identity })
        }
        other => other,
    })
}

/// One more than the event says.
pub(crate) fn with_other_amounts(name: &str) -> Native {
    native(name).compute(|message, _| {
        let [mut balance, latest] = values(&text(message));
        if let Value::Integer(amount) = &mut balance[1] {
            *amount += 1;
        }
        ComputeResult::Changes(vec![(0, balance), (1, latest)])
    })
}

fn keys(message: &Message) -> KeyResult {
    match text(message).as_str() {
        "skip" => KeyResult::Skip("not mine".to_owned()),
        "broken" => KeyResult::Reject("broken".to_owned(), "no event".to_owned()),
        text => KeyResult::Identity(RawIdentity {
            message_id: text.split('|').next().unwrap().to_owned(),
            aggregate_id: text.split('|').nth(1).unwrap_or("none").to_owned(),
            occurred_at: None,
            fingerprint: None,
        }),
    }
}

/// The same rules in a plugin of this name: to the host, another build.
pub(crate) fn native(name: &str) -> Native {
    let shape = |target: &str, columns: &[&str]| Shape {
        operation: Operation::Upsert,
        target: target.to_owned(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
    };
    Native::new(name)
        .shapes(vec![shape("balances", &["account", "total"]), shape("latest", &["account", "version", "note"])])
        .keys(keys)
        .compute(|message, _| {
            let [balance, latest] = values(&text(message));
            ComputeResult::Changes(vec![(0, balance), (1, latest)])
        })
}

/// The targets of one consumer, under a prefix.
pub(crate) fn targets(prefix: &str) -> Vec<TargetSpec> {
    let column = |name: &str, merge| ColumnSpec { name: name.to_owned(), merge };
    let target = |name: &str, columns, guard| TargetSpec {
        name: name.to_owned(),
        table: TableName { schema: None, name: format!("{prefix}{name}") },
        columns,
        key: vec![0],
        guard,
        operations: BTreeSet::from([Operation::Upsert]),
        soft_delete: None,
    };
    let replaced = |name| column(name, Merge::Replace);
    vec![
        target("balances", vec![replaced("account"), column("total", Merge::Add)], None),
        target("latest", vec![replaced("account"), replaced("version"), replaced("note")], Some(Guard::NewerBy(1))),
    ]
}
