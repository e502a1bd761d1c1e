//! Other keys while the host runs: refused without an operator's word on just that plugin; with it the consumer ends cleanly
//! and starts again under the next key version. And what the gate says where it could ask nothing.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use tidegate::{
    app::{App, Disobeyed, Order},
    key_gate::Acceptance,
    plugin::Plugin,
};
use tidegate_tests::{Message, Sql, oracle, wait};

use crate::{
    accounts::{self, event},
    kafka_scene::{Scene, Wanted, until_ready, until_reason},
    reload::{File, events, last, reload, running},
};

async fn until_sampled<D: Sql>(scene: &Scene<D>) {
    let samples = async || scene.database.number("SELECT count(*) FROM key_samples WHERE consumer_name = 'c'").await;
    wait::until("inputs are kept with their keys", samples, |n| *n > 0).await;
}

async fn changes<D: Sql>(scene: &Scene<D>) -> i64 {
    scene.database.number("SELECT count(*) FROM key_changes").await
}

/// Says the word for a plugin of this name, and waits for what becomes of it.
async fn accept(app: &App, plugin: &str) -> (String, String) {
    let (before, ..) = last(app, "c");
    let sha256 = hex::encode(accounts::native(plugin).digest());
    app.control().accept_key_change("c", &sha256, "ann@ops").unwrap();
    let (_, result, why) = wait::until("that has ended", async || last(app, "c"), |now| now.0 > before).await;
    (result, why)
}

/// Traffic that goes on, to both partitions, whatever else happens.
struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicI64>,
    task: std::thread::JoinHandle<()>,
}

impl Traffic {
    fn begin<D: Sql>(scene: &Scene<D>, from: i64) -> Self {
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::new(AtomicI64::new(from)));
        let (producer, topic) = (scene.broker.producer(&[]), scene.topic.clone());
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let task = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                let from = count.load(Ordering::SeqCst);
                let message = |(text, n): (String, i64)| Message::new(text).to(i32::try_from(n % 2).unwrap());
                producer.send(&topic, events(from..from + 20).zip(from..).map(message));
                count.store(from + 20, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        Self { stop, sent, task }
    }

    fn sent(&self) -> i64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Waits until more has come and been applied, by whomever.
    async fn goes_on<D: Sql>(&self, scene: &Scene<D>) {
        let (wanted, applied) = (self.sent() + 40, async || scene.sum("c").await / 10);
        wait::until("messages go on", applied, |n| *n >= wanted).await;
    }

