//! Every setting of the bundled librdkafka is let through on purpose, or refused on purpose.

use std::{
    collections::BTreeSet,
    io::{Read, Seek},
    os::fd::IntoRawFd,
};

use super::*;
use crate::config::kafka_keys::{ALLOWED, refused};

/// What librdkafka itself prints as its CONFIGURATION.md.
#[allow(unsafe_code, reason = "librdkafka prints its settings only into a C stream")]
fn bundled() -> BTreeSet<String> {
    let mut file = tempfile::tempfile().unwrap();
    let copy = file.try_clone().unwrap().into_raw_fd();
    // SAFETY: the stream owns the copied descriptor, is written by this call alone, and is closed once.
    unsafe {
        let stream = libc::fdopen(copy, c"w".as_ptr());
        assert!(!stream.is_null());
        rdkafka::bindings::rd_kafka_conf_properties_show(stream);
        assert_eq!(libc::fclose(stream), 0);
    }
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    let name = |line: &str| line.split_once('|').map(|(name, _)| name.trim().to_owned());
    let is_name = |name: &String| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
    text.lines().filter_map(name).filter(is_name).collect()
}

#[test]
fn every_setting_of_librdkafka_is_either_allowed_or_refused() {
    let bundled = bundled();
    assert!(bundled.len() > 150 && bundled.contains("plugin.library.paths"), "{bundled:?}");
    for key in &bundled {
        let allowed = ALLOWED.contains(&key.as_str());
        assert!(allowed != refused(key).is_some(), "{key}: allowed {allowed}, refused {:?}", refused(key));
    }
    for key in ALLOWED {
        assert!(bundled.contains(*key), "librdkafka does not have {key}");
    }
}

#[test]
fn what_is_refused_does_not_reach_librdkafka() {
    let servers = "\"bootstrap.servers\" = \"localhost:9092\"";
    let load = with(servers, &format!("{servers}\n\"plugin.library.paths\" = \"canary-library\""));
    let said = parse(&load).unwrap_err().to_string();
    // librdkafka would say why it cannot load the library.
    assert!(said.contains("loads foreign code") && !said.contains("shared object"), "{said}");
    for (key, reason) in [
        ("ssl.engine.location", "foreign code"),
        ("ssl.engine.id", "foreign code"),
        ("ssl.providers", "foreign code"),
        ("sasl.kerberos.kinit.cmd", "shell command"),
        ("sasl.kerberos.keytab", "Kerberos"),
        ("offset.store.path", "kept by the broker"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "unsecured tokens"),
        ("sasl.oauthbearer.method", "OAUTHBEARER has no source of tokens in this build"),
        ("https.ca.pem", "no source of tokens"),
        ("topic.blacklist", "never be read"),
        ("internal.termination.signal", "signals"),
        ("transactional.id", "producer's"),
        ("log_cb", "by a program"),
        ("ssl_engine_callback_data", "by a program"),
        ("test.mock.broker.rtt", "mock"),
    ] {
        let said = parse(&with(servers, &format!("{servers}\n\"{key}\" = \"x\""))).unwrap_err().to_string();
        assert!(said.contains("error[refused-setting]") && said.contains(reason), "{key}: {said}");
    }
    // Hidden ones, and what a later version may bring.
    let hidden =
        parse(&with(servers, &format!("{servers}\n\"client.software.name\" = \"x\""))).unwrap_err().to_string();
    assert!(hidden.contains("error[refused-setting]") && hidden.contains("known to be harmless"), "{hidden}");
}

#[test]
fn a_certificate_that_is_not_verified_is_told() {
    let servers = "\"bootstrap.servers\" = \"localhost:9092\"";
    for off in
        ["\"enable.ssl.certificate.verification\" = false", "\"ssl.endpoint.identification.algorithm\" = \"none\""]
    {
        let ssl = format!("{servers}\n\"security.protocol\" = \"SSL\"\n{off}");
        let warnings = parse(&with(servers, &ssl)).unwrap().warnings;
        assert_eq!(warnings.iter().map(|w| w.kind).collect::<Vec<_>>(), ["unverified-tls"], "{off}");
    }
}
