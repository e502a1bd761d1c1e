//! The listener: one request per connection, few connections, and no patience with those that dawdle.

use std::{collections::VecDeque, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{View, router};

/// Connections at a time. One more ends the oldest, which has had the most time: whoever holds connections open keeps
/// nobody out, for an honest request is answered in less time than it takes to open so many.
const CONNECTIONS: usize = 64;
/// For a request's head, and before it for the handshake of TLS.
const HEAD: Duration = Duration::from_secs(5);
/// For a connection as a whole, a slow reader of the answer included.
const WHOLE: Duration = Duration::from_secs(30);
/// Bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;

/// A running listener. Ends when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens and answers until dropped; by HTTPS where `tls` is given.
    ///
    /// # Errors
    /// Where the address cannot be listened on.
    pub async fn start(listen: SocketAddr, tls: Option<Arc<ServerConfig>>, view: View) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let router = router(view, address.ip().is_loopback());
        Ok(Self { address, task: tokio::spawn(accept(listener, tls.map(TlsAcceptor::from), router)) })
    }

    /// Where it listens: with port 0 in the configuration, the port that it got.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, router: Router) {
    let mut connections = JoinSet::new();
    let mut oldest_first = VecDeque::with_capacity(CONNECTIONS);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // The client's own doing: the next one is at the door.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                // Out of file descriptors, most likely: going round at once would only burn the processor.
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        oldest_first.retain(|connection: &tokio::task::AbortHandle| !connection.is_finished());
        if oldest_first.len() >= CONNECTIONS
            && let Some(oldest) = oldest_first.pop_front()
        {
            oldest.abort();
        }
        let (tls, router) = (tls.clone(), router.clone());
        // What becomes of a client's connection is the client's business.
        oldest_first.push_back(connections.spawn(async move { drop(timeout(WHOLE, talk(stream, tls, router)).await) }));
    }
}

