//! No secret comes out again, whatever the program is asked and whatever goes wrong: the real binary, at its most
//! talkative, with a canary in every setting that bears a secret.

use std::{
    fs,
    path::Path,
    process::{Child, Command},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use tempfile::TempDir;
use tidegate::fail_point::{Action, FailPoint};
use tidegate_tests::{
    Database,
    host::{self, Armed, HostProcess, WORDS},
    http, kafka, postgres,
    services::free_port,
    wait,
    workload::{SETTLEMENTS, Workload},
};

use crate::payments::Payments;

/// In every secret, and in nothing else.
const CANARY: &str = "c4nary";
const TOKEN: &str = "c4nary-http-token-0123456789";

/// Cases at once.
const AT_ONCE: usize = 6;

/// Everything but the compiler of plugins, which has no secret and says a million lines.
const TALKATIVE: &str =
    "trace,cranelift_codegen=off,cranelift_frontend=off,regalloc2=off,wasmtime=off,wasmtime_internal_cranelift=off";

/// A case: what is asked of which configuration.
struct Case {
    what: &'static str,
    config: String,
    arguments: &'static [&'static str],
    /// Part of what it says, so that a case which fails for another reason is noticed.
    says: &'static str,
}

/// A folder with everything that a configuration may name.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("token", TOKEN.to_owned()),
        ("url", "postgres://u:c4nary-file@127.0.0.1:1/shop".to_owned()),
        ("broken-url", "mysql://u:c4nary-file@127.0.0.1:1/shop".to_owned()),
        ("password", "c4nary-password-file".to_owned()),
        ("pgpass", "c4nary-malformed-line\n127.0.0.1:1:shop:u:c4nary-pgpass\n".to_owned()),
        ("broken.pem", "-----BEGIN PRIVATE KEY-----\nc4nary\n-----END PRIVATE KEY-----\n".to_owned()),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn config(database: &str, kafka: &str, http: &str) -> String {
    format!(
        r#"
[database.main]
{database}
[kafka.main]
"bootstrap.servers" = "127.0.0.1:1"
{kafka}
[http]
{http}
[[consumer]]
name = "c"
topics = ["t"]
[consumer.plugin]
path = "PLUGIN"
settings = {{ currency = "${{C4_PASSWORD}}" }}
[[consumer.target]]
name = "settlements"
table = "settlements"
columns = ["payment_id", "order_id", "amount", "status", "event_version", "created_at"]
key = ["payment_id"]
"#
    )
}

const SASL: &str = r#"
"security.protocol" = "SASL_SSL"
"sasl.mechanism" = "SCRAM-SHA-256"
"sasl.username" = "u"
"sasl.password" = "c4nary-sasl"
"ssl.key.password" = "c4nary-key-password"
"ssl.keystore.password" = "c4nary-keystore-password"
debug = "all"
"#;
const HTTP: &str = "listen = \"off\"\ntoken = \"c4nary-http-token-0123456789\"";
const AWAY: &str = "url = \"postgres://u:c4nary-url@127.0.0.1:1/shop?application_name=x\"";

/// Everything that was said on both streams, and how it ended.
fn ask(folder: &Path, config: &str, arguments: &[&str]) -> String {
    let file = folder.join(format!("{}.toml", uuid::Uuid::now_v7().simple()));
    fs::write(&file, config).unwrap();
    let output = Command::new(host::program("tidegate"))
        .args(arguments)
        .args(["--log", "trace", "--config"])
        .arg(&file)
        // Whoever is given a canary by the environment.
        .env("C4_PASSWORD", "c4nary-env")
        .env("C4_URL", "postgres://u:c4nary-env@127.0.0.1:1/shop")
        .env("C4_TOKEN", TOKEN)
        .env("PGPASSWORD", "c4nary-pgpassword")
        .env("PGPASSFILE", folder.join("pgpass"))
        .env("RUST_BACKTRACE", "full")
        .output()
        .unwrap();
    format!(
        "{}\n{}\n{:?}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status.code()
    )
}

