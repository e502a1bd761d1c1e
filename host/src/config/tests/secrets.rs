//! A password in every setting that may hold one never comes out again.

use super::*;

pub(super) const CANARY: &str = "canary-5e93";

/// Everything that a mistake can come out as.
fn everything(text: &str) -> String {
    match parse(text) {
        Ok(loaded) => {
            format!("{:?} {:#?} {}", loaded.config, loaded.warnings, serde_json::to_string(&loaded.warnings).unwrap())
        }
        Err(error) => format!("{error} {error:?} {}", serde_json::to_string(&error.diagnostics).unwrap()),
    }
}

#[test]
fn a_password_is_never_shown() {
    let url = "\"postgres://tidegate@localhost/shop\"";
    let databases = [
        "\"postgres://u:canary-5e93@localhost/shop\"",
        "\"mysql://u:canary-5e93@localhost/shop\"",
        "\"canary-5e93\"",
        "\"canary-5e93://u:p@localhost/shop\"",
        "\"postgres://u@localhost/shop?pasword=canary-5e93\"",
        "\"postgres://u@localhost/shop?canary-5e93\"",
        "\"postgres://u@localhost/shop?canary-5e93=x\"",
        "\"postgres://u@localhost/shop?sslmode=canary-5e93\"",
        "\"postgres://u@localhost/shop?password=canary-5e93&port=x\"",
        "\"postgres://u:canary-5e93@localhost:port/shop\"",
        "\"postgres://u:${CANARY_PASSWORD}@localhost:port/shop\"",
        "\"postgres://u:${canary-5e93}@localhost/shop\"",
        "\"postgres://u:canary-5e93@localhost/${UNSET}\"",
        "\"postgres://u:canary-5e93@localhost/shop",
        "\"postgres://u:canary-5e93@localhost/shop\" extra",
        "[\"canary-5e93\"]",
        "{ password = \"canary-5e93\" }",
        "\"\"\"\npostgres://u:canary-5e93@localhost/shop",
        "\"\"\"\npostgres://u:canary-5e93@localhost/shop\"\"\" \"canary-5e93\"",
        "'canary-5e93",
        "canary-5e93",
    ];
    let mut texts: Vec<String> = databases.iter().map(|value| with(url, value)).collect();
    // Misspelt keys, keys in the wrong place, wrong types beside them on the same line.
    for line in [
        "urll = \"postgres://u:canary-5e93@localhost/shop\"",
        "passwrd = \"canary-5e93\"",
        "x = { y = [\"canary-5e93\"] }",
        "url_file = \"a\"\nurl = \"sqlite://canary-5e93\"",
    ] {
        texts.push(with(&format!("url = {url}"), line));
    }
    texts.push(with(
        "[database.main]\nurl = \"postgres",
        "[database]\nmain = { url = \"postgres://u:canary-5e93@h/d\", urll = 1 }\n[database.x]\nurl = \"postgres",
    ));
    texts.push(with(
        "[database.main]\nurl = \"postgres",
        "[database]\nmain = \"postgres://u:canary-5e93@h/d\"\n[database.x]\nurl = \"postgres",
    ));
    for setting in [
        "\"sasl.password\" = \"canary-5e93\"",
        "\"sasl.password\" = [\"canary-5e93\"]",
        "\"sasl.pasword\" = \"canary-5e93\"",
        "sasl.pwd = \"canary-5e93\"",
        "\"ssl.key.password\" = \"canary-5e93\"",
        "\"ssl.key.pem\" = \"\"\"\ncanary-5e93\n\"\"\"",
        "\"ssl.keystore.password\" = \"canary-5e93\"\n\"isolation.level\" = 1",
        "\"sasl.oauthbearer.client.secret\" = \"canary-5e93\"",
        "\"sasl.oauthbearer.config\" = \"canary-5e93\"",
        "\"sasl.password_file\" = \"no-such-file\"\n\"sasl.password\" = \"canary-5e93\"",
        "\"security.protocol\" = \"${CANARY_PASSWORD}\"",
        "\"ssl.key.pem\" = \"\"\"\ncanary-5e93",
        "\"sasl.password\" = \"canary-5e93",
    ] {
        texts.push(with(
            "\"bootstrap.servers\" = \"localhost:9092\"",
            &format!("\"bootstrap.servers\" = \"a:1\"\n{setting}"),
        ));
    }
    for line in [
        "payload = \"${CANARY_PASSWORD}\"",
        "queue = \"${CANARY_PASSWORD}\"",
        "lanes = \"${CANARY_PASSWORD}\"",
        "start = \"${CANARY_PASSWORD}\"",
        "database = \"${CANARY_PASSWORD}\"",
        "kafka = \"${CANARY_PASSWORD}\"",
        "revoke_deadline = \"${CANARY_PASSWORD}\"",
        "secret = \"canary-5e93\"",
    ] {
        texts.push(with("lanes = 2", line));
    }
    texts.push(with(
        "path = \"settlement.wasm\"",
        "path = \"x\"\nsha256 = \"${CANARY_PASSWORD}\"\nsettings = { api_key = \"canary-5e93\", n = nan }",
    ));
    texts.push(with("path = \"settlement.wasm\"", "path = \"x\"\nsettings = { word = \"${CANARY_PASSWORD}\" }"));
    for (line, key) in
        [("table = \"settlements\"", "table"), ("name = \"settlements\"", "name"), ("key = [\"payment_id\"]", "key")]
    {
        let value = if key == "key" { "[\"${CANARY_PASSWORD}\"]" } else { "\"${CANARY_PASSWORD}.b.c\"" };
        texts.push(with(line, &format!("{key} = {value}\nsoft_delete = \"${{CANARY_PASSWORD}}\"")));
    }
    for text in texts {
        let shown = everything(&text);
        assert!(!shown.contains(CANARY), "from:\n{text}\ncame:\n{shown}");
    }
}

#[test]
fn secrets_come_from_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pw"), "canary-5e93\n").unwrap();
    std::fs::write(folder.path().join("url"), "mysql://u:canary-5e93@h/d\n").unwrap();
    std::fs::write(folder.path().join("empty"), "\n").unwrap();
    let read = |text: &str| super::super::parse(text, &folder.path().join("tidegate.toml"), &|_| None);

    let servers = "\"bootstrap.servers\" = \"localhost:9092\"";
    let sasl = "security.protocol = \"SASL_SSL\"\nsasl.mechanism = \"PLAIN\"\n\"sasl.password_file\" = \"pw\"";
    let loaded = read(&with(servers, &format!("{servers}\n{sasl}"))).unwrap();
    assert_eq!(loaded.config.kafka["main"].properties["sasl.password"], "canary-5e93");
    assert!(!format!("{loaded:?}").contains(CANARY));

    let error =
        read(&with("url = \"postgres://tidegate@localhost/shop\"", "url_file = \"url\"")).unwrap_err().to_string();
    assert!(error.contains("no database is spoken to by mysql://") && !error.contains(CANARY), "{error}");
    let error =
        read(&with("url = \"postgres://tidegate@localhost/shop\"", "url_file = \"empty\"")).unwrap_err().to_string();
    assert!(error.contains("empty is empty"), "{error}");
}
