//! The other end: asks a running host, for the command line. One request per connection, as the listener has it.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    http::{Method, Request, Uri, header},
};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::config::Secret;

/// For a whole answer. The host gives no request longer.
const WHOLE: Duration = Duration::from_secs(30);
/// Bytes of an answer: a page of some thousand partitions.
const ANSWER: usize = 16 << 20;

/// Where a host listens: `http://NAME:PORT` or `https://NAME:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    tls: bool,
    host: String,
    port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

impl Endpoint {
    /// Reads a URL. What is wrong with it is told without it: there may be a password in it.
    ///
    /// # Errors
    /// In words, with what would be right.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        const FORM: &str = "write http://NAME:PORT or https://NAME:PORT";
        let uri: Uri = url.parse().map_err(|_| format!("this is no URL; {FORM}"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(format!("this is no URL of HTTP; {FORM}")),
        };
        let authority = uri.authority().ok_or_else(|| format!("it names no host; {FORM}"))?;
        if authority.as_str().contains('@') {
            return Err(format!("a name and a password have no place in it; {FORM}, and give the token otherwise"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(format!("it has a path, and the command knows the paths; {FORM}"));
        }
        let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        if !port.is_empty() && authority.port_u16().is_none() {
            return Err(format!("its port is no number of a port; {FORM}"));
        }
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host: authority.host().trim_matches(['[', ']']).to_owned(), port })
    }

    /// Of a listener on this machine, as a configuration has it.
    pub(crate) fn local(listen: std::net::SocketAddr, tls: bool) -> Self {
        use std::net::{IpAddr, Ipv4Addr};
        let ip = if listen.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { listen.ip() };
        // A certificate names names.
        let host = if tls && ip.is_loopback() { "localhost".to_owned() } else { ip.to_string() };
        Self { tls, host, port: listen.port() }
    }

    /// Whether what is said can be read on the way.
    pub(crate) fn is_readable_on_the_way(&self) -> bool {
        let loopback = self.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        !self.tls && !loopback && !self.host.eq_ignore_ascii_case("localhost")
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// What a host answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The status code.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: String,
}

/// Asks. `trusted` is the PEM file of whoever vouches for an HTTPS host: its authority's certificate, or its own where that
/// is signed by itself.
///
/// # Errors
/// In words: nobody answers there, or not as it should be.
pub(crate) async fn ask(
    endpoint: &Endpoint,
    method: Method,
    path: &str,
    token: Option<&Secret>,
    trusted: Option<&Path>,
) -> Result<Answer, String> {
    let asked = async {
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port))
            .await
            .map_err(|error| format!("connect to {endpoint}: {error}"))?;
        if !endpoint.tls {
            return exchange(stream, endpoint, method, path, token).await;
        }
        let trusted = trusted.ok_or_else(|| format!("{endpoint}: whom to trust? Name a PEM file with --ca"))?;
        let connector = TlsConnector::from(Arc::new(client(trusted)?));
        let name = ServerName::try_from(endpoint.host.clone()).map_err(|error| format!("{endpoint}: {error}"))?;
        let stream = connector.connect(name, stream).await.map_err(|error| {
            format!("{endpoint}: {error}; trusted is {}, and its name must be the URL's", trusted.display())
        })?;
        exchange(stream, endpoint, method, path, token).await
    };
    let late = || format!("{endpoint} has not answered within {} s", WHOLE.as_secs());
    timeout(WHOLE, asked).await.unwrap_or_else(|_| Err(late()))
}