fn cases(database: &Database, role: &str) -> Vec<Case> {
    let there = format!("url = \"{}\"", database.url_as("c4_nobody", "c4nary-wrong-role"));
    let no_database = format!("url = \"{}\"", database.url_as(role, "c4nary-url").replace("/t_", "/not_there_"));
    let case = |what, config, arguments, says| Case { what, config, arguments, says };
    let mut cases = vec![];
    for (arguments, says) in [
        (&["check"] as &[&str], "is valid"),
        (&["check", "--json"], "\"about\""),
        (&["check", "--online"], "connect to 127.0.0.1:1"),
        (&["check", "--online", "--json"], "connect to 127.0.0.1:1"),
        (&["status", "--json"], "connect to 127.0.0.1:1"),
        (&["migrate"], "connect to 127.0.0.1:1"),
    ] {
        cases.push(case("nobody answers", config(AWAY, SASL, HTTP), arguments, says));
    }
    for (what, database, says) in [
        ("a role that is refused", there.as_str(), "refuse"),
        ("a database that is not there", &no_database, "not_there_"),
        ("from a file", "url_file = \"url\"", "127.0.0.1:1"),
        ("from the environment", "url = \"${C4_URL}\"", "127.0.0.1:1"),
        ("a part of it from the environment", "url = \"postgres://u:${C4_PASSWORD}@127.0.0.1:1/x\"", "127.0.0.1:1"),
        ("in a parameter", "url = \"postgres://u@127.0.0.1:1/x?password=c4nary-parameter\"", "127.0.0.1:1"),
        (
            "in a parameter that there is not",
            "url = \"postgres://u@h/x?pasword=c4nary-parameter\"",
            "no parameter `pasword`",
        ),
        ("in a parameter that is refused", "url = \"postgres://u@h/x?sslmode=c4nary-parameter\"", "cannot be read"),
        ("with another scheme", "url_file = \"broken-url\"", "spoken to by mysql://"),
        ("no URL at all", "url = \"c4nary\"", "no database URL"),
        ("where pgpass is read", "url = \"postgres://u@127.0.0.1:1/shop\"", "127.0.0.1:1"),
        (
            "a client key",
            "url = \"postgres://u@127.0.0.1:1/x?sslmode=require&sslkey=-----BEGIN%20PRIVATE%20KEY-----c4nary\"",
            "127.0.0.1:1",
        ),
    ] {
        cases.push(case(what, config(database, SASL, HTTP), &["status"], says));
    }
    for (what, kafka, says) in [
        (
            "SASL's password from a file",
            "\"sasl.password_file\" = \"password\"\n\"security.protocol\" = \"SASL_SSL\"\n\"sasl.mechanism\" = \"PLAIN\"",
            "is valid",
        ),
        ("a misspelt password", "\"sasl.pasword\" = \"c4nary\"", "no setting `sasl.pasword`"),
        (
            "OAUTHBEARER",
            "\"sasl.oauthbearer.client.secret\" = \"c4nary\"\n\"sasl.oauthbearer.token.endpoint.url\" = \"https://u:c4nary@h?k=c4nary\"",
            "OAUTHBEARER has no source of tokens in this build",
        ),
        (
            "a refused value",
            "\"ssl.key.pem\" = \"c4nary\"\n\"session.timeout.ms\" = \"${C4_PASSWORD}\"",
            "session.timeout.ms",
        ),
        (
            "a key that is none",
            "\"security.protocol\" = \"SSL\"\n\"ssl.key.pem\" = \"c4nary-pem\"\n\"ssl.certificate.pem\" = \"c4nary-pem\"",
            "is valid",
        ),
    ] {
        cases.push(case(what, config(AWAY, kafka, HTTP), &["check", "--online"], says));
    }
    for (what, http, says) in [
        ("a token that is too short", "token = \"c4nary\"", "openssl rand"),
        ("a token that is none", "token = [\"c4nary\"]", "`token` is a list"),
        ("a misspelt token", "tokn = \"c4nary\"", "unknown key `tokn`"),
        ("a token twice", "token = \"c4nary-0123456789\"\ntoken_file = \"token\"", "both `token`"),
        ("a token from a file", "token_file = \"token\"", "changes with the token"),
        ("a token from the environment", "token = \"${C4_TOKEN}\"", "changes with the token"),
        ("a line that cannot be parsed", "token = \"c4nary-0123456789", "invalid TOML"),
        ("a secret where everybody sees it", "listen = \"${C4_TOKEN}\"", "secret variable"),
        ("a TLS key that is none", "tls = { cert_file = \"broken.pem\", key_file = \"broken.pem\" }", "http.tls"),
    ] {
        cases.push(case(what, config(AWAY, SASL, http), &["check"], says));
    }
    cases
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_ever_shown() {
    let (folder, database) = (folder(), postgres().await);
    let role = role(&database).await;
    let cases = cases(&database, &role);
    // Most of them wait for servers that are not there.
    let next = AtomicUsize::new(0);
    let some = || {
        while let Some(Case { what, config, arguments, says }) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let said = ask(folder.path(), config, arguments);
            assert!(said.contains(says), "{what}, {arguments:?} should say {says:?}:\n{said}");
            assert_silent(what, &said);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(some);
        }
    });
    forget(&database, &role).await;
}

