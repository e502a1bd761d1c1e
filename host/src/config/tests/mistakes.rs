//! One test per kind of mistake: what is said, where, and the way out.

use super::*;

/// The message of a mistake, without the closing line.
fn said(text: &str) -> String {
    let error = parse(text).unwrap_err().to_string();
    error.rsplit_once("\n\n").map(|(said, _)| said.to_owned()).unwrap()
}

/// What is said when one line of the good configuration is another.
fn changed(line: &str, instead: &str) -> String {
    said(&with(line, instead))
}

/// Asserts that a message has all of these parts.
#[track_caller]
fn holds(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "no {part:?} in:\n{said}");
    }
    assert_eq!(said.matches("error[").count(), 1, "one mistake, one message:\n{said}");
}

#[test]
fn an_unknown_key_is_shown_like_a_compiler_error() {
    assert_eq!(
        changed("ledger = { retention = \"14d\"", "ledger = { retentoin = \"14d\""),
        "error[unknown-key]: unknown key `retentoin`\n\
         \x20 --> tidegate.toml:10:12\n\
         \x20  |\n\
         10 | ledger = { retentoin = \"14d\", replay_window = \"2d\" }\n\
         \x20  |            ^^^^^^^^^ consumer[settlement].ledger.retentoin\n\
         \x20  = help: did you mean `retention`?"
    );
}

#[test]
fn a_misspelt_list_of_columns_is_told_once() {
    let text = with("columns = [", "colums = [")
        + "guard = { transition = { column = \"status\", initial = [\"new\"], allow = { new = [\"paid\"] } } }\n";
    let error = parse(&text).unwrap_err();
    let kinds: Vec<_> = error.diagnostics.iter().map(|d| d.kind).collect();
    assert_eq!(kinds, ["missing-key", "unknown-key"], "{error}");
    let said = error.to_string();
    assert!(
        said.contains("colums = [\"payment_id\", \"order_id\"") && said.contains("did you mean `columns`?"),
        "{said}"
    );
    let newer = with("columns = [", "colums = [") + "guard = { newer_by = \"event_version\" }\n";
    assert_eq!(parse(&newer).unwrap_err().diagnostics.len(), 2);
}

#[test]
fn a_variables_name_is_shown_its_value_is_not() {
    let said = changed("url = \"postgres://tidegate@localhost/shop\"", "url = \"${SHOP_DB_URL}\"");
    holds(&said, &["error[unset-variable]", "3 | url = \"${SHOP_DB_URL}\"", "SHOP_DB_URL is not set"]);
    let said = changed("url = \"postgres://tidegate@localhost/shop\"", "url = \"${SHOP_DB_URL:mysql://u:pw@h/d}\"");
    assert!(!said.contains("pw@h"), "{said}");
}

#[test]
fn all_mistakes_are_told_at_once_in_order() {
    let text = with("lanes = 2", "lanes = 0\nbanana = 1").replace("key = [\"payment_id\"]", "key = [\"paymentid\"]");
    let error = parse(&text).unwrap_err();
    let kinds: Vec<_> = error.diagnostics.iter().map(|d| (d.line, d.kind)).collect();
    assert_eq!(kinds, [(9, "out-of-range"), (10, "unknown-key"), (18, "unknown-column")]);
    assert!(error.to_string().ends_with("3 mistakes in the configuration; correct them and try again"));
}

#[test]
fn a_file_that_is_not_there() {
    let error = super::super::load(Path::new("no/such/tidegate.toml")).unwrap_err().to_string();
    holds(&error, &["error[unreadable-file]", "no/such/tidegate.toml", "--config FILE or TIDEGATE_CONFIG"]);
}

#[test]
fn no_toml() {
    holds(
        &changed("lanes = 2", "lanes = = 2"),
        &["error[syntax]: invalid TOML", "tidegate.toml:9:9", "9 | lanes = = 2", "|         ^"],
    );
    holds(&changed("lanes = 2", "lanes = 2\nlanes = 3"), &["error[syntax]", "duplicate key", "tidegate.toml:10:1"]);
}

