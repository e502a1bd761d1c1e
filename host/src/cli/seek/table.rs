//! A move as a table for people.

use std::fmt::Write;

use crate::{
    merge::TargetClass,
    seek::{Done, Prepared, Step},
};

const HEAD: [&str; 8] = ["partition", "log", "chain", "Kafka", "from", "to", "offsets", "what it means"];

/// Everything but the ending. Writing into a String does not fail.
pub(super) fn render(prepared: &Prepared, weak: &[(String, TargetClass)]) -> String {
    let mut text = String::new();
    if prepared.steps.is_empty() {
        let _ = write!(text, "nothing to do: all {} partitions are there already", prepared.looked_at);
        return text;
    }
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let mut rows = vec![HEAD.map(str::to_owned)];
    for step in &prepared.steps {
        let chain = step.chain.map(|tip| tip.next_offset);
        rows.push([
            step.partition.to_string(),
            format!("{}..{}", step.first, step.end),
            number(chain),
            number(step.kafka),
            number(step.from),
            step.to.to_string(),
            offsets(step),
            meaning(step),
        ]);
    }
    let last = HEAD.len() - 1;
    let widths: Vec<_> =
        (0..last).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let mut line = format!("{:width$}", row[0], width = widths[0]);
        for (cell, width) in row[1..last].iter().zip(&widths[1..]) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{line}  {}", row[last]);
    }
    let looked_at = prepared.looked_at - prepared.steps.len();
    if looked_at > 0 {
        let _ = writeln!(text, "{looked_at} other partitions are there already");
    }
    warnings(&mut text, prepared, weak);
    text.trim_end().to_owned()
}

fn warnings(text: &mut String, prepared: &Prepared, weak: &[(String, TargetClass)]) {
    let sum = |of: fn(&Step) -> i64| prepared.steps.iter().map(of).sum::<i64>();
    let passed = sum(|step| step.effect.passed_over);
    if passed > 0 {
        let _ = writeln!(text, "! {passed} offsets are PASSED OVER: their records will never be applied");
    }
    let gone = sum(|step| step.effect.gone);
    if gone > 0 {
        let _ = writeln!(text, "! {gone} offsets are GIVEN UP: they are no longer in the log, and were never read");
    }
    let forgotten = sum(|step| step.effect.forgotten);
    if forgotten > 0 {
        let _ = writeln!(
            text,
            "! {forgotten} of the offsets read again are from before the ledger's memory: what it has forgotten is no \
             duplicate to it. Inputs that say when they occurred are set aside as too old; those that do not are applied again"
        );
        for (name, class) in weak {
            let _ = writeln!(text, "!   target {name} is {class}: an old input applied again changes it");
        }
    }
    if !prepared.members.is_empty() {
        let _ = writeln!(
            text,
            "! the group has {} members now; --execute is refused until they have stopped",
            prepared.members.len()
        );
    }
}

/// How many offsets are concerned.
fn offsets(step: &Step) -> String {
    let effect = step.effect;
    let sum = effect.again + effect.passed_over + effect.gone;
    if step.earlier.is_some() { "-".to_owned() } else { sum.to_string() }
}

fn meaning(step: &Step) -> String {
    if let Some((id, at)) = step.earlier {
        return format!("new topic; of the old one ({id}) what was not read, from offset {at} on, is given up");
    }
    let effect = step.effect;
    let mut parts = Vec::new();
    if effect.again > 0 {
        parts.push(match effect.forgotten {
            0 => format!("{} read again: duplicates only", effect.again),
            forgotten => format!("{} read again, {forgotten} of them perhaps forgotten", effect.again),
        });
    }
    if effect.gone > 0 {
        parts.push(format!("{} gone, given up", effect.gone));
    }
    if effect.passed_over > 0 {
        parts.push(format!("{} passed over, NEVER APPLIED", effect.passed_over));
    }
    if parts.is_empty() {
        parts.push(if step.moves_chain() { "moved" } else { "only Kafka's offset is set" }.to_owned());
    }
    parts.join("; ")
}

/// What was done, or what to type to do it.
pub(super) fn ending(done: Option<Done>) -> String {
    match done {
        Some(done) => format!(
            "✓ done: {} chains moved in one transaction, {} offsets set in Kafka; who did it and why is in the table seeks",
            done.chains, done.offsets
        ),
        None => "nothing was changed: add --execute to do it, --reason \"…\" to say why".to_owned(),
    }
}
