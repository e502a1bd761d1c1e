//! The smallest HTTP client that can ask a host on loopback.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body, as text.
    pub body: String,
}

/// GETs a path from a loopback port. `None` = nobody answers, or not within ten seconds (a frozen process).
pub async fn get(port: u16, path: &str) -> Option<Answer> {
    ask(port, "GET", path, "").await
}

/// POSTs to a path without a body, with this bearer token where there is one.
pub async fn post(port: u16, path: &str, token: Option<&str>) -> Option<Answer> {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    ask(port, "POST", path, &format!("{token}Content-Length: 0\r\n")).await
}

async fn ask(port: u16, method: &str, path: &str, headers: &str) -> Option<Answer> {
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        // HTTP/1.0: no chunks, and the connection's end is the body's end.
        let request = format!("{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        let text = String::from_utf8_lossy(&answer);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, body: body.to_owned() })
    };
    timeout(Duration::from_secs(10), ask).await.ok()?
}