#[test]
fn an_unset_variable() {
    let said = changed("lanes = 2", "lanes = \"${HOW_MANY}\"");
    holds(
        &said,
        &["error[unset-variable]: the environment variable HOW_MANY is not set", ":9:9", "${HOW_MANY:default}"],
    );
    holds(&changed("lanes = 2", "group = \"${A\""), &["error[bad-variable]", "`${` without `}`", "$${"]);
}

#[test]
fn a_wrong_type() {
    let said = changed("lanes = 2", "lanes = \"two\"");
    holds(&said, &["error[bad-type]: `lanes` is text", "9 | lanes = \"two\"", "expected a whole number"]);
    holds(
        &changed("topics = [\"order.events\"]", "topics = \"order.events\""),
        &["error[bad-type]", "expected a list of topics"],
    );
    holds(
        &changed("merge = { order_id = \"keep\" }", "merge = [\"keep\"]"),
        &["error[bad-type]", "`merge` is a list", "expected a table"],
    );
}

#[test]
fn a_number_out_of_range() {
    holds(&changed("lanes = 2", "lanes = 0"), &["error[out-of-range]: `lanes` is 0", "from 1 to 64; the default is 1"]);
    holds(
        &changed("lanes = 2", "batch = { max_records = 0 }"),
        &["`max_records` is 0", "consumer[settlement].batch.max_records"],
    );
    holds(&changed("lanes = 2", "batch = { max_bytes = \"0B\" }"), &["`max_bytes` is 0B", "from 1KiB to 1GiB"]);
    holds(&changed("lanes = 2", "lanes = 99999999999999999999"), &["does not fit 64 bits"]);
}

#[test]
fn a_duration_or_size_without_a_unit() {
    holds(&changed("\"14d\"", "\"14\""), &["error[bad-value]: `retention` = \"14\" has no unit", "\"14d\""]);
    holds(&changed("\"14d\"", "\"two weeks\""), &["is not a duration", "the default is \"30d\""]);
    holds(
        &changed("lanes = 2", "queue = 4194304"),
        &["error[bad-type]", "expected a size in quotes, such as \"8MiB\""],
    );
}

#[test]
fn a_word_that_is_not_among_the_choices() {
    let said = changed("lanes = 2", "tombstones = \"skipp\"");
    holds(
        &said,
        &["error[bad-value]: `tombstones` cannot be \"skipp\"", "did you mean \"skip\"?", "\"skip\", \"plugin\""],
    );
    holds(
        &changed("lanes = 2", "start = \"beginning\""),
        &["`start` cannot be \"beginning\"", "\"earliest\", \"latest\""],
    );
}

#[test]
fn what_is_needed_is_missing() {
    holds(
        &changed("name = \"settlement\"\n", ""),
        &["error[missing-key]: a consumer needs `name`", "consumer[#1].name", "half of the ledger's key"],
    );
    holds(&changed("topics = [\"order.events\"]", ""), &["a consumer needs `topics`"]);
    holds(&changed("key = [\"payment_id\"]", ""), &["a target needs `key`", "unique index"]);
    holds(&changed("path = \"settlement.wasm\"", ""), &["plugin needs `path`"]);
    holds(&changed("\"bootstrap.servers\" = \"localhost:9092\"", ""), &["needs `bootstrap.servers`"]);
    holds(&said(GOOD.split("[[consumer]]").next().unwrap()), &["there is no consumer", "config/reference.toml"]);
    holds(&said(GOOD.split("[[consumer.target]]").next().unwrap()), &["a consumer needs a target"]);
}

#[test]
fn an_empty_list() {
    holds(&changed("topics = [\"order.events\"]", "topics = []"), &["error[empty]: `topics` is empty"]);
    holds(&changed("key = [\"payment_id\"]", "key = []"), &["error[empty]: `key` is empty"]);
    holds(&changed("merge =", "operations = []\nmerge ="), &["error[empty]: `operations` is empty"]);
}

