//! Durations ("5ms", "14d") and sizes ("8MiB") as people write them. Pure.

use std::time::Duration;

use super::FOREVER;

const DURATION_UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// A whole number and a unit: ms, s, m, h or d. Parts may follow each other: "1h30m". "forever" is a century.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest == "forever" {
        return Ok(FOREVER);
    }
    if rest.is_empty() {
        return Err("is empty; write a number and a unit, such as \"5ms\", \"30s\", \"12h\" or \"14d\"".to_owned());
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (number, unit, after) = split(rest);
        let factor = match DURATION_UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, factor)) if !number.is_empty() => *factor,
            _ if unit.is_empty() => {
                return Err("has no unit; write \"5ms\", \"30s\", \"15m\", \"12h\" or \"14d\"".to_owned());
            }
            _ => {
                return Err("is not a duration; write whole numbers with ms, s, m, h or d, such as \"90s\" or \"14d\""
                    .to_owned());
            }
        };
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(factor))
            .and_then(|ms| total.checked_add(ms))
            // A century keeps every sum with a timestamp far from overflow.
            .filter(|ms| u128::from(*ms) <= FOREVER.as_millis())
            .ok_or("is longer than a century")?;
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// A whole number and a unit: B, KiB, MiB, GiB (powers of 1,024) or kB, MB, GB (powers of 1,000).
///
/// # Errors
/// What is wrong with it, and what would be right.
pub(super) fn size(text: &str) -> Result<usize, String> {
    let (number, unit, after) = split(text.trim());
    let factor = SIZE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    match factor {
        Some(factor) if !number.is_empty() && after.is_empty() => number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(factor))
            .and_then(|bytes| usize::try_from(bytes).ok())
            .ok_or_else(|| "is too large".to_owned()),
        _ if unit.is_empty() && !number.is_empty() => {
            Err("has no unit; write \"512KiB\", \"8MiB\" or \"1GiB\"".to_owned())
        }
        _ => {
            Err("is not a size; write a whole number with B, KiB, MiB, GiB, kB, MB or GB, such as \"8MiB\"".to_owned())
        }
    }
}

/// Digits, then letters, then the rest.
fn split(text: &str) -> (&str, &str, &str) {
    let number = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(number);
    let rest = rest.trim_start();
    let unit = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit);
    (number, unit, rest.trim_start())
}

/// A duration as [`duration`] reads it, in the largest units that fit.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    if duration >= FOREVER {
        return "forever".to_owned();
    }
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if left == 0 {
        return "0ms".to_owned();
    }
    let mut text = String::new();
    for (unit, factor) in DURATION_UNITS.iter().rev() {
        if left >= *factor {
            text.push_str(&format!("{}{unit}", left / factor));
            left %= factor;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in
            [("5ms", 5), ("30s", 30_000), ("1h30m", 5_400_000), ("14d", 1_209_600_000), (" 2 d ", 172_800_000)]
        {
            assert_eq!(duration(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for text in ["", "5", "ms", "5 weeks", "-5s", "1.5h", "5ms!", "99999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_shown_as_they_are_written() {
        for text in ["5ms", "1h30m", "14d", "1d12h", "0ms", "forever"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("8MiB", 8 << 20), ("512KiB", 512 << 10), ("1GB", 1_000_000_000), ("7B", 7)] {
            assert_eq!(size(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "8", "MiB", "8Mib", "8MiB4KiB", "-1B", "1.5MiB", "99999999999999999GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
