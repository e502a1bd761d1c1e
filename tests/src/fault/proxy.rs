//! A TCP proxy in front of a server, on a port of this machine: its connections can be cut, refused, slowed, swallowed and
//! sent to another server, while everything runs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use super::{
    commit::{Moment, Nth, Plan},
    relay::{Postgres, State, locked, relay},
};
use crate::wait;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As if everything were over (FIN).
    Close,
    /// As if the other side were gone (RST).
    Reset,
}

/// Where bytes go lost without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swallow {
    /// What the client sends.
    ToServer,
    /// What the server answers.
    ToClient,
    /// All of it.
    Both,
}

/// What is wrong with connections; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// New connections end at once, in this way. (They are accepted first: the port stays the proxy's.)
    pub refuse: Option<Ending>,
    /// How much later each portion arrives, in each direction.
    pub latency: Duration,
    /// What goes through in each direction of each connection.
    pub bytes_per_second: Option<u64>,
    /// A half-open connection: it stays, and bytes go lost, its end too. A direction that has lost bytes never works
    /// again, also after the fault is taken away: cut the connection to have it noticed.
    pub swallow: Option<Swallow>,
}

/// A proxy. It runs on a thread of its own, so that a test may block. Dropped, all its connections are reset.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: Mutex<Option<String>>,
    faults: Mutex<Faults>,
    links: Mutex<BTreeMap<u64, Arc<State>>>,
    plan: Option<Arc<Mutex<Plan>>>,
}

/// One connection through a proxy, as long as it lasts.
#[derive(Clone, Debug)]
pub struct Link(Arc<State>);

impl Link {
    /// Ends it.
    pub fn cut(&self, ending: Ending) {
        self.0.cut.send_replace(Some(ending));
    }

    /// What is wrong with this one from now on.
    pub fn set(&self, faults: Faults) {
        *locked(&self.0.faults) = faults;
    }
}

impl Proxy {
    /// In front of `host:port`.
    ///
    /// # Panics
    /// Where the machine gives no port.
    #[must_use]
    pub fn start(target: &str) -> Self {
        Self::run(Some(target.to_owned()), false)
    }

    /// In front of nothing yet, so that a server can be told its port before it starts. See [`Self::retarget`].
    ///
    /// # Panics
    /// Where the machine gives no port.
    #[must_use]
    pub fn ahead() -> Self {
        Self::run(None, false)
    }

    /// In front of a PostgreSQL server: follows what is said, and can cut at COMMIT.
    ///
    /// # Panics
    /// Where the machine gives no port.
    #[must_use]
    pub fn postgres(target: &str) -> Self {
        Self::run(Some(target.to_owned()), true)
    }

    /// [`Self::postgres`], in front of the server of a database's URL.
    ///
    /// # Panics
    /// Where the URL has no host, or the machine gives no port.
    #[must_use]
    pub fn of_database(url: &str) -> Self {
        Self::postgres(&host_of(url).2)
    }