#[test]
fn a_topic_that_kafka_cannot_have() {
    holds(&changed("\"order.events\"", "\"^order.*\""), &["\"^order.*\" is a pattern", "list the topics by name"]);
    holds(&changed("\"order.events\"", "\"order events\""), &["\"order events\" is no topic's name"]);
    holds(&changed("\"order.events\"", "\"a\", \"a\""), &["error[defined-twice]: \"a\" is listed twice"]);
}

#[test]
fn a_database_that_is_not_spoken_to() {
    let url = "postgres://tidegate@localhost/shop";
    holds(
        &changed(url, "mysql://root@localhost/shop"),
        &["error[bad-url]: no database is spoken to by mysql://", "sqlite://FILE", "3 | url = ***"],
    );
    holds(&changed(url, "localhost/shop"), &["this is no database URL"]);
    holds(&changed(url, "postgres://localhost:port/shop"), &["cannot be read as a PostgreSQL URL", "%XX"]);
    holds(&changed(url, "sqlite://:memory:"), &["SQLite without a file"]);
}

#[test]
fn a_kafka_setting_that_safety_needs() {
    let servers = "\"bootstrap.servers\" = \"localhost:9092\"";
    for (setting, reason) in [
        ("\"auto.offset.reset\" = \"latest\"", "the consumer's `start`"),
        ("\"enable.auto.commit\" = true", "only after the database commit"),
        ("\"isolation.level\" = \"read_uncommitted\"", "aborted transactions"),
        ("\"partition.assignment.strategy\" = \"range\"", "stop every partition at each rebalance"),
        ("partition.assignment.strategy = \"roundrobin\"", "cooperative-sticky"),
        ("\"group.id\" = \"x\"", "the consumer's `group` says it"),
        ("\"queued.max.messages.kbytes\" = 1000", "the consumer's `queue`"),
        ("\"plugin.library.paths\" = \"evil.so\"", "loads foreign code"),
        ("\"sasl.kerberos.kinit.cmd\" = \"rm\"", "runs a shell command"),
        ("allow.auto.create.topics = true", "a misspelt topic"),
    ] {
        let said = changed(servers, &format!("{servers}\n{setting}"));
        holds(&said, &["error[refused-setting]", "cannot be set", reason]);
    }
}

#[test]
fn a_membership_that_cannot_work() {
    let servers = "\"bootstrap.servers\" = \"localhost:9092\"";
    let newer = "\"group.protocol\" = \"consumer\"\n";
    for (settings, parts) in [
        (
            format!("{newer}\"session.timeout.ms\" = 6000"),
            ["error[refused-setting]", "cannot be set with group.protocol", "the broker decides"],
        ),
        (
            format!("{newer}\"heartbeat.interval.ms\" = 300"),
            ["error[refused-setting]", "cannot be set with group.protocol", "the broker decides"],
        ),
        (
            format!("{newer}\"partition.assignment.strategy\" = \"range\""),
            ["error[refused-setting]", "partition.assignment.strategy", "cannot be set"],
        ),
        (
            format!("{newer}\"group.instance.id\" = \"one\""),
            ["error[refused-setting]", "cannot be set with group.protocol", "could not come back under its id"],
        ),
        (
            "\"group.remote.assignor\" = \"uniform\"".to_owned(),
            ["error[ignored-setting]", "the members assign the partitions", "\"group.protocol\" = \"consumer\""],
        ),
        (
            "\"max.poll.interval.ms\" = 30000".to_owned(),
            ["error[time-outs]", "`max.poll.interval.ms` (30000) is less than `session.timeout.ms` (45000)", "raise"],
        ),
        (
            "\"session.timeout.ms\" = 3000".to_owned(),
            ["error[time-outs]", "`heartbeat.interval.ms` (3000) is not less", "a third"],
        ),
        (
            "\"group.instance.id\" = \"host one\"".to_owned(),
            ["error[bad-value]", "`group.instance.id` is no id that a broker takes", "one per process"],
        ),
        (
            "\"topic.metadata.refresh.interval.ms\" = 300000".to_owned(),
            ["error[out-of-range]", "300000", "a partition that nobody notices"],
        ),
    ] {
        holds(&changed(servers, &format!("{servers}\n{settings}")), &parts);
    }
}

