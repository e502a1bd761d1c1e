//! What an operator does over HTTP to an application that runs: look, pause, go on, start again.

use serde_json::Value;
use tidegate::{
    app::App,
    config::Secret,
    http::{Server, View},
};
use tidegate_tests::{host, http, oracle, wait};

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
    assert_ne!(operator.state("a").await["state"], "stopped", "what it says is about the new start");
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

/// What the program says, on both streams, and its exit code.
async fn tidegate(port: u16, arguments: &str, token: Option<&str>) -> (i32, String) {
    let mut command = std::process::Command::new(host::program("tidegate"));
    command.arg("consumers").args(arguments.split_whitespace()).env_remove("TIDEGATE_TOKEN");
    command.args(["--url", &format!("http://127.0.0.1:{port}")]).envs(token.map(|token| ("TIDEGATE_TOKEN", token)));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_by_command() {
    let scene = Scene::new(2).await;
    let wanted = [scene.consumer("c").await];
    scene.produce(0, (0..7).map(|n| event(n, "x", 1, n)));
    let app = scene.start(&wanted);
    let operator = Operator::of(&app).await;
    let port = operator.server.address().port();
    scene.consumed(&app, "c").await;
    until_ready(&app).await;
    wait::until_true("all is counted", async || operator.state("c").await["outcomes"]["applied"] == 7).await;

    let (code, said) = tidegate(port, "", None).await;
    let row = said.lines().nth(1).unwrap_or_default().split_whitespace().take(3).collect::<Vec<_>>();
    assert!(code == 0 && row == ["c", "running", "2"], "{said}");
    let (code, said) = tidegate(port, "list --json", None).await;
    let shown: Value = serde_json::from_str(&said).unwrap();
    assert!(code == 0 && shown["consumers"][0]["outcomes"]["applied"] == 7, "{said}");

    let (code, said) = tidegate(port, "pause c", Some(TOKEN)).await;
    assert!(code == 0 && said.contains("paused") && said.contains("/v1/consumers/c/resume"), "{said}");
    assert_eq!(operator.state("c").await["state"], "paused");
    let (code, said) = tidegate(port, "resume c --json", Some(TOKEN)).await;
    assert_eq!((code, &serde_json::from_str::<Value>(&said).unwrap()["state"]), (0, &Value::from("running")));

    let (code, said) = tidegate(port, "reload c", Some(TOKEN)).await;
    assert!(code == 0 && said.starts_with("c: unchanged"), "{said}");
    let (code, said) = tidegate(port, "reload c --json", Some(TOKEN)).await;
    let shown: Value = serde_json::from_str(&said).unwrap();
    assert!(code == 0 && shown["last_reload"]["result"] == "unchanged", "{said}");
    let (code, said) = tidegate(port, "reload c --no-wait", Some(TOKEN)).await;
    assert!(code == 0 && said.starts_with("consumer ") && !said.contains("last reload"), "{said}");
    let (_, said) = tidegate(port, "", None).await;
    assert!(said.contains("last reload 2") && said.contains("Z unchanged"), "{said}");

    // What goes wrong says what to do, and no token.
    let wrong = "0123456789abcdeX";
    for (arguments, token, code, part) in [
        ("pause c", None, 2, "TIDEGATE_TOKEN, --token-file"),
        ("pause c", Some(wrong), 2, "answers 401"),
        ("pause d", Some(TOKEN), 2, "it has: c"),
        ("restart c", Some(TOKEN), 1, "has not stopped"),
    ] {
        let (ended, said) = tidegate(port, arguments, token).await;
        assert!(ended == code && said.contains(part), "{arguments}: {ended}: {said}");
        assert!(!said.contains(TOKEN) && !said.contains(wrong), "{said}");
    }
    app.drain().await;
    drop(operator);
    let (code, said) = tidegate(port, "list --json", None).await;
    assert!(code == 3 && said.contains(r#""ok":false"#) && said.contains("connect to http://127.0.0.1"), "{said}");
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
