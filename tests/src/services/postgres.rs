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

/// A running cluster with data folder and port of its own, `trust` on loopback. Stopped on drop.
#[derive(Debug)]
pub struct Postgres {
    data: PathBuf,
    log: PathBuf,
    binary: PathBuf,
    port: u16,
    owner: Option<Owner>,
    durability: Durability,
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
    pub fn start(folder: &Path, durability: Durability) -> Result<Self, ServiceError> {
        let initdb = binary("initdb")?;
        let owner = owner()?;
        let (home, elsewhere) = home(folder, owner)?;
        let data = home.join("postgres");
        let mut init = Command::new(initdb);
        init.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-D"]);
        process::run("initdb", as_owner(init.arg(&data).current_dir(&home), owner))?;

        let port = free_port().map_err(ServiceError::io("a port for PostgreSQL"))?;
        let log = folder.join("postgres.log");
        let binary = binary("postgres")?;
        let mut cluster = Self { data, log, binary, port, owner, durability, server: None, _elsewhere: elsewhere };
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

    fn end(&mut self, signal: &str) {
        if let Some(mut server) = self.server.take() {
            server.signal(signal);
            server.wait();
        }
    }

    /// Starts the server again, on the same port and data.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn resume(&mut self) -> Result<(), ServiceError> {
        let fsync = if self.durability == Durability::Fsync { "on" } else { "off" };
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

/// A folder that the server's user may write: in the run's folder, or among the temporary files where the checkout is
/// closed to other users.
fn home(folder: &Path, owner: Option<Owner>) -> Result<(PathBuf, Option<tempfile::TempDir>), ServiceError> {
    let home = folder.join(format!("database-{}", uuid::Uuid::now_v7().simple()));
    fs::create_dir_all(&home).map_err(ServiceError::io(format!("the folder {}", home.display())))?;
    let Some(user) = owner else { return Ok((home, None)) };
    let give = |path: &Path| {
        chown(path, Some(user.uid), Some(user.gid)).map_err(ServiceError::io(format!("chown {}", path.display())))
    };
    give(&home)?;
    let reachable = Command::new("test").arg("-w").arg(&home).current_dir("/").uid(user.uid).gid(user.gid).status();
    if reachable.is_ok_and(|status| status.success()) {
        return Ok((home, None));
    }
    let elsewhere = tempfile::Builder::new().prefix("tidegate-postgres-").tempdir();
    let elsewhere = elsewhere.map_err(ServiceError::io("a temporary folder for PostgreSQL"))?;
    give(elsewhere.path())?;
    Ok((elsewhere.path().to_path_buf(), Some(elsewhere)))
}
