//! What a plugin may write while its cases run, where no configuration says it.

use std::collections::BTreeMap;

use crate::{
    merge::{ColumnSpec, Merge, Operation, TableName, TargetSpec},
    plugin::{Accepted, KeyResult, Message, Plugin, Shape},
};

/// The targets that the plugin describes, and those that it asks for without having described them. The columns of a
/// delete are taken for the key.
pub(super) fn derive(plugin: &dyn Plugin, messages: &[Message]) -> Vec<TargetSpec> {
    let mut targets: BTreeMap<String, Vec<String>> = plugin.description().targets.clone();
    let shapes: Vec<Shape> = messages.iter().flat_map(|message| shapes(plugin, message)).collect();
    for shape in shapes.iter().filter(|shape| shape.operation != Operation::Delete) {
        targets.entry(shape.target.clone()).or_insert_with(|| shape.columns.clone());
    }
    let deletes: BTreeMap<&str, &[String]> = shapes
        .iter()
        .filter(|shape| shape.operation == Operation::Delete)
        .map(|shape| (shape.target.as_str(), shape.columns.as_slice()))
        .collect();
    for (target, columns) in &deletes {
        targets.entry((*target).to_owned()).or_insert_with(|| columns.to_vec());
    }
    let spec = |(name, columns): (String, Vec<String>)| {
        let place = |column: &String| columns.iter().position(|other| other == column);
        let key = deletes.get(name.as_str()).map_or(Vec::new(), |key| key.iter().filter_map(place).collect());
        TargetSpec {
            table: TableName { schema: None, name: name.clone() },
            name,
            key,
            columns: columns.into_iter().map(|name| ColumnSpec { name, merge: Merge::Replace }).collect(),
            guard: None,
            operations: [Operation::Upsert, Operation::Update, Operation::Delete].into(),
            soft_delete: None,
        }
    };
    targets.into_iter().map(spec).collect()
}

/// What it asks for, for one message alone; nothing where it breaks, which the case will tell.
fn shapes(plugin: &dyn Plugin, message: &Message) -> Vec<Shape> {
    let ask = || {
        let mut instance = plugin.instance(1).ok()?;
        let keys = instance.extract_keys(std::slice::from_ref(message)).ok()?;
        let KeyResult::Identity(_) = keys.first()? else { return None };
        let accepted = Accepted { index: 0, record_time_ms: None, seed: 0 };
        instance.compute(&[accepted]).ok().map(|computed| computed.shapes)
    };
    ask().unwrap_or_default()
}