fn client(trusted: &Path) -> Result<ClientConfig, String> {
    let of = |error: &dyn fmt::Display| format!("{}: {error}", trusted.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(trusted).map_err(|error| of(&error))? {
        let added = certificate.map_err(|error| of(&error)).map(|certificate| roots.add(certificate))?;
        added.map_err(|error| of(&error))?;
    }
    if roots.is_empty() {
        return Err(of(&"there is no certificate in it (PEM, -----BEGIN CERTIFICATE-----)"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| of(&error))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    endpoint: &Endpoint,
    method: Method,
    path: &str,
    token: Option<&Secret>,
) -> Result<Answer, String> {
    let failed = |error: &dyn fmt::Display| format!("ask {endpoint}: {error}; is that a tidegate?");
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, endpoint.authority());
    if let Some(token) = token {
        let mut value = header::HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|_| "the token has signs that no token has: letters, digits and signs, no blanks".to_owned())?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    let request = request.header(header::CONTENT_LENGTH, 0).body(Body::empty()).map_err(|error| failed(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let talking = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let status = answer.status().as_u16();
    let body = to_bytes(Body::new(answer.into_body()), ANSWER).await.map_err(|error| failed(&error))?;
    talking.abort();
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    use super::*;
    use crate::http::{Server, View, load_tls};

    #[test]
    fn urls_are_names_and_ports() {
        let shown = |url: &str| Endpoint::parse(url).map(|endpoint| endpoint.to_string());
        assert_eq!(shown("http://localhost:9464/").as_deref(), Ok("http://localhost:9464"));
        assert_eq!(shown("https://gate.example").as_deref(), Ok("https://gate.example:443"));
        assert_eq!(shown("http://[::1]:1").as_deref(), Ok("http://[::1]:1"));
        for wrong in ["localhost:9464", "ftp://x", "http://u:c4nary@x:1", "http://x:1/v1?c4nary", "http://x:c4nary", ""]
        {
            let why = shown(wrong).unwrap_err();
            assert!(why.contains("http://NAME:PORT") && !why.contains("c4nary"), "{wrong}: {why}");
        }
        let local = |listen: &str, tls| Endpoint::local(listen.parse().unwrap(), tls).to_string();
        assert_eq!(local("127.0.0.1:9464", false), "http://127.0.0.1:9464");
        assert_eq!(local("0.0.0.0:9464", true), "https://localhost:9464");
        assert_eq!(local("[::1]:9464", false), "http://[::1]:9464");
        let readable = |url: &str| Endpoint::parse(url).unwrap().is_readable_on_the_way();
        assert!(readable("http://gate:9464") && !readable("https://gate:1") && !readable("http://127.0.0.1:1"));
    }

    #[tokio::test]
    async fn https_hosts_are_asked_only_where_somebody_vouches_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            let (cert_file, key_file) = (folder.path().join(name), folder.path().join(format!("{name}.key")));
            std::fs::write(&cert_file, made.cert.pem()).unwrap();
            std::fs::write(&key_file, made.signing_key.serialize_pem()).unwrap();
            crate::config::Tls { cert_file, key_file }
        };
        let (own, other) = (made("own.pem"), made("other.pem"));
        let view = View {
            health: crate::health::Health::default(),
            metrics: Arc::new(crate::metrics::Metrics::new()),
            control: crate::app::Control::default(),
            token: None,
        };
        let server = Server::start("127.0.0.1:0".parse().unwrap(), Some(load_tls(&own).unwrap()), view).await.unwrap();
        let port = server.address().port();
        let ask = async |url: String, trusted: Option<&Path>| {
            ask(&Endpoint::parse(&url).unwrap(), Method::GET, "/livez", None, trusted).await
        };
        let right = ask(format!("https://localhost:{port}"), Some(&own.cert_file)).await.unwrap();
        assert_eq!((right.status, right.body.as_str()), (200, "live\n"));
        // A certificate that is renewed, by two steps, is shown before long; until both are there the one of before is.
        let trusted = folder.path().join("trusted.pem");
        std::fs::copy(&other.cert_file, &trusted).unwrap();
        std::fs::copy(&other.cert_file, &own.cert_file).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        assert!(ask(format!("https://localhost:{port}"), Some(&trusted)).await.is_err(), "its key is not there yet");
        std::fs::copy(&other.key_file, &own.key_file).unwrap();
        while ask(format!("https://localhost:{port}"), Some(&trusted)).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let (own, other) = (other, made("third.pem"));
        for (url, trusted, part) in [
            (format!("https://localhost:{port}"), Some(&*other.cert_file), "third.pem"),
            (format!("https://127.0.0.1:{port}"), Some(&own.cert_file), "name"),
            (format!("https://localhost:{port}"), None, "--ca"),
            (format!("https://localhost:{port}"), Some(&own.key_file), "no certificate"),
            (format!("http://localhost:{port}"), None, "is that a tidegate?"),
            ("http://127.0.0.1:1".to_owned(), None, "connect to http://127.0.0.1:1"),
        ] {
            let why = ask(url.clone(), trusted).await.unwrap_err();
            assert!(why.contains(part), "{url}: {why}");
        }
    }
}
