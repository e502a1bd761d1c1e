//! Configurations that somebody has edited badly: none makes the reader panic, and none brings a secret out.

use proptest::prelude::*;

use super::*;

const SECRET: &str = "hunter2hunter2hunter2";

/// With a secret wherever one may stand.
fn full() -> String {
    let http = format!("[http]\nlisten = \"127.0.0.1:1\"\ntoken = \"{SECRET}\"\n");
    let kafka = format!(
        "\"bootstrap.servers\" = \"localhost:9092\"\n\"security.protocol\" = \"SASL_SSL\"\n\"sasl.mechanism\" = \"PLAIN\"\n\
         \"sasl.password\" = \"{SECRET}\"\n\"ssl.key.password\" = \"{SECRET}\"\n\"ssl.key.pem\" = \"\"\"\n{SECRET}\n\"\"\""
    );
    let text = with("\"bootstrap.servers\" = \"localhost:9092\"", &kafka)
        .replace("postgres://tidegate@", &format!("postgres://tidegate:{SECRET}@"))
        .replace("path = \"settlement.wasm\"", &format!("path = \"p\"\nsettings = {{ api_key = \"{SECRET}\" }}"));
    format!("{http}{text}")
}

/// One slip of the hand at some place.
fn slip(text: &str, place: usize, kind: u8, with: char) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    if chars.is_empty() {
        // The slip before has left nothing.
        return String::new();
    }
    let place = place % chars.len();
    match kind % 5 {
        0 => drop(chars.remove(place)),
        1 => chars.insert(place, with),
        2 => chars[place] = with,
        3 => chars.truncate(place),
        // A line is lost.
        _ => {
            let from = chars[..place].iter().rposition(|c| *c == '\n').map_or(0, |at| at + 1);
            let to = chars[place..].iter().position(|c| *c == '\n').map_or(chars.len(), |at| place + at + 1);
            drop(chars.drain(from..to));
        }
    }
    chars.into_iter().collect()
}

fn said(text: &str) -> String {
    match super::parse(text) {
        Ok(loaded) => format!("{loaded:?}"),
        Err(error) => format!("{error} {}", serde_json::to_string(&error.diagnostics).unwrap()),
    }
}

#[test]
fn the_whole_is_valid() {
    assert!(super::parse(&full()).is_ok(), "{}", said(&full()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_slip_brings_a_secret_out(slips in prop::collection::vec((any::<usize>(), any::<u8>(), any::<char>()), 1..4)) {
        let text = slips.iter().fold(full(), |text, &(place, kind, with)| slip(&text, place, kind, with));
        let said = said(&text);
        // A slip within the secret makes it another one.
        prop_assert!(!said.contains(&SECRET[..14]) && !said.contains(&SECRET[7..]), "from:\n{text}\ncame:\n{said}");
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}", toml in "[\\[\\]{}=\",.#\\n a-c0-9$]{0,120}") {
        let _ = super::parse(&text);
        let _ = super::parse(&format!("{toml}\n{GOOD}"));
    }
}
