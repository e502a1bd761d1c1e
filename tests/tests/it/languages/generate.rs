//! Payment events of every kind, good and bad, by seed: the same ones for every language.

use tidegate_tests::workload::Random;

/// Texts that have broken programs before.
const TEXTS: [&str; 14] = [
    "p-1",
    "Zahlung-Ü",
    "支払い-9001",
    "دفع-١٢",
    "🧾-👩‍👩‍👧",
    "e\u{301}-\u{e9}",
    "a \"quoted\" one",
    "back\\slash/",
    "line\nbreak\ttab",
    "\u{7f}\u{80}\u{2028}\u{feff}",
    "\u{ffff}\u{10ffff}",
    "mid\u{0}nul",
    "'; DROP TABLE settlements; --",
    "\"amount\": 1.5, \"version\":2",
];

/// Numbers as JSON writes them: their digits must survive.
const AMOUNTS: [&str; 30] = [
    "49.90",
    "10.10",
    "0",
    "0.1",
    "0.30000000000000004",
    "1",
    "100",
    "1e2",
    "1E+2",
    "2.50E-3",
    "1.10e1",
    "99999999999999.9999",
    "12345678901234.5678",
    "9007199254740993",
    "9007199254740993.0001",
    "123456789012345678901234567890.000000001",
    "0.00005",
    "-0.00",
    "-0",
    "-1",
    "-49.90",
    "1e-400",
    "1e400",
    "1e1000000",
    "\"49.90\"",
    "\"007.50\"",
    "\"+1\"",
    "\"1,5\"",
    "\"NaN\"",
    "\"\"",
];

const VERSIONS: [&str; 16] = [
    "1",
    "2",
    "0",
    "-1",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "1.0",
    "1e3",
    "\"7\"",
    "true",
    "null",
];

const TIMES: [&str; 14] = [
    "\"2026-03-01T12:00:00.125Z\"",
    "\"2026-03-01T12:00:01Z\"",
    "\"2026-03-01T23:59:59.999999+14:00\"",
    "\"1969-12-31T23:59:59-00:30\"",
    "\"2026-03-01T12:00:00.123456789Z\"",
    "\"2026-03-01T12:00:00\"",
    "\"2026-02-30T12:00:00Z\"",
    "\"yesterday\"",
    "\"\"",
    "1772366400125",
    "-1",
    "1.5",
    "[]",
    "null",
];

/// What else may stand in an event, and is nobody's business.
const OTHERS: [&str; 6] = [
    "\"note\":\"\\\"amount\\\": 1.5, \\\"version\\\":2\"",
    "\"lines\":[{\"sku\":\"a\",\"n\":1},{\"sku\":\"b\",\"n\":2.50}]",
    "\"meta\":{\"amount_before\":\"x\",\"deep\":{\"er\":[[[[]]]]}}",
    "\"null\":null",
    "\"\":0",
    "\"big\":123456789012345678901234567890",
];

const TYPES: [&str; 4] = ["payment.authorized", "payment.captured", "payment.refunded", "payment.failed"];

/// Payloads that are no event at all; `None` is a tombstone.
const BROKEN: [Option<&str>; 18] = [
    None,
    Some(""),
    Some(" "),
    Some("{"),
    Some("{}"),
    Some("null"),
    Some("[]"),
    Some("42"),
    Some("\"payment\""),
    Some("{\"type\":\"order.placed\"}"),
    Some("{\"type\":\"order.placed\",\"event_id\":7}"),
    Some("{\"type\":null}"),
    Some("{\"type\":{\"a\":1}}"),
    Some("{\"type\":\"payment.captured\"}"),
    Some("{'type':'payment.captured'}"),
    Some("{\"type\":\"payment.captured\",}"),
    Some("{\"type\":\"payment.disputed\"} {}"),
    Some("\u{feff}{\"type\":\"order.placed\"}"),
];

/// What may stand where it should not.
const STRAY: [char; 21] =
    ['"', '{', '}', '[', ']', ',', ':', '\\', ' ', '\t', '\n', '0', '1', '9', 'e', '.', '-', '+', 't', 'n', 'u'];

/// So many payloads.
pub(super) fn payloads(seed: u64, count: usize) -> Vec<Option<String>> {
    let mut random = Random(seed);
    let mut made: Vec<Option<String>> = Vec::with_capacity(count);
    while made.len() < count {
        let next = match random.below(20) {
            0 => pick(&mut random, &BROKEN).map(str::to_owned),
            // Cut off anywhere.
            1 => {
                let whole = event(&mut random);
                let end = random.below(whole.chars().count());
                Some(whole.chars().take(end).collect())
            }
            // One character is another one.
            3 => {
                let mut whole: Vec<char> = event(&mut random).chars().collect();
                let at = random.below(whole.len());
                whole[at] = pick(&mut random, &STRAY);
                Some(whole.into_iter().collect())
            }
            // Again, byte for byte.
            2 if !made.is_empty() => made[random.below(made.len())].clone(),
            _ => Some(event(&mut random)),
        };
        made.push(next);
    }
    made
}

/// Mostly right: each field has its own chance of being odd, small enough that many events are wholly good.
fn event(random: &mut Random) -> String {
    let id = random.below(1_000_000);
    let mut fields = vec![
        ("type", json(pick(random, &TYPES))),
        ("event_id", json(&format!("evt-{id}"))),
        ("payment_id", json(&format!("payment-{}", id % 97))),
        ("order_id", json(&format!("order-{}", id % 53))),
        ("version", random.below(1000).to_string()),
        ("occurred_at", pick(random, &TIMES[..2]).to_owned()),
        ("amount", format!("{}.{:02}", random.below(100_000), random.below(100))),
        ("currency", json("EUR")),
    ];
    for (name, value) in &mut fields {
        if random.below(8) > 0 {
            continue;
        }
        *value = match *name {
            "type" if random.below(3) == 0 => json("payment.disputed"),
            "type" => json(pick(random, &TYPES)),
            "amount" => pick(random, &AMOUNTS).to_owned(),
            "version" => pick(random, &VERSIONS).to_owned(),
            "occurred_at" => pick(random, &TIMES).to_owned(),
            "currency" => json(pick(random, &["KRW", "eur", ""])),
            _ => match random.below(8) {
                0 => pick(random, &["null", "7", "true", "[]", "{}", "\"\"", "\"\\ud800\"", "\"\\udc00\\ud800\""])
                    .to_owned(),
                1 => escaped(pick(random, &TEXTS)),
                2 => json(&"x".repeat(119 + random.below(3))),
                _ => json(pick(random, &TEXTS)),
            },
        };
    }
    if random.below(30) == 0 {
        fields.remove(random.below(fields.len()));
    }
    let mut members: Vec<String> = fields
        .into_iter()
        .map(|(name, value)| format!("\"{name}\"{}:{}{value}", space(random), space(random)))
        .collect();
    for _ in 0..random.below(3) {
        members.push(pick(random, &OTHERS).to_owned());
    }
    shuffle(random, &mut members);
    format!("{{{}}}", members.join(&format!("{},{}", space(random), space(random))))
}

fn space(random: &mut Random) -> &'static str {
    if random.below(10) == 0 { pick(random, &[" ", "\n", "\t", "  \r\n"]) } else { "" }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Every character as an escape.
fn escaped(text: &str) -> String {
    let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
    format!("\"{}\"", units.collect::<String>())
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len())]
}

fn shuffle<T>(random: &mut Random, of: &mut [T]) {
    for at in (1..of.len()).rev() {
        of.swap(at, random.below(at + 1));
    }
}
