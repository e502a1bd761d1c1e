//! Every key of the configuration, by section. The readers may only ask for these; whatever else a file holds is
//! refused; and `config/reference.toml` must have each of them.

use super::secret;

/// The keys of one section.
#[derive(Debug)]
pub(super) struct Section {
    /// What it is called in messages.
    pub(super) name: &'static str,
    /// Its keys.
    pub(super) keys: &'static [&'static str],
}

impl Section {
    /// Whether any of its keys may hold a secret, so that a misspelt one may be just that.
    pub(super) fn bears_secrets(&self) -> bool {
        self.keys.iter().any(|key| secret::key_is_secret(key) || *key == "settings")
    }
}

pub(super) static ROOT: Section = Section {
    name: "the top of the configuration",
    keys: &["include", "database", "kafka", "http", "health", "log", "plugins", "consumer"],
};
pub(super) static DATABASE: Section = Section {
    name: "a database",
    keys: &["url", "url_file", "lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"],
};
pub(super) static HTTP: Section =
    Section { name: "http", keys: &["listen", "token", "token_file", "tls", "allow_plaintext_beyond_loopback"] };
pub(super) static TLS: Section = Section { name: "tls", keys: &["cert_file", "key_file"] };
pub(super) static HEALTH: Section = Section { name: "health", keys: &["silent_after", "stuck_after", "dead_after"] };
pub(super) static LOG: Section = Section { name: "log", keys: &["format", "filter"] };
pub(super) static PLUGINS: Section = Section { name: "plugins", keys: &["cache", "watch", "registry_ca_file"] };
pub(super) static CONSUMER: Section = Section {
    name: "a consumer",
    keys: &[
        "name",
        "group",
        "database",
        "kafka",
        "topics",
        "start",
        "lanes",
        "batch",
        "ledger",
        "payload",
        "tombstones",
        "queue",
        "revoke_deadline",
        "key_samples",
        "plugin",
        "shadow",
        "target",
    ],
};
pub(super) static TOPIC: Section = Section { name: "a topic", keys: &["name", "source"] };
pub(super) static BATCH: Section = Section { name: "batch", keys: &["max_records", "max_bytes", "linger"] };
pub(super) static LEDGER: Section =
    Section { name: "ledger", keys: &["retention", "replay_window", "older_than_retention"] };
pub(super) static PLUGIN: Section =
    Section { name: "plugin", keys: &["path", "sha256", "signed_by", "cases", "limits", "settings"] };
pub(super) static LIMITS: Section = Section {
    name: "limits",
    keys: &["memory", "cpu_base", "cpu_per_event", "changes_per_event", "output_per_event", "log_bytes"],
};
pub(super) static TARGET: Section = Section {
    name: "a target",
    keys: &["name", "table", "columns", "key", "merge", "guard", "operations", "soft_delete"],
};
pub(super) static GUARD: Section = Section { name: "guard", keys: &["newer_by", "transition"] };
pub(super) static TRANSITION: Section =
    Section { name: "transition", keys: &["column", "initial", "allow", "on_refused"] };

/// Every section.
pub(super) static ALL: [&Section; 16] = [
    &ROOT,
    &DATABASE,
    &HTTP,
    &TLS,
    &HEALTH,
    &LOG,
    &PLUGINS,
    &CONSUMER,
    &TOPIC,
    &BATCH,
    &LEDGER,
    &PLUGIN,
    &LIMITS,
    &TARGET,
    &GUARD,
    &TRANSITION,
];
