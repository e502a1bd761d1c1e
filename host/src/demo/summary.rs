//! The summary for people: what happened, whether it is as it should be, and where to look next.

use std::fmt::{self, Display, Write as _};

use super::{
    measure::{Measured, Outcomes, REPEATED_ATTEMPTS},
    proof::Proof,
    report::Report,
    service::Service,
    story::Feed,
};

/// With colours or without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) colours: bool,
}

impl Style {
    fn paint(self, code: &str, text: impl Display) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn bold(self, text: impl Display) -> String {
        self.paint("1", text)
    }

    fn faint(self, text: impl Display) -> String {
        self.paint("2", text)
    }

    fn mark(self, good: bool) -> String {
        if good { self.paint("32", "✓") } else { self.paint("1;31", "✗") }
    }
}

/// 1234567 as 1,234,567.
pub(super) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    if number < 0 {
        text.push('-');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 123456 cents as 1,234.56.
fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = i64::try_from(cents.unsigned_abs()).unwrap_or(i64::MAX);
    format!("{sign}{}.{:02}", grouped(cents / 100), cents % 100)
}

/// The whole summary.
pub(super) fn summary(report: &Report, style: Style) -> String {
    let mut text = String::new();
    // Writing into a String does not fail.
    let _ = write(&mut text, report, style);
    text
}

fn write(out: &mut String, report: &Report, style: Style) -> fmt::Result {
    writeln!(out)?;
    produced(out, report, style)?;
    outcomes(out, report, style)?;
    queries(out, report, style)?;
    totals(out, report, style)?;
    verdict(out, report, style)?;
    places(out, report, style)
}

fn produced(out: &mut String, report: &Report, style: Style) -> fmt::Result {
    let of = |feed: Feed| grouped(report.measured.in_broker.get(&feed).copied().unwrap_or(0));
    writeln!(
        out,
        "{} on the broker: {} in {} and {} in {}",
        style.bold(format!("{} records", grouped(report.measured.in_broker.values().sum()))),
        of(Feed::Orders),
        Feed::Orders.topic(),
        of(Feed::Payments),
        Feed::Payments.topic(),
    )
}

const COLUMNS: [&str; 6] = ["consumed", "applied", "duplicates", "skipped", "dead letters", "too old"];

fn outcomes(out: &mut String, report: &Report, style: Style) -> fmt::Result {
    writeln!(out)?;
    let head: String = COLUMNS.iter().map(|c| format!("{c:>14}")).collect();
    writeln!(out, "{}", style.faint(format!("{:<23}{head}", "what became of them")))?;
    let line = |name: &str, o: &Outcomes| {
        let cells = [o.consumed, o.applied, o.duplicate, o.skipped, o.dead, o.too_old];
        let cells: String = cells.iter().map(|n| format!("{:>14}", grouped(*n))).collect();
        format!("{name:<23}{cells}")
    };
    for (service, measured) in &report.measured.services {
        writeln!(out, "{}", line(service.name(), &measured.outcomes))?;
    }
    writeln!(out, "{}", style.bold(line("in all", &report.all())))?;
    let sum = |of: fn(&Measured) -> i64| report.measured.services.values().map(of).sum::<i64>();
    let mut note = |count: i64, text: &str| match count {
        0 => Ok(()),
        n => writeln!(out, "{}", style.faint(format!("  {} {text}", grouped(n)))),
    };
    note(
        sum(|m| m.payload_conflicts),
        "of the duplicates came with another payload than the first: kept and reported",
    )?;
    note(sum(|m| m.superseded), "of the dead letters came again, corrected, and were applied")?;
    let codes: Vec<_> =
        report.measured.dead_letter_codes.iter().map(|(code, count)| format!("{} {code}", grouped(*count))).collect();
    if !codes.is_empty() {
        writeln!(out, "{}", style.faint(format!("  the dead letters by their code: {}", codes.join(", "))))?;
    }
    Ok(())
}

fn queries(out: &mut String, report: &Report, style: Style) -> fmt::Result {
    let m = &report.measured;
    let question = |title: &str, sql: &str| format!("\n{title}\n  {}\n", style.faint(format!("{sql};")));
    let answer = |rows: i64| style.bold(format!("{} {}", grouped(rows), if rows == 1 { "row" } else { "rows" }));
    out.push_str(&question("Deduplication: events met more than once (any number is fine)", REPEATED_ATTEMPTS));
    let why = "each payment event, since two consumers read them, and each order event that came again";
    writeln!(out, "  {}: {why}", answer(m.repeated_attempts))?;
    for (service, m) in &m.services {
        let rows = match service {
            Service::Settlement => "payments",
            Service::OrderSummary => "orders",
        };
        let title = format!("Idempotency: {rows} with more than one row (there must be none)");
        out.push_str(&question(&title, &service.duplicates_query()));
        writeln!(out, "{} {}", style.mark(m.target_duplicates == 0), answer(m.target_duplicates))?;
    }
    Ok(())
}

