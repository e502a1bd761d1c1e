//! What goes between host and database breaks in every way: nothing is lost, nothing is applied twice, nothing becomes a
//! dead letter, and `/readyz` says what is going on.

use std::{sync::Arc, time::Duration};

use tidegate_tests::{
    fault::{Ending, Faults, Moment, Nth, Provoked, Proxy, Rival, Swallow},
    host::{HostProcess, Setup},
    kafka, postgres, wait,
    workload::Workload,
};

use crate::payments::{Load, Payments, distinct};

/// More than any of these tests needs.
const EVENTS: Workload = Workload { messages: 600_000, seed: 41 };

struct Scene {
    payments: Arc<Payments>,
    proxy: Proxy,
    host: HostProcess,
    load: Load,
}

impl Scene {
    /// A host that reaches its database through a proxy, at work.
    async fn new(setup: impl FnOnce(Setup) -> Setup) -> Self {
        let payments = Arc::new(Payments::new(kafka(), postgres().await, 4).await);
        let proxy = Proxy::of_database(payments.database.url());
        let through = Setup { database_url: proxy.url(payments.database.url()), ..payments.setup() };
        let load = Load::start(&payments, distinct(EVENTS.events()));
        let mut host = HostProcess::start("host", &setup(through));
        host.ready().await;
        Self { payments, proxy, host, load }
    }

    async fn goes_on(&mut self) {
        let before = self.payments.totals().await.consumed;
        let what = format!("the host goes on from {before}");
        let totals = async || self.payments.totals().await.consumed;
        self.host.alive_during(wait::until(&what, totals, |&consumed| consumed > before + 500)).await;
    }

    async fn says(&mut self, part: &str) {
        self.host.until_not_ready(part).await;
    }

    /// Everything is as if nothing had been.
    async fn end(mut self) {
        let events = self.load.stop().await;
        self.proxy.heal();
        self.host.alive_during(self.payments.until_consumed()).await;
        self.host.ready().await;
        self.host.terminate();
        assert_eq!(self.host.wait().code(), Some(0), "{}", self.host.log());
        self.payments.assert_each_applied_once_whatever_came_again(&events).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_cut_before_during_and_after_lose_and_double_nothing() {
    let mut scene = Scene::new(|setup| setup).await;
    for moment in [Moment::Before, Moment::During, Moment::After] {
        let before = scene.proxy.commits_cut();
        scene.proxy.cut_at_commit(moment, Nth::Every(7));
        scene.host.alive_during(scene.proxy.until_commits_cut(before + 8)).await;
    }
    // And the connections themselves, at any moment.
    scene.proxy.heal();
    for ending in [Ending::Close, Ending::Reset, Ending::Close, Ending::Reset] {
        scene.goes_on().await;
        scene.proxy.cut(ending);
    }
    scene.end().await;
}

/// Somebody accepts connections for a server that is not there, as load balancers do.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_up_at_once_is_waited_for() {
    let mut scene = Scene::new(|setup| setup).await;
    for ending in [Ending::Close, Ending::Reset] {
        scene.goes_on().await;
        scene.proxy.set(Faults { refuse: Some(ending), ..Faults::default() });
        scene.proxy.cut(ending);
        scene.says("connect to").await;
        scene.proxy.heal();
        scene.host.ready().await;
    }
    scene.goes_on().await;
    scene.end().await;
}

/// Connections that are there and carry nothing: no error ever comes of them by itself.
#[tokio::test(flavor = "multi_thread")]
async fn half_open_connections_are_noticed_and_given_up() {
    let mut scene = Scene::new(|setup| setup).await;
    scene.goes_on().await;
    // Each in another way; new ones work.
    let ways = [Swallow::ToClient, Swallow::ToServer, Swallow::Both];
    for (link, swallow) in scene.proxy.links().iter().zip(ways.into_iter().cycle()) {
        link.set(Faults { swallow: Some(swallow), ..Faults::default() });
    }
    scene.goes_on().await;
    scene.host.ready().await;
    // All of them, new ones too.
    scene.proxy.set(Faults { swallow: Some(Swallow::Both), ..Faults::default() });
    scene.says("answer").await;
    scene.proxy.heal();
    scene.goes_on().await;
    scene.end().await;
}

/// A batch takes longer than `max.poll.interval.ms`, and the host stays in its group.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_database_throws_no_host_out_of_its_group() {
    let settings =
        |setup: Setup| setup.with_kafka("session.timeout.ms", "6000").with_kafka("max.poll.interval.ms", "6000");
    let mut scene = Scene::new(settings).await;
    scene.goes_on().await;
    scene.proxy.set(Faults { latency: Duration::from_millis(700), ..Faults::default() });
    let rebalances = scene.host.metric("tidegate_rebalances_total").await;
    let before = scene.payments.totals().await.consumed;
    let consumed = async || scene.payments.totals().await.consumed;
    let slow = wait::until("three slow batches are in", consumed, |&consumed| consumed > before + 700);
    scene.host.alive_during(slow).await;
    assert_eq!(scene.host.metric("tidegate_rebalances_total").await, rebalances, "{}", scene.host.log());
    scene.proxy.heal();
    scene.goes_on().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlocks_lock_time_outs_and_serialization_failures_pass() {
    // With the usual time-outs, which leave the server the second that it takes to find a deadlock.
    let mut scene = Scene::new(|setup| setup.with_kafka("session.timeout.ms", "45000")).await;
    scene.goes_on().await;
    let database = &scene.payments.database;

    // A deadlock: the rival holds rows that a batch wants, and wants one that the batch has locked.
    let mut rival = Rival::begin(database).await;
    rival.run("SELECT FROM settlements ORDER BY payment_id DESC LIMIT 1000 FOR UPDATE").await.unwrap();
    let circle = rival.close_the_circle(database, "LOCK TABLE processed_messages IN EXCLUSIVE MODE");
    scene.host.alive_during(circle).await.unwrap();
    rival.end().await;
    wait::until("a deadlock was met", async || scene.host.log().matches("40P01").count(), |n| *n > 0).await;

    // A lock that is not let go.
    let mut rival = Rival::begin(database).await;
    rival.run("LOCK TABLE settlements IN EXCLUSIVE MODE").await.unwrap();
    scene.host.until_not_ready("55P03").await;
    rival.end().await;
    scene.host.ready().await;

    let provoked = Provoked::on(database, "settlements").await;
    for code in ["40001", "40P01", "53200", "57014", "53100"] {
        provoked.refuse(database, code, 3).await;
        let refused = async || provoked.refused(database).await;
        wait::until(&format!("{code} was met"), refused, |&refused| refused == 3).await;
    }
    provoked.stop(database).await;
    scene.goes_on().await;
    scene.end().await;
}
