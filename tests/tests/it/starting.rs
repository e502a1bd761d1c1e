//! Starts that meet something unfinished: whoever is asked is silent, a topic is just going or coming. Each says what it
//! waits for as long as it waits, and goes on by itself.

use std::time::Duration;

use tidegate::app::App;
use tidegate_tests::{
    Broker,
    fault::{Faults, Proxy, Swallow},
    host::{HostProcess, Setup},
    kafka, postgres,
    services::{Folder, Kafka},
    wait,
};

use crate::{
    accounts::event,
    kafka_scene::{Scene, Wanted, until_ready, until_reason},
    payments::Payments,
};

const PARTITIONS: i32 = 6;

/// When a host starts beside one that runs, while their topic is deleted and made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    JustBefore,
    WithTheRemoval,
    WhileItIsGone,
    /// It is away so long that whoever reads it gives it up.
    WhileItIsGivenUp,
    WithTheNewOne,
    JustAfter,
}

/// What a host says is wrong: about what, in which words.
type Said = Vec<(String, String)>;

fn said(app: &App) -> Said {
    app.health().reasons().into_iter().map(|reason| (reason.about, reason.text)).collect()
}

/// Of how many partitions it is said how to go on.
fn named(said: &Said) -> usize {
    let meant =
        |text: &String| text.contains("was deleted and made again") && text.contains("--topic-recreated --execute");
    said.iter().filter(|(_, text)| meant(text)).count()
}

async fn starts_amid_a_removal(when: When) {
    // Given up, it must come back without a rebalance's help.
    let refresh = if when == When::WhileItIsGivenUp { "30000" } else { "2000" };
    let scene = Scene::new(PARTITIONS).await.with("topic.metadata.refresh.interval.ms", refresh);
    let wanted = [scene.consumer("c").await];
    let fill = |from: i64, to: i64| {
        (0..PARTITIONS).for_each(|p| scene.produce(p, (from..to).map(|n| event(format!("{p}-{n}"), "a", 1, n))));
    };
    fill(0, 10);
    let one = scene.start(&wanted);
    scene.consumed(&one, "c").await;

    let mut other = (when == When::JustBefore).then(|| scene.start(&wanted));
    scene.broker.delete(&scene.topic).await;
    if when == When::WithTheRemoval {
        other = Some(scene.start(&wanted));
    }
    wait::until_true("the topic is gone", async || scene.broker.partitions(&scene.topic) == 0).await;
    if matches!(when, When::WhileItIsGone | When::WhileItIsGivenUp) {
        let waits = other.insert(scene.start(&wanted));
        until_reason(waits, "does not exist").await;
    }
    if when == When::WhileItIsGivenUp {
        until_reason(&one, "does not exist any more").await;
    }
    if when == When::WithTheNewOne {
        other = Some(scene.start(&wanted));
    }
    let make = async || scene.broker.try_create(&scene.topic, PARTITIONS, &[]).await.is_ok();
    wait::until_true("the topic is made again", make).await;
    let other = other.unwrap_or_else(|| scene.start(&wanted));
    // More than was read of the old one: the client by itself would go on behind it.
    fill(100, 120);

    let what = format!("all partitions are named, by both hosts ({when:?})");
    let all = |(one, other): &(Said, Said)| {
        let (one, other) = (named(one), named(other));
        one > 0 && other > 0 && one + other == usize::try_from(PARTITIONS).unwrap()
    };
    wait::until(&what, async || (said(&one), said(&other)), all).await;
    one.drain().await;
    other.drain().await;
    assert_eq!(
        scene.sum("c").await,
        i64::from(PARTITIONS) * 10,
        "nothing of the new topic was taken for the old one's"
    );
    scene.proofs("c").await;
}

macro_rules! starts_amid_a_removal {
    ($($case:ident: $when:ident),+ $(,)?) => {
        mod a_start_amid_a_topic_s_removal_names_the_way_out {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::starts_amid_a_removal(super::When::$when).await;
                }
            )+
        }
    };
}

