//! A plugin that gives inputs other keys: refused at a start, on a second host, and let in only by an operator's word.

use std::sync::Arc;

use tidegate::{app::Fault, identity::ConsumerName, key_gate::Acceptance, plugin::Plugin};
use tidegate_tests::{Sql, wait};

use crate::{
    accounts::{self, event},
    kafka_scene::{Scene, on_both_databases, until_ready, until_reason},
};

/// Events of ten cents each.
fn events(range: std::ops::Range<i64>) -> impl Iterator<Item = String> {
    range.map(|n| event(format!("e{n}"), &format!("account-{}", n % 7), 10, n))
}

/// Another build: other bytes, the same keys.
fn rebuilt() -> Arc<dyn Plugin> {
    Arc::new(accounts::native("rebuilt"))
}

/// Its keys are others, and it does not say so.
fn other_keys() -> Arc<dyn Plugin> {
    Arc::new(accounts::with_other_keys("other keys"))
}

fn accept(word: &str) -> Vec<Acceptance> {
    vec![Acceptance::new(word, "ann@ops")]
}

async fn until_sampled<D: Sql>(scene: &Scene<D>) {
    let samples = async || scene.database.number("SELECT count(*) FROM key_samples WHERE consumer_name = 'c'").await;
    wait::until("inputs are kept with their keys", samples, |n| *n > 0).await;
}

async fn other_keys_need_an_operators_word<D: Sql>(scene: Scene<D>) {
    let wanted = [scene.consumer("c").await];
    scene.produce(0, events(0..50));
    let app = scene.start_ruled(&wanted, accounts::plugin(), vec![]);
    scene.consumed(&app, "c").await;
    until_sampled(&scene).await;
    app.drain().await;
    drop(app);

    scene.produce(0, events(0..60));
    let app = scene.start_ruled(&wanted, other_keys(), vec![]);
    until_reason(&app, "inputs that were applied get other keys").await;
    until_reason(&app, "--accept-key-change c@").await;
    until_reason(&app, "message id e0 becomes new-e0").await;
    assert_eq!(app.fault(), Some(Fault::Configuration));
    app.drain().await;
    drop(app);
    // For another plugin alone.
    let app = scene.start_ruled(&wanted, other_keys(), accept("c@0123456789ab"));
    until_reason(&app, "inputs that were applied get other keys").await;
    app.drain().await;
    drop(app);
    assert_eq!(scene.sum("c").await, 500, "nothing of what came since");
    assert_eq!(scene.database.number("SELECT count(*) FROM key_changes").await, 0);

    // Of what comes twice nothing is applied twice, though the plugin was replaced.
    let app = scene.start_ruled(&wanted, rebuilt(), vec![]);
    scene.consumed(&app, "c").await;
    app.drain().await;
    drop(app);
    assert_eq!(scene.sum("c").await, 600);

    scene.produce(0, events(60..70));
    let app = scene.start_ruled(
        &wanted,
        other_keys(),
        accept(&Acceptance::word(&ConsumerName::new("c").unwrap(), &other_keys().digest())),
    );
    scene.consumed(&app, "c").await;
    until_ready(&app).await;
    app.drain().await;
    drop(app);
    assert_eq!(scene.sum("c").await, 700);
    let noted = "SELECT count(*) FROM key_changes WHERE from_version = 0 AND key_version = 1 AND made_by = 'ann@ops' \
                 AND changed > 0 AND changed = compared";
    assert_eq!(scene.database.number(noted).await, 1);
    assert_eq!(scene.database.number("SELECT count(DISTINCT key_version) FROM checkpoints WHERE kind = 'r'").await, 2);

    // The old one is the stranger now; even where no sample shows it.
    for samples in ["SELECT count(*) FROM key_samples", "DELETE FROM key_samples"] {
        scene.database.execute(samples).await;
        let app = scene.start_ruled(&wanted, rebuilt(), vec![]);
        until_reason(&app, "--accept-key-change c@").await;
        app.drain().await;
    }
    let app = scene.start_ruled(&wanted, other_keys(), vec![]);
    until_ready(&app).await;
    app.drain().await;
    scene.proofs("c").await;
}

on_both_databases! { other_keys_need_an_operators_word: 1 }

#[tokio::test(flavor = "multi_thread")]
async fn a_second_host_with_other_keys_is_refused_and_fences_the_first_once_it_is_accepted() {
    let scene = Scene::new(2).await;
    let wanted = [scene.consumer("c").await];
    let produce = |from: i64| {
        scene.produce(0, events(from..from + 20));
        scene.produce(1, events(from + 20..from + 40));
    };
    produce(0);
    let first = scene.start_ruled(&wanted, accounts::plugin(), vec![]);
    scene.consumed(&first, "c").await;
    until_sampled(&scene).await;

    let second = scene.start_ruled(&wanted, other_keys(), vec![]);
    until_reason(&second, "--accept-key-change c@").await;
    second.drain().await;
    produce(40);
    scene.consumed(&first, "c").await;
    until_ready(&first).await;
    assert_eq!(scene.sum("c").await, 800, "the first goes on");

    // Nobody tells the first; it may commit nothing any more.
    let second = scene.start_ruled(&wanted, other_keys(), accept("c"));
    wait::until_true("the change is accepted", async || {
        scene.database.number("SELECT count(*) FROM key_changes").await == 1
    })
    .await;
    produce(80);
    produce(120);
    until_reason(&first, "the active key version is 1, the batch was computed under 0").await;
    scene.consumed(&second, "c").await;
    assert_eq!(scene.sum("c").await, 1_600, "each once");
    first.drain().await;
    second.drain().await;
    scene.proofs("c").await;
}
