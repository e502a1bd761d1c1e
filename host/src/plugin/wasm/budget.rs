//! What one instance may use (Invariant 7), and what it has used: CPU time, wall-clock time, memory, tables, log lines.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use wasmtime::{ResourceLimiter, StoreContextMut, UpdateDeadline};

use super::{bindings::tidegate::plugin::log, cpu::thread_time, wasi::Stderr};
use crate::{
    config::PluginLimits,
    plugin::{Entry, Limit, PluginError},
};

/// Elements over all tables. An interpreter needs some ten thousand.
const TABLE_ELEMENTS: usize = 1_000_000;
/// Never less wall-clock time than this for one entry.
const WALL_MIN: Duration = Duration::from_secs(60);
/// Wall-clock time per CPU time: a guest does nothing but compute, so only a machine that starves it gets here.
const WALL_FACTOR: u32 = 20;
/// What an answer may hold besides what the events account for.
const OUTPUT_BASE: usize = 64 << 10;
/// The longest reason that is kept of what a guest logged as an error.
const REASON: usize = 1 << 10;
/// Handles of WASI that a guest may hold: each takes memory of the host's. Runtimes hold a handful.
const HANDLES: usize = 10_000;

/// The data of an instance's store.
pub(super) struct State {
    plugin: Arc<str>,
    limits: PluginLimits,
    events: usize,
    /// The events whose CPU time it gets: all of them, or fewer where somebody will split the batch.
    patience: usize,
    entry: Entry,
    cpu_deadline: Duration,
    wall_deadline: Instant,
    memory: usize,
    tables: usize,
    logged: usize,
    dropped_lines: usize,
    /// The last line that was logged as an error: what a trap was about.
    reason: Option<String>,
    stderr: Stderr,
    handles: usize,
    /// The state of the constant "randomness" of WASI.
    random: u64,
    exceeded: Option<Exceeded>,
}

/// Why the host ended an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exceeded {
    Limit(Limit),
    WallClock,
    /// The system gave the host no memory for it.
    System,
    /// It called a function that is not granted: which, and what to do instead.
    Denied(String, &'static str),
}

impl State {
    /// For an instance that shall work on so many events, in the CPU time of `patience` of them.
    pub(super) fn new(plugin: Arc<str>, limits: PluginLimits, events: usize, patience: usize) -> Self {
        Self {
            plugin,
            limits,
            events,
            patience,
            entry: Entry::Instantiate,
            cpu_deadline: Duration::MAX,
            wall_deadline: Instant::now(),
            memory: 0,
            tables: 0,
            logged: 0,
            dropped_lines: 0,
            reason: None,
            stderr: Stderr::default(),
            handles: 0,
            random: 0,
            exceeded: None,
        }
    }

    /// The clocks start for this entry.
    pub(super) fn enter(&mut self, entry: Entry) {
        self.entry = entry;
        self.stderr.forget();
        self.cpu_deadline = thread_time().saturating_add(self.cpu());
        self.wall_deadline = Instant::now() + self.wall();
    }

    /// Called on every tick while the guest runs.
    pub(super) fn tick(mut store: StoreContextMut<'_, Self>) -> wasmtime::Result<UpdateDeadline> {
        let state = store.data_mut();
        if thread_time() > state.cpu_deadline {
            return state.exceed(Exceeded::Limit(Limit::Cpu));
        }
        if Instant::now() > state.wall_deadline {
            return state.exceed(Exceeded::WallClock);
        }
        Ok(UpdateDeadline::Continue(1))
    }

    /// CPU time of an entry: a base, and so much per event.
    fn cpu(&self) -> Duration {
        let events = u32::try_from(self.patience).unwrap_or(u32::MAX);
        self.limits.cpu_base.saturating_add(self.limits.cpu_per_event.saturating_mul(events))
    }

    /// The far cap on wall-clock time.
    fn wall(&self) -> Duration {
        WALL_MIN.max(self.cpu().saturating_mul(WALL_FACTOR)).min(Duration::from_secs(3600))
    }

