//! The built program from outside: exit codes, what it says where, and its help. Needs no service.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

const CANARY: &str = "canary-5e93";

/// A configuration that is right but for the plugin's file, which is not there.
const GOOD: &str = r#"
[database.main]
url = "sqlite://shop.db"
[kafka.main]
"bootstrap.servers" = "127.0.0.1:1"
"security.protocol" = "SASL_SSL"
"sasl.mechanism" = "PLAIN"
"sasl.password" = "${CANARY}"
[[consumer]]
name = "settlement"
topics = ["order.events"]
[consumer.plugin]
path = "settlement.wasm"
settings = { key = "${CANARY}" }
[[consumer.target]]
name = "settlements"
table = "settlements"
columns = ["payment_id", "amount"]
key = ["payment_id"]
"#;

struct Folder(TempDir);

impl Folder {
    fn with(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tidegate.toml"), config).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        tidegate(self.0.path(), arguments)
    }
}

/// Without a terminal, so that lines break where they always do.
fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("TIDEGATE_CONFIG")
        .env("CANARY", CANARY)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Set BLESS=1 to write the file anew, then look at the difference.
#[test]
fn help_is_as_committed() {
    let mut text = String::new();
    for command in [
        &[][..],
        &["run"],
        &["check"],
        &["migrate"],
        &["status"],
        &["seek"],
        &["consumers"],
        &["consumers", "pause"],
        &["demo"],
        &["plugin"],
        &["plugin", "build"],
    ] {
        let output = tidegate(Path::new("."), &[command, &["--help"]].concat());
        assert_eq!(code(&output), 0);
        text.push_str(&format!("$ tidegate {}\n", [command, &["--help"]].concat().join(" ")));
        for line in stdout(&output).lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push('\n');
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&file).unwrap(), "BLESS=1 writes the file anew");
}

#[test]
fn what_cannot_be_typed_is_invalid_input() {
    for arguments in [&["fly"][..], &[], &["check", "--loud"], &["migrate", "--check", "--dry-run"]] {
        assert_eq!(code(&tidegate(Path::new("."), arguments)), 2, "{arguments:?}");
    }
    assert!(stdout(&tidegate(Path::new("."), &["--version"])).starts_with("tidegate 0."));
}

/// A host that runs can be asked while the file is being mended.
#[test]
fn a_broken_configuration_does_not_hide_the_host() {
    let folder = Folder::with("[[consumer]]\nname = ");
    let output = folder.run(&["consumers"]);
    let said = stderr(&output);
    assert_eq!(code(&output), 2, "{said}");
    assert!(said.contains("help: --url http://127.0.0.1:9464 asks the host without the configuration"), "{said}");
    let output = folder.run(&["consumers", "--url", "http://127.0.0.1:1"]);
    assert!(code(&output) == 3 && stderr(&output).contains("connect to http://127.0.0.1:1"), "{}", stderr(&output));
}

#[test]
fn mistakes_stop_every_command_and_are_told_with_their_place() {
    let folder = Folder::with(&GOOD.replace("topics =", "topic =").replace("key = [\"pay", "key = [\"pey"));
    for command in ["run", "check", "migrate", "status"] {
        let output = folder.run(&[command]);
        let said = stderr(&output);
        assert_eq!(code(&output), 2, "{command}: {said}");
        for part in [
            "error[unknown-key]: unknown key `topic`",
            "--> tidegate.toml:11:1",
            "= help: did you mean `topics`?",
            "error[missing-key]: a consumer needs `topics`",
            "error[unknown-column]: \"peyment_id\"",
            "3 mistakes in the configuration",
        ] {
            assert!(said.contains(part), "{command}: no {part:?} in:\n{said}");
        }
        assert_eq!(stdout(&output), "", "{command}");
    }
}

#[test]
fn mistakes_are_told_to_scripts_too() {
    let output = Folder::with(&GOOD.replace("topics =", "topic =")).run(&["check", "--json"]);
    assert_eq!(code(&output), 2);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&json["ok"], &json["errors"]), (&false.into(), &2.into()));
    let finding = json["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "unknown-key").unwrap();
    assert_eq!(finding["place"], "tidegate.toml:11:1");
    assert_eq!(finding["subject"], "consumer[settlement].topic");
}

#[test]
fn a_file_that_is_not_there_is_told_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let output = tidegate(folder.path(), &["check", "-c", "nowhere.toml"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("nowhere.toml") && stderr(&output).contains("--config FILE"));
}

#[test]
fn check_finds_what_is_missing_around_the_file() {
    let output = Folder::with(GOOD).run(&["check"]);
    assert_eq!(code(&output), 2);
    let said = stdout(&output);
    assert!(
        said.contains("✗ plugin") && said.contains("settlement.wasm") && said.contains("✗ 1 error, 0 warnings"),
        "{said}"
    );
    assert!(said.contains("→ settlements (payment_id), idempotent"), "{said}");
}