#[test]
fn two_members_of_one_group_under_one_static_id() {
    let servers = "\"bootstrap.servers\" = \"localhost:9092\"";
    let one = with(servers, &format!("{servers}\n\"group.instance.id\" = \"host-1\""));
    let (_, consumer) = one.split_once("[[consumer]]").unwrap();
    let other = consumer.replace("\"settlement\"", "\"other\"").replace("order.events", "other.events");
    assert!(parse(&format!("{one}\n[[consumer]]{other}")).is_ok(), "each is in its own group");
    let same = format!("{one}\n[[consumer]]\ngroup = \"settlement\"{other}");
    holds(&said(&same), &["error[shared-instance]", "under the same `group.instance.id`", "its own `group`"]);
}

#[test]
fn a_kafka_setting_that_librdkafka_does_not_take() {
    let servers = "\"bootstrap.servers\" = \"localhost:9092\"";
    let said = changed(servers, &format!("{servers}\n\"session.timeout\" = 6000"));
    holds(&said, &["librdkafka has no setting `session.timeout`", "did you mean `session.timeout.ms`?"]);
    let said = changed(servers, &format!("{servers}\n\"security.protocol\" = \"TLS\""));
    holds(&said, &["librdkafka refuses `security.protocol`", "Invalid value \"TLS\""]);
    let said = changed(servers, &format!("{servers}\n\"session.timeout.ms\" = \"6s\""));
    holds(&said, &["librdkafka refuses the value of `session.timeout.ms`", "without a unit"]);
}

#[test]
fn kafka_settings_that_do_not_do_what_they_seem_to() {
    let servers = "\"bootstrap.servers\" = \"localhost:9092\"";
    let said = |more: &str| changed(servers, &format!("{servers}\n{more}"));
    holds(&said("sasl.username = \"me\""), &["error[ignored-setting]: `sasl.username` is ignored", "SASL_SSL"]);
    holds(
        &said("ssl.ca.location = \"ca.pem\""),
        &["`ssl.ca.location` is ignored: `security.protocol` is \"plaintext\""],
    );
    holds(&said("security.protocol = \"SASL_SSL\""), &["error[not-built-in]: Kerberos", "SCRAM-SHA-512"]);
    let newer = "group.protocol = \"consumer\"\nsession.timeout.ms = 9000";
    holds(&said(newer), &["`session.timeout.ms` cannot be set with group.protocol = \"consumer\""]);
    let clear = "security.protocol = \"SASL_PLAINTEXT\"\nsasl.mechanism = \"PLAIN\"\nsasl.username = \"me\"\nsasl.password = \"x\"";
    let loaded = parse(&with(servers, &format!("{servers}\n{clear}"))).unwrap();
    assert_eq!(loaded.warnings[0].kind, "clear-text-password");
}

#[test]
fn two_of_what_must_be_one() {
    holds(
        &said(&format!("{GOOD}{}", &GOOD[GOOD.find("[[consumer]]").unwrap()..])),
        &[
            "error[duplicate-consumer]: the consumer \"settlement\" is defined twice; first at tidegate.toml:7:8",
            "would skip each other's messages",
        ],
    );
    holds(
        &said(&format!("{GOOD}{}", &GOOD[GOOD.find("[[consumer.target]]").unwrap()..])),
        &["error[duplicate-target]: the target \"settlements\" is defined twice"],
    );
    holds(&changed("columns = [", "columns = [\"status\", "), &["error[defined-twice]: \"status\" is listed twice"]);
    holds(&changed("url =", "url_file = \"x\"\nurl ="), &["error[both-given]: both `url` and `url_file`"]);
}

