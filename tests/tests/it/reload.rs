//! Other rules take over while messages come in; whatever does not pass a gate leaves those of before in force.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use tidegate::{
    app::{App, Order, PluginLoader},
    config::{self, Config, Consumer},
    metrics::Reloaded,
    plugin::{
        Accepted, Computed, Description, Instance, KeyResult, Message, Plugin, PluginError, RawIdentity, native::Native,
    },
};
use tidegate_tests::{Sql, oracle, wait};

use crate::{
    accounts::{self, event},
    kafka_scene::{Scene, Wanted, until_ready, until_reason},
};

/// The plugin that is to be found where the file would be; `None` = a file that is no plugin.
#[derive(Clone)]
pub(crate) struct File(Arc<Mutex<Option<Arc<dyn Plugin>>>>);

impl File {
    pub(crate) fn with(plugin: impl Plugin + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Arc::new(plugin)))))
    }

    pub(crate) fn put(&self, plugin: impl Plugin + 'static) {
        *self.0.lock().unwrap() = Some(Arc::new(plugin));
    }

    pub(crate) fn loader(&self) -> Arc<PluginLoader> {
        let file = self.clone();
        Arc::new(move |consumer: &Consumer| {
            let there = file.0.lock().unwrap().clone();
            let nothing =
                || PluginError::Load { path: consumer.plugin.origin.to_string(), message: "is no plugin".to_owned() };
            there.ok_or_else(nothing)
        })
    }
}

pub(crate) fn events(range: std::ops::Range<i64>) -> impl Iterator<Item = String> {
    range.map(|n| event(format!("e{n}"), &format!("account-{}", n % 7), 10, n))
}

/// What became of the last reload: how many there were, the result, and why.
pub(crate) fn last(app: &App, consumer: &str) -> (u64, String, String) {
    let text = app.metrics().text();
    let name = format!("tidegate_plugin_reloads_total{{consumer=\"{consumer}\",");
    let count = text.lines().filter_map(|line| line.strip_prefix(&name)?.split_once("} ")?.1.parse::<u64>().ok()).sum();
    let report = app.report().into_iter().find(|report| report.consumer == consumer).unwrap();
    let last = report.last_reload.map(|last| (last.result.to_owned(), last.why.unwrap_or_default()));
    let (result, why) = last.unwrap_or_default();
    (count, result, why)
}

/// Has the consumer look again, and waits for what becomes of it.
pub(crate) async fn reload(app: &App, consumer: &str) -> (String, String) {
    let (before, ..) = last(app, consumer);
    app.control().order(consumer, Order::Reload).unwrap();
    let (_, result, why) =
        wait::until("the reload has ended", async || last(app, consumer), |now| now.0 > before).await;
    (result, why)
}

