//! The status as a table for people.

use std::fmt::Write;

use super::Known;
use crate::store::Totals;

/// Renders everything. Writing into a String does not fail.
pub(super) fn render(known: &[Known], unknown: &[String]) -> String {
    let mut text = String::new();
    for known in known {
        one(&mut text, known);
        text.push('\n');
    }
    for name in unknown {
        let _ = writeln!(text, "{name}\n  has not run yet\n");
    }
    if known.is_empty() && unknown.is_empty() {
        text.push_str("no consumer has run yet\n");
    }
    text.trim_end().to_owned()
}

fn one(text: &mut String, known: &Known) {
    let status = &known.status;
    let t = status.totals();
    let _ = writeln!(text, "{}  (database {}, group {})", status.consumer.name, known.database, status.consumer.group);
    let _ = writeln!(
        text,
        "  consumed {} = applied {} + duplicate {} + skipped {} + dead {} + too old {}",
        t.consumed(),
        t.applied,
        t.duplicate,
        t.skipped,
        t.dead,
        t.too_old
    );
    let open = status.open_dead_letters();
    let all: u64 = status.dead_letters.values().sum();
    let mark = if open == 0 { '✓' } else { '!' };
    let _ = writeln!(text, "  {mark} dead letters: {open} open, {} settled", all - open);
    let _ = writeln!(
        text,
        "    ledger: {} rows; {} ids came more than once ({} times in all)",
        status.ledger_rows, status.repeats.ids, status.repeats.attempts
    );
    if status.conflicts > 0 {
        let _ = writeln!(
            text,
            "  ! {} ids came again with another payload: a producer's fault, or a wrong key",
            status.conflicts
        );
    }
    if known.faults.is_empty() {
        let _ = writeln!(text, "  ✓ every checkpoint chain tiles and adds up");
    } else {
        for fault in &known.faults {
            let _ = writeln!(
                text,
                "  ✗ chain of {}[{}] at link {}: {} (expected {}, found {})",
                fault.topic_id,
                fault.partition,
                fault.seq,
                fault.fault,
                fault.expected.map_or_else(|| "nothing".to_owned(), |offset| offset.to_string()),
                fault.found
            );
        }
    }
    for stop in known.stops() {
        let _ = writeln!(text, "  ✗ {stop}");
    }
    partitions(text, known);
}

fn partitions(text: &mut String, known: &Known) {
    let head = [
        "partition",
        "next offset",
        "lag",
        "consumed",
        "applied",
        "duplicate",
        "skipped",
        "dead",
        "too old",
        "no record",
        "last checkpoint",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for p in &known.status.partitions {
        let Totals { applied, duplicate, skipped, dead, too_old } = p.totals;
        let [consumed, applied, duplicate, skipped, dead, too_old, without] =
            [p.totals.consumed(), applied, duplicate, skipped, dead, too_old, p.without_record].map(|n| n.to_string());
        let lag = known.standing(&p.partition).and_then(|standing| standing.lag);
        let lag = lag.map_or_else(|| "-".to_owned(), |lag| lag.to_string());
        let (next, at) = (p.tip.next_offset.to_string(), time(p.committed_at_us));
        let place = p.partition.to_string();
        rows.push([place, next, lag, consumed, applied, duplicate, skipped, dead, too_old, without, at]);
    }
    if rows.len() == 1 {
        text.push_str("    no partition yet\n");
        return;
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    for row in &rows {
        let mut line = format!("    {:width$}", row[0], width = widths[0]);
        for (cell, width) in row[1..10].iter().zip(&widths[1..10]) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{line}  {}", row[10]);
    }
}

/// Microseconds since the epoch as a time, to the second.
pub(super) fn time(us: i64) -> String {
    let seconds = us.div_euclid(1_000_000);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| us.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    use std::{collections::BTreeMap, sync::Arc};

    use uuid::Uuid;

    use super::*;
    use crate::{
        identity::ConsumerName,
        record::TopicPartition,
        store::{ChainFault, ConsumerRow, ConsumerStatus, PartitionStatus, Repeats, Tip},
    };

    fn known() -> Known {
        let consumer = ConsumerRow {
            name: ConsumerName::new("settlement").unwrap(),
            group: "settlement".to_owned(),
            key_version: 1,
            plugin_digest: vec![0xab],
            horizon_us: i64::MIN,
            lock_no: 1,
            started_from: serde_json::json!({"start": "earliest"}),
            created_at_us: 0,
        };
        let partition = TopicPartition {
            cluster_id: Arc::from("c"),
            topic_id: Uuid::nil(),
            topic: Arc::from("order.events"),
            partition: 0,
        };
        let partitions = vec![PartitionStatus {
            partition: Arc::new(partition),
            tip: Tip { id: Uuid::nil(), seq: 3, next_offset: 1200 },
            links: 3,
            totals: Totals { applied: 1000, duplicate: 190, skipped: 5, dead: 5, too_old: 0 },
            without_record: 12,
            committed_at_us: 1_767_225_600_000_000,
        }];
        let dead_letters = BTreeMap::from([("open".to_owned(), 4), ("superseded".to_owned(), 1)]);
        let repeats = Repeats { ids: 180, attempts: 190, examples: vec![] };
        let status = ConsumerStatus { consumer, ledger_rows: 1000, partitions, dead_letters, repeats, conflicts: 2 };
        Known { database: "main".to_owned(), status, faults: vec![], online: None }
    }

    #[test]
    fn it_reads_at_a_glance() {
        assert_eq!(
            render(&[known()], &["other".to_owned()]),
            "settlement  (database main, group settlement)
  consumed 1200 = applied 1000 + duplicate 190 + skipped 5 + dead 5 + too old 0
  ! dead letters: 4 open, 1 settled
    ledger: 1000 rows; 180 ids came more than once (190 times in all)
  ! 2 ids came again with another payload: a producer's fault, or a wrong key
  ✓ every checkpoint chain tiles and adds up
    partition        next offset  lag  consumed  applied  duplicate  skipped  dead  too old  no record  last checkpoint
    order.events[0]         1200    -      1200     1000        190        5     5        0         12  2026-01-01T00:00:00Z

other
  has not run yet"
        );
    }

    #[test]
    fn a_chain_that_does_not_tile_stands_out() {
        let mut known = known();
        let fault = "hole".to_owned();
        known.faults.push(ChainFault {
            topic_id: Uuid::nil(),
            partition: 0,
            seq: 2,
            fault,
            expected: Some(5),
            found: 7,
        });
        let text = render(&[known], &[]);
        assert!(
            text.contains("✗ chain of 00000000-0000-0000-0000-000000000000[0] at link 2: hole (expected 5, found 7)"),
            "{text}"
        );
    }
}
