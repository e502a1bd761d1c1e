//! A plugin that loops, exhausts memory or panics on some records, on the whole path: the host lives, exactly those
//! records are dead letters, and their neighbours are applied.

use std::{collections::BTreeSet, path::Path};

use tidegate_tests::{
    Message,
    host::{self, HostProcess, Setup},
    kafka, oracle,
    oracle::Totals,
    postgres,
    services::{Folder, checkout},
    wait,
};

const CONSUMER: &str = "unruly";
const PARTITIONS: i32 = 2;
/// Records of one partition.
const RECORDS: i64 = 150;

/// What the record at an offset does to the plugin, and the code and words of the dead letter that it becomes.
fn harm(offset: i64) -> Option<(&'static str, &'static str, &'static str)> {
    match offset {
        // Also the very first, the very last, and two in a row.
        0 | 60 => Some(("panic", "plugin-trap", "says so")),
        40 | 61 => Some(("loop", "plugin-cpu", "ms of CPU time")),
        80 | 149 => Some(("memory", "plugin-memory", "bytes of memory")),
        _ => None,
    }
}

fn id(partition: i32, offset: i64) -> String {
    format!("e-{partition}-{offset}")
}

fn consumer(topic: &str, plugin: &Path) -> String {
    format!(
        r#"
[[consumer]]
name = "{CONSUMER}"
group = "{CONSUMER}-{topic}"
topics = ["{topic}"]
start = "earliest"
lanes = 2
batch = {{ max_records = 50, max_bytes = "1MiB", linger = "5ms" }}
[consumer.plugin]
path = "{}"
[consumer.plugin.limits]
memory = "8MiB"
cpu_base = "50ms"
cpu_per_event = "1ms"
[[consumer.target]]
name = "rows"
table = "rows"
columns = ["id", "n"]
key = ["id"]
"#,
        plugin.display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_break_the_plugin_are_dead_letters_and_their_neighbours_are_applied() {
    let folder = Folder::new().unwrap();
    let source = checkout().join("tests/guests/broken");
    let plugin = tidegate::plugin::build::build(&source, Some(&folder.path().join("broken.wasm"))).unwrap();
    let (database, broker) = (postgres().await, kafka());
    let topic = broker.topic(PARTITIONS).await;
    database.execute("CREATE TABLE rows (id text PRIMARY KEY, n bigint NOT NULL)").await;
    let setup = Setup::new(database.url(), &broker, consumer(&topic, &plugin.path));
    assert!(host::run_once(&setup, &["migrate"]).status.success());
    let mut host = HostProcess::start("host", &setup);
    host.ready().await;

    let places = || (0..PARTITIONS).flat_map(|partition| (0..RECORDS).map(move |offset| (partition, offset)));
    let messages = places().map(|(partition, offset)| {
        let does = harm(offset).map_or("apply", |(does, ..)| does);
        let id = id(partition, offset);
        Message::new(format!(r#"{{"id":"{id}","does":"{does}","n":{offset}}}"#)).to(partition)
    });
    broker.producer(&[]).send(&topic, messages);
    let partitions = usize::try_from(PARTITIONS).unwrap();
    wait::until(
        "everything is consumed, the host being ready all the while",
        async || {
            let answer = host.get("/readyz").await;
            let answer = answer.unwrap_or_else(|| panic!("the host does not answer: {}", host.log()));
            assert_eq!(answer.status, 200, "{}", answer.body);
            oracle::positions(&database, CONSUMER, &topic, partitions).await
        },
        |at| at.iter().all(|&at| at >= RECORDS),
    )
    .await;
    assert!(host.is_running());
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());

    type Letter = (String, i32, i64, String, Option<String>, String, String);
    let found: Vec<Letter> = sqlx::query_as(
        r#"SELECT topic, partition, "offset", status, message_id, code, message FROM dead_letters
           WHERE consumer_name = $1 ORDER BY partition, "offset""#,
    )
    .bind(CONSUMER)
    .fetch_all(database.pool())
    .await
    .unwrap();
    let dead: Vec<_> = places().filter_map(|(partition, at)| harm(at).map(|harm| (partition, at, harm))).collect();
    let letters: Vec<_> = found.iter().map(|(_, partition, at, ..)| (*partition, *at)).collect();
    assert_eq!(letters, dead.iter().map(|(partition, at, _)| (*partition, *at)).collect::<Vec<_>>(), "{found:#?}");
    for (letter, (partition, at, (_, code, words))) in found.iter().zip(&dead) {
        let (in_topic, _, _, status, message_id, found_code, message) = letter;
        assert_eq!((in_topic, status.as_str(), found_code.as_str()), (&topic, "open", *code), "{letter:?}");
        assert_eq!(message_id.as_ref(), Some(&id(*partition, *at)), "{letter:?}");
        assert!(message.contains("broken") && message.contains(words), "{letter:?}");
    }

    let good: BTreeSet<String> =
        places().filter(|&(_, at)| harm(at).is_none()).map(|(partition, at)| id(partition, at)).collect();
    let rows: Vec<String> = sqlx::query_scalar("SELECT id FROM rows").fetch_all(database.pool()).await.unwrap();
    assert_eq!(rows.into_iter().collect::<BTreeSet<_>>(), good, "exactly the neighbours");
    oracle::assert_ledger(&database, CONSUMER, &good).await;
    oracle::assert_chain_tiles(&database, CONSUMER).await;
    let (applied, dead) = (i64::try_from(good.len()).unwrap(), i64::try_from(dead.len()).unwrap());
    let expected = Totals { consumed: applied + dead, applied, dead, ..Totals::default() };
    assert_eq!(oracle::totals(&database, CONSUMER).await, expected);
}