    /// Bytes that one answer may take on the host's side. Never more than twice the guest's own memory: lists can
    /// repeat the same bytes without end.
    pub(super) fn output(&self) -> usize {
        let by_events = self.limits.output_per_event.saturating_mul(self.events).saturating_add(OUTPUT_BASE);
        by_events.min(self.limits.memory.saturating_mul(2))
    }

    fn exceed<T>(&mut self, exceeded: Exceeded) -> wasmtime::Result<T> {
        let error = wasmtime::Error::msg(format!("ended by the host: {exceeded:?}"));
        self.exceeded = Some(exceeded);
        Err(error)
    }

    /// Ends the guest for calling what it is not granted; `instead` is the way out.
    pub(super) fn deny<T>(&mut self, called: &str, instead: &'static str) -> wasmtime::Result<T> {
        self.exceed(Exceeded::Denied(called.to_owned(), instead))
    }

    /// Passes while the guest starts and configures itself: equal answers in each fresh instance would otherwise give
    /// equal ids to different events.
    pub(super) fn only_at_start(&mut self, called: &str, instead: &'static str) -> wasmtime::Result<()> {
        if self.entry.sees_records() { self.deny(called, instead) } else { Ok(()) }
    }

    /// The next number of a sequence that is the same in every instance (SplitMix64).
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A handle of WASI goes to the guest.
    pub(super) fn handle_made(&mut self, called: &str) -> wasmtime::Result<()> {
        self.handles += 1;
        if self.handles > HANDLES {
            return self.deny(called, "it holds too many handles: drop those that are not needed");
        }
        Ok(())
    }

    /// The guest has dropped a handle.
    pub(super) fn handle_dropped(&mut self) {
        self.handles = self.handles.saturating_sub(1);
    }

    /// Bytes for stderr.
    pub(super) fn wrote(&mut self, bytes: &[u8]) {
        for line in self.stderr.write(bytes) {
            self.stderr_line(&line);
        }
    }

    fn stderr_line(&mut self, line: &str) {
        let plugin = Arc::clone(&self.plugin);
        if let Some(line) = self.may_log(line.to_owned()) {
            tracing::warn!(plugin = &*plugin, "stderr: {line}");
        }
    }

    /// The line as it may be logged, or nothing where the budget is used up.
    fn may_log(&mut self, text: String) -> Option<String> {
        self.logged = self.logged.saturating_add(text.len().max(1));
        if self.logged > self.limits.log_bytes {
            self.dropped_lines += 1;
            return None;
        }
        Some(on_one_line(text))
    }

    fn allowed(&self, limit: Limit) -> u64 {
        let amount = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        match limit {
            Limit::Cpu => u64::try_from(self.cpu().as_millis()).unwrap_or(u64::MAX),
            Limit::Memory => amount(self.limits.memory),
            Limit::Tables => amount(TABLE_ELEMENTS),
            Limit::Changes => amount(self.limits.changes_per_event),
            Limit::Output => amount(self.output()),
        }
    }

    /// A budget that was exceeded, as an error.
    pub(super) fn over(&self, limit: Limit) -> PluginError {
        PluginError::Limit {
            plugin: self.plugin.to_string(),
            entry: self.entry,
            batch: self.events,
            limit,
            allowed: self.allowed(limit),
        }
    }

    /// What the host ended the instance for, if it did.
    pub(super) fn ended_by_host(&self) -> Option<PluginError> {
        Some(match self.exceeded.as_ref()? {
            &Exceeded::Limit(limit) => self.over(limit),
            Exceeded::WallClock => PluginError::WallClock {
                plugin: self.plugin.to_string(),
                entry: self.entry,
                batch: self.events,
                seconds: self.wall().as_secs(),
            },
            Exceeded::System => PluginError::Instance {
                plugin: self.plugin.to_string(),
                message: "the system gave no memory for it".to_owned(),
            },
            Exceeded::Denied(function, instead) => PluginError::Denied {
                plugin: self.plugin.to_string(),
                entry: self.entry,
                batch: self.events,
                message: format!("{function}: {instead}"),
            },
        })
    }

    /// What the guest said last about what is wrong.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The last of what the guest wrote to stderr in this entry, on one line.
    pub(super) fn last_words(&self) -> Option<String> {
        self.stderr.last().map(on_one_line)
    }

