//! What a person watches: one bar for the producer, one for each consumer. Positions come from the broker's
//! confirmations and from the checkpoints in the database.

use std::{collections::BTreeMap, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{measure::Outcomes, service::Service, summary::grouped};

/// Bars, or nothing where nobody watches.
pub(super) struct Progress {
    bars: MultiProgress,
    produced: ProgressBar,
    consumed: BTreeMap<Service, ProgressBar>,
}

impl Progress {
    /// `expected`: records that the producer will publish, roughly.
    pub(super) fn new(watched: bool, expected: u64) -> Self {
        let target = if watched { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bars = MultiProgress::with_draw_target(target);
        let bar = |name: &'static str, colour: &str, length: u64| {
            let template = format!("{{prefix:<22}} {{bar:24.{colour}/dim}} {{human_pos:>9}} {{msg}}");
            let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
            bars.add(ProgressBar::new(length).with_prefix(name).with_style(style.progress_chars("━╸─")))
        };
        let produced = bar("produced", "yellow", expected);
        let share = |service: Service| service.feeds().iter().map(|feed| feed.percent()).sum::<u64>();
        let consumed =
            Service::ALL.into_iter().map(|s| (s, bar(s.name(), "green", expected * share(s) / 100))).collect();
        Self { bars, produced, consumed }
    }

    /// The producer's confirmed records, and whether that is all of them.
    pub(super) fn produced(&self, records: u64, all: bool, elapsed: Duration) {
        if all || self.produced.length().is_some_and(|length| length < records) {
            self.produced.set_length(records);
        }
        self.produced.set_position(records);
        self.produced.set_message(rate(records, elapsed));
    }

    /// How far a consumer is, and how much there is for it, where that is known.
    pub(super) fn consumed(&self, service: Service, outcomes: &Outcomes, length: Option<u64>, elapsed: Duration) {
        let Some(bar) = self.consumed.get(&service) else { return };
        let records = u64::try_from(outcomes.consumed).unwrap_or(0);
        if let Some(length) = length {
            bar.set_length(length);
        }
        bar.set_position(records);
        bar.set_message(format!(
            "{}  {} duplicates, {} dead letters",
            rate(records, elapsed),
            grouped(outcomes.duplicate),
            grouped(outcomes.dead)
        ));
    }

    /// Leaves the bars as they stand.
    pub(super) fn end(&self) {
        self.produced.abandon();
        self.consumed.values().for_each(ProgressBar::abandon);
        if !self.bars.is_hidden() {
            // The last bar's line is still open.
            eprintln!();
        }
    }

    /// Prints something while the bars are away.
    pub(super) fn pause(&self, print: impl FnOnce()) {
        self.bars.suspend(print);
    }
}

fn rate(records: u64, elapsed: Duration) -> String {
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let per_second = records.saturating_mul(1_000) / millis;
    format!("{:>7}/s", grouped(i64::try_from(per_second).unwrap_or(i64::MAX)))
}