#[test]
fn two_consumers_of_one_group_on_the_same_topic() {
    let second = GOOD[GOOD.find("[[consumer]]").unwrap()..]
        .replace("name = \"settlement\"", "name = \"other\"\ngroup = \"settlement\"");
    holds(
        &said(&format!("{GOOD}{second}")),
        &[
            "error[shared-group]",
            "\"settlement\" and \"other\" read \"order.events\" in the same group",
            "each its own `group`",
        ],
    );
}

#[test]
fn a_reference_to_what_is_not_there() {
    holds(
        &changed("lanes = 2", "database = \"mian\""),
        &["error[unknown-reference]: there is no [database.mian]", "did you mean \"main\"?"],
    );
    holds(&changed("lanes = 2", "kafka = \"east\""), &["there is no [kafka.east]", "name one of: main"]);
}

#[test]
fn lanes_on_sqlite() {
    holds(
        &changed("postgres://tidegate@localhost/shop", "sqlite://shop.db"),
        &["error[lanes-on-sqlite]: 2 lanes on SQLite", "9 | lanes = 2", "set lanes = 1"],
    );
}

#[test]
fn a_ledger_that_forgets_too_early() {
    holds(
        &changed("\"14d\"", "\"2d\""),
        &[
            "error[retention-too-short]: the ledger forgets after 2d, but up to 2d may be replayed",
            "would be applied again",
        ],
    );
    holds(&changed("\"14d\"", "\"1s\""), &["error[out-of-range]: `retention` is 1s"]);
}

#[test]
fn a_revoke_that_outlasts_the_session() {
    let said = changed("lanes = 2", "revoke_deadline = \"45s\"");
    holds(
        &said,
        &[
            "error[revoke-too-long]: a revoke may take 45s, but after 45s (`session.timeout.ms`)",
            "raise `session.timeout.ms` in [kafka.main]",
        ],
    );
    let newer = with(
        "\"bootstrap.servers\" = \"localhost:9092\"",
        "\"bootstrap.servers\" = \"localhost:9092\"\n\"group.protocol\" = \"consumer\"",
    );
    holds(
        &self::said(&newer.replace("lanes = 2", "revoke_deadline = \"45s\"")),
        &["after 45s (`group.consumer.session.timeout.ms of the broker, by default`)", "set it below 45s"],
    );
}

#[test]
fn time_outs_out_of_their_order() {
    let database = |more: &str| said(&with("[kafka.main]", &format!("{more}\n[kafka.main]")));
    holds(
        &database("lock_timeout = \"12s\""),
        &[
            "error[time-outs]: `lock_timeout` (12s) is not less than `statement_timeout` (10s, the default)",
            "lower `lock_timeout`, or raise `statement_timeout`: a statement that waits for a lock gives up",
        ],
    );
    holds(
        &database("statement_timeout = \"9s\"\nidle_in_transaction_session_timeout = \"8s\""),
        &["`statement_timeout` (9s) is not less than `idle_in_transaction_session_timeout` (8s)"],
    );
    holds(
        &database("idle_in_transaction_session_timeout = \"20s\""),
        &[
            "`idle_in_transaction_session_timeout` (20s) is not less than `revoke_deadline` (20s, the default) of \
             consumer[",
            "or raise `revoke_deadline`, with session.timeout.ms above it: a transaction of a host that hangs",
        ],
    );
    holds(&database("lock_timeout = \"1ms\""), &["error[out-of-range]: `lock_timeout` is 1ms"]);
    let session = "idle_in_transaction_session_timeout = \"3s\"\n[kafka.main]\n\"session.timeout.ms\" = 6000";
    holds(
        &said(&with("[kafka.main]", session)),
        &["`idle_in_transaction_session_timeout` (3s) is not less than `revoke_deadline` (3s, the default)"],
    );
}

#[test]
fn a_watchdog_that_bites_in_a_revoke() {
    let text = with("lanes = 2", "lanes = 2\nrevoke_deadline = \"30s\"");
    holds(
        &said(&format!("{text}\n[health]\ndead_after = \"30s\"\n")),
        &[
            "error[time-outs]: `dead_after` (30s) is not more than `revoke_deadline` (30s) of consumer[",
            "raise `dead_after`",
        ],
    );
}