fn totals(out: &mut String, report: &Report, style: Style) -> fmt::Result {
    writeln!(out)?;
    writeln!(out, "{}", style.faint(format!("{:<37}{:>18}{:>18}", "totals", "in the database", "producer's own")))?;
    for service in Service::ALL {
        let proofs = report.proofs.iter().filter(|p| p.code == "total" && p.service == Some(service));
        for (total, proof) in service.totals().iter().zip(proofs) {
            let figure = if total.cents { money } else { grouped };
            writeln!(
                out,
                "{:<37}{:>18}{:>18} {}",
                format!("{}: {}", service.table(), total.label),
                figure(proof.found),
                figure(proof.expected),
                style.mark(proof.holds())
            )?;
        }
    }
    Ok(())
}

fn verdict(out: &mut String, report: &Report, style: Style) -> fmt::Result {
    writeln!(out)?;
    let failed: Vec<&Proof> = report.proofs.iter().filter(|p| !p.holds()).collect();
    let all = report.proofs.len();
    if failed.is_empty() {
        let text = style.bold(format!("all {all} proofs hold: nothing lost, nothing applied twice"));
        writeln!(out, "{} {text}", style.mark(true))?;
        if report.measured.committed.is_empty() {
            let more = Service::ALL.len();
            let text = format!("  {more} more follow at the end: that Kafka was told of everything that was consumed");
            writeln!(out, "{}", style.faint(text))?;
        }
        return Ok(());
    }
    writeln!(out, "{} {}", style.mark(false), style.bold(format!("{} of {all} proofs fail", failed.len())))?;
    for proof in failed {
        let who = proof.service.map(|s| format!("{} ", s.name())).unwrap_or_default();
        writeln!(out, "  {who}{}: expected {}, found {}", proof.claim, grouped(proof.expected), grouped(proof.found))?;
    }
    Ok(())
}

fn places(out: &mut String, report: &Report, style: Style) -> fmt::Result {
    let places = &report.places;
    writeln!(out)?;
    let mut line = |name: &str, what: &str| writeln!(out, "{} {what}", style.faint(format!("{name:<10}")));
    line("database", &places.database)?;
    line("broker", &places.broker)?;
    line("config", &places.config)?;
    line("log", &places.log)?;
    match &places.metrics {
        Some(url) => line("metrics", url)?,
        None => line("metrics", "gone with this run; with --keep-running they stay")?,
    }
    writeln!(out, "\nNext")?;
    let mut next = |name: &str, what: &str| writeln!(out, "  {} {what}", style.faint(format!("{name:<16}")));
    places.next.iter().try_for_each(|(name, what)| next(name, what))?;
    places.clean_up.iter().try_for_each(|command| next("clean up", command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::report;

    const PLAIN: Style = Style { colours: false };

    #[test]
    fn figures_are_grouped() {
        let texts = [0, 7, 999, 1000, -1_234_567].map(grouped);
        assert_eq!(texts, ["0", "7", "999", "1,000", "-1,234,567"]);
        assert_eq!([0, 5, 123_456, -250].map(money), ["0.00", "0.05", "1,234.56", "-2.50"]);
    }

    #[test]
    fn a_good_run_says_so() {
        let text = summary(&report::tests::faultless(), PLAIN);
        assert!(text.contains("proofs hold") && !text.contains('✗') && !text.contains('\x1b'), "{text}");
        assert!(text.contains(REPEATED_ATTEMPTS), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }

    #[test]
    fn what_is_proven_only_at_the_end_is_announced() {
        let announcement = "2 more follow at the end";
        let mut report = report::tests::faultless();
        assert!(!summary(&report, PLAIN).contains(announcement));
        report.measured.committed.clear();
        assert!(summary(&report, PLAIN).contains(announcement));
    }

    #[test]
    fn a_failed_proof_is_named_with_both_figures() {
        let mut report = report::tests::faultless();
        let at = report.proofs.iter().position(|p| p.code == "target_duplicates").unwrap_or(0);
        report.proofs[at].found = 3;
        let text = summary(&report, PLAIN);
        assert!(text.contains("settlement-service has no key twice in its table: expected 0, found 3"), "{text}");
        assert!(text.contains("1 of"), "{text}");
    }
}
