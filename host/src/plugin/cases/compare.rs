//! What was expected against what came, line by line.

use std::fmt;

use similar::{ChangeTag, TextDiff};

use super::{Answer, RowChange, Says, render_answer};
use crate::value::Value;

/// Two answers that differ, as text: lines that are in both, that are missing (`-`) and that came instead (`+`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    lines: Vec<(Side, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Both,
    Expected,
    Actual,
}

impl Difference {
    /// `None` where the answers are the same, as far as `expected` says.
    #[must_use]
    pub fn between(expected: &Answer, actual: &Answer) -> Option<Self> {
        let (actual, expected) = (as_far_as(expected, actual), in_order_of(actual, expected));
        let (expected, actual) = (render_answer(&expected), render_answer(&actual));
        if expected == actual {
            return None;
        }
        let line = |change: similar::Change<&str>| {
            let side = match change.tag() {
                ChangeTag::Equal => Side::Both,
                ChangeTag::Delete => Side::Expected,
                ChangeTag::Insert => Side::Actual,
            };
            (side, change.value().trim_end_matches('\n').to_owned())
        };
        let diff = TextDiff::from_lines(&expected, &actual);
        Some(Self { lines: diff.iter_all_changes().map(line).collect() })
    }

    /// With red for what is missing and green for what came instead.
    #[must_use]
    pub fn coloured(&self) -> String {
        let line = |(side, text): &(Side, String)| match side {
            Side::Both => format!("  {text}"),
            Side::Expected => format!("\x1b[31m- {text}\x1b[0m"),
            Side::Actual => format!("\x1b[32m+ {text}\x1b[0m"),
        };
        self.lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (side, text)) in self.lines.iter().enumerate() {
            let mark = match side {
                Side::Both => ' ',
                Side::Expected => '-',
                Side::Actual => '+',
            };
            write!(f, "{}{mark} {text}", if number == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// Without the words that the expectation leaves open.
pub(super) fn as_far_as(expected: &Answer, actual: &Answer) -> Answer {
    let says = match (&expected.says, &actual.says) {
        (Says::Skip(None), Says::Skip(_)) => Says::Skip(None),
        (Says::Reject(_, None), Says::Reject(code, _)) => Says::Reject(code.clone(), None),
        (Says::Apply(expected), Says::Apply(actual)) => Says::Apply(whole_as(expected, actual)),
        (_, says) => says.clone(),
    };
    Answer { identity: actual.identity.clone(), says }
}

/// A whole number that came by its digits is the number that was expected: so says the contract, for languages that cannot
/// hold every integer.
fn whole_as(expected: &[RowChange], actual: &[RowChange]) -> Vec<RowChange> {
    let mut actual = actual.to_vec();
    for (actual, expected) in actual.iter_mut().zip(expected) {
        for (column, value) in &mut actual.row {
            let wanted = expected.row.iter().find(|(name, _)| name == column).map(|(_, value)| value);
            if let (Value::Decimal(digits), Some(Value::Integer(wanted))) = (&value, wanted)
                && *digits == wanted.to_string()
            {
                *value = Value::Integer(*wanted);
            }
        }
    }
    actual
}

/// The columns of each expected row in the order in which the plugin gives them: the order says nothing, and people read
/// the key first.
fn in_order_of(actual: &Answer, expected: &Answer) -> Answer {
    let mut expected = expected.clone();
    if let (Says::Apply(expected), Says::Apply(actual)) = (&mut expected.says, &actual.says) {
        for (place, change) in expected.iter_mut().enumerate() {
            let like = |other: &&RowChange| other.target == change.target && other.operation == change.operation;
            let model = actual.get(place).filter(like).or_else(|| actual.iter().find(like));
            let Some(model) = model else { continue };
            let rank = |column: &str| model.row.iter().position(|(name, _)| name == column).unwrap_or(usize::MAX);
            change.row.sort_by(|(a, _), (b, _)| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
        }
    }
    expected
}