    fn end(self) -> i64 {
        self.stop.store(true, Ordering::SeqCst);
        self.task.join().unwrap();
        self.sent.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_keys_are_accepted_while_the_host_runs() {
    let scene = Scene::new(2).await;
    let wanted: [Wanted; 1] = [scene.consumer("c").await];
    let file = File::with(accounts::native("accounts"));
    let host = running(&scene, &wanted, &file).await;
    let second = scene.start(&wanted);
    let traffic = Traffic::begin(&scene, 0);
    traffic.goes_on(&scene).await;
    until_sampled(&scene).await;

    file.put(accounts::with_other_keys("other keys"));
    let (result, why) = reload(&host, "c").await;
    let command = format!(
        "`tidegate consumers reload c --accept-key-change {}`",
        hex::encode(accounts::native("other keys").digest())
    );
    assert!(result == "refused" && why.contains(&command), "{why}");
    traffic.goes_on(&scene).await;

    // A word on another plugin is good for nothing, now and later.
    let (result, why) = accept(&host, "another").await;
    assert!(result == "refused" && why.contains("nothing is changed"), "{why}");
    assert_eq!(host.control().accept_key_change("c", "0123456789ab", "ann"), Err(Disobeyed::NoDigest));
    assert_eq!(changes(&scene).await, 0);
    traffic.goes_on(&scene).await;
    until_ready(&host).await;
    until_ready(&second).await;
    // The second host is fenced and not asked: what the group had not heard of it by then would be new under the other keys
    // (docs/reload.md). So messages pause until the group has heard of all.
    let sent = traffic.end();
    scene.consumed(&host, "c").await;
    let group = format!("c-{}", scene.topic);
    let told = async || scene.broker.committed(&group, &scene.topic).into_iter().flatten().sum::<i64>();
    wait::until("the group has heard of all", told, |told| *told == sent).await;

    assert_eq!(accept(&host, "other keys").await, ("taken".to_owned(), String::new()));
    let traffic = Traffic::begin(&scene, sent);
    let noted = "SELECT count(*) FROM key_changes WHERE from_version = 0 AND key_version = 1 AND made_by = 'ann@ops' \
                 AND changed > 0";
    assert_eq!((changes(&scene).await, scene.database.number(noted).await), (1, 1));
    // Nobody has told the other one: it may commit nothing any more.
    until_reason(&second, "the active key version is 1, the batch was computed under 0").await;
    traffic.goes_on(&scene).await;
    let sent = traffic.end();
    scene.consumed(&host, "c").await;
    until_ready(&host).await;
    assert_eq!(reload(&host, "c").await.0, "unchanged");

    // The word was good once: what comes next needs its own.
    file.put(accounts::native("accounts"));
    let (result, why) = reload(&host, "c").await;
    assert!(result == "refused" && why.contains("--accept-key-change"), "{why}");
    host.drain().await;
    second.drain().await;
    assert_eq!(scene.sum("c").await, sent * 10, "nothing is lost, nothing doubled");
    assert_eq!(oracle::totals(&scene.database, "c").await.applied, sent);
    scene.proofs("c").await;
}

/// Keys that fit need no word; one that is said all the same is good for nothing that comes later.
#[tokio::test(flavor = "multi_thread")]
async fn a_word_on_a_plugin_that_needs_none_leaves_everything_running() {
    let scene = Scene::new(1).await;
    let file = File::with(accounts::native("accounts"));
    let app = running(&scene, &[scene.consumer("c").await], &file).await;
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    until_sampled(&scene).await;
    file.put(accounts::native("rebuilt"));
    assert_eq!(accept(&app, "rebuilt").await, ("taken".to_owned(), String::new()));
    let stayed = "tidegate_rebalances_total{consumer=\"c\",kind=\"revoke\"} 0";
    assert!(app.metrics().text().contains(stayed), "it did not leave its group");
    file.put(accounts::with_other_keys("other keys"));
    assert_eq!(reload(&app, "c").await.0, "refused");
    app.drain().await;
    assert_eq!(changes(&scene).await, 0);
}

/// What a person said at a start is gone with that start, whatever comes afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_word_that_was_not_needed_does_not_stay_good() {
    let scene = Scene::new(1).await;
    let file = File::with(accounts::native("accounts"));
    let wanted = [scene.consumer("c").await];
    let start = |words| App::start_with(scene.config(&wanted), file.loader(), words).unwrap();
    let app = start(vec![]);
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    until_sampled(&scene).await;
    app.drain().await;
    // Good for any plugin, at this start.
    let app = start(vec![Acceptance::new("c", "ann@ops")]);
    scene.produce(0, events(20..40));
    scene.consumed(&app, "c").await;
    until_ready(&app).await;

    scene.database.execute("ALTER TABLE c_latest DROP COLUMN note").await;
    scene.produce(0, events(40..60));
    until_reason(&app, "stopped: ").await;
    scene.database.execute("ALTER TABLE c_latest ADD COLUMN note TEXT NOT NULL DEFAULT ''").await;
    file.put(accounts::with_other_keys("other keys"));
    let restarted = async || app.control().order("c", Order::Restart).is_ok();
    wait::until_true("it is started again", restarted).await;
    until_reason(&app, "inputs that were applied get other keys").await;
    assert_eq!(changes(&scene).await, 0);

    // It has stopped over them: the word on just that plugin lets it start.
    let before = last(&app, "c").0;
    let sha256 = hex::encode(accounts::native("other keys").digest());
    let said = async || app.control().accept_key_change("c", &sha256, "bob@ops").is_ok();
    wait::until_true("it may be told", said).await;
    wait::until("it starts", async || last(&app, "c"), |now| now.0 > before && now.1 == "taken").await;
    scene.consumed(&app, "c").await;
    app.drain().await;
    assert_eq!((scene.sum("c").await, changes(&scene).await), (600, 1));
}

/// A consumer that keeps no messages knows those of the last minutes, and keeps none for a change of keys either.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_keys_is_accepted_where_no_message_may_be_kept() {
    let scene = Scene::new(1).await;
    let file = File::with(accounts::native("accounts"));
    let mut config = scene.config(&[scene.consumer("c").await]);
    config.consumers[0].key_samples = false;
    let app = App::start_with(config, file.loader(), vec![]).unwrap();
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    file.put(accounts::with_other_keys("other keys"));
    assert_eq!(reload(&app, "c").await.0, "refused");
    assert_eq!(accept(&app, "other keys").await, ("taken".to_owned(), String::new()));
    scene.produce(0, events(20..40));
    scene.consumed(&app, "c").await;
    app.drain().await;
    assert_eq!((scene.sum("c").await, changes(&scene).await), (400, 1));
    assert_eq!(scene.database.number("SELECT key_version FROM consumers").await, 1);
    assert_eq!(scene.database.number("SELECT count(*) FROM key_samples").await, 0);
}

/// Messages that are too large are never kept: where there are no others, nothing holds a new plugin's keys, and it says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_could_ask_nothing_says_so() {
    let scene = Scene::new(1).await;
    let file = File::with(accounts::native("accounts"));
    let app = running(&scene, &[scene.consumer("c").await], &file).await;
    let large = |n: i64| format!("{}|{}", event(format!("e{n}"), "account-0", 10, n), "x".repeat(300 << 10));
    scene.produce(0, (0..3).map(large));
    scene.consumed(&app, "c").await;
    let warnings = || {
        let report = app.report().remove(0);
        let plugin = report.plugin.unwrap();
        (plugin.keys_held_against, plugin.warning, report.last_reload.and_then(|reload| reload.warning))
    };
    assert_eq!(warnings(), (None, None, None), "the first plugin's keys are the ledger's");
    file.put(accounts::native("rebuilt"));
    assert_eq!(reload(&app, "c").await.0, "taken");
    let (against, warning, told) = warnings();
    assert_eq!((against, &warning), (Some(0), &told));
    let warning = warning.unwrap();
    assert!(
        warning.contains("held against no input") && warning.contains("3 applied inputs of more than 256 KiB"),
        "{warning}"
    );

    scene.produce(0, events(3..20));
    scene.consumed(&app, "c").await;
    until_sampled(&scene).await;
    file.put(accounts::native("once more"));
    assert_eq!(reload(&app, "c").await.0, "taken");
    let (against, warning, told) = warnings();
    assert!(against > Some(0) && warning.is_none() && told.is_none(), "{against:?} {warning:?}");
    app.drain().await;
    assert_eq!(scene.sum("c").await, 200);
}
