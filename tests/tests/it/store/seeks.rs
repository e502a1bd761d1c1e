//! Moving a consumer: all of its chains or none, with who did it; whoever holds an old tip is fenced.

use tidegate::store::{ApplyError, ChainMove, SeekNote};

use super::fixture::{Fixture, event, partition};

fn note() -> SeekNote {
    SeekNote { how: "--offset 1".to_owned(), by: "ann@ops".to_owned(), reason: Some("a test".to_owned()) }
}

pub(super) async fn a_seek_moves_all_chains_or_none(f: &Fixture) {
    let consumer = f.consumer("c").await;
    let mut host = consumer.lane(&[0, 1]).await;
    host.feed(0, vec![event("a").tally("x", 1), event("b").tally("x", 1)]).await;
    host.feed(1, vec![event("c").tally("x", 1)]).await;
    let name = consumer.applier.consumer();
    let tips = |numbers: [i32; 2]| numbers.map(|number| (partition(number), host.tips[&partition(number)]));
    let to = |at: i64| tips([0, 1]).map(|(partition, tip)| ChainMove { partition, tip: Some(tip), to: at }).to_vec();

    assert!(f.store.seek(name, &to(1), &note()).await.unwrap());
    let known = f.store.chains(name).await.unwrap().unwrap();
    let at: Vec<_> = known.tips.iter().map(|(partition, tip)| (partition.partition, tip.next_offset)).collect();
    assert_eq!((at, &known.consumer.name), (vec![(0, 1), (1, 1)], name));
    let who = "SELECT count(*) FROM seeks s JOIN checkpoints c USING (checkpoint_id) WHERE c.kind = 'm' \
               AND s.made_by = 'ann@ops' AND s.reason = 'a test' AND s.how = '--offset 1' AND s.to_offset = 1 \
               AND s.from_offset = c.first_offset AND s.partition = c.partition";
    assert_eq!(f.number(who).await, 2);

    // The old tips are taken: one of them is enough for nothing to happen.
    let (mut stale, fresh) = (to(0), known.tips[0].clone());
    stale[0].tip = Some(fresh.1);
    assert!(!f.store.seek(name, &stale, &note()).await.unwrap());
    assert_eq!((f.number(who).await, f.store.chains(name).await.unwrap().unwrap().tips), (2, known.tips));

    // So is a host that still holds them.
    let mut batch = host.prepare(&[(0, vec![event("d").tally("x", 1)])]);
    assert!(matches!(host.apply(&mut batch).await, Err(ApplyError::Fenced { .. })));
    assert_eq!(f.total("x").await, 3);
}

pub(super) async fn a_seek_begins_a_chain_once(f: &Fixture) {
    let consumer = f.consumer("c").await;
    let name = consumer.applier.consumer();
    assert!(f.store.chains(name).await.unwrap().unwrap().tips.is_empty());
    let begin = [1, 0].map(|number| ChainMove { partition: partition(number), tip: None, to: 7 });
    assert!(f.store.seek(name, &begin, &note()).await.unwrap());
    assert!(!f.store.seek(name, &begin, &note()).await.unwrap(), "they have begun already");
    assert_eq!(f.number("SELECT count(*) FROM checkpoints WHERE seq = 0 AND next_offset = 7").await, 2);
    assert_eq!(f.number("SELECT count(*) FROM seeks WHERE from_offset IS NULL AND to_offset = 7").await, 2);
    let nobody = tidegate::identity::ConsumerName::new("nobody").unwrap();
    assert_eq!(f.store.chains(&nobody).await.unwrap(), None);
    assert!(f.store.seek(&nobody, &begin, &note()).await.is_err());
}