#[test]
fn a_file_that_is_no_plugin_is_refused() {
    let folder = Folder::with(GOOD);
    std::fs::write(folder.path().join("settlement.wasm"), "not wasm").unwrap();
    let output = folder.run(&["check"]);
    assert_eq!(code(&output), 2);
    assert!(stdout(&output).contains("✗ plugin"), "{}", stdout(&output));
}

#[test]
fn a_database_is_made_and_kept_up_to_date() {
    let folder = Folder::with(GOOD);
    let status = folder.run(&["status"]);
    assert_eq!((code(&status), stderr(&status).contains("run `tidegate migrate`")), (2, true), "{}", stderr(&status));
    assert_eq!(code(&folder.run(&["migrate", "--check"])), 2, "there is something to do");
    let dry = folder.run(&["migrate", "--dry-run"]);
    assert_eq!(code(&dry), 0, "{}", stdout(&dry));
    let expected = "would be created: tidegate_migrations, consumers, processed_messages, checkpoints, ";
    assert!(stdout(&dry).contains(expected), "{}", stdout(&dry));
    assert_eq!(code(&folder.run(&["migrate", "--check"])), 2, "a dry run did nothing");

    assert_eq!(code(&folder.run(&["migrate"])), 0);
    assert!(folder.path().join("shop.db").is_file(), "a relative path starts at the configuration's folder");
    assert_eq!(code(&folder.run(&["migrate", "--check"])), 0);
    assert_eq!(code(&folder.run(&["migrate"])), 0, "again is no harm");
    let status = folder.run(&["status"]);
    assert_eq!((code(&status), stdout(&status).contains("has not run yet")), (0, true), "{}", stdout(&status));
    let json: serde_json::Value = serde_json::from_str(&stdout(&folder.run(&["status", "--json"]))).unwrap();
    assert_eq!((&json["ok"], &json["not_started"][0]), (&true.into(), &"settlement".into()));
    assert_eq!(code(&folder.run(&["status", "--consumer", "nobody"])), 2);
}

#[tokio::test]
async fn a_name_that_is_taken_is_found_without_a_try() {
    let folder = Folder::with(GOOD);
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("shop.db").display());
    let mut conn = <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await.unwrap();
    sqlx::query("CREATE TABLE consumers (id INTEGER PRIMARY KEY) STRICT").execute(&mut conn).await.unwrap();
    let expected = "something of the name consumers that is not tidegate's";
    for arguments in [&["migrate", "--dry-run"][..], &["migrate", "--check"], &["migrate"], &["check", "--online"]] {
        let output = folder.run(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stdout(&output));
        assert!(stdout(&output).contains(expected), "{arguments:?}: {}", stdout(&output));
    }
}

#[test]
fn services_that_are_away_are_the_environment() {
    let away = GOOD.replace("sqlite://shop.db", "postgres://u:${CANARY}@127.0.0.1:1/shop");
    let folder = Folder::with(&away);
    for command in [&["migrate"][..], &["status"]] {
        let output = folder.run(command);
        assert_eq!(code(&output), 3, "{command:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("127.0.0.1:1"), "{}", stderr(&output));
    }
}

/// A password in every setting that holds one, through every command, right and wrong.
#[test]
fn a_password_is_never_shown() {
    let configs = [
        GOOD.to_owned(),
        GOOD.replace("sqlite://shop.db", "postgres://u:${CANARY}@127.0.0.1:1/shop"),
        GOOD.replace("sqlite://shop.db", &format!("postgres://u:{CANARY}@127.0.0.1:1/shop")),
        GOOD.replace("sqlite://shop.db", &format!("mysql://u:{CANARY}@127.0.0.1:1/shop")),
        GOOD.replace("\"${CANARY}\"\n[[", &format!("\"{CANARY}\"\n[[")).replace("SASL_SSL", "wrong"),
        GOOD.replace("\"sasl.password\"", "\"sasl.pasword\""),
        GOOD.replace("url = \"sqlite://shop.db\"", &format!("url = \"postgres://u:{CANARY}@h/d")),
    ];
    for config in configs {
        let folder = Folder::with(&config);
        std::fs::write(folder.path().join("settlement.wasm"), "not wasm").unwrap();
        for arguments in [&["check", "--log", "trace"][..], &["check", "--json"], &["status", "--json"], &["migrate"]] {
            let output = folder.run(arguments);
            let said = stdout(&output) + &stderr(&output);
            assert!(!said.contains(CANARY), "{arguments:?} with {config}:\n{said}");
        }
    }
}
