//! The steps of a start: each says what it waits for as long as it lasts, and none lasts for ever.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::StartError;
use crate::{health::ConsumerHealth, identity::ConsumerName};

/// How long a step may take.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// Before the log says so; from then on it says so at twice the time each.
    slow: Duration,
    /// Before a question is given up. Whoever is asked has its own limits, which are shorter and say more; this one is for
    /// what nobody has thought of.
    stuck: Duration,
}

/// What a start has.
pub(super) const PATIENCE: Patience = Patience { slow: Duration::from_secs(10), stuck: Duration::from_secs(180) };

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Somebody is asked, who may be silent.
    Question,
    /// This machine computes, which takes its time.
    Work,
}

/// Goes through a step. `what` says it in words, such as "asking … for …".
///
/// # Errors
/// The step's own, or that a question has had no answer for too long: transient, it is asked anew.
pub(super) async fn step<T, E: Into<StartError>>(
    patience: Patience,
    consumer: &ConsumerName,
    health: &ConsumerHealth,
    kind: Kind,
    what: String,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, StartError> {
    health.doing(what.clone());
    let begun = Instant::now();
    let mut next = patience.slow;
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done.map_err(Into::into),
            () = sleep_until(begun + next) => {}
        }
        let lasted = begun.elapsed().as_secs();
        if kind == Kind::Question && next >= patience.stuck {
            return Err(StartError::Stuck { what, lasted });
        }
        tracing::warn!(%consumer, "the start waits, for {lasted} s now: {what}");
        next = next.saturating_mul(2);
        if kind == Kind::Question {
            next = next.min(patience.stuck);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::class::Class;

    const SHORT: Patience = Patience { slow: Duration::from_millis(1), stuck: Duration::from_millis(10) };

    #[tokio::test]
    async fn a_question_without_an_answer_is_named_and_given_up() {
        let consumer = ConsumerName::new("c").unwrap();
        let health = ConsumerHealth::new(consumer.clone(), 1);
        let silence = std::future::pending::<Result<(), StartError>>();
        let asked = step(SHORT, &consumer, &health, Kind::Question, "asking db for its schema".into(), silence);
        let error = asked.await.unwrap_err();
        assert_eq!(error.class(), Class::Transient, "it is asked again");
        assert!(error.to_string().starts_with("asking db for its schema: no answer for"), "{error}");
        assert_eq!(health.waits_for().as_deref(), Some(": asking db for its schema"));
    }

    #[tokio::test]
    async fn work_may_take_its_time() {
        let consumer = ConsumerName::new("c").unwrap();
        let health = ConsumerHealth::new(consumer.clone(), 1);
        let work = async {
            tokio::time::sleep(SHORT.stuck * 4).await;
            Ok::<_, StartError>(7)
        };
        let done = step(SHORT, &consumer, &health, Kind::Work, "compiling".into(), work).await;
        assert_eq!(done.unwrap(), 7);
    }
}
