//! What an operator does over HTTP to an application that runs: look, pause, go on, start again.

use serde_json::Value;
use tidegate::{
    app::App,
    config::Secret,
    http::{Server, View},
};
use tidegate_tests::{http, oracle, wait};

use crate::{
    accounts::event,
    kafka_scene::{Scene, until_ready, until_reason},
};

const TOKEN: &str = "0123456789abcdef";

struct Operator {
    server: Server,
}

impl Operator {
    async fn of(app: &App) -> Self {
        let view = View::of(app, Some(Secret::new(TOKEN)));
        Self { server: Server::start("127.0.0.1:0".parse().unwrap(), None, view).await.unwrap() }
    }

    async fn get(&self, path: &str) -> http::Answer {
        http::get(self.server.address().port(), path).await.unwrap()
    }

    /// Status code, and what the answer says.
    async fn order(&self, consumer: &str, order: &str) -> (u16, Value) {
        let path = format!("/v1/consumers/{consumer}/{order}");
        let answer = http::post(self.server.address().port(), &path, Some(TOKEN)).await.unwrap();
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    }

    async fn state(&self, consumer: &str) -> Value {
        let answer = self.get(&format!("/v1/consumers/{consumer}")).await;
        serde_json::from_str(&answer.body).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_the_breaker_stopped_is_started_again() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("a").await, scene.consumer("b").await];
    scene.database.execute("ALTER TABLE a_latest ADD CONSTRAINT small CHECK (version < 0) NOT VALID").await;
    let events = |range: std::ops::Range<i64>| range.map(|n| event(n, &format!("account-{n}"), 5_000, n));
    // More than the breaker lets pass, whatever batches they come in.
    scene.produce(0, events(0..2_000));
    let app = scene.start(&wanted);
    let operator = Operator::of(&app).await;
    until_reason(&app, "small").await;
    scene.consumed(&app, "b").await;
    // The reason is known before the consumer has left its group, and a commit before it is counted.
    wait::until_true("it has stopped", async || operator.state("a").await["state"] == "stopped").await;
    wait::until_true("all is counted", async || operator.state("b").await["outcomes"]["applied"] == 2_000).await;

    let shown: Value = serde_json::from_str(&operator.get("/v1/consumers").await.body).unwrap();
    let states: Vec<_> = shown["consumers"].as_array().unwrap().iter().map(|c| &c["state"]).collect();
    assert_eq!(states, ["stopped", "running"], "{shown}");
    assert!(shown["consumers"][0]["reasons"][0]["text"].as_str().unwrap().contains("small"), "{shown}");

    // Nothing was mended: it stops again for the same reason, and says so.
    assert_eq!(operator.order("a", "pause").await.0, 409, "it takes no records anyway");
    assert_eq!(operator.order("a", "restart").await.0, 202);
    let tripped =
        async || operator.get("/metrics").await.body.contains("tidegate_breaker_trips_total{consumer=\"a\"} 2");
    wait::until_true("the breaker trips again", tripped).await;
    wait::until_true("it has stopped", async || operator.state("a").await["state"] == "stopped").await;

    scene.database.execute("ALTER TABLE a_latest DROP CONSTRAINT small").await;
    wait::until_true("it is started again", async || operator.order("a", "restart").await.0 == 202).await;
    let (status, again) = operator.order("a", "restart").await;
    assert!(status == 409 && again["error"].as_str().unwrap().contains("has not stopped"), "{again}");
    scene.produce(0, events(2_000..2_010));
    scene.consumed(&app, "a").await;
    until_ready(&app).await;
    assert_eq!(app.fault(), None, "what is over is no reason to end with");
    app.drain().await;
    assert_eq!(scene.sum("a").await, 2_010 * 5_000);
    assert_eq!(operator.order("a", "restart").await.0, 409, "a drained application stays drained");
    scene.proofs("a").await;
    scene.proofs("b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_consumer_takes_no_records_and_stays_in_its_group() {
    let scene = Scene::new(2).await;
    let wanted = [scene.consumer("c").await];
    let produce = |from: i64| {
        for partition in 0..2 {
            scene.produce(partition, (from..from + 10).map(|n| event(format!("{partition}-{n}"), "x", 1, n)));
        }
    };
    produce(0);
    let app = scene.start(&wanted);
    let operator = Operator::of(&app).await;
    scene.consumed(&app, "c").await;

    let (status, shown) = operator.order("c", "pause").await;
    assert_eq!((status, &shown["state"]), (202, &Value::from("paused")));
    let ready = operator.get("/readyz").await;
    assert!(ready.status == 503 && ready.body.contains("/v1/consumers/c/resume"), "{ready:?}");
    assert!(operator.get("/metrics").await.body.contains("tidegate_consumer_paused{consumer=\"c\"} 1"));
    assert_eq!(operator.get("/livez").await.status, 200);
    // A fetch may have begun before; none begins now.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    produce(10);
    let behind = async || {
        let state = operator.state("c").await;
        state["partitions"].as_object().unwrap().values().filter_map(|p| p["lag"].as_i64()).sum::<i64>()
    };
    wait::until("the lag is seen", behind, |lag| *lag == 20).await;
    assert_eq!(oracle::positions(&scene.database, "c", &scene.topic, 2).await, [10, 10]);

    // Another member joins: the paused one answers the rebalance and gives up its half, so it was in the group.
    let other = scene.start(&wanted);
    let probe = async || oracle::positions(&scene.database, "c", &scene.topic, 2).await;
    wait::until("the other member consumes what it got", probe, |at| at.contains(&20)).await;
    assert_eq!(operator.state("c").await["partitions"].as_object().unwrap().len(), 1);
    let mut at = oracle::positions(&scene.database, "c", &scene.topic, 2).await;
    at.sort_unstable();
    assert_eq!(at, [10, 20], "what the paused one kept stands still");

    let (status, shown) = operator.order("c", "resume").await;
    assert_eq!((status, &shown["state"]), (202, &Value::from("running")));
    scene.consumed(&app, "c").await;
    other.drain().await;
    app.drain().await;
    assert_eq!(scene.sum("c").await, 40);
    assert_eq!(oracle::totals(&scene.database, "c").await.duplicate, 0);
    scene.proofs("c").await;
}
