//! Many lanes and many targets on the same rows.

use super::*;

#[tokio::test]
async fn many_lanes_on_the_same_keys_never_deadlock() {
    let fixture = Fixture::with(
        "CREATE TABLE a (id int PRIMARY KEY, n int NOT NULL); CREATE TABLE b (id int PRIMARY KEY, n int NOT NULL); \
         INSERT INTO a SELECT g, 0 FROM generate_series(0, 59) g; INSERT INTO b SELECT g, 0 FROM generate_series(0, 59) g",
        Timeouts { lock: Duration::from_secs(20), statement: Duration::from_secs(30), ..Timeouts::default() },
    )
    .await;
    let mut targets = Vec::new();
    for table in ["b", "a"] {
        let mut declared = spec(table, &["id", "n"], &[0]);
        declared.columns[1].merge = Merge::Add;
        declared.operations.insert(Operation::Update);
        targets.push(fixture.target(&declared).await.unwrap());
    }
    let rounds = 40;
    let lanes = 4;
    let tasks = (0..lanes).map(|lane| {
        let (fixture, targets) = (&fixture, &targets);
        async move {
            let mut connection = fixture.lane().await;
            for round in 0..rounds {
                // The same keys in another order, target and operation each time.
                let changes: Vec<TypedChange> = (0..60_i64)
                    .map(|i| {
                        let key = (i * 7 + round * 13 + lane) % 60;
                        let target = usize::try_from((i + lane) % 2).unwrap();
                        let operation = if (i + round) % 3 == 0 { Operation::Update } else { Operation::Upsert };
                        TypedChange { record: 0, target, operation, cells: vec![Cell::Int(key), Cell::Int(1)] }
                    })
                    .collect();
                connection.begin(&fixture.consumer).await.unwrap();
                connection.write(targets, &changes.iter().collect::<Vec<_>>()).await.unwrap();
                connection.commit().await.unwrap();
            }
        }
    });
    side_by_side(tasks).await;
    let sum = fixture.database.number("SELECT (SELECT sum(n) FROM a) + (SELECT sum(n) FROM b)").await;
    assert_eq!(sum, rounds * lanes * 60);
}

/// Runs futures side by side until all are done.
async fn side_by_side(tasks: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut tasks: Vec<_> = tasks.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        if tasks.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn rows_that_others_refer_to_are_deleted_in_record_order() {
    let fixture = Fixture::new(
        "CREATE TABLE orders (id int PRIMARY KEY, v int); CREATE TABLE items (id int PRIMARY KEY, o int NOT NULL REFERENCES orders)",
    )
    .await;
    let mut targets = Vec::new();
    for (table, column) in [("items", "o"), ("orders", "v")] {
        let mut declared = spec(table, &["id", column], &[0]);
        declared.operations.insert(Operation::Delete);
        targets.push(fixture.target(&declared).await.unwrap());
    }
    let change = |target: usize, operation, cells: &[i64]| TypedChange {
        record: 0,
        target,
        operation,
        cells: cells.iter().map(|&i| Cell::Int(i)).collect(),
    };
    use Operation::{Delete, Upsert};
    let mut lane = fixture.lane().await;
    // Child before parent in the record: parents are written first.
    let first = [change(0, Upsert, &[1, 10]), change(1, Upsert, &[10, 0])];
    // The child goes, then its parent, then both come again.
    let second = [
        change(0, Delete, &[1]),
        change(1, Delete, &[10]),
        change(1, Upsert, &[10, 5]),
        change(0, Upsert, &[2, 10]),
        change(0, Delete, &[404]),
    ];
    let mut missing = 0;
    for batch in [&first[..], &second[..]] {
        lane.begin(&fixture.consumer).await.unwrap();
        missing += lane.write(&targets, &batch.iter().collect::<Vec<_>>()).await.unwrap().missing;
        lane.commit().await.unwrap();
    }
    assert_eq!(missing, 1);
    assert_eq!(fixture.strings("SELECT id || ':' || o FROM items").await, ["2:10"]);
    assert_eq!(fixture.database.number("SELECT v FROM orders").await, 5);
}

#[tokio::test]
async fn a_row_that_appears_between_lock_and_write_is_tried_again() {
    let fixture = Fixture::new(
        "CREATE TYPE st AS ENUM ('new', 'paid', 'sent'); CREATE TABLE t (id int PRIMARY KEY, s st, gone timestamptz)",
    )
    .await;
    let mut declared = spec("t", &["id", "s"], &[0]);
    declared.guard = Some(Guard::Transition {
        column: 1,
        initial: ["new", "sent"].map(String::from).into(),
        allow: [("new", "paid")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        on_refused: tidegate::merge::OnRefused::DeadLetter,
    });
    declared.soft_delete = Some("gone".into());
    let target = fixture.target(&declared).await.unwrap();
    assert_eq!(target.soft.as_ref().unwrap().kind, SoftKind::Timestamp);
    let mut lane = fixture.lane().await;
    lane.begin(&fixture.consumer).await.unwrap();
    let key = vec![Cell::Int(1)];
    assert!(lane.lock_states(&target, std::slice::from_ref(&key)).await.unwrap().is_empty());
    fixture.database.execute("INSERT INTO t VALUES (1, 'paid')").await;
    // Judged as a new row that may begin as "sent"; by now it would be a step from "paid" that is not allowed.
    let sent = upsert(&target, vec![Value::Integer(1), text("sent")]);
    let error = lane.write(std::slice::from_ref(&target), &[&sent]).await.unwrap_err();
    assert_eq!(error.class(), Class::Transient, "{error}");
    lane.rollback().await.unwrap();
    lane.begin(&fixture.consumer).await.unwrap();
    let states = lane.lock_states(&target, std::slice::from_ref(&key)).await.unwrap();
    assert_eq!(states[&key], Cell::Text("paid".into()));
    lane.rollback().await.unwrap();
}
