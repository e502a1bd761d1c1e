//! The table of `tidegate consumers`.

use std::fmt::Write;

use serde_json::Value;

use crate::instant::whole_seconds;

/// Text of somebody else's, without signs that a terminal would obey.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whether a table says how each last reload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reloads {
    Shown,
    Left,
}

/// Consumers, or one of them, for people.
pub(super) fn table(said: &Value, reloads: Reloads) -> String {
    let consumers = said["consumers"].as_array().map_or(std::slice::from_ref(said), Vec::as_slice);
    if consumers.is_empty() {
        return "no consumer is configured there".to_owned();
    }
    let text = |value: &Value| value.as_str().map(plain).unwrap_or_default();
    let head = ["consumer", "state", "partitions", "lag", "applied", "duplicates", "dead letters"].map(str::to_owned);
    let mut rows = vec![head];
    for consumer in consumers {
        let partitions = consumer["partitions"].as_object();
        let lags = || partitions.into_iter().flatten().map(|(_, partition)| partition["lag"].as_i64());
        // Where one is not known, the sum is not either.
        let lag = lags().sum::<Option<i64>>().map_or_else(|| "?".to_owned(), |lag| lag.to_string());
        let count = |outcome: &str| consumer["outcomes"][outcome].as_u64().unwrap_or_default().to_string();
        rows.push([
            text(&consumer["consumer"]),
            text(&consumer["state"]),
            partitions.map_or(0, serde_json::Map::len).to_string(),
            lag,
            count("applied"),
            count("duplicate"),
            count("dead"),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut lines = String::new();
    let configuration = &said["last_configuration_reload"];
    if let Some(why) = configuration["why"].as_str() {
        let (at, result) = (whole_seconds(&text(&configuration["at"])), text(&configuration["result"]));
        let _ = writeln!(lines, "! the configuration file was {result} {at}, that of before stays: {}", plain(why));
    }
    for (number, row) in rows.iter().enumerate() {
        let cell = |(column, cell): (usize, &String)| {
            let width = widths[column];
            if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        let cells: Vec<_> = row.iter().enumerate().map(cell).collect();
        let _ = writeln!(lines, "{}", cells.join("  ").trim_end());
        let reload = number.checked_sub(1).map(|at| &consumers[at]["last_reload"]).filter(|reload| reload.is_object());
        if let Some(reload) = reload.filter(|_| reloads == Reloads::Shown) {
            let why = reload["why"].as_str().map(|why| format!(": {}", plain(why))).unwrap_or_default();
            let _ = writeln!(
                lines,
                "  last reload {} {}{why}",
                whole_seconds(&text(&reload["at"])),
                text(&reload["result"])
            );
        }
        let warning = number.checked_sub(1).and_then(|at| consumers[at]["plugin"]["warning"].as_str());
        if let Some(warning) = warning {
            let _ = writeln!(lines, "  ! plugin: {}", plain(warning));
        }
        let reasons = number.checked_sub(1).and_then(|at| consumers[at]["reasons"].as_array());
        for reason in reasons.into_iter().flatten() {
            let _ = writeln!(lines, "  ! {}: {}", text(&reason["about"]), text(&reason["text"]));
        }
    }
    lines.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_get_a_table_with_the_reasons_and_no_signs_for_the_terminal() {
        let outcomes = json!({ "applied": 12_345, "duplicate": 7, "dead": 0 });
        let consumer = |name: &str, partitions: Value, reasons: Value| json!({ "consumer": name, "state": "running", "partitions": partitions, "outcomes": outcomes, "reasons": reasons });
        let partition = |lag: Option<i64>| json!({ "state": "reading", "lag": lag });
        let one = consumer("a", json!({ "t[0]": partition(Some(2)), "t[1]": partition(Some(40)) }), json!([]));
        let stuck = json!([{ "about": "lane 0", "text": "tries \u{1b}[31magain" }]);
        let other = consumer("settlement", json!({ "t[2]": partition(None) }), stuck);
        assert_eq!(
            table(&json!({ "consumers": [one, other] }), Reloads::Shown),
            "consumer    state    partitions  lag  applied  duplicates  dead letters\n\
             a           running           2   42    12345           7             0\n\
             settlement  running           1    ?    12345           7             0\n  \
             ! lane 0: tries  [31magain"
        );
        assert!(
            table(&one, Reloads::Shown)
                .ends_with("a         running           2   42    12345           7             0")
        );
    }

    #[test]
    fn how_reloads_ended_is_told_to_the_second_and_not_after_another_order() {
        let ended =
            |result: &str, why: &str| json!({ "result": result, "at": "2026-01-02T03:04:05.295608457Z", "why": why });
        let consumer = json!({ "consumer": "a", "state": "running", "last_reload": ended("refused", "other keys") });
        let all = json!({ "consumers": [consumer.clone()], "last_configuration_reload": ended("refused", "t.toml:3: no\nsuch key") });
        let shown = table(&all, Reloads::Shown);
        assert!(
            shown.starts_with(
                "! the configuration file was refused 2026-01-02T03:04:05Z, that of before stays: t.toml:3: no such key\n"
            ),
            "{shown}"
        );
        assert!(shown.ends_with("\n  last reload 2026-01-02T03:04:05Z refused: other keys"), "{shown}");
        assert!(!table(&consumer, Reloads::Left).contains("last reload"));
        let taken =
            json!({ "consumers": [consumer.clone()], "last_configuration_reload": { "result": "taken", "why": null } });
        assert!(!table(&taken, Reloads::Shown).contains("configuration"));
    }
}
