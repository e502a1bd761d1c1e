//! What a panic of the host's shows: where it happened, and its words only where they were written into the program. A
//! formatted message may hold whatever was at hand: a URL with its password, somebody's payment.

use std::{any::Any, backtrace::BacktraceStatus};

/// In the place of words that are kept back.
const KEPT_BACK: &str = "its words are kept back, since they may hold data";

/// The words of a panic, as far as they may be shown.
pub(crate) fn words(panic: &(dyn Any + Send)) -> &'static str {
    panic.downcast_ref::<&'static str>().copied().unwrap_or(KEPT_BACK)
}

/// Why a task gave no answer.
pub(crate) fn of_task(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => format!("a panic: {}", words(panic.as_ref())),
        Err(_) => "it was cancelled".to_owned(),
    }
}

/// Runs what blocks or computes for long off the async workers. `died` makes an error of why it gave no answer.
pub(crate) async fn blocking<T: Send + 'static, E: Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
    died: impl FnOnce(String) -> E,
) -> Result<T, E> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(died(of_task(error))))
}

/// From now on panics of this process are logged like everything else, or told on stderr where there is no log yet.
pub(crate) fn watch() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let words = words(info.payload());
        let backtrace = std::backtrace::Backtrace::capture();
        // It has places, no values.
        let backtrace = match backtrace.status() {
            BacktraceStatus::Captured => format!("\n{backtrace}"),
            _ => String::new(),
        };
        let text = format!("a bug in tidegate: thread {thread} panicked at {place}: {words}{backtrace}");
        if tracing::enabled!(tracing::Level::ERROR) {
            tracing::error!("{text}");
        } else {
            eprintln!("{text}");
        }
    }));
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used, reason = "that is what is tested")]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_the_program_are_shown() {
        let written = std::panic::catch_unwind(|| panic!("no such lane")).unwrap_err();
        assert_eq!(words(written.as_ref()), "no such lane");
        let number = std::hint::black_box(7);
        let formatted = std::panic::catch_unwind(|| panic!("c4nary {number}")).unwrap_err();
        assert_eq!(words(formatted.as_ref()), KEPT_BACK);
    }

    #[tokio::test]
    async fn a_task_s_panic_is_told_without_its_words() {
        let number = std::hint::black_box(7);
        let error = tokio::spawn(async move { panic!("c4nary {number}") }).await.unwrap_err();
        assert_eq!(of_task(error), format!("a panic: {KEPT_BACK}"));
    }
}
