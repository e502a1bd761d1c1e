//! Plugins in an OCI registry, on a real one: pushed, pinned, signed, moved, and there while it is not.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use tidegate_tests::{
    host,
    plugin_command::tidegate,
    services::{Folder, Registry},
    settlement::Settlement,
};

/// The configuration of a consumer whose plugin is this, with its cache in the folder.
fn configure(folder: &Path, plugin: &str) {
    let consumer = Settlement::of("payment.events").toml();
    let at = consumer.find("path = ").unwrap();
    let end = at + consumer[at..].find('\n').unwrap();
    let text = format!(
        "[database.main]\nurl = \"sqlite://x.db\"\n[kafka.main]\n\"bootstrap.servers\" = \"127.0.0.1:1\"\n[plugins]\ncache = \
         \"cache\"\n{}{plugin}{}",
        &consumer[..at],
        &consumer[end..]
    );
    fs::write(folder.join("tidegate.toml"), text).unwrap();
}

/// What `tidegate check` says of the plugin, and whether it may run.
fn check(folder: &Path, plugin: &str, code: i32) -> String {
    configure(folder, plugin);
    tidegate(folder, &["check"]).expect(code)
}

/// The quoted text of an answer `KEY = "…"`.
fn quoted(answer: &str) -> String {
    answer.split('"').nth(1).unwrap_or_else(|| panic!("no text in {answer}")).to_owned()
}

#[test]
fn a_plugin_is_pushed_pinned_and_there_while_the_registry_is_down() {
    let storage = Folder::new().unwrap();
    let mut registry = Registry::start(storage.path()).unwrap();
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let tag = format!("oci://{}/team/settlement:1.0", registry.host());
    let push = |name: &str| {
        let file = host::plugin(name);
        quoted(&tidegate(folder, &["plugin", "push", file.to_str().unwrap(), &tag]).expect(0))
    };
    let pinned = push("settlement");
    assert!(pinned.starts_with(&format!("{tag}@sha256:")), "{pinned}");

    let by_tag = check(folder, &format!("path = \"{tag}\""), 0);
    assert!(by_tag.contains("is a tag, which may be moved") && by_tag.contains("settlement 0"), "{by_tag}");
    let by_digest = check(folder, &format!("path = \"{pinned}\""), 0);
    assert!(!by_digest.contains("is a tag"), "{by_digest}");

    // Down: what was fetched is there, what was not is not.
    registry.stop();
    check(folder, &format!("path = \"{tag}\""), 0);
    check(folder, &format!("path = \"{pinned}\""), 0);
    let unknown = check(folder, &format!("path = \"{}\"", tag.replace("1.0", "2.0")), 2);
    assert!(unknown.contains("cannot be fetched, and was not fetched before"), "{unknown}");

    // What nobody needs any more makes room when something new comes in.
    let cache = folder.join("cache/oci");
    let forgotten = cache.join(format!("{}.wasm", "0".repeat(64)));
    fs::write(&forgotten, "what no note names").unwrap();
    let days_ago = SystemTime::now() - Duration::from_secs(3 * 24 * 3600);
    fs::File::options().append(true).open(&forgotten).unwrap().set_modified(days_ago).unwrap();

    // The tag is moved: the next start has the other plugin, whose target nobody granted; the digest stays what it is.
    registry.resume().unwrap();
    assert_ne!(push("order_summary"), pinned);
    let moved = check(folder, &format!("path = \"{tag}\""), 2);
    assert!(moved.contains("order-summary") && moved.contains("not granted"), "{moved}");
    assert!(!forgotten.exists());
    check(folder, &format!("path = \"{pinned}\""), 0);
    let missing = check(folder, &format!("path = \"{}\"", tag.replace("1.0", "2.0")), 2);
    assert!(missing.contains("plugin oci://") && !missing.contains("not fetched before"), "it answers: {missing}");

    // Something else under the digest's name is noticed, and fetched anew.
    let files = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "wasm")) {
        fs::write(file, "\0asm").unwrap();
    }
    check(folder, &format!("path = \"{pinned}\""), 0);
    // Nobody else may have put anything there.
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn only_what_a_trusted_key_has_signed_is_loaded() {
    let storage = Folder::new().unwrap();
    let registry = Registry::start(storage.path()).unwrap();
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let key = |name: &str| {
        let made = Command::new("openssl")
            .args(["genpkey", "-algorithm", "ed25519", "-out", name])
            .current_dir(folder)
            .output();
        assert!(made.unwrap().status.success());
    };
    key("release.pem");
    key("stranger.pem");
    fs::copy(host::plugin("settlement"), folder.join("p.wasm")).unwrap();
    let tag = format!("oci://{}/settlement:1", registry.host());
    let push = || quoted(&tidegate(folder, &["plugin", "push", "p.wasm", &tag]).expect(0));
    let sign = |key: &str| quoted(&tidegate(folder, &["plugin", "sign", "p.wasm", "--key", key]).expect(0));

    let unsigned = push();
    let stranger = sign("stranger.pem");
    let of_a_stranger = push();
    let release = sign("release.pem");
    let signed = push();
    let with = |path: &str, key: &str| format!("path = \"{path}\"\nsigned_by = [\"{key}\"]");

    check(folder, &with(&signed, &release), 0);
    check(folder, &with(&signed, &stranger), 0);
    check(folder, &with("p.wasm", &release), 0);
    assert!(check(folder, &with(&unsigned, &release), 2).contains("is not signed"));
    assert!(check(folder, &with(&of_a_stranger, &release), 2).contains("is signed by"));
    check(folder, &format!("path = \"{unsigned}\""), 0);

    // Changed behind the signature.
    fs::copy(host::plugin("order_summary"), folder.join("p.wasm")).unwrap();
    assert!(check(folder, &with("p.wasm", &release), 2).contains("changed after it was signed"));
    let refused = tidegate(folder, &["plugin", "push", "p.wasm", &tag]).expect(3);
    assert!(refused.contains("sign it anew"), "{refused}");
    let no_key = tidegate(folder, &["plugin", "sign", "p.wasm", "--key", "tidegate.toml"]).expect(2);
    assert!(no_key.contains("openssl genpkey"), "{no_key}");
}
