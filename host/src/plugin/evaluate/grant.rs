//! Holding what a plugin wants to write against what it was granted (Invariant 7), once per batch.

use std::collections::BTreeSet;

use crate::{
    merge::{Guard, Operation, TargetSpec},
    plugin::Shape,
    value::Value,
};

/// A shape that the grant allows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    /// Index among the consumer's targets.
    pub(super) target: usize,
    /// What to do with the row.
    pub(super) operation: Operation,
    /// For each column of the grant, the place of its value in the shape.
    order: Vec<usize>,
    /// Whether the shape already stands in the grant's order.
    straight: bool,
}

impl Resolved {
    /// How many values a change of this shape has.
    pub(super) fn columns(&self) -> usize {
        self.order.len()
    }

    /// Moves values, of which there are [`Resolved::columns`], into the grant's order.
    pub(super) fn in_grant_order(&self, mut values: Vec<Value>) -> Vec<Value> {
        if self.straight {
            return values;
        }
        self.order.iter().map(|&place| std::mem::replace(&mut values[place], Value::Null)).collect()
    }
}

/// Resolves each shape; the error says what was asked for and what is granted.
pub(super) fn resolve(shapes: &[Shape], targets: &[TargetSpec]) -> Result<Vec<Resolved>, String> {
    shapes.iter().map(|shape| resolve_one(shape, targets)).collect()
}

fn resolve_one(shape: &Shape, targets: &[TargetSpec]) -> Result<Resolved, String> {
    let Some(target) = targets.iter().position(|target| target.name == shape.target) else {
        let names: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
        return Err(format!(
            "it writes to target {:?}, which is not granted; granted are: {}. Add a [[consumer.target]] with this name, \
             or correct the plugin",
            shape.target,
            list(&names)
        ));
    };
    let spec = &targets[target];
    if !spec.operations.contains(&shape.operation) {
        return Err(format!(
            "it asks for {} on target {:?}, where the configuration does not allow this operation; add it to the \
             target's operations, or correct the plugin",
            word(shape.operation),
            spec.name
        ));
    }
    let granted = granted(spec, shape.operation);
    let unique: BTreeSet<_> = shape.columns.iter().map(String::as_str).collect();
    let order: Option<Vec<usize>> =
        granted.iter().map(|column| shape.columns.iter().position(|name| name == column)).collect();
    match order {
        Some(order) if unique.len() == shape.columns.len() && order.len() == shape.columns.len() => {
            let straight = order.iter().enumerate().all(|(place, &from)| place == from);
            Ok(Resolved { target, operation: shape.operation, order, straight })
        }
        _ => Err(format!(
            "{} on target {:?} must name exactly the columns {}, in any order; it names {}",
            word(shape.operation),
            spec.name,
            list(&granted),
            list(&shape.columns)
        )),
    }
}

/// The columns of a shape: all that are granted; for a delete the key, and the guard's column.
pub(crate) fn granted(spec: &TargetSpec, operation: Operation) -> Vec<&str> {
    let name = |&column: &usize| spec.columns[column].name.as_str();
    if operation != Operation::Delete {
        return spec.columns.iter().map(|column| column.name.as_str()).collect();
    }
    let guard = match &spec.guard {
        Some(Guard::NewerBy(column) | Guard::Transition { column, .. }) => Some(column),
        None => None,
    };
    spec.key.iter().chain(guard).map(name).collect()
}

fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Upsert => "upsert",
        Operation::Update => "update",
        Operation::Delete => "delete",
    }
}

fn list(names: &[impl AsRef<str>]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("{:?}", name.as_ref())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{ColumnSpec, Merge, TableName};

    fn target() -> TargetSpec {
        let columns = ["id", "amount", "version"];
        TargetSpec {
            name: "payments".into(),
            table: TableName { schema: None, name: "payments".into() },
            columns: columns.map(|name| ColumnSpec { name: name.into(), merge: Merge::Replace }).into(),
            key: vec![0],
            guard: Some(Guard::NewerBy(2)),
            operations: [Operation::Upsert, Operation::Delete].into(),
            soft_delete: Some("deleted".into()),
        }
    }

    fn shape(operation: Operation, target: &str, columns: &[&str]) -> Shape {
        Shape { operation, target: target.into(), columns: columns.iter().map(ToString::to_string).collect() }
    }

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
    fn columns_come_in_any_order_and_leave_in_the_grants() {
        let shapes = [
            shape(Operation::Upsert, "payments", &["version", "id", "amount"]),
            shape(Operation::Delete, "payments", &["id", "version"]),
        ];
        let resolved = resolve(&shapes, &[target()]).unwrap();
        let values = vec![Value::Integer(3), Value::Text("p".into()), Value::Decimal("1.5".into())];
        assert_eq!(
            resolved[0].in_grant_order(values),
            [Value::Text("p".into()), Value::Decimal("1.5".into()), Value::Integer(3)]
        );
        assert!(resolved[1].straight);
        assert_eq!(resolved[1].columns(), 2);
    }

    #[test]
    fn whatever_is_not_granted_is_named() {
        for (bad, says) in [
            (
                shape(Operation::Upsert, "secrets", &["id"]),
                "\"secrets\", which is not granted; granted are: \"payments\"",
            ),
            (shape(Operation::Update, "payments", &["id", "amount", "version"]), "asks for update"),
            (shape(Operation::Upsert, "payments", &["id", "amount"]), "it names \"id\", \"amount\""),
            (shape(Operation::Upsert, "payments", &["id", "amount", "version", "owner"]), "must name exactly"),
            (shape(Operation::Upsert, "payments", &["id", "amount", "version", "id"]), "must name exactly"),
            (shape(Operation::Delete, "payments", &["id"]), "exactly the columns \"id\", \"version\""),
            (shape(Operation::Upsert, "payments", &[]), "it names none"),
        ] {
            let error = resolve(std::slice::from_ref(&bad), &[target()]).expect_err("not granted");
            assert!(error.contains(says), "{error}");
        }
    }
}
