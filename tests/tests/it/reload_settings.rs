//! What is in force is what rules were made of, and not what is wanted by now: settings, tables and shadows that change
//! while something else is under way.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use serde_json::json;
use tidegate::{
    app::{App, Order, PluginLoader},
    config::{self, Consumer},
    key_gate::Acceptance,
    metrics::Reloaded,
    plugin::{Plugin, PluginError},
};
use tidegate_tests::{Sql, oracle, wait};

use crate::{
    accounts::{self, event},
    kafka_scene::{Scene, until_ready},
    reload::{File, events, reload, running},
};

/// Loads what `plugin` says, and stands still where `stands_still` says so, until it is let go: once per message.
struct Gate {
    let_go: mpsc::Sender<()>,
    reached: Arc<AtomicUsize>,
    loader: Arc<PluginLoader>,
}

impl Gate {
    fn new(
        stands_still: impl Fn(&Consumer) -> bool + Send + Sync + 'static,
        plugin: impl Fn(&Consumer) -> Arc<dyn Plugin> + Send + Sync + 'static,
    ) -> Self {
        let (let_go, gate) = mpsc::channel();
        let (gate, reached) = (Mutex::new(gate), Arc::<AtomicUsize>::default());
        let counted = Arc::clone(&reached);
        let loader = Arc::new(move |consumer: &Consumer| -> Result<Arc<dyn Plugin>, PluginError> {
            if stands_still(consumer) {
                counted.fetch_add(1, Ordering::SeqCst);
                // An error means that the test is over.
                let _ = gate.lock().unwrap().recv();
            }
            Ok(plugin(consumer))
        });
        Self { let_go, reached, loader }
    }

    /// Waits until so many have come to stand still.
    async fn reached(&self, number: usize) {
        let reached = async || self.reached.load(Ordering::SeqCst);
        wait::until("a plugin is being loaded", reached, |n| *n >= number).await;
    }

    fn let_go(&self) {
        self.let_go.send(()).unwrap();
    }
}

/// The same bytes under any settings; with `extra` they add one.
fn by_settings(consumer: &Consumer) -> Arc<dyn Plugin> {
    let extra = consumer.plugin.settings.get("extra").is_some();
    Arc::new(if extra { accounts::with_other_amounts("accounts") } else { accounts::native("accounts") })
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_come_while_a_consumer_starts_are_in_force_afterwards() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    let gate = Gate::new(|consumer| consumer.plugin.settings.get("extra").is_none(), by_settings);
    let app = App::start_with(scene.config(&wanted), Arc::clone(&gate.loader), vec![]).unwrap();
    gate.reached(1).await;
    let mut config = scene.config(&wanted);
    config.consumers[0].plugin.settings = json!({ "extra": 1 });
    assert_eq!(app.reconfigure(config).await, Reloaded::Taken);
    gate.let_go();
    // Not the last look: there may be one more right after it, which finds nothing new.
    let taken = "tidegate_plugin_reloads_total{consumer=\"c\",result=\"taken\"} 1";
    wait::until_true("it has looked again", async || app.metrics().text().contains(taken)).await;
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    assert_eq!(reload(&app, "c").await.0, "unchanged");
    app.drain().await;
    assert_eq!(scene.sum("c").await, 20 * 11, "under the settings that are wanted");
}

/// What does not fit a narrow column would be a dead letter, long after the column is a wide one.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_altered_makes_other_rules_though_the_file_is_the_same() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    scene.database.execute("ALTER TABLE c_latest ALTER COLUMN note TYPE varchar(4)").await;
    let app = running(&scene, &wanted, &File::with(accounts::native("accounts"))).await;
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    assert_eq!(reload(&app, "c").await.0, "unchanged");
    scene.database.execute("ALTER TABLE c_latest ALTER COLUMN note TYPE varchar(40)").await;
    assert_eq!(reload(&app, "c").await, ("taken".to_owned(), String::new()));
    scene.produce(0, [event("a-long-name", "account-0", 10, 99)]);
    scene.consumed(&app, "c").await;
    app.drain().await;
    let totals = oracle::totals(&scene.database, "c").await;
    assert_eq!((totals.applied, totals.dead), (21, 0));
}

fn is_candidate(consumer: &Consumer) -> bool {
    consumer.plugin.origin == "candidate".into()
}