#[test]
fn a_digest_that_is_none() {
    let said = changed("path = \"settlement.wasm\"", "path = \"settlement.wasm\"\nsha256 = \"abc\"");
    holds(&said, &["error[bad-digest]: \"abc\" is no SHA-256: it has 3 characters", "sha256sum"]);
}

#[test]
fn a_column_that_is_not_granted() {
    holds(
        &changed("key = [\"payment_id\"]", "key = [\"payment_id\", \"orderid\"]"),
        &["error[unknown-column]: \"orderid\" is not among this target's columns", "did you mean \"order_id\"?"],
    );
    holds(
        &changed("{ order_id = \"keep\" }", "{ created_at = \"keep\" }"),
        &["\"created_at\" is not among", "merge.created_at", "add it to `columns`"],
    );
    holds(
        &changed("merge =", "guard = { newer_by = \"version\" }\nmerge ="),
        &["\"version\" is not among", "guard.newer_by"],
    );
}

#[test]
fn a_merge_that_makes_no_sense() {
    holds(
        &changed("{ order_id = \"keep\" }", "{ payment_id = \"keep\" }"),
        &["error[merge-on-key]: \"payment_id\" belongs to the key"],
    );
    holds(&changed("\"keep\"", "\"sum\""), &["\"sum\" is no way to merge", "\"greatest\", \"least\", \"add\""]);
    holds(
        &changed(
            "merge = { order_id = \"keep\" }",
            "merge = { amount = \"add\" }\nguard = { newer_by = \"event_version\" }",
        ),
        &["error[add-under-guard]: `newer_by` with an adding column (\"amount\")", "the sum would miss it"],
    );
}

#[test]
fn a_guard_that_makes_no_sense() {
    let guard = |guard: &str| changed("merge =", &format!("guard = {guard}\nmerge ="));
    holds(&guard("{}"), &["the guard is empty"]);
    holds(&guard("{ newer_by = \"payment_id\" }"), &["error[guard-on-key]"]);
    holds(&guard("{ newer_by = \"order_id\" }"), &["error[merge-on-guard]: \"order_id\" guards the row"]);
    holds(&guard("{ newer_by = \"amount\", transition = { column = \"status\" } }"), &["error[both-given]"]);
}

#[test]
fn a_state_machine_that_makes_no_sense() {
    let machine = |machine: &str| changed("merge =", &format!("guard = {{ transition = {{ {machine} }} }}\nmerge ="));
    holds(
        &machine("column = \"status\", allow = { a = [\"b\"] }"),
        &["error[no-initial-state]: no row could ever be inserted"],
    );
    holds(&machine("column = \"status\", initial = [\"a\"], allow = {}"), &["error[empty]: no step is allowed"]);
    holds(
        &machine("column = \"status\", initial = [\"a\"], allow = { a = [\"a\", \"a\"] }"),
        &["error[defined-twice]: this step is listed twice"],
    );
    holds(&machine("column = \"status\", initial = [\"a\"], allow = { a = \"b\" }"), &["expected a list of states"]);
    holds(
        &machine("column = \"statsu\", initial = [\"a\"], allow = { a = [\"b\"] }"),
        &["\"statsu\" is not among", "did you mean \"status\"?"],
    );
}

#[test]
fn a_state_that_is_never_reached_is_a_warning() {
    let machine = "guard = { transition = { column = \"status\", initial = [\"a\"], allow = { a = [\"b\"], c = [\"d\"] } } }\nmerge =";
    let warnings = parse(&with("merge =", machine)).unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].message, "no row ever gets into the state \"c\"");
}

