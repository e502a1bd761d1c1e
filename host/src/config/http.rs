//! `[http]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{
    Http, Secret, Tls, schema, secret_file,
    section::{Placed, Section},
};

/// Where HTTP listens, unless said otherwise.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9464);
/// Characters of a token. What `openssl rand -hex 16` gives has 32.
const TOKEN: std::ops::RangeInclusive<usize> = 16..=1024;
const MAKE_ONE: &str = "make one with `openssl rand -hex 32`: letters, digits and signs, no blanks, 16 to 1024 of them";

/// Reads the section. What is wrong was reported; the answer then does not listen.
pub(super) fn read(root: &Section<'_>) -> Http {
    let default = Http { listen: Some(LISTEN), token: None, tls: None };
    let Some(section) = root.section("http", &schema::HTTP) else { return default };
    let tls = tls(&section);
    Http { listen: listen(&section), token: token(&section), tls }
}

fn listen(section: &Section<'_>) -> Option<SocketAddr> {
    let plaintext = section.boolean("allow_plaintext_beyond_loopback", false);
    let Some(text) = section.text("listen") else { return Some(LISTEN) };
    if text.value == "off" {
        return None;
    }
    let address = match text.value.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.value.clone(),
    };
    let Ok(listen) = address.parse::<SocketAddr>() else {
        let message = format!("{} is no address to listen on", text.shown());
        let help = "write ADDRESS:PORT such as \"127.0.0.1:9464\", or \"off\"";
        section.error("bad-value", &text.place, "listen", message, help);
        return None;
    };
    if !listen.ip().is_loopback() && !section.has("tls") && !plaintext {
        let message = format!("{listen} can be reached from other machines, and nothing is encrypted");
        let help = "it shows topics, lag and error texts, and a token would cross the network in clear text: keep it on \
                    127.0.0.1, set tls = { cert_file = \"…\", key_file = \"…\" }, or, where a firewall or network \
                    policy guards it, say allow_plaintext_beyond_loopback = true";
        section.error("not-loopback", &text.place, "listen", message, help);
        return None;
    }
    Some(listen)
}

fn token(section: &Section<'_>) -> Option<Secret> {
    let (text, place, key) = match (section.has("token"), section.has("token_file")) {
        (false, false) => return None,
        (true, true) => {
            let place = section.place_of("token_file");
            let message = "both `token` and `token_file` are given";
            section.error("both-given", &place, "token_file", message, "keep one of them");
            return None;
        }
        (true, false) => {
            let Placed { value, place } = section.text("token")?;
            (value, place, "token")
        }
        (false, true) => {
            let file = section.text("token_file")?;
            (secret_file::read(section, "token_file", &file)?, file.place, "token_file")
        }
    };
    if !TOKEN.contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        section.error("bad-value", &place, key, "this is no token that could keep anybody out", MAKE_ONE);
        return None;
    }
    Some(Secret::new(text))
}

fn tls(section: &Section<'_>) -> Option<Tls> {
    let tls = section.section("tls", &schema::TLS)?;
    let file = |key| {
        let text = tls.required_text(key, "a PEM file; both `cert_file` and `key_file` are needed")?;
        Some(tls.reading.resolve(&text.place, &text.value))
    };
    let (cert_file, key_file) = (file("cert_file"), file("key_file"));
    Some(Tls { cert_file: cert_file?, key_file: key_file? })
}
