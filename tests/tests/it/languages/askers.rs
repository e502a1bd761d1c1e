//! What is not granted ends the call where an event is looked at, though the compiler's runtime could answer it by itself: a
//! constant would give different events one id.

use super::throwers::verdicts;

/// What an event asks for, the function that the host is asked for then, and what to use instead.
type Asked = (&'static str, &'static str, &'static str);

const WALL_CLOCK: &str = "wasi:clocks/wall-clock@0.2.0#now";
const RANDOM: Asked = ("random", "wasi:random/random@0.2.0#get-random-u64", "derive ids from the message id");
const EXIT: Asked = ("exit", "wasi:cli/exit@0.2.0#exit", "reject or skip the event instead");

/// Loading it asks for all of them too, in configure, where they answer.
fn assert_denied(guest: &str, asked: &[Asked]) {
    let does: Vec<_> = asked.iter().flat_map(|(does, ..)| ["fine", does]).chain(["fine"]).collect();
    let verdicts = verdicts(guest, &does);
    assert_eq!(verdicts.len(), does.len());
    for (at, (code, message)) in verdicts.iter().enumerate() {
        if at % 2 == 0 {
            assert_eq!(code, "apply 1", "{guest}: {verdicts:#?}");
        } else {
            let (does, function, instead) = asked[at / 2];
            let told = message.contains(function) && message.contains(instead);
            assert!(code == "plugin-denied" && told, "{guest}, {does}: {function} in {verdicts:#?}");
        }
    }
}

#[test]
fn clock_and_randomness_end_the_call_in_c() {
    let instead = "use the time that the event itself carries";
    let nanoseconds = "wasi:clocks/monotonic-clock@0.2.0#now";
    let clocks = [
        ("key", WALL_CLOCK, instead),
        ("time", WALL_CLOCK, instead),
        ("monotonic", nanoseconds, instead),
        ("sleep", nanoseconds, instead),
    ];
    assert_denied("asker-c", &[&clocks[..], &[RANDOM, EXIT]].concat());
}

#[test]
fn clock_and_randomness_end_the_call_in_go() {
    let instead = "use the time that the event itself carries";
    assert_denied("asker-go", &[("key", WALL_CLOCK, instead), ("time", WALL_CLOCK, instead), RANDOM, EXIT]);
}
