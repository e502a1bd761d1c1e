//! A target's table changes while a consumer writes to it: a loud stop with the way out, or dead letters up to the breaker, as
//! the error's class says. After the table was put right, the order to restart goes on; nothing is lost, nothing doubled.

use tidegate::app::{App, Order};
use tidegate_tests::{oracle, wait};

use crate::{
    accounts::event,
    kafka_scene::{Scene, until_ready, until_reason},
};

/// Accounts that share the events.
const ACCOUNTS: i64 = 50;

/// Events of these numbers, one unit each.
fn events(range: std::ops::Range<i64>) -> impl Iterator<Item = String> {
    range.map(|n| event(n, &format!("account-{}", n % ACCOUNTS), 1, n))
}

struct Running {
    scene: Scene,
    app: App,
}

impl Running {
    /// A consumer that has applied a thousand events.
    async fn start() -> Self {
        let scene = Scene::new(1).await;
        let wanted = scene.consumer("c").await;
        scene.produce(0, events(0..1_000));
        let app = scene.start(&[wanted]);
        scene.consumed(&app, "c").await;
        Self { scene, app }
    }

    async fn alter(&self, sql: &str) {
        self.scene.database.execute(sql).await;
    }

    async fn dead_letters(&self) -> i64 {
        self.scene.database.number("SELECT count(*) FROM dead_letters").await
    }

    /// Publishes a thousand more and waits until the consumer has stopped over them; gives its reason.
    async fn stops(&self) -> String {
        self.scene.produce(0, events(1_000..2_000));
        until_reason(&self.app, "stopped: ").await;
        assert_eq!(
            oracle::positions(&self.scene.database, "c", &self.scene.topic, 1).await,
            [1_000],
            "nothing is committed"
        );
        assert_eq!(self.dead_letters().await, 0, "no record is to blame");
        self.app.health().reasons()[0].text.clone()
    }

    /// An operator starts it again: it goes on where it was, and everything is applied once.
    async fn goes_on(self) {
        let restarted = async || self.app.control().order("c", Order::Restart).is_ok();
        wait::until_true("it is started again", restarted).await;
        self.scene.consumed(&self.app, "c").await;
        until_ready(&self.app).await;
        self.app.drain().await;
        assert_eq!(self.scene.sum("c").await, 2_000);
        let totals = oracle::totals(&self.scene.database, "c").await;
        assert_eq!((totals.consumed, totals.applied), (2_000, 2_000), "{totals:?}");
        self.scene.proofs("c").await;
    }
}

/// Whatever makes every statement impossible stops the consumer, and what was asked of the operator helps.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_no_longer_fits_stops_its_consumer_and_is_mended() {
    // Each with a consumer of its own, all at once.
    tokio::join!(
        stops_and_is_mended(
            "ALTER TABLE c_latest DROP COLUMN note",
            "note",
            "ALTER TABLE c_latest ADD COLUMN note TEXT NOT NULL DEFAULT ''",
        ),
        stops_and_is_mended(
            "ALTER TABLE c_latest RENAME TO elsewhere",
            "c_latest",
            "ALTER TABLE elsewhere RENAME TO c_latest",
        ),
        stops_and_is_mended(
            "ALTER TABLE c_balances DROP CONSTRAINT c_balances_pkey",
            "unique",
            "ALTER TABLE c_balances ADD PRIMARY KEY (account)",
        ),
        stops_and_is_mended(
            "ALTER TABLE c_latest RENAME COLUMN version TO number",
            "version",
            "ALTER TABLE c_latest RENAME COLUMN number TO version",
        ),
        // Values still fit, but not all that the host would let through.
        stops_and_is_mended(
            "ALTER TABLE c_balances ALTER COLUMN total TYPE integer",
            "column total",
            "ALTER TABLE c_balances ALTER COLUMN total TYPE bigint",
        ),
    );
}

async fn stops_and_is_mended(breaks: &str, says: &str, mends: &str) {
    let running = Running::start().await;
    running.alter(breaks).await;
    let said = running.stops().await;
    assert!(said.contains(says), "{breaks}: {said}");
    assert!(said.contains("check --online") && said.contains("start the consumer again"), "{breaks}: {said}");
    running.alter(mends).await;
    running.goes_on().await;
}

