//! A plugin's values against the columns of a target.

use std::collections::BTreeSet;

use bigdecimal::BigDecimal;
use tidegate::{
    merge::{
        BAD_VALUE, Cell, Column, ColumnSpec, ColumnType, Merge, Operation, TableName, Target, TargetSpec, type_change,
    },
    outcome::Change,
    value::Value,
};

use super::bytes::Bytes;

/// Texts that are nearly numbers, instants, JSON: what random bytes hardly ever are.
const TEXTS: [&str; 20] = [
    "NaN",
    "Infinity",
    "-0",
    "1e400",
    "1e-400",
    "99999999999999999999999999999999",
    "0.1",
    "9007199254740993",
    "9223372036854775808",
    "-9223372036854775809",
    "4713-01-01T00:00:00Z",
    "294276-12-31T23:59:59.999999Z",
    "294277-01-01T00:00:00Z",
    "-4713-11-24T00:00:00Z",
    "2026-02-29T24:00:00Z",
    "2026-06-30T23:59:60Z",
    "2026-01-01T00:00:00.0000001+14:00",
    "\u{0}",
    "{\"a\":\"\\u0000\"}",
    "\"\\ud800\"",
];

/// Any value into any column: a cell that the column holds exactly, or a rejection that names the column and not the value.
///
/// # Panics
/// Where that is not so.
pub fn values(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let column_type = column_type(&mut bytes);
    let nullable = bytes.below(2) == 0;
    let value = value(&mut bytes);
    let target = target(column_type.clone(), nullable);
    let change = Change { target: 0, operation: Operation::Upsert, values: vec![Value::Integer(1), value.clone()] };
    let fitted = type_change(&target, 0, 0, change.clone());
    let again = type_change(&target, 0, 0, change);
    match (fitted, again) {
        (Ok(fitted), Ok(again)) => {
            let cell = &fitted.cells[1];
            assert_eq!(*cell, again.cells[1], "the same value, another cell");
            assert!(holds(&column_type, cell), "{value:?} in {column_type}: {cell:?}");
            assert!(nullable || !cell.is_null());
            exact(&value, cell);
        }
        (Err(refused), Err(again)) => {
            assert_eq!(refused, again);
            assert_eq!(refused.code, BAD_VALUE);
            assert!(refused.message.contains("column c"), "{}", refused.message);
        }
        (one, other) => panic!("once {one:?}, then {other:?}"),
    }
}

fn target(column_type: ColumnType, nullable: bool) -> Target {
    let column = |name: &str, column_type, nullable| Column {
        name: name.to_owned(),
        column_type,
        sql_type: String::new(),
        nullable,
        host_compares: false,
    };
    let spec = |name: &str| ColumnSpec { name: name.to_owned(), merge: Merge::Replace };
    let table = TableName { schema: None, name: "t".to_owned() };
    Target {
        spec: TargetSpec {
            name: "t".to_owned(),
            table: table.clone(),
            columns: vec![spec("k"), spec("c")],
            key: vec![0],
            guard: None,
            operations: BTreeSet::from([Operation::Upsert]),
            soft_delete: None,
        },
        table,
        columns: vec![column("k", ColumnType::Int(8), false), column("c", column_type, nullable)],
        soft: None,
        references: Vec::new(),
        foldable: false,
    }
}

fn column_type(bytes: &mut Bytes<'_>) -> ColumnType {
    use ColumnType as C;
    let small = |bytes: &mut Bytes<'_>| u16::from(bytes.byte());
    match bytes.below(18) {
        0 => C::Bool,
        1 => C::Int([2, 4, 8][bytes.below(3)]),
        2 => C::Numeric(None),
        3 => {
            let precision = 1 + small(bytes);
            C::Numeric(Some((precision, i16::from(i8::from_le_bytes([bytes.byte()])))))
        }
        4 => C::Float([4, 8][bytes.below(2)]),
        5 => C::Text(None),
        6 => C::Text(Some(u32::from(bytes.byte()))),
        7 => C::Char(1 + u32::from(bytes.byte())),
        8 => C::Bytes,
        9 => C::Timestamptz(u8::try_from(bytes.below(7)).unwrap_or(6)),
        10 => C::Timestamp(u8::try_from(bytes.below(7)).unwrap_or(6)),
        11 => C::Date,
        12 => C::Time(u8::try_from(bytes.below(7)).unwrap_or(6)),
        13 => C::Uuid,
        14 => C::Json { binary: bytes.below(2) == 0 },
        15 => C::Enum(vec![bytes.text(), "new".to_owned()]),
        16 => C::LooseInteger,
        _ => C::LooseText,
    }
}

