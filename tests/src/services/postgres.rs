//! A private PostgreSQL cluster.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    ServiceError, free_port,
    process::{self, Server},
};

const ADVICE: &str =
    "on Debian and Ubuntu: apt-get install postgresql. Or set DATABASE_URL to a server that is running";

/// What the cluster promises after a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As in production: for everything that is measured and for everything about crashes.
    Fsync,
    /// Nothing: faster, for throw-away data.
    None,
}

/// How a cluster is made that is not like the others.
#[derive(Clone, Debug)]
pub struct Shape {
    /// What it promises after a power failure.
    pub durability: Durability,
    /// Settings on top of the harness's own, as `name=value`.
    pub settings: Vec<String>,
    /// Where its data lies, such as a small disk; in the run's folder where absent.
    pub disk: Option<PathBuf>,
}

impl From<Durability> for Shape {
    fn from(durability: Durability) -> Self {
        Self { durability, settings: Vec::new(), disk: None }
    }
}

impl Shape {
    /// The same with one more setting.
    #[must_use]
    pub fn with(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }
}

/// A running cluster with data folder and port of its own, `trust` on loopback. Stopped on drop.
#[derive(Debug)]
pub struct Postgres {
    data: PathBuf,
    log: PathBuf,
    binary: PathBuf,
    port: u16,
    owner: Option<Owner>,
    shape: Shape,
    server: Option<Server>,
    /// Removed with the cluster where the data could not lie in the run's folder.
    _elsewhere: Option<tempfile::TempDir>,
}

/// PostgreSQL refuses to run as root: then it is run as the user that its package made.
#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Postgres {
    /// Makes a cluster in `folder` and starts it.
    ///
    /// # Errors
    /// Where PostgreSQL is not installed, or does not start.
    pub fn start(folder: &Path, shape: impl Into<Shape>) -> Result<Self, ServiceError> {
        Self::made_by(folder, shape.into(), |data| {
            let mut init = Command::new(binary("initdb")?);
            init.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]);
            init.arg("-D").arg(data);
            Ok(("initdb", init))
        })
    }

    /// Makes a copy of this cluster that follows it by asynchronous streaming, and starts it: a standby that answers
    /// queries and refuses writes until it is promoted.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn start_standby(&self, folder: &Path) -> Result<Self, ServiceError> {
        Self::made_by(folder, Shape { disk: None, ..self.shape.clone() }, |data| {
            let mut copy = Command::new(binary("pg_basebackup")?);
            copy.args(["--host=127.0.0.1", "--username=postgres", "--wal-method=stream", "--checkpoint=fast"]);
            copy.args(["--no-sync", "--write-recovery-conf", "--port", &self.port.to_string(), "-D"]).arg(data);
            Ok(("pg_basebackup", copy))
        })
    }

    fn made_by(
        folder: &Path,
        shape: Shape,
        maker: impl FnOnce(&Path) -> Result<(&'static str, Command), ServiceError>,
    ) -> Result<Self, ServiceError> {
        let owner = owner()?;
        let (home, elsewhere) = home(shape.disk.as_deref().unwrap_or(folder), owner)?;
        let data = home.join("postgres");
        let (what, mut command) = maker(&data)?;
        process::run(what, as_owner(command.current_dir(&home), owner))?;

        let port = free_port().map_err(ServiceError::io("a port for PostgreSQL"))?;
        let log = folder.join(format!("postgres-{port}.log"));
        let binary = binary("postgres")?;
        let mut cluster = Self { data, log, binary, port, owner, shape, server: None, _elsewhere: elsewhere };
        cluster.resume()?;
        Ok(cluster)
    }

    /// The URL of the superuser's database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Stops the server at once, as a crash would: open transactions are lost, clients see a closed connection.
    pub fn crash(&mut self) {
        self.end("QUIT");
    }

    /// Stops the server in good order ("fast" shutdown): clients are disconnected, everything is written.
    pub fn stop(&mut self) {
        self.end("INT");
    }

    /// Kills the server's first process without notice (`kill -9`): its children see that it is gone and end by
    /// themselves, those in the middle of a statement after it.
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    fn end(&mut self, signal: &str) {
        if let Some(mut server) = self.server.take() {
            server.signal(signal);
            server.wait();
        }
    }

    /// `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Whether the server's first process still runs: one that cannot recover gives up by itself.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        self.server.as_mut().is_some_and(Server::is_running)
    }

    /// A folder that the server may write, such as for a tablespace.
    ///
    /// # Errors
    /// Where it cannot be given to the server's user.
    pub fn give(&self, folder: &Path) -> Result<(), ServiceError> {
        give(folder, self.owner)
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// Starts the server again, on the same port and data. After [`Self::kill`] it waits until the last child is gone.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn resume(&mut self) -> Result<(), ServiceError> {
        let mut tries = 0;
        loop {
            match self.start_server() {
                // What a killed server has left is still in use, for as long as a statement may take.
                Err(ServiceError::Failed { detail, .. }) if tries < 100 && detail.contains("is still in use") => {
                    tries += 1;
                    std::thread::sleep(std::time::Duration::from_millis(200));
                }
                other => return other,
            }
        }
    }

    fn start_server(&mut self) -> Result<(), ServiceError> {
        // The old one first: its switch would otherwise stop the new one, should it get the same process id.
        self.server = None;
        let fsync = if self.shape.durability == Durability::Fsync { "on" } else { "off" };
        let mut command = Command::new(&self.binary);
        command.arg("-D").arg(&self.data).args(["-p", &self.port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=300",
            "shared_buffers=256MB",
            "max_wal_size=2GB",
            "log_line_prefix=%m [%p] %d ",
            &format!("fsync={fsync}"),
        ] {
            command.args(["-c", setting]);
        }
        for setting in &self.shape.settings {
            command.args(["-c", setting]);
        }
        as_owner(command.current_dir(&self.data), self.owner);
        let url = self.url();
        self.server = Some(Server::start("PostgreSQL", command, &self.log, "INT", || answers(&url))?);
        Ok(())
    }
}