fn with_shadow(scene: &Scene, wanted: &[crate::kafka_scene::Wanted], settings: serde_json::Value) -> config::Config {
    let mut config = scene.config(wanted);
    let plugin = config.consumers[0].plugin.clone();
    config.consumers[0].shadow = Some(config::Plugin { origin: "candidate".into(), settings, ..plugin });
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn promoting_a_shadow_undoes_no_reconfiguration_that_runs_meanwhile() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    let gate = Gate::new(
        |consumer| consumer.plugin.settings.get("slow").is_some(),
        |consumer| {
            let candidate = is_candidate(consumer);
            Arc::new(accounts::native(if candidate { "candidate" } else { "accounts" }))
        },
    );
    let config = with_shadow(&scene, &wanted, json!({}));
    let app = App::start_with(config.clone(), Arc::clone(&gate.loader), vec![]).unwrap();
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    wait::until_true("a shadow looks on", async || app.control().shadow("c").is_some()).await;

    scene.database.execute("CREATE TABLE moved (LIKE c_balances INCLUDING ALL)").await;
    let mut other = config.clone();
    other.consumers[0].targets[0].table.name = "moved".to_owned();
    other.consumers[0].plugin.settings = json!({ "slow": 1 });
    let reconfigured = async {
        gate.reached(1).await;
        app.control().order("c", Order::Promote).unwrap();
        gate.let_go();
    };
    assert_eq!(tokio::join!(app.reconfigure(other), reconfigured).0, Reloaded::Taken);
    let ruling = async || app.report()[0].plugin.as_ref().unwrap().name.clone();
    wait::until("the candidate rules", ruling, |name| name == "candidate").await;
    wait::until_true("nobody looks on", async || app.control().shadow("c").is_none()).await;
    scene.produce(0, events(20..40));
    scene.consumed(&app, "c").await;
    app.drain().await;
    assert_eq!((scene.sum("c").await, scene.database.number("SELECT sum(total) FROM moved").await), (200, 200));
    scene.proofs("c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_s_other_settings_are_taken_though_its_file_is_the_same() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    let loader: Arc<PluginLoader> = Arc::new(|consumer: &Consumer| Ok(by_settings(consumer)));
    let app = App::start_with(with_shadow(&scene, &wanted, json!({})), loader, vec![]).unwrap();
    let mut at = 0;
    let mut looked_at = async || {
        let found = async || {
            scene.produce(0, events(at..at + 10));
            at += 10;
            scene.consumed(&app, "c").await;
            let shadow = app.control().shadow("c").unwrap_or_default();
            (shadow.same, shadow.changes)
        };
        wait::until("it has looked at some", found, |(same, changes)| same + changes >= 10).await
    };
    assert_eq!(looked_at().await.1, 0);
    assert_eq!(app.reconfigure(with_shadow(&scene, &wanted, json!({ "extra": 1 }))).await, Reloaded::Taken);
    assert_eq!(looked_at().await.0, 0, "all of it is other amounts");
    app.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_that_is_dropped_while_it_is_loaded_does_not_come() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    let gate = Gate::new(is_candidate, by_settings);
    let config = with_shadow(&scene, &wanted, json!({}));
    let app = App::start_with(config.clone(), Arc::clone(&gate.loader), vec![]).unwrap();
    gate.reached(1).await;
    app.control().order("c", Order::DropShadow).unwrap();
    gate.let_go();
    // Longer than it takes to come.
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    until_ready(&app).await;
    assert_eq!(app.control().shadow("c"), None);
    assert_eq!(reload(&app, "c").await.0, "unchanged");
    assert_eq!(app.control().shadow("c"), None);
    // The file brings it back.
    gate.let_go();
    let mut other = config.clone();
    other.consumers[0].plugin.settings = json!({ "extra": 1 });
    assert_eq!(app.reconfigure(other.clone()).await, Reloaded::Taken);
    assert!(app.control().shadow("c").is_some(), "the file is read again");
    app.drain().await;
}

/// The file says of it what it said before: what an operator has said since then counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_that_is_dropped_while_a_configuration_is_taken_stays_away() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    let gate = Gate::new(|consumer| consumer.plugin.settings.get("slow").is_some(), by_settings);
    let config = with_shadow(&scene, &wanted, json!({}));
    let app = App::start_with(config.clone(), Arc::clone(&gate.loader), vec![]).unwrap();
    wait::until_true("a shadow looks on", async || app.control().shadow("c").is_some()).await;
    let mut other = config.clone();
    other.consumers[0].plugin.settings = json!({ "slow": 1, "extra": 1 });
    let dropped = async {
        gate.reached(1).await;
        app.control().order("c", Order::DropShadow).unwrap();
        gate.let_go();
    };
    assert_eq!(tokio::join!(app.reconfigure(other), dropped).0, Reloaded::Taken);
    assert_eq!(app.control().shadow("c"), None);
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    assert_eq!(app.control().shadow("c"), None);
    app.drain().await;
    assert_eq!(scene.sum("c").await, 20 * 11, "the rest of it is taken");
}