async fn talk(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router) {
    match tls {
        None => answer(stream, router).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(HEAD, tls.accept(stream)).await {
                answer(stream, router).await;
            }
        }
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;
    use crate::{
        app::Control,
        config::Secret,
        health::{ConsumerHealth, Health},
        identity::ConsumerName,
        metrics::Metrics,
        outcome::Counts,
    };

    const TOKEN: &str = "0123456789abcdef";

    async fn ask(server: &Server, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = vec![];
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn get(server: &Server, path: &str) -> String {
        ask(server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await
    }

    async fn server() -> (Server, Arc<ConsumerHealth>) {
        let name = ConsumerName::new("c<1>").unwrap();
        let consumer = ConsumerHealth::new(name.clone(), 1);
        let metrics = Arc::new(Metrics::new());
        let counts = Counts { applied: 1234, duplicate: 7, ..Counts::default() };
        metrics.consumer(&name).committed(counts, crate::metrics::Effects::default(), Duration::from_millis(1));
        let health = Health::new(vec![Arc::clone(&consumer)]);
        let token = Some(Secret::new(TOKEN));
        let view = View { health, metrics, control: Control::default(), token };
        (Server::start("127.0.0.1:0".parse().unwrap(), None, view).await.unwrap(), consumer)
    }

    #[tokio::test]
    async fn readiness_comes_with_its_reasons() {
        let (server, consumer) = server().await;
        let answer = get(&server, "/readyz").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("c<1>: consumer: has not joined its group yet"),
            "{answer}"
        );
        let json = ask(&server, "GET /readyz HTTP/1.1\r\nHost: [::1]:1\r\nAccept: application/json\r\n\r\n").await;
        assert!(json.contains("application/json") && json.contains("\"ready\":false"), "{json}");
        consumer.assigned(&[]);
        assert!(get(&server, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(&server, "/livez").await.ends_with("live\n"));
    }

    #[tokio::test]
    async fn metrics_and_the_page_show_what_was_done() {
        let (server, consumer) = server().await;
        consumer.assigned(&[]);
        let metrics = get(&server, "/metrics").await;
        assert!(
            metrics.contains("application/openmetrics-text; version=1.0.0") && metrics.contains("# EOF"),
            "{metrics}"
        );
        let page = get(&server, "/").await;
        assert!(page.contains("c&lt;1&gt;") && !page.contains("c<1>"), "names are escaped: {page}");
        assert!(page.contains("1,234") && page.contains("content-security-policy: default-src 'none'"), "{page}");
    }

    #[tokio::test]
    async fn only_what_is_there_is_answered_and_foreign_names_are_refused() {
        let (server, _consumer) = server().await;
        assert!(get(&server, "/nowhere").await.starts_with("HTTP/1.1 404"));
        let post = ask(&server, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").await;
        assert!(post.starts_with("HTTP/1.1 405"), "{post}");
        let foreign = ask(&server, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n").await;
        assert!(foreign.starts_with("HTTP/1.1 421"), "{foreign}");
        let long =
            ask(&server, &format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(64 << 10))).await;
        assert!(!long.starts_with("HTTP/1.1 200"), "{long}");
    }

    fn post(path: &str, headers: &str) -> String {
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
    }

    #[tokio::test]
    async fn consumers_are_shown_to_all_and_changed_by_who_has_the_token() {
        let (server, consumer) = server().await;
        consumer.assigned(&[]);
        consumer.lane_took(0);
        let shown = get(&server, "/v1/consumers").await;
        for part in [r#""state":"running""#, r#""ready":true"#, r#""applied":1234"#, r#""state":"working""#] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(get(&server, "/v1/consumers/c%3C1%3E").await.contains(r#""consumer":"c<1>""#));
        assert!(get(&server, "/v1/consumers/d").await.starts_with("HTTP/1.1 404"));

        let path = "/v1/consumers/c%3C1%3E/pause";
        for headers in ["", "Authorization: Bearer 0123456789abcdeg\r\n", "Cookie: token=0123456789abcdef\r\n"] {
            let refused = ask(&server, &post(path, headers)).await;
            assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("www-authenticate: Bearer"), "{refused}");
            assert!(!refused.contains(TOKEN), "{refused}");
        }
        let authorized = format!("Authorization: Bearer {TOKEN}\r\n");
        // This application has no consumer behind the one that it shows.
        let unknown = ask(&server, &post(path, &authorized)).await;
        assert!(unknown.starts_with("HTTP/1.1 404") && unknown.contains("no consumer of that name"), "{unknown}");
        let order = ask(&server, &post("/v1/consumers/c/dance", &authorized)).await;
        assert!(order.starts_with("HTTP/1.1 404") && order.contains("restart, pause, resume"), "{order}");
        assert!(get(&server, path).await.starts_with("HTTP/1.1 405"));
        for long in ["Content-Length: 1000000\r\n", "Transfer-Encoding: chunked\r\n"] {
            let refused = ask(&server, &post(path, &format!("{authorized}{long}"))).await;
            assert!(refused.starts_with("HTTP/1.1 413"), "{refused}");
        }
    }

    #[tokio::test]
    async fn without_a_token_nothing_can_be_changed() {
        let health = Health::new(vec![]);
        let view = View { health, metrics: Arc::new(Metrics::new()), control: Control::default(), token: None };
        let server = Server::start("127.0.0.1:0".parse().unwrap(), None, view).await.unwrap();
        for headers in ["", "Authorization: Bearer \r\n"] {
            let refused = ask(&server, &post("/v1/consumers/c/pause", headers)).await;
            assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("token_file"), "{refused}");
        }
    }

    /// Far more connections than there are places, each with half a request, and new ones all the time.
    #[tokio::test]
    async fn whoever_dawdles_keeps_nobody_out() {
        let (server, _consumer) = server().await;
        let mut dawdlers = vec![];
        for round in 0..10 {
            for n in 0..CONNECTIONS {
                let mut stream = TcpStream::connect(server.address()).await.unwrap();
                let half =
                    ["", "G", "GET /metrics HTTP/1.1\r\nHost: local", "POST / HTTP/1.1\r\nContent-Length: 9\r\n"];
                let _ = stream.write_all(half[n % half.len()].as_bytes()).await;
                dawdlers.push(stream);
            }
            for path in ["/livez", "/metrics"] {
                let answer = get(&server, path).await;
                assert!(answer.starts_with("HTTP/1.1 200"), "round {round}, {path}: {answer}");
            }
        }
        let mut ended = 0;
        for stream in &mut dawdlers[..CONNECTIONS] {
            ended += usize::from(matches!(stream.read(&mut [0; 1024]).await, Ok(0) | Err(_)));
        }
        assert_eq!(ended, CONNECTIONS, "the oldest were let go");
    }

    #[tokio::test]
    async fn https_is_spoken_and_half_a_handshake_keeps_nobody_out() {
        use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (cert_file, key_file) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&cert_file, made.cert.pem()).unwrap();
        std::fs::write(&key_file, made.signing_key.serialize_pem()).unwrap();
        let swapped = crate::config::Tls { cert_file: key_file.clone(), key_file: cert_file.clone() };
        assert!(super::super::load_tls(&swapped).unwrap_err().contains("key.pem"));
        let tls = super::super::load_tls(&crate::config::Tls { cert_file, key_file }).unwrap();
        let view = View {
            health: Health::default(),
            metrics: Arc::new(Metrics::new()),
            control: Control::default(),
            token: None,
        };
        let server = Server::start("127.0.0.1:0".parse().unwrap(), Some(tls), view).await.unwrap();

        assert!(!get(&server, "/livez").await.contains("200"), "no plain text");
        let mut dawdlers = vec![];
        for _ in 0..2 * CONNECTIONS {
            let mut stream = TcpStream::connect(server.address()).await.unwrap();
            let _ = stream.write_all(&[22, 3, 1]).await;
            dawdlers.push(stream);
        }
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = vec![];
        let _ = stream.read_to_end(&mut answer).await;
        assert!(String::from_utf8(answer).unwrap().starts_with("HTTP/1.1 200"));
    }
}
