//! The listener: one request per connection, few connections, and no patience with those that dawdle.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinHandle, time::timeout};

use super::{View, router};

/// Connections at a time; others wait in the kernel's queue.
const CONNECTIONS: usize = 64;
/// For a request's head.
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
    /// Listens and answers until dropped.
    ///
    /// # Errors
    /// Where the address cannot be listened on.
    pub async fn start(listen: SocketAddr, view: View) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        Ok(Self { address, task: tokio::spawn(accept(listener, view, address.ip().is_loopback())) })
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

async fn accept(listener: TcpListener, view: View, loopback: bool) {
    let router = router(view, loopback);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: going round at once would only burn the processor.
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .keep_alive(false)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            // What becomes of a client's connection is the client's business.
            let _ = timeout(WHOLE, connection).await;
            drop(place);
        });
    }
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
        health::{ConsumerHealth, Health},
        identity::ConsumerName,
        metrics::Metrics,
        outcome::Counts,
    };

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
        let view = View { health: Health::new(vec![Arc::clone(&consumer)]), metrics };
        (Server::start("127.0.0.1:0".parse().unwrap(), view).await.unwrap(), consumer)
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
    async fn nothing_changes_anything_and_foreign_names_are_refused() {
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
}
