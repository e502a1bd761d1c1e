//! The fences of the checkpoint chain.

use super::*;

#[tokio::test]
async fn a_chain_has_one_successor_and_only_where_it_ended() {
    let fixture = Fixture::new("").await;
    let consumer = &fixture.consumer;
    let mut lane = fixture.lane().await;
    let (partition, tip) = fixture.genesis(&mut lane).await;
    assert_eq!(lane.move_chain(consumer, &partition, None, 99).await.unwrap(), None, "a second genesis");
    assert_eq!(lane.tips(consumer, &[Arc::clone(&partition)]).await.unwrap(), [Some(tip)]);

    let extend = async |lane: &mut Box<dyn Connection>, link: &Link, change: fn(&mut ConsumerState)| {
        let mut state = lane.begin(consumer).await.unwrap();
        change(&mut state);
        let n = lane.extend_chain(consumer, &[7], state, std::slice::from_ref(link)).await.unwrap();
        if n == 1 {
            lane.commit().await.unwrap()
        } else {
            lane.rollback().await.unwrap()
        }
        n
    };
    let first = link(&partition, tip, 20);
    assert_eq!(extend(&mut lane, &first, |s| s.key_version += 1).await, 0, "another key version");
    assert_eq!(extend(&mut lane, &first, |s| s.horizon_us = 5).await, 0, "another horizon");
    let gap = Link { first_offset: 11, ..first.clone() };
    assert_eq!(extend(&mut lane, &gap, |_| {}).await, 0, "not where the tip ended");
    assert_eq!(extend(&mut lane, &first, |_| {}).await, 1);
    assert_eq!(extend(&mut lane, &first, |_| {}).await, 0, "the same id again");
    assert_eq!(extend(&mut lane, &link(&partition, tip, 30), |_| {}).await, 0, "a zombie on the old tip");
    let found = lane.find_checkpoints(&[first.id, Uuid::nil()]).await.unwrap();
    assert_eq!((found.len(), found[&first.id].next_offset, found[&first.id].counts), (1, 20, first.counts));

    // An operator's move fences whoever holds the old tip.
    let tip = lane.tips(consumer, &[Arc::clone(&partition)]).await.unwrap()[0].unwrap();
    let moved = lane.move_chain(consumer, &partition, Some(tip), 15).await.unwrap().unwrap();
    assert_eq!((moved.seq, moved.next_offset), (2, 15));
    assert_eq!(extend(&mut lane, &link(&partition, tip, 30), |_| {}).await, 0);
    assert_eq!(extend(&mut lane, &link(&partition, moved, 30), |_| {}).await, 1);
    assert_eq!(lane.topic_ids(consumer, "cluster", "orders").await.unwrap(), [partition.topic_id]);
    assert_eq!(lane.topic_ids(consumer, "cluster", "others").await.unwrap(), Vec::<Uuid>::new());
    assert_eq!(fixture.store.chain_faults(consumer).await.unwrap(), []);

    // A hole by hand is named.
    fixture.database.execute("UPDATE checkpoints SET first_offset = 17 WHERE seq = 3").await;
    let faults = fixture.store.chain_faults(consumer).await.unwrap();
    assert_eq!((faults[0].fault.as_str(), faults[0].expected, faults[0].found), ("hole", Some(15), 17));
}

#[tokio::test]
async fn a_zombie_s_open_link_makes_the_next_owner_wait_then_try_again() {
    let fixture = Fixture::new("").await;
    let mut zombie = fixture.lane().await;
    let (partition, tip) = fixture.genesis(&mut zombie).await;
    let state = zombie.begin(&fixture.consumer).await.unwrap();
    zombie.extend_chain(&fixture.consumer, &[7], state, &[link(&partition, tip, 20)]).await.unwrap();
    let mut owner = fixture.lane().await;
    let state = owner.begin(&fixture.consumer).await.unwrap();
    let next = link(&partition, tip, 25);
    let waited = owner.extend_chain(&fixture.consumer, &[7], state, std::slice::from_ref(&next)).await.unwrap_err();
    assert_eq!(waited.class(), Class::Transient);
    owner.rollback().await.unwrap();
    // The server ends the zombie's session.
    fixture.database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()").await;
    let lost = zombie.commit().await.unwrap_err();
    assert!(lost.connection_lost && lost.class() == Class::Transient, "{lost}");
    assert!(zombie.rollback().await.unwrap_err().connection_lost, "nothing goes through it any more");
    let state = owner.begin(&fixture.consumer).await.unwrap();
    assert_eq!(owner.extend_chain(&fixture.consumer, &[7], state, &[next]).await.unwrap(), 1);
    owner.commit().await.unwrap();
}
