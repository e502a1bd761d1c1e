//! `tidegate seek`: each form, what it refuses, and what a crash between its two steps leaves. After each, the consumer's
//! sums and its chain are as they must be.

use std::{
    fmt::Write as _,
    path::Path,
    sync::LazyLock,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use tidegate::{
    config::{self, Database, Dialect, Secret},
    identity::ConsumerName,
    record::TopicPartition,
    seek::{self, Seek, To},
    source::kafka::Outside,
    store::{self, Registration, SeekNote},
};
use tidegate_tests::{
    Message, Sql,
    host::{HostProcess, Setup, run_once},
    kafka, oracle, postgres, wait,
    workload::Workload,
};

use crate::{
    accounts::event,
    kafka_scene::{Scene, Wanted, until_ready},
    payments::Payments,
};

/// The file's form of a scene's consumer `c`.
fn setup(scene: &Scene) -> Setup {
    Setup::new(scene.database.url(), &scene.broker, consumer(&scene.topic))
}

fn consumer(topic: &str) -> String {
    format!(
        r#"
[[consumer]]
name = "c"
group = "c-{topic}"
topics = ["{topic}"]
[consumer.plugin]
path = "closures.wasm"
[[consumer.target]]
name = "balances"
table = "c_balances"
columns = ["account", "total"]
key = ["account"]
merge = {{ total = "add" }}
"#
    )
}

/// What the command says and its exit code.
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.err))
    }
}

