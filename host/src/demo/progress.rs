//! What a person watches: one bar for the producer, one for each consumer. Positions come from the broker's
//! confirmations and from the checkpoints in the database.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{measure::Outcomes, rate::Rate, service::Service, summary::grouped};

/// Bars, or nothing where nobody watches.
pub(super) struct Progress {
    bars: MultiProgress,
    produced: Bar,
    consumed: BTreeMap<Service, Bar>,
}

struct Bar {
    bar: ProgressBar,
    rate: Mutex<Rate>,
}

impl Bar {
    /// How many, and how fast.
    fn show(&self, records: u64, elapsed: Duration, more: &str) {
        let per_second = self.rate.lock().unwrap_or_else(PoisonError::into_inner).at(elapsed, records);
        self.bar.set_position(records);
        self.bar.set_message(format!("{:>7}/s{more}", grouped(i64::try_from(per_second).unwrap_or(i64::MAX))));
    }

    fn lately(&self) {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).lately();
    }
}

impl Progress {
    /// `expected`: records that the producer will publish, roughly.
    pub(super) fn new(watched: bool, expected: u64) -> Self {
        let target = if watched { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bars = MultiProgress::with_draw_target(target);
        let bar = |name: &'static str, colour: &str, length: u64| {
            let template = format!("{{prefix:<22}} {{bar:24.{colour}/dim}} {{human_pos:>9}} {{msg}}");
            let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(length).with_prefix(name).with_style(style.progress_chars("━╸─"));
            Bar { bar: bars.add(bar), rate: Mutex::default() }
        };
        let produced = bar("produced", "yellow", expected);
        let share = |service: Service| service.feeds().iter().map(|feed| feed.percent()).sum::<u64>();
        let consumed =
            Service::ALL.into_iter().map(|s| (s, bar(s.name(), "green", expected * share(s) / 100))).collect();
        Self { bars, produced, consumed }
    }

    /// The producer's confirmed records, and whether that is all of them.
    pub(super) fn produced(&self, records: u64, all: bool, elapsed: Duration) {
        if all || self.produced.bar.length().is_some_and(|length| length < records) {
            self.produced.bar.set_length(records);
        }
        self.produced.show(records, elapsed, "");
    }

    /// How far a consumer is, and how much there is for it, where that is known.
    pub(super) fn consumed(&self, service: Service, outcomes: &Outcomes, length: Option<u64>, elapsed: Duration) {
        let Some(bar) = self.consumed.get(&service) else { return };
        let records = u64::try_from(outcomes.consumed).unwrap_or(0);
        if let Some(length) = length {
            bar.bar.set_length(length);
        }
        let (duplicates, dead) = (grouped(outcomes.duplicate), grouped(outcomes.dead));
        bar.show(records, elapsed, &format!("  {duplicates} duplicates, {dead} dead letters"));
    }

    /// Leaves the bars as they stand.
    pub(super) fn end(&self) {
        self.produced.bar.abandon();
        self.consumed.values().for_each(|bar| bar.bar.abandon());
        if !self.bars.is_hidden() {
            // The last bar's line is still open.
            eprintln!();
        }
    }

    /// Prints something while the bars are away. Afterwards they show how fast it goes lately, not on the average.
    pub(super) fn pause(&self, print: impl FnOnce()) {
        self.bars.suspend(print);
        self.produced.lately();
        self.consumed.values().for_each(Bar::lately);
    }
}
