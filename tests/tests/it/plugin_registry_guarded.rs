//! A registry behind TLS and a password, on a real one: whose certificates are trusted, who logs in how, by which way.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tidegate_tests::{
    host,
    plugin_command::tidegate_with,
    services::{Folder, LOGIN, PASSWORD, Registry, USER},
    settlement::Settlement,
};

const WRONG: &str = "wrong-secret";
/// A port that nobody listens at.
const NOWHERE: &str = "http://127.0.0.1:9";

/// A `config.json` with this entry for a registry, in a folder of its own.
fn login(folder: &Path, name: &str, host: &str, entry: &str) -> String {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.json"), format!(r#"{{"auths":{{"{host}":{{{entry}}}}}}}"#)).unwrap();
    folder.to_str().unwrap().to_owned()
}

/// A consumer's configuration whose plugin is this; `plugins` is what stands in its `[plugins]`, with a cache of this name.
fn configure(folder: &Path, plugin: &str, cache: &str, plugins: &str) {
    let consumer = Settlement::of("payment.events").toml();
    let at = consumer.find("path = ").unwrap();
    let end = at + consumer[at..].find('\n').unwrap();
    let text = format!(
        "[database.main]\nurl = \"sqlite://x.db\"\n[kafka.main]\n\"bootstrap.servers\" = \"127.0.0.1:1\"\n[plugins]\ncache = \
         \"{cache}\"\n{plugins}\n{}path = \"{plugin}\"{}",
        &consumer[..at],
        &consumer[end..]
    );
    fs::write(folder.join("tidegate.toml"), text).unwrap();
}

/// A proxy that opens tunnels; answers how many it has opened.
fn proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (url, opened) = (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&opened);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let count = Arc::clone(&count);
            thread::spawn(move || tunnel(client, &count));
        }
    });
    (url, opened)
}

fn tunnel(mut client: TcpStream, opened: &AtomicUsize) -> Option<()> {
    let mut head = BufReader::new(client.try_clone().ok()?);
    let mut line = String::new();
    head.read_line(&mut line).ok()?;
    let to = line.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned();
    while line != "\r\n" {
        line.clear();
        head.read_line(&mut line).ok()?;
    }
    let server = TcpStream::connect(to).ok()?;
    opened.fetch_add(1, Ordering::Relaxed);
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
    let (mut back, mut answers) = (client.try_clone().ok()?, server.try_clone().ok()?);
    let answering = thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Write);
    });
    let mut there = &server;
    let _ = std::io::copy(&mut head, &mut there);
    let _ = server.shutdown(Shutdown::Write);
    answering.join().ok()
}