pub(crate) async fn running<D: Sql>(scene: &Scene<D>, wanted: &[Wanted], file: &File) -> App {
    App::start_with(scene.config(wanted), file.loader(), vec![]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_plugin_takes_over_between_two_batches() {
    let scene = Scene::new(2).await;
    let mut wanted = scene.consumer("c").await;
    wanted.lanes = 2;
    let file = File::with(accounts::native("accounts"));
    let app = running(&scene, &[wanted], &file).await;
    scene.produce(0, events(0..50));
    scene.consumed(&app, "c").await;
    assert_eq!(reload(&app, "c").await.0, "unchanged");

    let next = accounts::native("rebuilt");
    let digest = next.digest();
    file.put(next);
    // Those that are on their way are applied under the old rules or the new ones, each once.
    scene.produce(1, events(50..2_000));
    assert_eq!(reload(&app, "c").await, ("taken".to_owned(), String::new()));
    scene.produce(0, events(2_000..2_050));
    scene.consumed(&app, "c").await;
    let shown = app.report()[0].plugin.clone().unwrap();
    assert_eq!(shown.name, "rebuilt");
    app.drain().await;
    assert_eq!(scene.sum("c").await, 20_500);
    let hex = hex::encode(digest);
    let newest = format!(
        "SELECT count(*) FROM consumers c WHERE plugin_digest = '\\x{hex}' AND key_version = 0 AND 1 <= (SELECT count(*) \
         FROM checkpoints k WHERE k.consumer_name = c.consumer_name AND k.plugin_digest = c.plugin_digest)"
    );
    assert_eq!(scene.database.number(&newest).await, 1);
    assert_eq!(oracle::totals(&scene.database, "c").await.duplicate, 0);
    scene.proofs("c").await;
}

/// Its first message of a batch gets another key than the same message elsewhere.
struct FirstIsSpecial(Native);

struct Special(Box<dyn Instance>);

impl Plugin for FirstIsSpecial {
    fn digest(&self) -> [u8; 32] {
        self.0.digest()
    }
    fn description(&self) -> &Description {
        self.0.description()
    }
    fn instance(&self, events: usize) -> Result<Box<dyn Instance>, PluginError> {
        Ok(Box::new(Special(self.0.instance(events)?)))
    }
}

impl Instance for Special {
    fn extract_keys(&mut self, batch: &[Message]) -> Result<Vec<KeyResult>, PluginError> {
        let mut keys = self.0.extract_keys(batch)?;
        if let Some(KeyResult::Identity(identity)) = keys.first_mut() {
            identity.message_id.push_str("-first");
        }
        Ok(keys)
    }
    fn compute(&mut self, accepted: &[Accepted]) -> Result<Computed, PluginError> {
        self.0.compute(accepted)
    }
}

fn unstable(name: &str) -> Native {
    let count = AtomicU64::new(0);
    accounts::native(name).keys(move |_| {
        let message_id = count.fetch_add(1, Ordering::Relaxed).to_string();
        KeyResult::Identity(RawIdentity { message_id, aggregate_id: "a".into(), occurred_at: None, fingerprint: None })
    })
}

const GOLDEN: &str = r#"
body = "e7|account-0|10|7"
[identity]
message_id = "e7"
aggregate_id = "account-0"
[[change]]
upsert = "balances"
row.account = "account-0"
row.total = 10
[[change]]
upsert = "latest"
row.account = "account-0"
row.version = 7
row.note = "e7"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_pass_leaves_the_rules_of_before_in_force() {
    let scene = Scene::new(1).await;
    let file = File::with(accounts::native("accounts"));
    let cases = tempfile::tempdir().unwrap();
    std::fs::write(cases.path().join("ten-cents.toml"), GOLDEN).unwrap();
    let mut config = scene.config(&[scene.consumer("c").await]);
    config.consumers[0].plugin.cases = Some(cases.path().to_owned());
    let app = App::start_with(config, file.loader(), vec![]).unwrap();
    let mut next = 0;
    let mut goes_on = async || {
        scene.produce(0, events(next..next + 10));
        next += 10;
        scene.consumed(&app, "c").await;
        until_ready(&app).await;
    };
    goes_on().await;
    let samples = async || scene.database.number("SELECT count(*) FROM key_samples").await;
    wait::until("inputs are kept with their keys", samples, |n| *n > 0).await;

    *file.0.lock().unwrap() = None;
    let (result, why) = reload(&app, "c").await;
    assert!(result == "refused" && why.contains("is no plugin"), "{why}");
    goes_on().await;
    for (plugin, says) in [
        (
            Arc::new(accounts::native("greedy").writes("salaries", &["id"])) as Arc<dyn Plugin>,
            "target salaries, which no",
        ),
        (Arc::new(accounts::native("greedy").writes("balances", &["iban"])), "column iban of target balances"),
        (Arc::new(accounts::with_other_amounts("other amounts")), "1 of 1 golden cases"),
        (Arc::new(accounts::with_other_keys("other keys")), "1 of 1 golden cases"),
        (Arc::new(accounts::native("declared").key_version(7)), "it declares key version 7"),
    ] {
        let name = plugin.description().name.clone();
        *file.0.lock().unwrap() = Some(plugin);
        let (result, why) = reload(&app, "c").await;
        assert!(result == "refused" && why.contains(says), "{name}: {why}");
        goes_on().await;
    }
    assert_eq!(app.report()[0].plugin.as_ref().unwrap().name, "accounts");
    let metric = "tidegate_plugin_reloads_total{consumer=\"c\",result=\"refused\"} 6";
    assert!(app.metrics().text().contains(metric), "{}", app.metrics().text());
    file.put(accounts::native("rebuilt"));
    assert_eq!(reload(&app, "c").await.0, "taken");
    goes_on().await;
    app.drain().await;
    assert_eq!(scene.sum("c").await, next * 10);
    assert_eq!(
        scene.database.number("SELECT count(DISTINCT plugin_digest) FROM checkpoints WHERE kind = 'r'").await,
        2
    );
    scene.proofs("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_keys_are_refused_while_messages_come_in() {
    let scene = Scene::new(1).await;
    let file = File::with(accounts::native("accounts"));
    let app = running(&scene, &[scene.consumer("c").await], &file).await;
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    let samples = async || scene.database.number("SELECT count(*) FROM key_samples").await;
    wait::until("inputs are kept with their keys", samples, |n| *n > 0).await;
    for (plugin, says) in [
        (
            Arc::new(accounts::with_other_keys("other keys")) as Arc<dyn Plugin>,
            ["becomes new-e", "--accept-key-change c@"],
        ),
        (Arc::new(unstable("unstable")), ["error[TG001]", "twice gave other keys"]),
        (Arc::new(FirstIsSpecial(accounts::native("crowded"))), ["error[TG001]", "place in the batch"]),
    ] {
        *file.0.lock().unwrap() = Some(plugin);
        let (result, why) = reload(&app, "c").await;
        assert!(result == "refused" && says.iter().all(|says| why.contains(says)), "{says:?}: {why}");
        scene.produce(0, events(0..20));
        scene.consumed(&app, "c").await;
        until_ready(&app).await;
    }
    scene.produce(0, events(20..40));
    scene.consumed(&app, "c").await;
    app.drain().await;
    assert_eq!((scene.sum("c").await, oracle::totals(&scene.database, "c").await.duplicate), (400, 60));
    scene.proofs("c").await;
}

/// Without kept samples the messages of the last minutes are what a new plugin is held against.
#[tokio::test(flavor = "multi_thread")]
async fn recent_messages_guard_the_keys_where_none_may_be_kept() {
    let scene = Scene::new(1).await;
    let file = File::with(accounts::native("accounts"));
    let mut config = scene.config(&[scene.consumer("c").await]);
    config.consumers[0].key_samples = false;
    let app = App::start_with(config, file.loader(), vec![]).unwrap();
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    file.put(accounts::with_other_keys("other keys"));
    let (result, why) = reload(&app, "c").await;
    assert!(result == "refused" && why.contains("becomes new-e"), "{why}");
    app.drain().await;
    assert_eq!(scene.database.number("SELECT count(*) FROM key_samples").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_move_stop_a_consumer_before_its_batch_is_committed() {
    let scene = Scene::new(1).await;
    scene.produce(0, events(0..20));
    let file = File::with(FirstIsSpecial(accounts::native("crowded")));
    let app = running(&scene, &[scene.consumer("c").await], &file).await;
    until_reason(&app, "error[TG001]").await;
    until_reason(&app, "message id e0-first becomes e0").await;
    app.drain().await;
    assert_eq!(scene.database.number("SELECT count(*) FROM processed_messages").await, 0);
    assert_eq!(scene.database.number("SELECT count(*) FROM checkpoints WHERE kind = 'r'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_comes_and_goes_with_the_configuration() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    let app = running(&scene, &wanted, &File::with(accounts::native("accounts"))).await;
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    let mut config = scene.config(&wanted);
    config.consumers[0].shadow = Some(config.consumers[0].plugin.clone());
    assert_eq!(app.reconfigure(config.clone()).await, Reloaded::Taken);
    assert!(app.control().shadow("c").is_some(), "it looks on as soon as the configuration is taken");
    config.consumers[0].shadow = None;
    assert_eq!(app.reconfigure(config).await, Reloaded::Taken);
    assert_eq!(app.control().shadow("c"), None);
    app.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_is_taken_as_a_whole_or_not_at_all() {
    let scene = Scene::new(1).await;
    let [a, b, c] = [scene.consumer("a").await, scene.consumer("b").await, scene.consumer("c").await];
    let file = File::with(accounts::native("accounts"));
    let app = running(&scene, &[a.clone(), b.clone()], &file).await;
    scene.produce(0, events(0..20));
    scene.consumed(&app, "a").await;
    scene.consumed(&app, "b").await;
    let names = || app.report().into_iter().map(|report| report.consumer).collect::<Vec<_>>();
    let rules = || app.report()[0].plugin.as_ref().unwrap().name.clone();
    let why = || app.health().configuration().unwrap().why.unwrap_or_default();
    let mut both = scene.config(&[a.clone(), b.clone()]);
    assert_eq!(app.reconfigure(both.clone()).await, Reloaded::Unchanged);

    // One key of one consumer takes a restart: nothing of the other's is taken.
    file.put(accounts::native("rebuilt"));
    both.consumers[0].plugin.settings = serde_json::json!({ "x": 1 });
    both.consumers[1].lanes = 2;
    assert_eq!(app.reconfigure(both.clone()).await, Reloaded::Refused);
    assert!(
        why().contains("consumer b: `lanes` is read at a start of the process only; restart the process"),
        "{}",
        why()
    );
    assert_eq!(rules(), "accounts");

    // A new consumer that would not start: nothing either.
    let with_c = |change: &dyn Fn(&mut config::Consumer)| -> Config {
        let mut config = scene.config(&[a.clone(), c.clone()]);
        config.consumers[0].plugin.settings = serde_json::json!({ "x": 1 });
        change(&mut config.consumers[1]);
        config
    };
    let broken = with_c(&|c| c.targets[0].table.name = "not_there".to_owned());
    assert_eq!(app.reconfigure(broken).await, Reloaded::Refused);
    assert!(why().contains("consumer c") && why().contains("not_there"), "{}", why());
    assert_eq!((names(), rules()), (vec!["a".to_owned(), "b".to_owned()], "accounts".to_owned()));
    assert!(!app.metrics().text().contains("consumer=\"c\""), "what is refused leaves no series behind");

    assert_eq!(app.reconfigure(with_c(&|_| ())).await, Reloaded::Taken);
    assert_eq!((names(), rules()), (vec!["a".to_owned(), "c".to_owned()], "rebuilt".to_owned()));
    assert!(!app.metrics().text().contains("consumer=\"b\""), "nobody is alerted about what was taken away");
    scene.produce(0, events(20..40));
    scene.consumed(&app, "a").await;
    scene.consumed(&app, "c").await;
    until_ready(&app).await;
    assert_eq!(oracle::positions(&scene.database, "b", &scene.topic, 1).await, [20], "drained, and gone");
    app.drain().await;
    assert_eq!((scene.sum("a").await, scene.sum("b").await, scene.sum("c").await), (400, 200, 400));
    for consumer in ["a", "b", "c"] {
        scene.proofs(consumer).await;
    }
}

/// Targets, too: a column more, without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_changed_while_messages_come_in() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    let file = File::with(accounts::native("accounts"));
    let app = running(&scene, &wanted, &file).await;
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    scene.database.execute("CREATE TABLE moved (LIKE c_balances INCLUDING ALL)").await;
    let mut config = scene.config(&wanted);
    config.consumers[0].targets[0].table.name = "moved".to_owned();
    assert_eq!(app.reconfigure(config).await, Reloaded::Taken);
    scene.produce(0, events(20..40));
    scene.consumed(&app, "c").await;
    app.drain().await;
    assert_eq!((scene.sum("c").await, scene.database.number("SELECT sum(total) FROM moved").await), (200, 200));
    scene.proofs("c").await;
}

/// Live traffic shows what a candidate would do; nothing of it is done until it is promoted, through the same gates.
#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_finds_other_keys_and_amounts_and_nothing_in_an_equal_build() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    let candidate = File::with(accounts::native("equal build"));
    let (live, next) = (File::with(accounts::native("accounts")).loader(), candidate.loader());
    let loader = Arc::new(
        move |consumer: &Consumer| {
            if consumer.plugin.origin == "candidate".into() { next(consumer) } else { live(consumer) }
        },
    );
    let mut config = scene.config(&wanted);
    config.consumers[0].shadow =
        Some(config::Plugin { origin: "candidate".into(), ..config.consumers[0].plugin.clone() });
    let app = App::start_with(config, loader, vec![]).unwrap();
    let mut at = 0;
    let mut looked_at = async |wanted: &str| {
        wait::until_true(&format!("{wanted} looks on"), async || {
            let digest = hex::encode(accounts::native(wanted).digest());
            app.control().shadow("c").is_some_and(|shadow| shadow.sha256 == digest)
        })
        .await;
        // Small batches, one after the other: while it looks at one it misses the next.
        wait::until(
            "it has looked at some",
            async || {
                scene.produce(0, events(at..at + 10));
                at += 10;
                scene.consumed(&app, "c").await;
                let shadow = app.control().shadow("c").unwrap();
                shadow.same + shadow.key + shadow.changes + shadow.verdict
            },
            |records| *records >= 10,
        )
        .await;
        app.control().shadow("c").unwrap()
    };
    let equal = looked_at("equal build").await;
    assert_eq!((equal.key, equal.changes, equal.verdict, equal.failed, equal.differences.len()), (0, 0, 0, 0, 0));

    candidate.put(accounts::with_other_keys("other keys"));
    reload(&app, "c").await;
    let other = looked_at("other keys").await;
    assert_eq!((other.same, other.changes), (0, 0));
    let shown = &other.differences[0];
    assert_eq!((shown.kind, shown.would_be.contains("message id new-e")), ("key", true), "{shown:?}");
    app.control().order("c", Order::Promote).unwrap();
    let refused = async || last(&app, "c").2;
    wait::until("it is not promoted", refused, |why| why.contains("get other keys")).await;

    candidate.put(accounts::with_other_amounts("other amounts"));
    reload(&app, "c").await;
    let other = looked_at("other amounts").await;
    assert_eq!((other.same, other.key), (0, 0));
    assert_eq!(other.differences[0].kind, "changes");
    assert!(app.metrics().text().contains("tidegate_shadow_records_total{consumer=\"c\",result=\"changes\"}"));
    let before = scene.sum("c").await;
    assert_eq!(before, at * 10, "a shadow writes nothing");

    app.control().order("c", Order::Promote).unwrap();
    let ruling = async || app.report()[0].plugin.as_ref().unwrap().name == "other amounts";
    wait::until_true("it rules", ruling).await;
    wait::until_true("nobody looks on", async || app.control().shadow("c").is_none()).await;
    assert!(app.control().order("c", Order::DropShadow).is_err());
    scene.produce(0, events(at..at + 10));
    scene.consumed(&app, "c").await;
    app.drain().await;
    assert_eq!(scene.sum("c").await, before + 110);
    scene.proofs("c").await;
}