/// It has threads of its own: one that does not come back holds up nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_that_never_answers_starves_nobody() {
    let scene = Scene::new(1).await;
    let mut wanted = [scene.consumer("c").await];
    wanted[0].max_records = 10;
    let (let_go, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let loader: Arc<PluginLoader> = Arc::new(move |consumer: &Consumer| {
        let plugin = accounts::native("accounts");
        if !is_candidate(consumer) {
            return Ok(Arc::new(plugin) as Arc<dyn Plugin>);
        }
        let gate = Arc::clone(&gate);
        Ok(Arc::new(plugin.traps(move |_, _| {
            // An error means that the test is over.
            let _ = gate.lock().unwrap().recv();
            false
        })))
    });
    let app = App::start_with(with_shadow(&scene, &wanted, json!({})), loader, vec![]).unwrap();
    wait::until_true("a shadow looks on", async || app.control().shadow("c").is_some()).await;
    scene.produce(0, events(0..500));
    scene.consumed(&app, "c").await;
    until_ready(&app).await;
    let shadow = app.control().shadow("c").unwrap();
    assert!(shadow.same == 0 && shadow.passed_by >= 490, "it is at its first batch still: {shadow:?}");
    drop(let_go);
    app.drain().await;
    assert_eq!(scene.sum("c").await, 5_000);
}

/// The digest in the database is that of the plugin that rules.
async fn digest_of<D: Sql>(scene: &Scene<D>, consumer: &str, plugin: &str) -> bool {
    let hex = hex::encode(accounts::native(plugin).digest());
    let query =
        format!("SELECT count(*) FROM consumers WHERE consumer_name = '{consumer}' AND plugin_digest = '\\x{hex}'");
    scene.database.number(&query).await == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_cannot_be_announced_leaves_no_digest_behind() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("a").await, scene.consumer("b").await];
    let file = File::with(accounts::native("accounts"));
    let app = running(&scene, &wanted, &file).await;
    scene.produce(0, events(0..20));
    scene.consumed(&app, "a").await;
    scene.consumed(&app, "b").await;
    scene
        .database
        .execute(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not b'; END $$; \
             CREATE TRIGGER no BEFORE UPDATE ON consumers FOR EACH ROW WHEN (new.consumer_name = 'b') \
             EXECUTE FUNCTION no()",
        )
        .await;
    file.put(accounts::native("rebuilt"));
    let mut config = scene.config(&wanted);
    for consumer in &mut config.consumers {
        consumer.plugin.settings = json!({ "x": 1 });
    }
    assert_eq!(app.reconfigure(config).await, Reloaded::Refused);
    let why = app.health().configuration().unwrap().why.unwrap();
    assert!(why.contains("consumer b") && why.contains("not b"), "{why}");
    for consumer in ["a", "b"] {
        assert!(digest_of(&scene, consumer, "accounts").await, "{consumer} is ruled by the plugin of before");
    }
    assert!(app.report().iter().all(|report| report.plugin.as_ref().unwrap().name == "accounts"));
    app.drain().await;
}

/// A consumer that the database has lost is registered again as what it is by now, and starts again without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_was_lost_is_registered_with_the_plugin_that_rules() {
    let scene = Scene::new(1).await;
    let wanted = [scene.consumer("c").await];
    let empty = scene.database.snapshot().await;
    let start = |plugin: &File, words| App::start_with(scene.config(&wanted), plugin.loader(), words).unwrap();
    let old = File::with(accounts::native("accounts"));
    let app = start(&old, vec![]);
    scene.produce(0, events(0..20));
    scene.consumed(&app, "c").await;
    let samples = async || scene.database.number("SELECT count(*) FROM key_samples").await;
    wait::until("inputs are kept with their keys", samples, |n| *n > 0).await;
    app.drain().await;

    // Other keys that no author has declared: the active version is 1, the plugins say 0.
    let other = File::with(accounts::with_other_keys("other keys"));
    let app = start(&other, vec![Acceptance::new("c", "ann@ops")]);
    scene.produce(0, events(20..40));
    scene.consumed(&app, "c").await;
    other.put(accounts::with_other_keys("rebuilt"));
    assert_eq!(reload(&app, "c").await.0, "taken");
    scene.database.restore(&empty).await;
    scene.produce(0, events(40..60));
    let registered = async || digest_of(&scene, "c", "rebuilt").await;
    wait::until_true("it is registered as what it is", registered).await;
    scene.consumed(&app, "c").await;
    until_ready(&app).await;
    app.drain().await;
    assert_eq!(scene.database.number("SELECT key_version FROM consumers").await, 1);

    let app = start(&other, vec![]);
    scene.produce(0, events(60..80));
    scene.consumed(&app, "c").await;
    until_ready(&app).await;
    app.drain().await;
    assert_eq!(scene.sum("c").await, 800, "all of it anew, each once");
    scene.proofs("c").await;
}
