//! One connection through the proxy: two pumps, and what may happen to them.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::sleep,
};

use super::{
    commit::{Moment, Plan},
    frames::{Answer, CommitWatch, Frames, answer, asks_for_encryption},
    proxy::{Ending, Faults, Swallow},
};

/// A connection's faults, and the way to end it.
#[derive(Debug)]
pub(super) struct State {
    pub(super) faults: Mutex<Faults>,
    pub(super) cut: watch::Sender<Option<Ending>>,
}

impl State {
    pub(super) fn new(faults: Faults) -> Self {
        Self { faults: Mutex::new(faults), cut: watch::channel(None).0 }
    }

    fn faults(&self) -> Faults {
        *locked(&self.faults)
    }

    /// Resolves when the connection is to be cut.
    async fn cut(&self) -> Ending {
        let mut cut = self.cut.subscribe();
        match cut.wait_for(Option::is_some).await {
            Ok(ending) => ending.unwrap_or(Ending::Reset),
            Err(_) => Ending::Reset,
        }
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What both directions of a PostgreSQL connection know of each other.
#[derive(Debug)]
pub(super) struct Postgres {
    pub(super) plan: Arc<Mutex<Plan>>,
    /// The server's next byte answers a request for encryption.
    asked: AtomicBool,
    /// The answer to a COMMIT is to be kept back.
    keeps: AtomicBool,
}

impl Postgres {
    pub(super) fn new(plan: Arc<Mutex<Plan>>) -> Self {
        Self { plan, asked: AtomicBool::new(false), keeps: AtomicBool::new(false) }
    }
}

/// How one direction ended.
enum End {
    /// Its sender has closed it, and its receiver was told.
    Closed,
    /// Something broke, or must break.
    Broken,
    /// A COMMIT at which the connection is cut.
    Commit,
}

/// Relays until both sides have closed, or something ends it.
pub(super) async fn relay(client: TcpStream, target: Option<String>, state: &State, postgres: Option<Postgres>) {
    let connecting = async {
        match target {
            Some(target) => TcpStream::connect(target).await.ok(),
            None => None,
        }
    };
    let server = tokio::select! {
        server = connecting => server,
        _ = state.cut() => None,
    };
    let Some(server) = server else {
        // Refused on the other side.
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let end = {
        let up = async {
            match &postgres {
                Some(postgres) => up(&mut from_client, &mut to_server, state, postgres).await,
                None => plain(&mut from_client, &mut to_server, state, Swallow::ToServer).await,
            }
        };
        let down = async {
            match &postgres {
                Some(postgres) => down(&mut from_server, &mut to_client, state, postgres).await,
                None => plain(&mut from_server, &mut to_client, state, Swallow::ToClient).await,
            }
        };
        tokio::pin!(up, down);
        let (mut up_open, mut down_open) = (true, true);
        loop {
            let end = tokio::select! {
                end = &mut up, if up_open => { up_open = false; end }
                end = &mut down, if down_open => { down_open = false; end }
                ending = state.cut() => break Err(ending),
                else => break Ok(End::Closed),
            };
            if !matches!(end, End::Closed) {
                break Ok(end);
            }
        }
    };
    match end {
        Ok(End::Closed) => {}
        Err(Ending::Close) => {
            let _ = (to_client.shutdown().await, to_server.shutdown().await);
        }
        Ok(End::Broken) | Err(Ending::Reset) => {
            let _ = (from_client.as_ref().set_zero_linger(), from_server.as_ref().set_zero_linger());
        }
        Ok(End::Commit) => {
            let _ = from_client.as_ref().set_zero_linger();
            drop((from_client, to_client));
            // The server reads what was sent, then the end. A reset might overtake the COMMIT.
            let _ = to_server.shutdown().await;
            let _ = tokio::io::copy(&mut from_server, &mut tokio::io::sink()).await;
        }
    }
}

/// One direction of a connection whose messages are nobody's business.
async fn plain(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, state: &State, direction: Swallow) -> End {
    let mut chunk = vec![0; 64 << 10];
    let mut dead = false;
    loop {
        let length = match read(from, &mut chunk, state, direction, &mut dead).await {
            Ok(length) => length,
            Err(end) => return finish(end, to).await,
        };
        if write(to, &chunk[..length], state).await.is_err() {
            return End::Broken;
        }
    }
}

/// From a client of PostgreSQL to its server.
async fn up(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, state: &State, postgres: &Postgres) -> End {
    let mut chunk = vec![0; 64 << 10];
    let (mut frames, mut watch) = (Frames::of_client(), CommitWatch::default());
    let mut dead = false;
    loop {
        let length = match read(from, &mut chunk, state, Swallow::ToServer, &mut dead).await {
            Ok(length) => length,
            Err(end) => return finish(end, to).await,
        };
        frames.push(&chunk[..length]);
        let mut ready = Vec::new();
        while let Some(frame) = frames.next() {
            let moment = if watch.commits(&frame) { locked(&postgres.plan).next() } else { None };
            if frame.kind == 0 && asks_for_encryption(&frame.bytes) {
                postgres.asked.store(true, Ordering::SeqCst);
            }
            match moment {
                None => {}
                Some(Moment::Before) => {
                    let _ = write(to, &ready, state).await;
                    locked(&postgres.plan).done();
                    return End::Commit;
                }
                Some(Moment::During) => {
                    ready.extend_from_slice(&frame.bytes);
                    let _ = write(to, &ready, state).await;
                    locked(&postgres.plan).done();
                    return End::Commit;
                }
                Some(Moment::After) => postgres.keeps.store(true, Ordering::SeqCst),
            }
            ready.extend_from_slice(&frame.bytes);
        }
        if write(to, &ready, state).await.is_err() {
            return End::Broken;
        }
    }
}

/// From a PostgreSQL server to its client.
async fn down(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, state: &State, postgres: &Postgres) -> End {
    let mut chunk = vec![0; 64 << 10];
    let mut frames = Frames::of_server();
    let mut dead = false;
    loop {
        let length = match read(from, &mut chunk, state, Swallow::ToClient, &mut dead).await {
            Ok(length) => length,
            Err(end) => return finish(end, to).await,
        };
        if postgres.asked.swap(false, Ordering::SeqCst) {
            frames.expect_answer();
        }
        frames.push(&chunk[..length]);
        let mut ready = Vec::new();
        while let Some(frame) = frames.next() {
            if frame.kind == 0 && frame.bytes == b"S" {
                // What is encrypted cannot be followed; clusters of this harness never ask for it.
                return End::Broken;
            }
            if postgres.keeps.load(Ordering::SeqCst) {
                match answer(&frame) {
                    Answer::None => {}
                    Answer::Committed => {
                        locked(&postgres.plan).done();
                        return End::Commit;
                    }
                    Answer::Refused => postgres.keeps.store(false, Ordering::SeqCst),
                }
            }
            ready.extend_from_slice(&frame.bytes);
        }
        if write(to, &ready, state).await.is_err() {
            return End::Broken;
        }
    }
}

/// What comes next in a direction that lets it through. A direction that has swallowed anything swallows the rest, and its
/// end: what follows a gap is no protocol.
async fn read(
    from: &mut OwnedReadHalf,
    chunk: &mut [u8],
    state: &State,
    direction: Swallow,
    dead: &mut bool,
) -> Result<usize, End> {
    loop {
        let read = from.read(chunk).await;
        *dead |= state.faults().swallow.is_some_and(|swallow| swallow == direction || swallow == Swallow::Both);
        match read {
            Ok(0) | Err(_) if *dead => std::future::pending().await,
            Ok(0) => return Err(End::Closed),
            Err(_) => return Err(End::Broken),
            Ok(_) if *dead => {}
            Ok(length) => return Ok(length),
        }
    }
}

async fn finish(end: End, to: &mut OwnedWriteHalf) -> End {
    if matches!(end, End::Closed) {
        let _ = to.shutdown().await;
    }
    end
}

/// Lets bytes through, as late and as slowly as the faults say. The delay is each portion's, not each byte's.
async fn write(to: &mut OwnedWriteHalf, bytes: &[u8], state: &State) -> std::io::Result<()> {
    let Faults { latency, bytes_per_second, .. } = state.faults();
    if bytes.is_empty() {
        return Ok(());
    }
    if !latency.is_zero() {
        sleep(latency).await;
    }
    let Some(rate) = bytes_per_second else { return to.write_all(bytes).await };
    // Ten portions a second.
    let portion = usize::try_from(rate / 10).unwrap_or(usize::MAX).max(1);
    for part in bytes.chunks(portion) {
        to.write_all(part).await?;
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
