//! Settings of a Kafka cluster that librdkafka takes one by one and that together do not what they seem to.

use std::collections::BTreeMap;

use super::{document::Place, section::Section};

/// Reports what does not fit together.
pub(super) fn check(section: &Section<'_>, place: &Place, properties: &BTreeMap<String, String>) {
    let get = |key: &str| properties.get(key).map(String::as_str);
    let protocol = get("security.protocol").unwrap_or("plaintext").to_lowercase();
    let has = |prefix: &str| properties.keys().find(|key| key.starts_with(prefix));
    let error = |kind, key: &str, message: &str, help: &str| section.error(kind, place, key, message, help);

    if let Some(key) = has("sasl.").filter(|_| !protocol.starts_with("sasl_")) {
        let message = format!("`{key}` is ignored: `security.protocol` is \"{protocol}\"");
        error("ignored-setting", key, &message, "set \"security.protocol\" = \"SASL_SSL\" (or \"SASL_PLAINTEXT\")");
    }
    if let Some(key) = has("ssl.").filter(|_| !protocol.ends_with("ssl")) {
        let message = format!("`{key}` is ignored: `security.protocol` is \"{protocol}\"");
        error("ignored-setting", key, &message, "set \"security.protocol\" = \"SSL\" (or \"SASL_SSL\")");
    }
    let mechanism = get("sasl.mechanism").or_else(|| get("sasl.mechanisms")).unwrap_or("GSSAPI");
    if protocol.starts_with("sasl_") && mechanism.eq_ignore_ascii_case("GSSAPI") {
        let help = "set \"sasl.mechanism\" to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512";
        error("not-built-in", "sasl.mechanism", "Kerberos (GSSAPI, the default mechanism) is not built in", help);
    }
    if mechanism.eq_ignore_ascii_case("OAUTHBEARER") {
        let help = "set \"sasl.mechanism\" to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, or use a client certificate";
        error("not-built-in", "sasl.mechanism", "OAUTHBEARER has no source of tokens in this build", help);
    }
    if protocol == "sasl_plaintext" && mechanism.eq_ignore_ascii_case("PLAIN") {
        let help = "use SASL_SSL, or a SCRAM mechanism";
        let message = "the password crosses the network in clear text";
        section.reading.warning("clear-text-password", place, &section.at("sasl.mechanism"), message, Some(help));
    }
    let encrypted = protocol.ends_with("ssl");
    for (key, off) in
        [("enable.ssl.certificate.verification", "false"), ("ssl.endpoint.identification.algorithm", "none")]
    {
        if encrypted && get(key).is_some_and(|value| value.eq_ignore_ascii_case(off)) {
            let help = "anybody on the way can read and change the messages; give ssl.ca.location instead";
            let message = "it is not verified that the broker's certificate is the broker's";
            section.reading.warning("unverified-tls", place, &section.at(key), message, Some(help));
        }
    }
}