/// A role that this password opens, whatever the server asks of others.
async fn role(database: &Database) -> String {
    let role = format!("c4_{}", uuid::Uuid::now_v7().simple());
    database.execute(&format!("CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'c4nary-url'")).await;
    role
}

async fn forget(database: &Database, role: &str) {
    database.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

/// A host at work, with a database that is there and a broker that is not: everything that it shows, and its whole log.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_host_shows_no_secret() {
    let (folder, database, broker) = (folder(), postgres().await, kafka());
    database.execute(SETTLEMENTS).await;
    let role = role(&database).await;
    let url = format!("url = \"{}\"", database.url_as(&role, "c4nary-url"));
    let port = free_port().unwrap();
    let http = format!("listen = \"127.0.0.1:{port}\"\ntoken_file = \"token\"");
    let plugin = host::plugin("settlement").display().to_string();
    let mut text = config(&url, SASL, &http).replace("PLUGIN", &plugin);
    // What a plugin says of its settings is its own.
    text = text.replace("${C4_PASSWORD}", "EUR");
    let migrated = ask(folder.path(), &text, &["migrate"]);
    assert!(migrated.contains("is now at version"), "{migrated}");
    assert_silent("migrate", &migrated);

    // A second one that speaks with the broker, in plain text to its port for TLS: it is told off.
    let second = text[text.find("[[consumer]]").unwrap()..].replace("\"c\"", "\"d\"\nkafka = \"other\"");
    text.push_str(&format!("[kafka.other]\n\"bootstrap.servers\" = \"{}\"\n{SASL}{second}", broker.bootstrap()));
    let file = folder.path().join("tidegate.toml");
    fs::write(&file, &text).unwrap();
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let child = Command::new(host::program("tidegate"))
        .args(["run", "--log", TALKATIVE, "--config"])
        .arg(&file)
        .env("C4_PASSWORD", "c4nary-env")
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    let asked = async || http::get(port, "/readyz").await.map(|answer| answer.body).unwrap_or_default();
    let both = |body: &String| body.matches("does not answer").count() >= 2 || body.contains("stopped");
    wait::until("both say what they wait for", asked, both).await;
    let mut shown = String::new();
    for path in ["/", "/livez", "/readyz", "/metrics", "/v1/consumers", "/v1/consumers/c"] {
        shown.push_str(&format!("{:?}\n", http::get(port, path).await.unwrap()));
    }
    for token in [None, Some("c4nary-another"), Some(TOKEN)] {
        for order in ["pause", "resume", "restart", "nothing"] {
            shown.push_str(&format!(
                "{:?}\n",
                http::post(port, &format!("/v1/consumers/c/{order}"), token).await.unwrap()
            ));
        }
    }
    let status = ask(folder.path(), &text, &["status", "--json"]);
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(
        shown.contains("202") && shown.contains("401") && log.contains("TRACE") && log.contains("librdkafka"),
        "{shown}"
    );
    assert!(status.contains("\"ok\":true"), "{status}");
    for (what, text) in [("HTTP", &shown), ("status", &status), ("the log", &log)] {
        assert_silent(what, text);
    }
    forget(&database, &role).await;
}

/// A bug's own words may hold what was at hand. Wherever it strikes, the host says where, stops loudly and keeps them back.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_shows_no_secret_and_is_noticed_at_once() {
    let payments = Payments::new(kafka(), postgres().await, 2).await;
    let events = Workload { messages: 600, seed: 52 }.events();
    let places = [
        (FailPoint::Polled, "the first half of lane"),
        (FailPoint::AfterCommit, "the second half of lane"),
        (FailPoint::OffsetsCommitted, "the thread that serves the group"),
    ];
    for ((point, what), events) in places.into_iter().zip(events.chunks(200)) {
        payments.publish(events);
        let armed = Armed { point, hit: 1, action: Action::Panic };
        let mut host = HostProcess::start_armed(point.name(), &payments.setup(), armed);
        // Nothing runs any more: the process ends, for its supervisor to start another one.
        assert_eq!(host.wait().code(), Some(1), "{}", host.log());
        let log = host.log();
        assert!(log.contains("a bug in tidegate: thread ") && log.contains("its words are kept back"), "{log}");
        assert!(log.contains(&format!("stopped: {what}")) && log.contains("died of a bug in tidegate"), "{log}");
        assert!(WORDS.contains(CANARY));
        assert_silent("a panic", &log);
    }
    payments.run_to_the_end().await;
    let deaths = i64::try_from(places.len()).unwrap();
    payments.assert_each_applied_once_and_little_came_again(&events, Some(deaths)).await;
}

/// Whatever becomes of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn assert_silent(what: &str, said: &str) {
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(CANARY)).collect();
    assert!(lines.is_empty(), "{what}: a secret comes out:\n{}", lines.join("\n"));
}
