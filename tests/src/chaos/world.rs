//! What a walk happens to: a broker and a database of its own, proxies in front of both, a topic, hosts in one group.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use sqlx::{PgPool, postgres::PgPoolOptions};

use super::{actors::here, chronicle::Chronicle, hosts::Slot, story::POISON};
use crate::{
    Broker, Database, builds,
    fault::{Ending, Proxy, SmallDisk, Standby},
    host::{self, Setup},
    services::{Durability, Folder, Kafka, Postgres, ServiceError, Shape},
    settlement::{ADDING_UP, CONSUMER, Settlement},
    workload::SETTLEMENTS,
};

/// Its lanes in each host.
pub const LANES: usize = 2;
/// Records of a batch at most.
pub const MAX_RECORDS: usize = 200;
/// The topic.
pub const TOPIC: &str = "payments";
/// Partitions that the topic begins with.
pub const PARTITIONS: i32 = 6;
/// When the group misses a member that keeps silent, in milliseconds: of host 0, host 1, and so on.
pub const SESSIONS: [u32; 3] = [2_000, 4_000, 3_000];
/// How often a member must have polled, in milliseconds.
const MAX_POLL: u32 = 6_000;

/// The role of the hosts, so that its connections can be counted and limited.
pub const ROLE: &str = "tidegate";

/// What the product does not know of: a row that the database refuses, and a switch by which any statement is refused with
/// a code of choice. The triggers are per statement, which leaves the way of writing as it is.
const TRAPS: &str = "
ALTER TABLE settlements ADD CONSTRAINT no_poison CHECK (order_id NOT LIKE 'POISON%');
CREATE TABLE refusals (on_table name PRIMARY KEY, code text NOT NULL);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE wanted text;
BEGIN
  SELECT code INTO wanted FROM public.refusals WHERE on_table = TG_TABLE_NAME;
  IF FOUND THEN RAISE EXCEPTION 'refused on purpose' USING ERRCODE = wanted; END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON settlements FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER refuse BEFORE INSERT ON processed_messages FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER refuse BEFORE INSERT ON checkpoints FOR EACH STATEMENT EXECUTE FUNCTION refuse();";

/// All of it.
#[derive(Debug)]
pub struct World {
    /// What was injected, measured and found.
    pub chronicle: Arc<Chronicle>,
    /// The hosts' places, by number.
    pub hosts: Vec<tokio::sync::Mutex<Slot>>,
    /// Between each host and the database.
    pub links: Vec<Proxy>,
    /// Between the hosts and the broker.
    pub wire: Proxy,
    /// Read by a fault while it goes on, written by whoever needs that nothing else happens.
    pub quiet: tokio::sync::RwLock<()>,
    /// An administrator of the broker, beside the wire.
    pub broker: Broker,
    /// Of the consumer's group. Another one after its offsets were deleted would be another consumer.
    pub group: String,
    /// The database, for questions; its proxy is never disturbed, only sent to the server that is the primary.
    pub database: Database,
    /// Connections of an administrator of the database, a few.
    pub admin: PgPool,
    /// The server that is the primary.
    pub primary: tokio::sync::Mutex<Primary>,
    steady: Proxy,
    kafka: Mutex<Kafka>,
    /// How many database servers there were.
    servers: AtomicU32,
    /// Where the hosts find their plugin.
    plugin: PathBuf,
    /// How many builds of it there were.
    builds: AtomicU32,
    folder: Folder,
}

/// The server that hosts write to, and where it lies.
#[derive(Debug)]
pub struct Primary {
    /// The server.
    pub server: Postgres,
    /// Its disk, where this machine lets one be mounted.
    pub disk: Option<SmallDisk>,
    /// Its folder; of no use once another server is the primary.
    home: PathBuf,
}

/// A server that follows the primary, and where it lies.
#[derive(Debug)]
pub struct Copy {
    /// The server.
    pub standby: Standby,
    disk: Option<SmallDisk>,
    home: PathBuf,
}

/// What a database may grow to, in MiB, where it has a disk of its own.
const DISK: u32 = 2_048;