/// A restart before the table is right stops again, with the words of a start.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_over_a_table_that_is_not_mended_stops_again() {
    let running = Running::start().await;
    running.alter("ALTER TABLE c_balances DROP CONSTRAINT c_balances_pkey").await;
    running.stops().await;
    let restarted = async || running.app.control().order("c", Order::Restart).is_ok();
    wait::until_true("it is started again", restarted).await;
    until_reason(&running.app, "no usable unique index").await;
    running.alter("ALTER TABLE c_balances ADD PRIMARY KEY (account)").await;
    running.goes_on().await;
}

/// What refuses single rows refuses these alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_constraint_that_few_rows_break_makes_dead_letters_of_these() {
    let running = Running::start().await;
    running.alter("ALTER TABLE c_latest ADD CONSTRAINT no_sevens CHECK (version % 250 <> 7) NOT VALID").await;
    // A row each: of one row's changes that come together, it sees the last.
    let events = |range: std::ops::Range<i64>| range.map(|n| event(n, &format!("own-{n}"), 1, n));
    running.scene.produce(0, events(1_000..2_000));
    running.scene.consumed(&running.app, "c").await;
    assert_eq!(running.dead_letters().await, 4);
    // Corrected: the same ids with versions that pass.
    running.alter("ALTER TABLE c_latest DROP CONSTRAINT no_sevens").await;
    let again = (1_000..2_000).filter(|n| n % 250 == 7).flat_map(|n| events(n..n + 1));
    running.scene.produce(0, again);
    running.scene.consumed(&running.app, "c").await;
    running.app.drain().await;
    assert_eq!(running.scene.sum("c").await, 2_000);
    let totals = oracle::totals(&running.scene.database, "c").await;
    assert_eq!((totals.applied, totals.dead), (2_000, 4), "{totals:?}");
    running.scene.proofs("c").await;
}

/// One that all rows break is a new rule, not bad data.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_nobody_fills_trips_the_breaker() {
    let running = Running::start().await;
    running.alter("ALTER TABLE c_latest ADD COLUMN region TEXT NOT NULL DEFAULT 'x'").await;
    running.alter("ALTER TABLE c_latest ALTER COLUMN region DROP DEFAULT").await;
    let said = running.stops().await;
    assert!(said.contains("circuit breaker") && said.contains("region"), "{said}");
    running.alter("ALTER TABLE c_latest ALTER COLUMN region SET DEFAULT 'x'").await;
    running.goes_on().await;
}

/// The server rounds what it is given to the digits that a column has. It is asked, in the transaction, whether these are
/// still the digits that values were held against.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_would_round_commits_nothing() {
    let scene = Scene::new(1).await;
    let wanted = scene.consumer("c").await;
    scene.database.execute("ALTER TABLE c_balances ALTER COLUMN total TYPE numeric(18, 2)").await;
    let cents = |n: i64| format!("{n}|account-{}|0.25|{n}", n % ACCOUNTS);
    scene.produce(0, (0..1_000).map(cents));
    let app = scene.start(&[wanted]);
    scene.consumed(&app, "c").await;
    scene.database.execute("ALTER TABLE c_balances ALTER COLUMN total TYPE numeric(18, 0)").await;
    scene.produce(0, (1_000..2_000).map(cents));
    until_reason(&app, "column total").await;
    assert_eq!(oracle::positions(&scene.database, "c", &scene.topic, 1).await, [1_000], "nothing is committed");
    app.drain().await;
}

/// Other columns are the operator's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_is_not_granted_may_come_and_go() {
    let running = Running::start().await;
    running.alter("ALTER TABLE c_latest ADD COLUMN remark TEXT").await;
    running.scene.produce(0, events(1_000..1_500));
    running.scene.consumed(&running.app, "c").await;
    running.alter("ALTER TABLE c_latest DROP COLUMN remark").await;
    running.scene.produce(0, events(1_500..2_000));
    running.scene.consumed(&running.app, "c").await;
    running.app.drain().await;
    assert_eq!(running.scene.sum("c").await, 2_000);
    running.scene.proofs("c").await;
}