    fn run(target: Option<String>, postgres: bool) -> Self {
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            faults: Mutex::default(),
            links: Mutex::default(),
            plan: postgres.then(Arc::default),
        });
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = oneshot::channel();
        let of_thread = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(listener, of_thread) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { port, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A database's URL with this proxy's address instead of the server's.
    ///
    /// # Panics
    /// Where it has no host.
    #[must_use]
    pub fn url(&self, url: &str) -> String {
        let (from, to, _) = host_of(url);
        format!("{}{}{}", &url[..from], self.address(), &url[to..])
    }

    /// Where new connections go. Those that there are stay where they are: see [`Self::cut`].
    pub fn retarget(&self, target: &str) {
        *locked(&self.shared.target) = Some(target.to_owned());
    }

    /// What is wrong from now on, with all connections and with new ones.
    pub fn set(&self, faults: Faults) {
        *locked(&self.shared.faults) = faults;
        self.links().iter().for_each(|link| link.set(faults));
    }

    /// Takes all faults away, those at COMMIT too, and cuts the connections that have lost bytes.
    pub fn heal(&self) {
        let swallowing = |link: &&Link| locked(&link.0.faults).swallow.is_some();
        self.links().iter().filter(swallowing).for_each(|link| link.cut(Ending::Reset));
        self.set(Faults::default());
        if let Some(plan) = &self.shared.plan {
            locked(plan).want(None);
        }
    }

    /// Ends all connections. Gives how many.
    pub fn cut(&self, ending: Ending) -> usize {
        let links = self.links();
        links.iter().for_each(|link| link.cut(ending));
        links.len()
    }

    /// The connections that there are, the oldest first.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        locked(&self.shared.links).values().cloned().map(Link).collect()
    }

    /// Cuts connections at COMMIT, counted from now on.
    ///
    /// # Panics
    /// Where the proxy does not follow PostgreSQL: see [`Self::postgres`].
    pub fn cut_at_commit(&self, moment: Moment, nth: Nth) {
        locked(self.plan()).want(Some((moment, nth)));
    }

    /// How many connections were cut at a COMMIT so far.
    ///
    /// # Panics
    /// As [`Self::cut_at_commit`].
    #[must_use]
    pub fn commits_cut(&self) -> u64 {
        locked(self.plan()).cut()
    }

    /// Waits until so many connections were cut at a COMMIT, in all.
    ///
    /// # Panics
    /// Where it does not come to that.
    pub async fn until_commits_cut(&self, number: u64) {
        let what = format!("{number} connections were cut at COMMIT");
        wait::until(&what, async || self.commits_cut(), |cut| *cut >= number).await;
    }

    fn plan(&self) -> &Mutex<Plan> {
        let plan = self.shared.plan.as_deref();
        plan.unwrap_or_else(|| panic!("this proxy does not follow PostgreSQL's messages"))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut(Ending::Reset);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where a URL's `host:port` begins and ends, and what it is, with PostgreSQL's port where it names none.
fn host_of(url: &str) -> (usize, usize, String) {
    let authority = url.find("://").unwrap() + 3;
    let to = url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at);
    let from = url[authority..to].rfind('@').map_or(authority, |at| authority + at + 1);
    let host = &url[from..to];
    (from, to, if host.contains(':') { host.to_owned() } else { format!("{host}:5432") })
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    for number in 0_u64.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        let refuse = locked(&shared.faults).refuse;
        match refuse {
            Some(Ending::Reset) => drop(client.set_zero_linger()),
            Some(Ending::Close) => drop(tokio::spawn(close(client))),
            None => drop(tokio::spawn(one(number, client, Arc::clone(&shared)))),
        }
    }
}

/// In good order: a connection that is dropped with something unread in it is reset.
async fn close(mut client: TcpStream) {
    let _ = client.shutdown().await;
    let _ = tokio::io::copy(&mut client, &mut tokio::io::sink()).await;
}

async fn one(number: u64, client: TcpStream, shared: Arc<Shared>) {
    let state = Arc::new(State::new(Faults::default()));
    locked(&shared.links).insert(number, Arc::clone(&state));
    // Known from here on, so that it misses no change.
    *locked(&state.faults) = *locked(&shared.faults);
    let target = locked(&shared.target).clone();
    let postgres = shared.plan.as_ref().map(|plan| Postgres::new(Arc::clone(plan)));
    relay(client, target, &state, postgres).await;
    locked(&shared.links).remove(&number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_the_proxy_and_keeps_the_rest() {
        let proxy = Proxy::ahead();
        let address = proxy.address();
        for (url, host, through) in [
            ("postgres://u:p@h:1/db?sslmode=disable", "h:1", "postgres://u:p@P/db?sslmode=disable"),
            ("postgres://h/db", "h:5432", "postgres://P/db"),
            ("postgres://u@h", "h:5432", "postgres://u@P"),
        ] {
            assert_eq!(host_of(url).2, host);
            assert_eq!(proxy.url(url), through.replace('P', &address), "{url}");
        }
    }
}
