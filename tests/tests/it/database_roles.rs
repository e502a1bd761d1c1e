//! Roles of a real PostgreSQL, as docs/database-roles.md makes them: each can do its part and no more, and what is missing
//! is told with the statement that mends it.

use std::fs;

use sqlx::{Connection, PgConnection};
use tidegate_tests::{
    Broker, Database, Sql,
    host::{self, HostProcess, Setup},
    kafka, oracle, postgres,
    services::checkout,
    settlement::{CONSUMER, Settlement},
    wait,
    workload::{Event, SETTLEMENTS},
};

use crate::documents::blocks;

const PASSWORD: &str = "roles-of-a-test";

/// A database with the document's roles, under names of their own: roles belong to the whole server.
struct Roles {
    database: Database,
    broker: Broker,
    topic: String,
    suffix: String,
}

impl Roles {
    async fn new() -> Self {
        let (database, broker) = (postgres().await, kafka());
        let topic = broker.topic(1).await;
        let suffix = uuid::Uuid::now_v7().simple().to_string();
        let roles = Self { database, broker, topic, suffix };
        roles.database.execute(SETTLEMENTS).await;
        let [once, after_migrate, targets] = roles.documented();
        roles.database.execute(&once).await;
        for role in ["owner", "run", "read"] {
            roles.database.execute(&format!("ALTER ROLE {} PASSWORD '{PASSWORD}'", roles.role(role))).await;
        }
        // So that a fresh database's own rights do not help.
        roles.database.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC").await;
        let migrated = roles.tidegate("owner", &["migrate"]);
        assert!(migrated.0 == Some(0), "{migrated:?}");
        let mut owner = PgConnection::connect(&roles.database.url_as(&roles.role("owner"), PASSWORD)).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(after_migrate)).execute(&mut owner).await.unwrap();
        owner.close().await.unwrap();
        roles.database.execute(&targets).await;
        roles
    }

    fn role(&self, name: &str) -> String {
        format!("tidegate_{name}_{}", self.suffix)
    }

    /// The document's blocks of SQL.
    fn documented(&self) -> [String; 3] {
        let text = fs::read_to_string(checkout().join("docs/database-roles.md")).unwrap();
        let own = |sql: String| {
            ["owner", "run", "read"]
                .iter()
                .fold(sql, |sql, role| sql.replace(&format!("tidegate_{role}"), &self.role(role)))
        };
        let blocks: Vec<String> = blocks(&text, "sql").into_iter().map(own).collect();
        blocks.try_into().unwrap_or_else(|blocks| panic!("three blocks of SQL: {blocks:?}"))
    }

    fn setup(&self, role: &str) -> Setup {
        let consumer = Settlement::of(&self.topic).in_group(&self.topic).toml();
        Setup::new(&self.database.url_as(&self.role(role), PASSWORD), &self.broker, consumer)
    }

    /// Exit code, and everything that was said.
    fn tidegate(&self, role: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let output = host::run_once(&self.setup(role), arguments);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    }

    fn publish(&self, payments: impl IntoIterator<Item = u32>) {
        let event = |n: u32| Event {
            event_id: format!("evt-{n}"),
            order_id: format!("o-{n}"),
            payment_id: format!("p-{n}"),
            version: 1,
            cents: 100,
            at: 0,
        };
        self.broker.producer(&[]).send(&self.topic, payments.into_iter().map(|n| event(n).message()));
    }

    /// A host that has consumed all there is.
    async fn consumed(&self) -> HostProcess {
        let mut host = HostProcess::start("host", &self.setup("run"));
        host.alive_during(oracle::until_consumed(&self.database, &self.broker, CONSUMER, &self.topic)).await;
        host
    }

    async fn rows(&self) -> i64 {
        self.database.number("SELECT count(*) FROM settlements").await
    }

    /// Roles outlive their database.
    async fn drop(self) {
        for role in ["run", "read", "owner"] {
            let role = self.role(role);
            self.database.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_can_do_its_part_and_no_more() {
    let roles = Roles::new().await;
    roles.publish([1, 2, 3, 2]);
    roles.broker.producer(&[]).send(&roles.topic, [tidegate_tests::Message::new("no event")]);
    let mut host = roles.consumed().await;
    host.terminate();
    assert_eq!(host.wait().code(), Some(0), "{}", host.log());
    let totals = oracle::totals(&roles.database, CONSUMER).await;
    assert_eq!((totals.applied, totals.duplicate, totals.dead), (3, 1, 1));
    assert_eq!(roles.rows().await, 3);

    for role in ["run", "read"] {
        let (code, said) = roles.tidegate(role, &["status"]);
        assert!(code == Some(0) && said.contains(CONSUMER), "status as {role}: {code:?} {said}");
        let (code, said) = roles.tidegate(role, &["migrate"]);
        assert_eq!(code, Some(0), "there is nothing to migrate: {said}");
    }
    let (code, said) = roles.tidegate("run", &["check", "--online"]);
    assert!(code == Some(0), "{code:?} {said}");
    // The proofs' queries, and no write.
    let mut read = PgConnection::connect(&roles.database.url_as(&roles.role("read"), PASSWORD)).await.unwrap();
    for proof in [
        "SELECT input_id, count(*) FROM processed_input_attempts GROUP BY input_id HAVING count(*) > 1",
        "SELECT payment_id, count(*) FROM settlements GROUP BY payment_id HAVING count(*) > 1",
    ] {
        sqlx::query(proof).fetch_all(&mut read).await.unwrap();
    }
    for (role, refused) in [
        ("read", "DELETE FROM processed_messages"),
        ("read", "UPDATE settlements SET amount = 0"),
        ("run", "CREATE TABLE mine (n int)"),
        ("run", "ALTER TABLE settlements ADD COLUMN mine int"),
        ("run", "DROP TABLE processed_messages"),
        ("run", "DELETE FROM tidegate_migrations"),
        ("owner", "SELECT * FROM settlements"),
    ] {
        let mut connection = PgConnection::connect(&roles.database.url_as(&roles.role(role), PASSWORD)).await.unwrap();
        let error = sqlx::raw_sql(refused).execute(&mut connection).await.unwrap_err();
        let code = error.as_database_error().and_then(|error| error.code().map(|code| code.into_owned()));
        assert_eq!(code.as_deref(), Some("42501"), "{refused} as {role}: {error}");
    }
    let (code, said) = roles.tidegate("read", &["run"]);
    let grant = format!("GRANT INSERT, UPDATE ON consumers TO {}", roles.role("read"));
    assert!(code == Some(2) && said.contains(&grant) && said.contains("ON settlements TO"), "{code:?} {said}");
    roles.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_told_with_the_grant_that_mends_it() {
    let roles = Roles::new().await;
    let (run, read) = (roles.role("run"), roles.role("read"));
    roles.publish([1]);
    // So that there is something to ask about.
    drop(roles.consumed().await);
    for (revoke, role, command, expected) in [
        ("INSERT ON settlements", &run, "run", "GRANT INSERT ON settlements TO"),
        ("UPDATE ON dead_letters", &run, "run", "GRANT UPDATE ON dead_letters TO"),
        ("ALL ON checkpoints", &run, "run", "GRANT INSERT, SELECT ON checkpoints TO"),
        ("SELECT ON dead_letters", &read, "status", "GRANT SELECT ON consumers, processed_messages, checkpoints,"),
        ("SELECT ON tidegate_migrations", &read, "status", "GRANT SELECT ON tidegate_migrations TO"),
        ("USAGE ON SCHEMA public", &run, "run", "GRANT USAGE ON SCHEMA public TO"),
    ] {
        if revoke.starts_with("USAGE") {
            roles.database.execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC").await;
        }
        roles.database.execute(&format!("REVOKE {revoke} FROM {role}")).await;
        let name = if *role == run { "run" } else { "read" };
        let (code, said) = roles.tidegate(name, &[command]);
        let wanted = if command == "run" { Some(2) } else { code };
        assert!(code == wanted && code != Some(0) && said.contains(expected), "without {revoke}: {code:?} {said}");
        if command == "run" {
            let (code, said) = roles.tidegate("run", &["check", "--online"]);
            // What it cannot even read, it names with its sisters.
            let told = said.contains(expected) || said.contains("GRANT SELECT ON consumers");
            assert!(code != Some(0) && told, "check without {revoke}: {code:?} {said}");
        }
        assert!(!said.contains(PASSWORD), "{said}");
        // What was said, literally, is what helps.
        let start = said.find(expected).unwrap();
        let statement: String = said[start..]
            .split([';', '(', '\n'])
            .next()
            .unwrap()
            .trim()
            .trim_end_matches(" (docs")
            .replace("…", "public");
        roles.database.execute(&statement).await;
    }
    let mut host = roles.consumed().await;
    host.ready().await;
    assert_eq!(roles.rows().await, 1);

    // Taken away while it runs: nothing is committed, nothing becomes a dead letter, and it is said.
    roles.database.execute(&format!("REVOKE UPDATE, INSERT ON settlements FROM {run}")).await;
    roles.publish(10..15);
    assert_eq!(host.wait().code(), Some(1), "{}", host.log());
    let log = host.log();
    assert!(log.contains("permission denied for table settlements (SQLSTATE 42501)") || log.contains("42501"), "{log}");
    assert!(log.contains("check --online"), "{log}");
    assert_eq!(roles.database.number("SELECT count(*) FROM dead_letters").await, 0);
    roles.database.execute(&format!("GRANT UPDATE, INSERT ON settlements TO {run}")).await;
    let _host = roles.consumed().await;
    assert_eq!(roles.rows().await, 6);
    drop(_host);
    roles.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_refuses_one_row_is_that_record_s_fault_and_one_that_refuses_all_stops() {
    let roles = Roles::new().await;
    let policy = |check: &str| {
        format!(
            "ALTER TABLE settlements ENABLE ROW LEVEL SECURITY; DROP POLICY IF EXISTS p ON settlements; \
             CREATE POLICY p ON settlements USING (true) WITH CHECK ({check})"
        )
    };
    roles.database.execute(&policy("payment_id <> 'p-3'")).await;
    roles.publish(1..=5);
    let mut host = roles.consumed().await;
    assert_eq!(roles.rows().await, 4, "its neighbours pass");
    let letter = "SELECT message_id || ' ' || sqlstate || ' ' || status FROM dead_letters";
    assert_eq!(roles.database.texts(letter).await, ["evt-3 42501 open"]);

    roles.database.execute(&policy("false")).await;
    roles.publish(6..=9);
    assert_eq!(host.wait().code(), Some(1), "{}", host.log());
    assert!(host.log().contains("or a row policy refuses them all"), "{}", host.log());
    assert_eq!(roles.database.number("SELECT count(*) FROM dead_letters").await, 1, "nothing more was set aside");
    assert_eq!(roles.rows().await, 4);

    roles.database.execute(&policy("true")).await;
    let host = roles.consumed().await;
    wait::until_true("the rest is there", async || roles.rows().await == 8).await;
    drop(host);
    roles.drop().await;
}