/// A place for a server: a disk of its own, else a folder.
fn place(folder: &Path, number: u32) -> (Option<SmallDisk>, PathBuf) {
    let disk = SmallDisk::mount(DISK);
    let home = disk.as_ref().map_or_else(|| folder.join(format!("server-{number}")), |disk| disk.path().to_path_buf());
    // An error shows when the server is started there.
    let _ = std::fs::create_dir_all(&home);
    (disk, home)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Starts the servers and makes tables and topic. No host runs yet.
    ///
    /// # Errors
    /// Where a server does not start.
    ///
    /// # Panics
    /// Where a server that has started refuses.
    pub async fn new(hosts: usize) -> Result<Self, ServiceError> {
        let folder = Folder::new()?;
        let chronicle = Arc::new(Chronicle::new(folder.path()));
        let wire = Proxy::ahead();
        let (kafka, behind) = Kafka::start_behind(folder.path(), wire.port())?;
        wire.retarget(&behind);
        let (disk, home) = place(folder.path(), 0);
        let shape = Shape::from(Durability::Fsync).with("max_wal_size=256MB").with("shared_buffers=64MB");
        let primary = Postgres::start(&home, shape)?;
        let steady = Proxy::start(&primary.address());
        let database = Database::on(&steady.url(&primary.url())).await;
        let broker = Broker::at(&kafka.bootstrap());
        broker.create(TOPIC, PARTITIONS, &[]).await;

        let links: Vec<_> = (0..hosts).map(|_| Proxy::postgres(&primary.address())).collect();
        let plugin = folder.path().join("settlement.wasm");
        std::fs::copy(host::plugin("settlement"), &plugin).unwrap();
        let setups: Vec<_> = links
            .iter()
            .enumerate()
            .map(|(number, link)| setup(number, link, &wire, database.url(), &plugin))
            .collect();
        let name = database.url().rsplit_once('/').map_or("", |(_, name)| name);
        database.execute(&format!("CREATE ROLE {ROLE} LOGIN; ALTER DATABASE {name} OWNER TO {ROLE}")).await;
        database.execute(&format!("GRANT ALL ON SCHEMA public TO {ROLE}; {SETTLEMENTS}")).await;
        database.execute(&format!("ALTER TABLE settlements OWNER TO {ROLE}")).await;
        let migrated = host::run_once(&setups[0], &["migrate"]);
        assert!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
        database.execute(&TRAPS.replace("POISON", POISON)).await;

        let log = |number: usize| -> PathBuf { folder.path().join(format!("host-{number}.log")) };
        let slot =
            |(number, setup)| tokio::sync::Mutex::new(Slot::new(number, setup, log(number), Arc::clone(&chronicle)));
        let hosts = setups.into_iter().enumerate().map(slot).collect();
        let patience = std::time::Duration::from_secs(2);
        let admin =
            PgPoolOptions::new().max_connections(6).acquire_timeout(patience).connect_lazy(database.url()).unwrap();
        Ok(Self {
            chronicle,
            hosts,
            links,
            wire,
            quiet: tokio::sync::RwLock::new(()),
            broker,
            group: CONSUMER.to_owned(),
            database,
            admin,
            steady,
            kafka: Mutex::new(kafka),
            primary: tokio::sync::Mutex::new(Primary { server: primary, disk, home }),
            servers: AtomicU32::new(1),
            plugin,
            builds: AtomicU32::new(0),
            folder,
        })
    }

    /// The broker's address, beside the wire.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.broker.bootstrap().to_owned()
    }

    /// Puts another build of the plugin in the place of the last.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn replace_plugin(&self) {
        let number = self.builds.fetch_add(1, Ordering::Relaxed) + 1;
        let component = std::fs::read(host::plugin("settlement")).unwrap();
        builds::replace(&self.plugin, &builds::another_build(&component, number as usize));
    }

    /// Does something with the broker's server, off the runtime's workers.
    pub fn with_kafka<T>(&self, act: impl FnOnce(&mut Kafka) -> T) -> T {
        tokio::task::block_in_place(|| act(&mut locked(&self.kafka)))
    }

    /// A standby of the primary, with a place of its own.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn standby(&self, primary: &Primary) -> Result<Copy, ServiceError> {
        let number = self.servers.fetch_add(1, Ordering::Relaxed);
        let (disk, home) = place(self.folder.path(), number);
        let standby = here(Standby::of(&primary.server, &home))?;
        Ok(Copy { standby, disk, home })
    }

    /// A standby becomes the primary, and everybody is sent there. The old primary must be down.
    pub fn promote(&self, primary: &mut Primary, copy: Copy) {
        let server = here(copy.standby.promote());
        let address = server.address();
        for proxy in self.links.iter().chain([&self.steady]) {
            proxy.retarget(&address);
            proxy.cut(Ending::Reset);
        }
        let old = std::mem::replace(primary, Primary { server, disk: copy.disk, home: copy.home });
        let home = old.home.clone();
        drop(old);
        // Each copy is as large as the database.
        let _ = std::fs::remove_dir_all(home);
    }

    /// Where everything about this walk lies.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// Leaves logs and databases for a person to look at.
    pub fn keep(&mut self) {
        self.folder.keep();
    }
}

/// The configuration of a host. Each has other time-outs; one is a static member.
fn setup(number: usize, link: &Proxy, wire: &Proxy, database: &str, plugin: &Path) -> Setup {
    let url = link.url(database).replace("://postgres@", &format!("://{ROLE}@"));
    let batch = format!("max_records = {MAX_RECORDS}, max_bytes = \"1MiB\", linger = \"5ms\"");
    let consumer =
        Settlement::of(TOPIC).in_group(CONSUMER).reading(LANES, &batch).merging(ADDING_UP).with_plugin(plugin);
    let rest = format!("[log]\nfilter = \"info,librdkafka=error\"\n{}", consumer.toml());
    let session = SESSIONS[number % SESSIONS.len()];
    let setup = Setup {
        database_url: url,
        kafka: vec![("bootstrap.servers".to_owned(), wire.address())],
        rest,
        ..Setup::default()
    };
    let setup = setup
        .with_kafka("session.timeout.ms", &session.to_string())
        .with_kafka("max.poll.interval.ms", &MAX_POLL.to_string())
        .with_kafka("heartbeat.interval.ms", "300")
        .with_kafka("reconnect.backoff.max.ms", "1000")
        .with_kafka("socket.timeout.ms", "10000");
    if number % 3 == 1 { setup.with_kafka("group.instance.id", &format!("host-{number}")) } else { setup }
}