fn seek_with(setup: &Setup, arguments: &str) -> Said {
    let arguments: Vec<&str> = ["seek", "--consumer", "c"].into_iter().chain(arguments.split_whitespace()).collect();
    let output = run_once(setup, &arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn seek(scene: &Scene, arguments: &str) -> Said {
    seek_with(&setup(scene), arguments)
}

/// It must work.
fn sought(scene: &Scene, arguments: &str) -> Said {
    let said = seek(scene, arguments);
    assert_eq!(said.code, 0, "{arguments}: {}{}", said.out, said.err);
    said
}

/// The time of the record at this offset, in these tests: a minute each, from a day ago, which retention leaves alone.
fn time(offset: i64) -> i64 {
    static BEGIN: LazyLock<i64> = LazyLock::new(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        i64::try_from(now).unwrap() - 86_400_000
    });
    *BEGIN + offset * 60_000
}

/// Each worth one; ids and times by partition and offset.
fn produce(scene: &Scene, partition: i32, offsets: std::ops::Range<i64>) {
    let message = |n| Message {
        timestamp: Some(time(n)),
        ..Message::new(event(format!("{partition}-{n}"), "a", 1, n)).to(partition)
    };
    scene.broker.producer(&[]).send(&scene.topic, offsets.map(message));
}

async fn run(scene: &Scene, wanted: &Wanted) {
    let app = scene.start(std::slice::from_ref(wanted));
    scene.consumed(&app, "c").await;
    app.drain().await;
}

/// Everything that a seek may change.
async fn state(scene: &Scene) -> (Vec<Option<i64>>, Vec<i64>, i64, i64) {
    let count = async |table: &str| scene.database.number(&format!("SELECT count(*) FROM {table}")).await;
    (
        scene.broker.committed(&format!("c-{}", scene.topic), &scene.topic),
        oracle::positions(&scene.database, "c", &scene.topic, 2).await,
        count("checkpoints").await,
        count("seeks").await,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn each_form_goes_where_it_says() {
    let scene = Scene::new(2).await;
    let wanted = scene.consumer("c").await;
    produce(&scene, 0, 0..100);
    produce(&scene, 1, 0..100);
    run(&scene, &wanted).await;
    let before = state(&scene).await;
    assert_eq!((&before.0, &before.1), (&vec![Some(100), Some(100)], &vec![100, 100]));

    // Dry: shown, and nothing is changed.
    let said = sought(&scene, "--offset 40 --partition 0 --json").json();
    assert_eq!(said["executed"], false);
    let step = &said["partitions"][0];
    assert_eq!(
        (step["from"].as_i64(), step["to"].as_i64(), step["read_again"].as_i64()),
        (Some(100), Some(40), Some(60))
    );
    let shown = sought(&scene, "--offset 40 --partition 0").out;
    assert!(shown.contains("60 read again: duplicates only") && shown.contains("add --execute"), "{shown}");
    assert_eq!(state(&scene).await, before);

    // Back, by offset, of one partition; who and why is kept.
    sought(&scene, "--offset 40 --partition 0 --execute --reason replay");
    let after = state(&scene).await;
    assert_eq!((&after.0, &after.1, after.3), (&vec![Some(40), Some(100)], &vec![40, 100], 1));
    let notes = "SELECT how || ' ' || reason || ' ' || from_offset || ' ' || to_offset || ' ' || (made_by LIKE '%@%') \
                 FROM seeks JOIN checkpoints USING (checkpoint_id) WHERE kind = 'm'";
    assert_eq!(scene.database.texts(notes).await, ["--offset 40 replay 100 40 true"]);
    run(&scene, &wanted).await;
    let totals = oracle::totals(&scene.database, "c").await;
    assert_eq!((totals.consumed, totals.applied, totals.duplicate, scene.sum("c").await), (260, 200, 60, 200));

    // By time, and all of it.
    let before = format!(
        "SELECT to_char(to_timestamp({}::numeric / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')",
        time(70) - 1
    );
    let before = scene.database.texts(&before).await;
    sought(&scene, &format!("--time {} --yes", before[0]));
    assert_eq!(state(&scene).await.1, [70, 70]);
    sought(&scene, "--start --execute");
    assert_eq!(state(&scene).await.0, [Some(0), Some(0)]);
    run(&scene, &wanted).await;
    assert_eq!(oracle::totals(&scene.database, "c").await.consumed, 460);

    // Forward, only by the word.
    produce(&scene, 0, 100..150);
    let here = state(&scene).await;
    let refused = seek(&scene, "--end --execute");
    assert!(
        refused.code == 2 && refused.err.contains("50 offsets") && refused.err.contains("--pass-over"),
        "{}",
        refused.err
    );
    assert_eq!(state(&scene).await, here);
    let said = sought(&scene, "--end --pass-over --execute");
    assert!(said.out.contains("50 offsets are PASSED OVER") && said.out.contains("NEVER APPLIED"), "{}", said.out);
    produce(&scene, 0, 150..160);
    run(&scene, &wanted).await;
    assert_eq!(scene.sum("c").await, 210, "what was passed over is not applied, what came after is");

    // It is there already.
    let again = sought(&scene, "--end --execute");
    assert!(again.out.contains("nothing to do: all 2 partitions"), "{}", again.out);
    scene.proofs("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_with_the_way_out() {
    let scene = Scene::new(2).await;
    let never = seek(&scene, "--start");
    assert!(never.code == 2 && never.err.contains("c has not run yet"), "{}", never.err);
    produce(&scene, 0, 0..50);
    let wanted = scene.consumer("c").await;
    run(&scene, &wanted).await;
    scene.broker.truncate(&scene.topic, 0, 10).await;
    let before = state(&scene).await;
    for (arguments, part) in [
        ("--offset 51 --partition 0", "[0] has no offset 51: it holds 10 up to 50"),
        ("--offset 9 --partition 0", "[0] has no offset 9: it holds 10 up to 50"),
        ("--offset -1 --partition 0", "has no offset -1"),
        ("--start --partition 7", "has no partition 7: it has 0 to 1"),
        ("--start --topic other", "c does not read topic other"),
        ("--topic-recreated --partition 0", "leave --partition out"),
        ("--time yesterday", "is no RFC 3339 time"),
        ("--start --consumer nobody", "the argument '--consumer <NAME>' cannot be used multiple times"),
        ("--start --end", "cannot be used with"),
        ("", "required"),
    ] {
        let said = seek(&scene, &format!("{arguments} --execute"));
        assert_eq!(said.code, 2, "{arguments}: {}{}", said.out, said.err);
        assert!(said.err.contains(part), "{arguments}: no {part:?} in {}", said.err);
    }
    for form in ["--topic-recreated", "--offsets-lost"] {
        assert!(sought(&scene, &format!("{form} --execute")).out.contains("nothing to do"), "nothing was lost: {form}");
    }
    assert_eq!(state(&scene).await, before);

    let broker = setup(&scene).with_kafka("bootstrap.servers", "127.0.0.1:1");
    let said = seek_with(&broker, "--start --json");
    assert!(said.code == 3 && said.err.contains("127.0.0.1:1"), "{}: {}", said.code, said.err);
    assert_eq!(said.json()["ok"], false);
}

async fn a_running_group_is_refused(scene: Scene) {
    let wanted = scene.consumer("c").await;
    produce(&scene, 0, 0..50);
    let app = scene.start(&[wanted]);
    until_ready(&app).await;
    scene.consumed(&app, "c").await;
    let links = "SELECT count(*) FROM checkpoints";
    let before = scene.database.number(links).await;
    let said = seek(&scene, "--start --execute");
    assert_eq!(said.code, 3, "{}{}", said.out, said.err);
    for part in ["has members", "stop these hosts first", "Nothing was changed", "rdkafka", "127.0.0.1"] {
        assert!(said.err.contains(part), "no {part:?} in {}", said.err);
    }
    assert_eq!(scene.database.number(links).await, before);
    let shown = sought(&scene, "--start").out;
    assert!(shown.contains("the group has 1 members now"), "{shown}");
    app.drain().await;
    sought(&scene, "--start --execute");
    scene.proofs("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_group_is_refused_and_its_members_are_named() {
    a_running_group_is_refused(Scene::new(2).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_group_of_the_newer_protocol_is_refused_too() {
    let mut scene = Scene::new(2).await;
    scene.properties.insert("group.protocol".to_owned(), "consumer".to_owned());
    scene.properties.remove("session.timeout.ms");
    scene.properties.remove("heartbeat.interval.ms");
    a_running_group_is_refused(scene).await;
}

/// Does the first step and "crashes" before the second.
async fn half(scene: &Scene, to: To) {
    let text = format!(
        "[database.main]\nurl = \"{}\"\n[kafka.main]\n\"bootstrap.servers\" = \"{}\"\n{}",
        scene.database.url(),
        scene.broker.bootstrap(),
        consumer(&scene.topic)
    );
    let config = config::parse(&text, Path::new("tidegate.toml"), &|_| None).unwrap().config;
    let consumer = ConsumerName::new("c").unwrap();
    let wanted = Seek { consumer, topics: vec![], partitions: vec![], to, pass_over: true };
    let prepared = seek::prepare(&config, wanted).await.unwrap();
    let note = SeekNote { how: "test".to_owned(), by: "test".to_owned(), reason: None };
    assert!(prepared.move_chains(&note).await.unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_the_chain_and_the_offsets_loses_nothing() {
    let scene = Scene::new(1).await;
    let wanted = scene.consumer("c").await;
    produce(&scene, 0, 0..100);
    run(&scene, &wanted).await;
    produce(&scene, 0, 100..150);

    // Forward: a host that starts now goes on at the group's offset and reads what was to be left out, rather than lose it.
    let group = format!("c-{}", scene.topic);
    scene.broker.set_committed(&group, &scene.topic, 0, 90);
    half(&scene, To::End).await;
    let committed = || scene.broker.committed(&group, &scene.topic);
    assert_eq!(committed(), [Some(90)]);
    let said = sought(&scene, "--end").out;
    assert!(said.contains("only Kafka's offset is set"), "the same command finishes it: {said}");
    let app = scene.start(std::slice::from_ref(&wanted));
    wait::until("what was moved over is read", async || scene.sum("c").await, |&sum| sum == 150).await;
    scene.consumed(&app, "c").await;
    app.drain().await;

    // The same command finishes what was begun.
    produce(&scene, 0, 150..200);
    half(&scene, To::End).await;
    let said = sought(&scene, "--end --execute --json").json();
    assert_eq!((said["chains_moved"].as_i64(), said["offsets_set"].as_i64()), (Some(0), Some(1)), "{said}");
    assert_eq!(committed(), [Some(200)]);
    run(&scene, &wanted).await;
    assert_eq!(scene.sum("c").await, 150);

    // Back: the chain alone is enough.
    half(&scene, To::Offset(150)).await;
    assert_eq!(committed(), [Some(200)]);
    run(&scene, &wanted).await;
    assert_eq!(scene.sum("c").await, 200);
    scene.proofs("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_is_fenced_by_the_move() {
    let payments = Payments::new(kafka(), postgres().await, 1).await;
    let events = Workload { messages: 2_000, seed: 41 }.events();
    let (before, after) = events.split_at(1_000);
    payments.publish(before);
    payments.run_to_the_end().await;

    // A host with a batch in hand, in the middle of its transaction, stops moving.
    let mut rival = payments.database.pool().begin().await.unwrap();
    sqlx::query("LOCK TABLE settlements IN EXCLUSIVE MODE").execute(&mut *rival).await.unwrap();
    let mut zombie = HostProcess::start("zombie", &payments.setup());
    zombie.ready().await;
    payments.publish(after);
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'settlements'::regclass";
    wait::until_true("the zombie waits for the table", async || payments.database.number(waiting).await > 0).await;
    zombie.freeze();
    rival.rollback().await.unwrap();

    let arguments = format!("seek --consumer settlement-service --offset 500 --topic {} --execute", payments.topic);
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let moved = wait::until(
        "Kafka misses the zombie",
        async || run_once(&payments.setup(), &arguments).status.code(),
        |code| *code != Some(3),
    );
    assert_eq!(moved.await, Some(0));
    assert_eq!(payments.positions().await, [500]);

    zombie.thaw();
    let fenced = async || zombie.metric("tidegate_fenced_total").await.unwrap_or(0.0) > 0.0;
    wait::until_true("the zombie's batch is refused", fenced).await;
    // From where the operator wanted it, by whoever goes on: here the zombie itself, a member again.
    let all = i64::try_from(before.len() + events.len() - 500).unwrap();
    let consumed = wait::until("all is read", async || payments.totals().await.consumed, |&n| n >= all);
    zombie.alive_during(consumed).await;
    zombie.terminate();
    assert_eq!(zombie.wait().code(), Some(0), "{}", zombie.log());
    assert_eq!(
        payments.totals().await.consumed,
        all,
        "1,000 before, then from 500 on, and nothing of the zombie's batch"
    );
    payments.assert_each_applied_once_whatever_came_again(&events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seeking_on_sqlite() {
    let broker = kafka();
    let topic = broker.topic(2).await;
    broker.producer(&[]).send(&topic, (0..30).map(|n| Message::new("x").to(n % 2)));
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("c.db").display());
    let store = store::open(&Database::new(Secret::new(&url), Dialect::Sqlite)).unwrap();
    assert_eq!(store.migrate().await.unwrap().refusal(), None);
    let name = ConsumerName::new("c").unwrap();
    let registration = Registration {
        name: name.clone(),
        group: format!("c-{topic}"),
        key_version: 1,
        declared: 1,
        plugin_digest: [0; 32],
        started_from: serde_json::json!({}),
    };
    store.register_consumer(&registration).await.unwrap();
    // As a host that has read everything leaves it.
    let (properties, group) =
        ([("bootstrap.servers".to_owned(), broker.bootstrap().to_owned())].into(), &registration.group);
    let (topic_id, cluster_id) = tokio::task::block_in_place(|| {
        let outside = Outside::connect(&properties, group).unwrap();
        let topic: std::sync::Arc<str> = topic.as_str().into();
        (outside.topic_ids(std::slice::from_ref(&topic)).unwrap()[&topic], outside.cluster_id().clone())
    });
    let mut connection = store.connect().await.unwrap();
    for partition in 0..2 {
        let partition =
            TopicPartition { cluster_id: cluster_id.clone(), topic_id, topic: topic.as_str().into(), partition };
        connection.move_chain(&name, &partition.into(), None, 15).await.unwrap().unwrap();
    }
    drop((connection, store));

    let setup = Setup::new(&url, &broker, consumer(&topic));
    let dry = seek_with(&setup, "--start");
    assert!(dry.code == 0 && dry.out.contains("15 read again: duplicates only"), "{}{}", dry.out, dry.err);
    assert_eq!(broker.committed(group, &topic), [None, None]);
    let said = seek_with(&setup, "--offset 5 --partition 1 --execute --reason sqlite");
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert_eq!(broker.committed(group, &topic), [None, Some(5)]);
    let status = run_once(&setup, &["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["consumers"][0]["chain_ok"], true);
    let next: Vec<_> = (0..2).map(|n| status["consumers"][0]["partitions"][n]["next_offset"].as_i64()).collect();
    assert_eq!(next, [Some(15), Some(5)]);
}

/// The command that a message names, and what it says when it is typed.
fn type_what_is_named(text: &str) -> String {
    let command =
        text.split('`').find(|part| part.starts_with("tidegate seek ")).unwrap_or_else(|| panic!("none in {text}"));
    let programs = tidegate_tests::host::program("tidegate");
    let path = format!("{}:{}", programs.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let output = std::process::Command::new("sh").arg("-c").arg(command).env("PATH", path).output().unwrap();
    let mut said = String::from_utf8(output.stdout).unwrap();
    let _ = write!(said, "{}", String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{command}: {said}");
    said
}

/// The reason for which the host is not ready, once it is this.
async fn reason(host: &HostProcess, part: &str) -> String {
    let mut said = String::new();
    wait::until_true(&format!("the host says {part:?}"), async || {
        said = host.get("/readyz").await.map(|answer| answer.body).unwrap_or_default();
        said.contains(part)
    })
    .await;
    said
}

/// What `status --online` says of the first partition's lag, and of what cannot go on.
fn online(setup: &Setup) -> (Option<i64>, Vec<String>) {
    let output = run_once(setup, &["status", "--online", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let consumer = &status["consumers"][0];
    let stopped = consumer["stopped"].as_array().unwrap().iter().map(|why| why.as_str().unwrap().to_owned());
    (consumer["partitions"][0]["lag"].as_i64(), stopped.collect())
}

fn ended(host: &mut HostProcess) {
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_that_are_gone_are_counted_and_the_command_that_is_named_goes_on() {
    let payments = Payments::new(kafka(), postgres().await, 1).await;
    let events = crate::payments::distinct(Workload { messages: 900, seed: 42 }.events());
    let (read, rest) = events.split_at(300);
    let (gone, kept) = rest.split_at(200);
    payments.publish(read);
    payments.run_to_the_end().await;
    payments.publish(rest);
    payments.broker.truncate(&payments.topic, 0, 500).await;

    let mut host = HostProcess::start("host", &payments.setup());
    let said = reason(&host, "is stopped").await;
    assert!(said.contains("offsets 300 to 499 (200 of them) were deleted before they were read"), "{said}");
    assert!(said.contains(&format!("--topic {} --partition 0 --offsets-lost --execute`", payments.topic)), "{said}");
    ended(&mut host);
    let behind = i64::try_from(rest.len()).unwrap();
    let (lag, stopped) = online(&payments.setup());
    assert!(lag == Some(behind) && stopped.len() == 1, "{lag:?} {stopped:?}");
    assert!(stopped[0].contains("(200 of them)") && stopped[0].contains("--offsets-lost --execute`"), "{stopped:?}");
    let done = type_what_is_named(&said);
    assert!(done.contains("200 offsets are GIVEN UP"), "{done}");
    payments.run_to_the_end().await;
    assert_eq!(online(&payments.setup()), (Some(0), vec![]));
    let expected: Vec<_> = read.iter().chain(kept).cloned().collect();
    payments.assert_each_applied_once(&expected).await;

    // Whoever produced what is gone publishes it again.
    payments.publish(gone);
    payments.run_to_the_end().await;
    payments.assert_each_applied_once(&events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_made_again_goes_on_by_the_command_that_is_named() {
    let payments = Payments::new(kafka(), postgres().await, 2).await;
    let events = crate::payments::distinct(Workload { messages: 600, seed: 43 }.events());
    let (old, new) = events.split_at(300);
    payments.publish(old);
    let mut host = HostProcess::start("host", &payments.setup());
    host.alive_during(payments.until_consumed()).await;
    payments.broker.delete(&payments.topic).await;
    let gone = async || payments.broker.partitions(&payments.topic) == 0;
    wait::until_true("the topic is gone", gone).await;
    payments.broker.create(&payments.topic, 2, &[]).await;
    let said = reason(&host, "was deleted and made again").await;
    assert!(said.contains("whatever stood at offset"), "it had read all that was seen: {said}");
    ended(&mut host);

    // Any other form is refused, with that command's form.
    let other = run_once(&payments.setup(), &["seek", "--consumer", "settlement-service", "--start"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("--topic-recreated"), "{other:?}");

    // In the new topic the old records come again, and new ones.
    payments.publish(&events);
    let mut host = HostProcess::start("host again", &payments.setup());
    let said = reason(&host, "was deleted and made again").await;
    ended(&mut host);
    let done = type_what_is_named(&said);
    assert!(done.contains("2 chains moved"), "{done}");
    // The old chains stand beside the new ones, so the totals tell how far it is.
    let all = i64::try_from(old.len() + events.len()).unwrap();
    let mut host = HostProcess::start("host after", &payments.setup());
    let consumed = wait::until("the new topic is read", async || payments.totals().await.consumed, |&n| n >= all);
    host.alive_during(consumed).await;
    ended(&mut host);
    let totals = payments.totals().await;
    let counted = |events: &[_]| i64::try_from(events.len()).unwrap();
    assert_eq!((totals.consumed, totals.duplicate), (all, counted(old)));
    assert_eq!(totals.applied, counted(old) + counted(new));
    payments.assert_each_applied_once_whatever_came_again(&events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_cut_goes_on_by_the_command_that_is_named() {
    let payments = Payments::new(kafka(), postgres().await, 1).await;
    let events = crate::payments::distinct(Workload { messages: 400, seed: 44 }.events());
    payments.publish(&events);
    payments.run_to_the_end().await;
    // As after an unclean election: more was read than there is.
    let cut = "INSERT INTO checkpoints (checkpoint_id, prev_id, seq, consumer_name, cluster_id, topic_id, topic, partition, \
               kind, first_offset, next_offset, consumed, applied, duplicate, skipped, dead, too_old, key_version, plugin_digest) \
               SELECT gen_random_uuid(), checkpoint_id, seq + 1, consumer_name, cluster_id, topic_id, topic, partition, 'm', \
               next_offset, next_offset + 50, 0, 0, 0, 0, 0, 0, key_version, plugin_digest FROM checkpoints \
               ORDER BY seq DESC LIMIT 1";
    payments.database.execute(cut).await;
    payments.broker.delete_group(&payments.group).await;

    let mut host = HostProcess::start("host", &payments.setup());
    let said = reason(&host, "is stopped").await;
    let (end, beyond) = (events.len(), events.len() + 50);
    assert!(said.contains(&format!("the log ends at {end}, but it was read up to {beyond}")), "{said}");
    ended(&mut host);
    let done = type_what_is_named(&said);
    assert!(done.contains(&format!("{end} read again")), "{done}");
    payments.run_to_the_end().await;
    payments.assert_each_applied_once_whatever_came_again(&events).await;
    assert_eq!(payments.positions().await, [i64::try_from(end).unwrap()]);
}
