//! Medians and ratios, for a terminal.

use std::fmt::Write as _;

use super::contest::{Contestant, Run};

/// The table: one line a contestant. Ratios are taken within a round, where both met the same machine, then their median.
#[must_use]
pub fn report(rounds: &[Vec<(Contestant, Run)>]) -> String {
    let of = |contestant: Contestant, figure: &dyn Fn(&Run) -> Option<f64>| -> Vec<f64> {
        let runs = rounds.iter().flatten().filter(|(who, _)| *who == contestant);
        runs.filter_map(|(_, run)| figure(run)).collect()
    };
    let ratio = |contestant: Contestant, base: Contestant| -> Option<f64> {
        let rate =
            |round: &[(Contestant, Run)], who| round.iter().find(|(name, _)| *name == who).map(|(_, run)| run.rate);
        median(rounds.iter().filter_map(|round| Some(rate(round, contestant)? / rate(round, base)?)).collect())
    };
    let mut text = String::from(
        "contestant        msg/s   ×roof  ×hand-written  ×tidegate   CPU µs/msg   database CPU µs/msg   peak MiB   \
         reloads   msg/s of each round\n",
    );
    for contestant in Contestant::ALL {
        let rates = of(contestant, &|run| Some(run.rate));
        if rates.is_empty() {
            continue;
        }
        let each: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
        let _ = writeln!(
            text,
            "{:<14} {:>8}  {:>6}  {:>13}  {:>9}  {:>11}  {:>20}  {:>9}  {:>8}   {}",
            contestant.name(),
            show(median(rates), 0),
            show(ratio(contestant, Contestant::Roof), 2),
            show(ratio(contestant, Contestant::HandWritten), 2),
            show(ratio(contestant, Contestant::Tidegate), 2),
            show(median(of(contestant, &|run| Some(run.cpu_us))), 1),
            show(median(of(contestant, &|run| run.database_cpu_us)), 1),
            show(median(of(contestant, &|run| Some(run.peak_mib))), 0),
            show(median(of(contestant, &|run| run.reloads)), 0),
            each.join(" "),
        );
    }
    text
}

fn show(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.digits$}"))
}

fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(figures[middle]),
        _ => Some(f64::midpoint(figures[middle - 1], figures[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_within_a_round() {
        let run = |rate| Run { rate, cpu_us: 1.0, database_cpu_us: None, peak_mib: 1.0, reloads: None };
        let round = |roof, tidegate| vec![(Contestant::Roof, run(roof)), (Contestant::Tidegate, run(tidegate))];
        let text = report(&[round(100.0, 50.0), round(10.0, 6.0), round(1000.0, 700.0)]);
        let line = text.lines().find(|line| line.starts_with("tidegate")).unwrap();
        assert!(line.split_whitespace().nth(2) == Some("0.60"), "{line}");
        assert!(!text.lines().any(|line| line.starts_with("hand-written")), "who did not run has no line");
    }
}