#[test]
fn a_registry_behind_tls_and_a_password_is_spoken_to_as_one_is_told() {
    let storage = Folder::new().unwrap();
    let registry = Registry::start_guarded(storage.path()).unwrap();
    let root = tempfile::tempdir().unwrap();
    let (folder, host) = (root.path(), registry.host());
    let (ca_file, plugin) = (registry.ca_file(), host::plugin("settlement"));
    let (ca_file, plugin) = (ca_file.to_str().unwrap(), plugin.to_str().unwrap());
    let tag = format!("oci://{host}/team/settlement:1");
    // As `docker login` writes it, and as people do.
    let entry = format!(r#""auth":"{LOGIN}""#);
    let right = login(folder, "right", &host, &entry);
    let others = login(folder, "others", "registry.example.com", &entry);
    let wrong = login(folder, "wrong", &host, &format!(r#""username":"{USER}","password":"{WRONG}""#));
    let empty = folder.join("empty");
    let empty = empty.to_str().unwrap();

    // Who pushes has no configuration: the environment says whom to trust.
    let push = |variables: &[(&str, &str)], code| {
        tidegate_with(folder, variables, &["plugin", "push", plugin, &tag]).expect(code)
    };
    let stranger = push(&[("DOCKER_CONFIG", &right)], 3);
    assert!(stranger.contains(&host) && stranger.contains("SSL_CERT_FILE"), "{stranger}");
    let pushed = push(&[("DOCKER_CONFIG", &right), ("SSL_CERT_FILE", ca_file)], 0);
    let pinned = pushed.split('"').nth(1).unwrap().to_owned();
    // Nothing of a password, whatever is wrong with it; whose it was, where it was, and the way out.
    let refused = push(&[("DOCKER_CONFIG", &wrong), ("SSL_CERT_FILE", ca_file)], 3);
    assert!(refused.contains(&format!("{host} refuses the login of \"{USER}\" in {wrong}/config.json")), "{refused}");
    assert!(refused.contains(&format!("docker login {host}")) && !refused.contains(WRONG), "{refused}");

    // Who runs plugins has the setting.
    let trusting = format!("registry_ca_file = \"{ca_file}\"");
    let check = |variables: &[(&str, &str)], cache: &str, plugins: &str, code| {
        configure(folder, &pinned, cache, plugins);
        let said = tidegate_with(folder, variables, &["check"]).expect(code);
        assert!([WRONG, PASSWORD, LOGIN].iter().all(|secret| !said.contains(secret)), "{said}");
        said
    };
    let good = check(&[("DOCKER_CONFIG", &right)], "one", &trusting, 0);
    assert!(good.contains("settlement 0"), "{good}");
    let stranger = check(&[("DOCKER_CONFIG", &right)], "two", "", 2);
    assert!(stranger.contains("[plugins] registry_ca_file"), "{stranger}");
    let no_file = check(&[("DOCKER_CONFIG", &right)], "two", "registry_ca_file = \"nowhere.pem\"", 2);
    assert!(no_file.contains("nowhere.pem cannot be read"), "{no_file}");
    let refused = check(&[("DOCKER_CONFIG", &wrong)], "two", &trusting, 2);
    assert!(refused.contains(&format!("refuses the login of \"{USER}\"")), "{refused}");
    let nobody = check(&[("DOCKER_CONFIG", &others)], "two", &trusting, 2);
    assert!(nobody.contains("wants a login") && nobody.contains(&format!("has none for {host}")), "{nobody}");
    let nobody = check(&[("DOCKER_CONFIG", empty)], "two", &trusting, 2);
    assert!(nobody.contains(&format!("there is no {empty}/config.json")), "{nobody}");
    // What is kept needs neither.
    check(&[("DOCKER_CONFIG", &wrong)], "one", "", 0);

    // By the environment's proxy, unless it says that this one is near.
    let (url, opened) = proxy();
    check(&[("DOCKER_CONFIG", &right), ("HTTPS_PROXY", &url)], "three", &trusting, 0);
    assert!(opened.load(Ordering::Relaxed) > 0);
    let lost = check(&[("DOCKER_CONFIG", &right), ("HTTPS_PROXY", NOWHERE)], "four", &trusting, 2);
    assert!(lost.contains(&host), "{lost}");
    let near = host.split(':').next().unwrap();
    check(&[("DOCKER_CONFIG", &right), ("HTTPS_PROXY", NOWHERE), ("NO_PROXY", near)], "five", &trusting, 0);
}

#[test]
fn a_registry_on_this_machine_is_asked_without_a_proxy() {
    let storage = Folder::new().unwrap();
    let registry = Registry::start(storage.path()).unwrap();
    let root = tempfile::tempdir().unwrap();
    let plugin = host::plugin("settlement");
    let tag = format!("oci://{}/settlement:1", registry.host());
    let proxies = [("HTTP_PROXY", NOWHERE), ("http_proxy", NOWHERE), ("HTTPS_PROXY", NOWHERE), ("ALL_PROXY", NOWHERE)];
    let _ = tidegate_with(root.path(), &proxies, &["plugin", "push", plugin.to_str().unwrap(), &tag]).expect(0);
}