/// Any value, as a plugin may give it.
pub(super) fn value(bytes: &mut Bytes<'_>) -> Value {
    let text = |bytes: &mut Bytes<'_>| match bytes.below(3) {
        0 => TEXTS[bytes.below(TEXTS.len())].to_owned(),
        1 => bytes.number().to_string(),
        _ => bytes.text(),
    };
    match bytes.below(9) {
        0 => Value::Null,
        1 => Value::Boolean(bytes.below(2) == 0),
        2 => Value::Integer(bytes.number()),
        3 => Value::Real(f64::from_bits(bytes.number().cast_unsigned())),
        4 => Value::Decimal(text(bytes)),
        5 => Value::Text(text(bytes)),
        6 => Value::Bytes(bytes.part().to_vec()),
        7 => Value::Json(text(bytes)),
        _ => Value::Timestamp(bytes.number()),
    }
}

/// Whether the database would take the cell as it is.
fn holds(column: &ColumnType, cell: &Cell) -> bool {
    use ColumnType as C;
    let whole = |us: i64, digits: u8| us % 10_i64.pow(6 - u32::from(digits.min(6))) == 0;
    // PostgreSQL begins in 4713 BC, and ends after the last microsecond that the number holds.
    let in_range = |us: i64| us >= -210_866_803_200_000_000;
    match (column, cell) {
        (_, Cell::Null) | (C::Bool, Cell::Bool(_)) | (C::Bytes, Cell::Bytes(_)) | (C::Uuid, Cell::Uuid(_)) => true,
        (C::Int(width), Cell::Int(number)) => match width {
            2 => i16::try_from(*number).is_ok(),
            4 => i32::try_from(*number).is_ok(),
            _ => true,
        },
        (C::LooseInteger, Cell::Int(_)) => true,
        (C::Numeric(None), Cell::Decimal(_)) => true,
        (C::Numeric(Some((precision, scale))), Cell::Decimal(number)) => {
            let (precision, scale) = (i64::from(*precision), i64::from(*scale));
            number.with_scale(scale) == *number && number.abs() < BigDecimal::new(1.into(), scale - precision)
        }
        (C::Float(width), Cell::Float(bits)) => {
            let number = Cell::float_value(*bits);
            #[allow(clippy::cast_possible_truncation, reason = "whether it fits is the question")]
            let narrow = number as f32;
            number.is_finite() && (*width == 8 || narrow.is_finite())
        }
        (C::Text(limit), Cell::Text(text)) => {
            !text.contains('\0') && limit.is_none_or(|limit| text.chars().count() <= limit as usize)
        }
        (C::Char(limit), Cell::Text(text)) => !text.contains('\0') && text.chars().count() <= *limit as usize,
        (C::Enum(labels), Cell::Text(text)) => labels.contains(text),
        (C::Time(_), Cell::Text(text)) => !text.is_empty(),
        (C::LooseText, Cell::Text(text) | Cell::Json(text)) => !text.contains('\0'),
        (C::Timestamptz(digits) | C::Timestamp(digits), Cell::Timestamp(us)) => in_range(*us) && whole(*us, *digits),
        (C::Date, Cell::Date(_)) => true,
        (C::Json { .. }, Cell::Json(text)) => {
            serde_json::from_str::<&serde_json::value::RawValue>(text.as_str()).is_ok() && !text.contains('\0')
        }
        _ => false,
    }
}

/// Nothing is rounded: numbers come back as they went in.
fn exact(value: &Value, cell: &Cell) {
    let as_decimal = |text: &str| text.parse::<BigDecimal>();
    match (value, cell) {
        (Value::Integer(given), Cell::Int(kept)) => assert_eq!(given, kept),
        (Value::Integer(given), Cell::Decimal(kept)) => assert_eq!(BigDecimal::from(*given), *kept),
        (Value::Integer(given), Cell::Float(bits)) => {
            #[allow(clippy::cast_possible_truncation, reason = "exactness is the question")]
            let back = Cell::float_value(*bits) as i128;
            assert_eq!(i128::from(*given), back);
        }
        (Value::Decimal(given), Cell::Decimal(kept)) => assert_eq!(as_decimal(given.trim()).as_ref(), Ok(kept)),
        (Value::Decimal(given), Cell::Int(kept)) => {
            assert_eq!(as_decimal(given.trim()), Ok(BigDecimal::from(*kept)));
        }
        (Value::Timestamp(given), Cell::Timestamp(kept) | Cell::Int(kept)) => assert_eq!(given, kept),
        (Value::Bytes(given), Cell::Bytes(kept)) => assert_eq!(given, kept),
        _ => {}
    }
}
