//! What must never be shown: decided by name, before any value is looked at. Pure.

use super::{schema, suggest::nearest};

/// Words in a key or a variable's name that make its value a secret.
const WORDS: [&str; 10] =
    ["password", "passwd", "passphrase", "secret", "token", "credential", "jaas", "private", "api_key", "apikey"];

/// Whether a key's value is masked in every excerpt and message. `*_file` keys name a file, which is no secret.
pub(super) fn key_is_secret(key: &str) -> bool {
    let key = key.to_lowercase().replace(['-', ' '], "_");
    let named = WORDS.iter().any(|word| key.contains(word)) || key.split('.').any(|part| part == "pem");
    !key.ends_with("_file") && (named || key.contains("url") || key == "sasl.oauthbearer.config")
}

/// Whether a key that nobody knows may be a misspelt secret.
pub(super) fn unknown_key_may_be_secret(key: &str) -> bool {
    let lower = key.to_lowercase();
    let parts = lower.split(['_', '-', '.', ' ']).chain([lower.as_str()]);
    key_is_secret(key)
        || parts.into_iter().any(|part| nearest(part, WORDS.into_iter().chain(["url", "pwd", "auth"])).is_some())
}

/// Whether a text looks like an address or a key, which may hold a password wherever it stands.
pub(super) fn text_may_be_secret(text: &str) -> bool {
    ["://", "-----"].iter().any(|sign| text.contains(sign))
}

/// Whether a value, as the file has it, is nothing but names of variables: `"${SHOP_DB_URL}"`. A default may be a secret.
pub(super) fn is_only_variables(source: &str) -> bool {
    let mut rest = source.trim_matches(['"', '\'']);
    let mut any = false;
    while let Some((name, after)) = rest.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return false;
        }
        (any, rest) = (true, after);
    }
    any && rest.is_empty()
}

/// Whether what an environment variable holds is masked, whatever key it was put into.
pub(super) fn variable_is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    if ["_file", "_path", "_dir"].iter().any(|end| name.ends_with(end)) {
        return false;
    }
    WORDS.iter().any(|word| name.contains(word)) || name.contains("url") || name.ends_with("_key")
}

/// Whether a line that could not be parsed may be shown: a table's head, or a known `key = …` with nothing on it that
/// could belong to a secret. A line that only continues another one may hold anything.
pub(super) fn line_is_harmless(line: &str) -> bool {
    let line = line.trim();
    let suspicious = |text: &str| {
        let text = text.to_lowercase();
        WORDS.iter().any(|word| text.contains(word))
            || ["url", "://", "sasl", "ssl", "-----"].iter().any(|w| text.contains(w))
    };
    if suspicious(line) {
        return false;
    }
    let known = |key: &str| key != "settings" && schema::ALL.iter().any(|section| section.keys.contains(&key));
    match line.split_once('=') {
        Some((key, _)) => known(key.trim()),
        None => line.starts_with('[') && line.chars().all(|c| c.is_ascii_alphanumeric() || "_-.[]".contains(c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name() {
        for key in [
            "url",
            "sasl.password",
            "ssl.key.password",
            "ssl.key.pem",
            "sasl.oauthbearer.client.secret",
            "Pass-word_token",
            "basic-api-key",
        ] {
            assert!(key_is_secret(key), "{key}");
        }
        for key in ["url_file", "sasl.password_file", "topics", "bootstrap.servers", "sasl.username", "temperament"] {
            assert!(!key_is_secret(key), "{key}");
        }
        assert!(
            variable_is_secret("DATABASE_URL") && variable_is_secret("KAFKA_PASSWORD") && variable_is_secret("AWS_KEY")
        );
        assert!(
            !variable_is_secret("DATABASE_URL_FILE")
                && !variable_is_secret("LANES")
                && !variable_is_secret("KAFKA_BOOTSTRAP")
        );
    }

    #[test]
    fn an_unknown_key_is_masked_only_where_it_looks_like_a_secret() {
        for key in ["passwrd", "pasword", "api-tokn", "urll", "ulr", "secret", "sasl.pwd"] {
            assert!(unknown_key_may_be_secret(key), "{key}");
        }
        for key in ["colums", "retentoin", "topic", "banana", "lane"] {
            assert!(!unknown_key_may_be_secret(key), "{key}");
        }
    }

    #[test]
    fn names_of_variables_are_no_secret() {
        for source in ["\"${SHOP_DB_URL}\"", "'${A}${B_2}'"] {
            assert!(is_only_variables(source), "{source}");
        }
        for source in ["\"\"", "\"${A:hunter2}\"", "\"x${A}\"", "\"${A}x\"", "\"$${A}\"", "\"${hunter-2}\"", "\"${A\""]
        {
            assert!(!is_only_variables(source), "{source}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_parsed_is_shown_only_where_it_is_harmless() {
        for line in ["lanes = = 2", "[consumer", "name = \"x", "  batch = { linger = 5ms }"] {
            assert!(line_is_harmless(line), "{line}");
        }
        for line in
            ["url = \"postgres", "hunter2\"", "main = { url = x", "\"sasl.password\" = x", "-----BEGIN KEY", "MIIEvQ=="]
        {
            assert!(!line_is_harmless(line), "{line}");
        }
    }
}