    /// The entry that runs, or ran last.
    pub(super) fn entry(&self) -> Entry {
        self.entry
    }

    /// The batch's size.
    pub(super) fn events(&self) -> usize {
        self.events
    }

    /// The plugin's name.
    pub(super) fn plugin(&self) -> &str {
        &self.plugin
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(line) = self.stderr.rest() {
            self.stderr_line(&line);
        }
        if self.dropped_lines > 0 {
            tracing::warn!(
                plugin = %self.plugin,
                lines = self.dropped_lines,
                limit = self.limits.log_bytes,
                "log lines of the plugin were dropped: more bytes in one batch than limits.log_bytes allows"
            );
        }
    }
}

/// Over all memories and tables of the store together: a component may have many.
impl ResourceLimiter for State {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        if total > self.limits.memory {
            // An error ends the guest here; a refusal would end it later, as a trap that does not say why.
            return self.exceed(Exceeded::Limit(Limit::Memory));
        }
        self.memory = total;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.exceed(Exceeded::System)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.tables.saturating_add(desired.saturating_sub(current));
        if total > TABLE_ELEMENTS {
            return self.exceed(Exceeded::Limit(Limit::Tables));
        }
        self.tables = total;
        Ok(true)
    }
}

/// Lines beyond the budget are dropped and counted: a line of log must not decide what becomes of an input.
impl log::Host for State {
    fn write(&mut self, level: log::Level, text: String) {
        if level == log::Level::Error {
            let reason = text.chars().take(REASON).collect();
            self.reason = Some(on_one_line(reason));
        }
        let Some(line) = self.may_log(text) else { return };
        let plugin: &str = &self.plugin;
        match level {
            log::Level::Debug => tracing::debug!(plugin, "{line}"),
            log::Level::Info => tracing::info!(plugin, "{line}"),
            log::Level::Warn => tracing::warn!(plugin, "{line}"),
            log::Level::Error => tracing::error!(plugin, "{line}"),
        }
    }
}

/// Control characters are escaped: a plugin must not forge other lines, or speak to a terminal.
fn on_one_line(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use wasmtime::{AsContextMut, Engine, Store};

    use super::*;
    use crate::class::Class;

    fn store(limits: PluginLimits) -> Store<State> {
        let mut state = State::new("guest".into(), limits, 3, 3);
        state.enter(Entry::Compute);
        Store::new(&Engine::default(), state)
    }

    /// Invariant 6: a machine that gives the guest no time is no record's fault.
    #[test]
    fn the_wall_clock_cap_is_transient() {
        let mut store = store(PluginLimits::default());
        assert!(State::tick(store.as_context_mut()).is_ok());
        store.data_mut().wall_deadline = Instant::now().checked_sub(Duration::from_millis(1)).unwrap();
        assert!(State::tick(store.as_context_mut()).is_err());
        let error = store.data().ended_by_host().unwrap();
        assert_eq!((error.class(), error.code()), (Class::Transient, "plugin-wall-clock"));
    }

    #[test]
    fn cpu_time_comes_before_the_wall_clock() {
        let mut store = store(PluginLimits::default());
        store.data_mut().cpu_deadline = Duration::ZERO;
        store.data_mut().wall_deadline = Instant::now().checked_sub(Duration::from_millis(1)).unwrap();
        assert!(State::tick(store.as_context_mut()).is_err());
        assert_eq!(store.data().ended_by_host().unwrap().code(), "plugin-cpu");
    }

    /// Log lines cost nobody anything: those beyond the budget are dropped, and the reason of a trap is kept still.
    #[test]
    fn log_lines_beyond_the_budget_are_dropped() {
        use log::Host;

        let mut store = store(PluginLimits { log_bytes: 10, ..PluginLimits::default() });
        let state = store.data_mut();
        state.write(log::Level::Info, "0123456789".into());
        state.write(log::Level::Info, "x".repeat(1 << 20));
        state.write(log::Level::Error, "forged\n\u{1b}[31mline".into());
        assert_eq!(state.dropped_lines, 2);
        assert_eq!(state.reason(), Some(r"forged\n\u{1b}[31mline"));
        assert!(state.ended_by_host().is_none());
    }
}