/// Whether a query is answered.
fn answers(url: &str) -> bool {
    let url = url.to_owned();
    // A thread of its own: the caller may already be inside a runtime.
    let ask = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            use sqlx::{Connection, Executor};
            let mut connection = sqlx::PgConnection::connect(&url).await.map_err(std::io::Error::other)?;
            connection.execute("SELECT 1").await.map_err(std::io::Error::other)
        })
    });
    matches!(ask.join(), Ok(Ok(_)))
}

/// Debian keeps the server's programs off `PATH`, in a folder per version; the newest wins.
fn binary(name: &'static str) -> Result<PathBuf, ServiceError> {
    let mut versions: Vec<PathBuf> =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|e| e.path().join("bin")).collect();
    versions.sort_by_key(|path| {
        let version = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        std::cmp::Reverse(version.parse::<u32>().unwrap_or(0))
    });
    process::find(name, versions).ok_or(ServiceError::Missing { program: name, advice: ADVICE })
}

fn owner() -> Result<Option<Owner>, ServiceError> {
    let id = |args: &[&str]| -> Result<u32, ServiceError> {
        let said = process::run(&format!("id {}", args.join(" ")), Command::new("id").args(args))?;
        said.trim().parse().map_err(|_| ServiceError::failed("id", said))
    };
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    let missing = |_| ServiceError::Missing { program: "the system user `postgres`", advice: ADVICE };
    Ok(Some(Owner { uid: id(&["-u", "postgres"]).map_err(missing)?, gid: id(&["-g", "postgres"]).map_err(missing)? }))
}

fn as_owner(command: &mut Command, owner: Option<Owner>) -> &mut Command {
    if let Some(Owner { uid, gid }) = owner {
        command.uid(uid).gid(gid).env("HOME", "/");
    }
    command
}

fn give(path: &Path, owner: Option<Owner>) -> Result<(), ServiceError> {
    let Some(user) = owner else { return Ok(()) };
    chown(path, Some(user.uid), Some(user.gid)).map_err(ServiceError::io(format!("chown {}", path.display())))
}

/// A folder that the server's user may write: in the run's folder, or among the temporary files where the checkout is
/// closed to other users.
fn home(folder: &Path, owner: Option<Owner>) -> Result<(PathBuf, Option<tempfile::TempDir>), ServiceError> {
    let home = folder.join(format!("database-{}", uuid::Uuid::now_v7().simple()));
    fs::create_dir_all(&home).map_err(ServiceError::io(format!("the folder {}", home.display())))?;
    let Some(user) = owner else { return Ok((home, None)) };
    give(&home, owner)?;
    let reachable = Command::new("test").arg("-w").arg(&home).current_dir("/").uid(user.uid).gid(user.gid).status();
    if reachable.is_ok_and(|status| status.success()) {
        return Ok((home, None));
    }
    let elsewhere = tempfile::Builder::new().prefix("tidegate-postgres-").tempdir();
    let elsewhere = elsewhere.map_err(ServiceError::io("a temporary folder for PostgreSQL"))?;
    give(elsewhere.path(), owner)?;
    Ok((elsewhere.path().to_path_buf(), Some(elsewhere)))
}