starts_amid_a_removal!(
    just_before: JustBefore,
    with_the_removal: WithTheRemoval,
    while_it_is_gone: WhileItIsGone,
    while_it_is_given_up: WhileItIsGivenUp,
    with_the_new_one: WithTheNewOne,
    just_after: JustAfter,
);

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_comes_late_is_no_reason_for_whoever_gets_none_of_it() {
    let scene = Scene::new(2).await.with("topic.metadata.refresh.interval.ms", "2000");
    let late = format!("{}-late", scene.topic);
    let wanted = [Wanted { topics: vec![scene.topic.clone(), late.clone()], ..scene.consumer("c").await }];
    let (one, other) = (scene.start(&wanted), scene.start(&wanted));
    for app in [&one, &other] {
        let says = async || app.health().reasons().iter().any(|reason| reason.about == format!("topic {late}"));
        wait::until_true("the topic is missed", says).await;
    }
    scene.broker.create(&late, 1, &[]).await;
    until_ready(&one).await;
    until_ready(&other).await;
    scene.broker.producer(&[]).send(&late, [event("e", "a", 1, 1)].map(tidegate_tests::Message::new));
    wait::until_true("it is consumed", async || scene.sum("c").await == 1).await;
    one.drain().await;
    other.drain().await;
}

/// Waits until `/readyz` gives a reason with these words.
async fn says(host: &mut HostProcess, part: &str) {
    host.until_not_ready(part).await;
}

async fn goes_on(mut host: HostProcess) {
    host.ready().await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
}

/// A connection whose other end is gone without a word, and a lock of somebody who alters a table, look alike: no answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_outlasts_a_database_that_is_silent_at_any_of_its_questions() {
    let payments = Payments::new(kafka(), postgres().await, 1).await;
    let setup =
        [("lock_timeout", "100ms"), ("statement_timeout", "300ms"), ("idle_in_transaction_session_timeout", "600ms")]
            .iter()
            .fold(payments.setup(), |setup, (key, value)| setup.with_database(key, value));
    goes_on(HostProcess::start("the first", &setup)).await;
    for (table, step) in [
        ("tidegate_migrations", "asking database"),
        ("consumers", "holding the plugin against its cases and the keys"),
        ("key_samples", "holding the plugin against its cases and the keys"),
    ] {
        let mut lock = payments.database.pool().begin().await.unwrap();
        let sql = format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut *lock).await.unwrap();
        let mut host = HostProcess::start(table, &setup);
        says(&mut host, step).await;
        let given_up = async || host.log().matches("cannot start yet").count();
        wait::until(&format!("no answer about {table} is told"), given_up, |n| *n > 0).await;
        let log = host.log();
        assert!(log.contains("the server has not answered for"), "{log}");
        says(&mut host, "so far: ").await;
        lock.rollback().await.unwrap();
        goes_on(host).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_outlasts_a_broker_that_is_silent_at_any_of_its_questions() {
    let folder = Folder::new().unwrap();
    let wire = Proxy::ahead();
    let (kafka, behind) = Kafka::start_behind(folder.path(), wire.port()).unwrap();
    wire.retarget(&behind);
    let payments = Payments::new(Broker::at(&kafka.bootstrap()), postgres().await, 2).await;
    let setup: Setup = payments.setup().with_kafka("bootstrap.servers", &wire.address());
    let setup = setup.with_kafka("socket.timeout.ms", "2000");
    goes_on(HostProcess::start("the first", &setup)).await;
    for line in ["", "for the retention of its topics", "waiting for group"] {
        let silent = || wire.set(Faults { swallow: Some(Swallow::Both), ..Faults::default() });
        if line.is_empty() {
            silent();
        } else {
            // Long enough for what comes next to come too late.
            wire.set(Faults { latency: Duration::from_millis(200), ..Faults::default() });
        }
        let mut host = HostProcess::start(line, &setup);
        if !line.is_empty() {
            wait::until_true("the start comes so far", async || host.log().contains(line)).await;
            silent();
        }
        says(&mut host, "has not joined its group yet: ").await;
        let told = ["does not answer", "the start waits", "has not joined its group for"];
        let told = async || told.iter().map(|words| host.log().matches(words).count()).sum::<usize>();
        wait::until("what it waits for is told", told, |n| *n > 0).await;
        // The old connections stay dead.
        wire.set(Faults::default());
        goes_on(host).await;
    }
}
