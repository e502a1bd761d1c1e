//! Key samples, and accepted changes of keys.

use bytes::Bytes;
use tidegate::{
    identity::{AggregateId, ConsumerName, MessageId},
    record::Header,
    store::{ApplyError, KeyChange, KeySample},
};

use super::fixture::{Fixture, event};

fn sample(id: &str) -> KeySample {
    let header = |name: &str, value: Option<&'static [u8]>| Header {
        name: name.to_owned(),
        value: value.map(Bytes::from_static),
    };
    KeySample {
        source: "orders".to_owned(),
        key: Some(Bytes::from_static(b"k\0\xff")),
        payload: Some(Bytes::from(format!("{{\"id\":\"{id}\"}}"))),
        headers: vec![header("h", Some(b"v")), header("h", None), header("bytes", Some(b"\xff\0"))],
        message_id: MessageId::new(id).unwrap(),
        aggregate_id: AggregateId::new("a").unwrap(),
    }
}

fn change(consumer: &ConsumerName, from_version: i32, declared: i32, digest: u8) -> KeyChange {
    KeyChange {
        consumer: consumer.clone(),
        from_version,
        declared,
        plugin_digest: [digest; 32],
        samples: vec![sample("new")],
        compared: 2,
        changed: 1,
        by: "ann@ops".to_owned(),
    }
}

pub(super) async fn samples_come_back_as_they_were(f: &Fixture) {
    let name = f.register("c").await.name;
    f.register("other").await;
    let state = f.store.key_state(&name).await.unwrap().unwrap();
    assert_eq!((state.declared, state.samples, state.replaced), (1, vec![], vec![]));

    let bare = KeySample { key: None, payload: None, headers: vec![], ..sample("bare") };
    f.store.keep_key_samples(&name, 1, &[(7, sample("a")), (3, bare.clone())]).await.unwrap();
    assert_eq!(f.store.key_state(&name).await.unwrap().unwrap().samples, [bare.clone(), sample("a")]);
    // In the place of the one that had the number.
    f.store.keep_key_samples(&name, 1, &[(7, sample("b"))]).await.unwrap();
    assert_eq!(f.store.key_state(&name).await.unwrap().unwrap().samples, [bare.clone(), sample("b")]);

    // Of another version, of nobody: nothing.
    f.store.keep_key_samples(&name, 2, &[(7, sample("c"))]).await.unwrap();
    assert_eq!(f.store.key_state(&name).await.unwrap().unwrap().samples, [bare, sample("b")]);
    let other = ConsumerName::new("other").unwrap();
    assert_eq!(f.store.key_state(&other).await.unwrap().unwrap().samples, []);
    assert_eq!(f.store.key_state(&ConsumerName::new("nobody").unwrap()).await.unwrap(), None);
    assert_eq!(f.number("SELECT count(*) FROM key_samples").await, 2);
    f.store.keep_key_samples(&other, 1, &[(0, sample("kept"))]).await.unwrap();
    f.store.forget_key_samples(&name).await.unwrap();
    assert_eq!(f.number("SELECT count(*) FROM key_samples").await, 1);
}

pub(super) async fn an_accepted_change_of_keys_fences_the_old_plugin(f: &Fixture) {
    let consumer = f.consumer("c").await;
    let name = consumer.applier.consumer();
    let mut host = consumer.lane(&[0]).await;
    host.feed(0, vec![event("a").tally("x", 1)]).await;
    f.store.keep_key_samples(name, 1, &[(0, sample("a")), (9, sample("b"))]).await.unwrap();
    let mut computed = host.prepare(&[(0, vec![event("b").tally("x", 1)])]);

    assert_eq!(f.store.accept_key_change(&change(name, 1, 1, 9)).await.unwrap(), Some(2));
    let state = f.store.key_state(name).await.unwrap().unwrap();
    assert_eq!((state.row.key_version, state.declared, state.row.plugin_digest), (2, 1, vec![9; 32]));
    assert_eq!((state.samples, state.replaced), (vec![sample("new")], vec![vec![7; 32]]));
    let who = "SELECT count(*) FROM key_changes WHERE consumer_name = 'c' AND key_version = 2 AND from_version = 1 \
               AND made_by = 'ann@ops' AND compared = 2 AND changed = 1 AND made_at IS NOT NULL";
    assert_eq!(f.number(who).await, 1);
    assert!(matches!(host.apply(&mut computed).await, Err(ApplyError::KeyVersion { active: 2, computed: 1, .. })));
    assert_eq!(f.total("x").await, 1);

    // Decided on a version that is over.
    assert_eq!(f.store.accept_key_change(&change(name, 1, 1, 5)).await.unwrap(), None);
    assert_eq!(f.number("SELECT count(*) FROM key_changes").await, 1);
    // What the plugin declares counts where it is more, and the way back is a change as well.
    assert_eq!(f.store.accept_key_change(&change(name, 2, 6, 7)).await.unwrap(), Some(6));
    let state = f.store.key_state(name).await.unwrap().unwrap();
    assert_eq!((state.declared, state.replaced), (6, vec![vec![9; 32]]));
    f.store.keep_key_samples(name, 2, &[(0, sample("late"))]).await.unwrap();
    assert_eq!(f.store.key_state(name).await.unwrap().unwrap().samples, [sample("new")], "a zombie's");
    // For the proof at the end: what was computed under an old version stays uncommitted.
    drop(computed);
}