#[test]
fn deletes_that_forget_or_are_not_asked_for() {
    holds(
        &changed("merge =", "soft_delete = \"deleted_at\"\nmerge ="),
        &["error[soft-without-delete]", "add \"delete\" to `operations`"],
    );
    holds(
        &changed("merge =", "operations = [\"upsert\", \"delete\"]\nguard = { newer_by = \"event_version\" }\nmerge ="),
        &["error[hard-delete-under-guard]", "a late upsert would bring the row back", "soft_delete = \"deleted_at\""],
    );
    holds(
        &changed("merge =", "operations = [\"delete\"]\nsoft_delete = \"status\"\nmerge ="),
        &["error[soft-is-granted]"],
    );
    holds(&changed("merge =", "operations = [\"insert\"]\nmerge ="), &["\"insert\" is no operation"]);
}

#[test]
fn tables_of_our_own_are_not_for_plugins() {
    holds(
        &changed("table = \"settlements\"", "table = \"processed_messages\""),
        &["error[own-table]", "the ledger is written by the host alone"],
    );
    holds(&changed("table = \"settlements\"", "table = \"a.b.c\""), &["\"a.b.c\" is no table's name"]);
}

#[test]
fn a_version_that_two_targets_share() {
    let first = with("merge =", "guard = { newer_by = \"event_version\" }\nmerge =");
    let second =
        first[first.find("[[consumer.target]]").unwrap()..].replace("name = \"settlements\"", "name = \"amounts\"");
    assert!(parse(&format!("{first}{second}")).is_ok(), "the same columns may share a version");
    let second = second.replace("\"status\", ", "");
    holds(
        &said(&format!("{first}{second}")),
        &["error[shared-version]", "which writes other columns", "its own version column"],
    );
}

#[test]
fn an_address_that_is_none_and_one_that_is_open() {
    let http = |listen: &str| format!("[http]\nlisten = \"{listen}\"\n{GOOD}");
    holds(&said(&http("9464")), &["\"9464\" is no address to listen on", "\"127.0.0.1:9464\", or \"off\""]);
    let open = said(&http("0.0.0.0:9464"));
    holds(&open, &["error[not-loopback]", "can be reached from other machines", "allow_plaintext_beyond_loopback"]);
    for word in ["allow_plaintext_beyond_loopback = true", "tls = { cert_file = \"a\", key_file = \"b\" }"] {
        let loaded = parse(&http("[::]:9464").replace("[http]", &format!("[http]\n{word}"))).unwrap();
        assert_eq!((loaded.warnings, loaded.config.http.listen), (vec![], Some("[::]:9464".parse().unwrap())));
    }
    let half = http("[::]:9464").replace("[http]", "[http]\ntls = { cert_file = \"a\" }");
    holds(&said(&half), &["tls needs `key_file`"]);
    assert_eq!(parse(&http("off")).unwrap().config.http.listen, None);
    assert_eq!(parse(&http("localhost:1")).unwrap().config.http.listen, Some("127.0.0.1:1".parse().unwrap()));
}

#[test]
fn a_token_that_keeps_nobody_out() {
    let http = |keys: &str| format!("[http]\n{keys}\n{GOOD}");
    for token in ["", "short", "a token with blanks in it", "sixteen\\tand more", "pässwörter-are-no-tokens"] {
        let said = said(&http(&format!("token = \"{token}\"")));
        holds(&said, &["error[bad-value]: this is no token that could keep anybody out", "openssl rand -hex 32"]);
        assert!(token.is_empty() || !said.contains(token), "{said}");
    }
    holds(&said(&http("token = \"0123456789abcdef\"\ntoken_file = \"t\"")), &["error[both-given]"]);
    holds(&said(&http("token_file = \"not-there\"")), &["error[unreadable-secret]", "not-there"]);
    assert!(parse(&http("token = \"0123456789abcdef\"")).unwrap().config.http.token.is_some());
}

#[test]
fn a_log_filter_that_is_none() {
    holds(&said(&format!("[log]\nfilter = \"tidegate=loud\"\n{GOOD}")), &["\"tidegate=loud\" is no log filter"]);
}

#[test]
fn a_name_that_the_ledger_cannot_hold() {
    holds(
        &changed("name = \"settlement\"\n", &format!("name = \"{}\"\n", "x".repeat(101))),
        &["has 101 characters, the ledger holds 100"],
    );
}
