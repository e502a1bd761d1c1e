//! One Apache Kafka broker in KRaft mode, from the Maven artifacts that `tests/services/pom.xml` pins.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
};

use super::{
    ServiceError, checkout, free_port,
    process::{self, Server},
};

const ADVICE: &str = "on Debian and Ubuntu: apt-get install maven default-jre-headless (Java 17 or newer). \
                      Or set KAFKA_BOOTSTRAP to a broker that is running";

/// A running broker. Stopped on drop.
#[derive(Debug)]
pub struct Kafka {
    port: u16,
    java: PathBuf,
    class_path: String,
    folder: PathBuf,
    server: Option<Server>,
}

/// What a broker has beside the plain listener.
#[derive(Clone, Copy, Debug, Default)]
struct More<'a> {
    /// A port for TLS and SASL, and the key for it.
    guarded: Option<(u16, &'a Path)>,
    /// A port of its own, and the port that it tells its clients to come to.
    behind: Option<(u16, u16)>,
    /// A line of its configuration.
    setting: &'a str,
}

/// How to reach a broker's guarded listener: TLS, and SASL by PLAIN or SCRAM-SHA-512.
#[derive(Clone, Debug)]
pub struct Guarded {
    /// `host:port`.
    pub bootstrap: String,
    /// The certificate to trust, as PEM.
    pub ca: PathBuf,
}

impl Guarded {
    /// The one user that the listener knows.
    pub const USER: &str = "alice";
    /// The user's password.
    pub const PASSWORD: &str = "open-sesame";
}

impl Kafka {
    /// Formats a broker's storage in `folder` and starts it. The first call of a checkout resolves the jars.
    ///
    /// # Errors
    /// Where Java or Maven are missing, or the broker does not start.
    pub fn start(folder: &Path) -> Result<Self, ServiceError> {
        Self::start_with(folder, More::default())
    }

    /// [`Self::start`], with a second listener that a proxy stands in front of: gives its address, where the proxy goes
    /// to. Clients are told to come to `proxy`, a port of this machine, whatever they ask there.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn start_behind(folder: &Path, proxy: u16) -> Result<(Self, String), ServiceError> {
        let port = free_port().map_err(ServiceError::io("a port for Kafka"))?;
        let kafka = Self::start_with(folder, More { behind: Some((port, proxy)), ..More::default() })?;
        Ok((kafka, format!("127.0.0.1:{port}")))
    }

    /// [`Self::start`], with another setting of the broker's, such as `group.max.size=1`.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn start_set(folder: &Path, setting: &str) -> Result<Self, ServiceError> {
        Self::start_with(folder, More { setting, ..More::default() })
    }

    /// [`Self::start`], with a second listener that wants TLS and a password.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn start_guarded(folder: &Path) -> Result<(Self, Guarded), ServiceError> {
        let keytool =
            process::find("keytool", []).ok_or(ServiceError::Missing { program: "keytool", advice: ADVICE })?;
        let store = folder.join("kafka.p12");
        let common = ["-alias", "kafka", "-storepass", "changeit", "-keystore"];
        let mut make = Command::new(&keytool);
        make.args([
            "-genkeypair",
            "-keyalg",
            "RSA",
            "-storetype",
            "PKCS12",
            "-dname",
            "CN=localhost",
            "-validity",
            "30",
        ]);
        make.args(["-ext", "SAN=IP:127.0.0.1,DNS:localhost", "-ext", "BC=ca:true"]).args(common).arg(&store);
        process::run("making a key for Kafka", &mut make)?;
        let ca = folder.join("kafka.pem");
        let mut export = Command::new(&keytool);
        export.args(["-exportcert", "-rfc", "-file"]).arg(&ca).args(common).arg(&store);
        process::run("exporting Kafka's certificate", &mut export)?;

        let port = free_port().map_err(ServiceError::io("a port for Kafka"))?;
        let kafka = Self::start_with(folder, More { guarded: Some((port, &store)), ..More::default() })?;
        Ok((kafka, Guarded { bootstrap: format!("127.0.0.1:{port}"), ca }))
    }

    fn start_with(folder: &Path, more: More<'_>) -> Result<Self, ServiceError> {
        let java = process::find("java", []).ok_or(ServiceError::Missing { program: "java", advice: ADVICE })?;
        let jars = jars()?;
        let class_path = format!("{}/*", jars.display());
        let port = || free_port().map_err(ServiceError::io("a port for Kafka"));
        let (port, controller) = (port()?, port()?);
        let config = folder.join("kafka.properties");
        let mut text = properties(port, controller, more, &folder.join("kafka"));
        if let Some((_, store)) = more.guarded {
            text.push_str(&guarded_properties(store));
        }
        text.push_str(more.setting);
        let written = fs::write(&config, text);
        written.map_err(ServiceError::io(format!("writing {}", config.display())))?;

        // A cluster id is 16 bytes in base64url: 21 digits of any kind, and one that leaves no odd bits.
        let cluster_id = format!("{}A", &uuid::Uuid::new_v4().simple().to_string()[..21]);
        let mut format = Command::new(&java);
        format.args(["-XX:TieredStopAtLevel=1", "-cp", &class_path, "kafka.tools.StorageTool", "format"]);
        format.args(["-t", &cluster_id, "-c"]).arg(&config);
        if more.guarded.is_some() {
            let user = format!("SCRAM-SHA-512=[name={},password={}]", Guarded::USER, Guarded::PASSWORD);
            format.args(["--add-scram", &user]);
        }
        process::run("formatting Kafka's storage", &mut format)?;

        let mut kafka = Self { port, java, class_path, folder: folder.to_owned(), server: None };
        kafka.resume()?;
        Ok(kafka)
    }

    /// Kills the broker without notice (`kill -9`).
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    /// Stops the broker in good order.
    pub fn stop(&mut self) {
        self.end("TERM");
    }

    /// Freezes the broker (SIGSTOP): its connections stay and nothing answers.
    pub fn freeze(&self) {
        self.server.iter().for_each(|server| server.signal("STOP"));
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.server.iter().for_each(|server| server.signal("CONT"));
    }

    fn end(&mut self, signal: &str) {
        if let Some(mut server) = self.server.take() {
            server.signal(signal);
            server.wait();
        }
    }

    /// Starts the broker again, on the same ports and data.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn resume(&mut self) -> Result<(), ServiceError> {
        // The old one first: it may have ended by itself.
        self.server = None;
        let mut broker = Command::new(&self.java);
        broker.args(["-Xmx512m", "-XX:+UseSerialGC", "-Dlog4j2.level=WARN", "-cp", &self.class_path, "kafka.Kafka"]);
        broker.arg(self.folder.join("kafka.properties")).current_dir(&self.folder);
        let bootstrap = self.bootstrap();
        let log = self.folder.join("kafka.log");
        self.server = Some(Server::start("Kafka", broker, &log, "TERM", || answers(&bootstrap))?);
        Ok(())
    }

    /// `host:port`.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// Whether a metadata request is answered; an open port alone means nothing yet.
fn answers(bootstrap: &str) -> bool {
    let client: Result<BaseConsumer, _> =
        ClientConfig::new().set("bootstrap.servers", bootstrap).set("group.id", "ready").set("log_level", "0").create();
    client.is_ok_and(|client| {
        client.fetch_metadata(None, Duration::from_secs(2)).is_ok_and(|metadata| !metadata.brokers().is_empty())
    })
}

/// The broker's jars, resolved once per checkout and version of the pom.
fn jars() -> Result<PathBuf, ServiceError> {
    let pom = checkout().join("tests/services/pom.xml");
    let text = fs::read_to_string(&pom).map_err(ServiceError::io(format!("reading {}", pom.display())))?;
    let version = text.split("<version>").nth(2).and_then(|rest| rest.split('<').next()).unwrap_or("unknown");
    let cache = checkout().join(".cache");
    let jars = cache.join(format!("kafka-{version}"));
    if jars.is_dir() {
        return Ok(jars);
    }
    let maven = process::find("mvn", []).ok_or(ServiceError::Missing { program: "mvn", advice: ADVICE })?;
    fs::create_dir_all(&cache).map_err(ServiceError::io(format!("the folder {}", cache.display())))?;
    // Into a folder of its own, then renamed: a broken download never looks complete.
    let fresh = tempfile::Builder::new().prefix("kafka-").tempdir_in(&cache);
    let fresh = fresh.map_err(ServiceError::io(format!("a folder in {}", cache.display())))?;
    let mut resolve = Command::new(maven);
    resolve.args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-f"]).arg(&pom);
    resolve.arg(format!("-DoutputDirectory={}", fresh.path().display()));
    eprintln!("resolving Apache Kafka {version} by Maven (once)");
    process::run("resolving Kafka's jars by Maven", &mut resolve)?;
    // Somebody else may have been faster; theirs is as good.
    if fs::rename(fresh.path(), &jars).is_ok() {
        let _ = fresh.keep();
    }
    Ok(jars)
}

/// A broker for tests: nothing is made on use, groups form and dead members go quickly, start-up is fast.
fn properties(port: u16, controller: u16, more: More<'_>, data: &Path) -> String {
    let mut listeners = format!("PLAINTEXT://127.0.0.1:{port}");
    let mut advertised = listeners.clone();
    if let Some((port, _)) = more.guarded {
        for list in [&mut listeners, &mut advertised] {
            list.push_str(&format!(",GUARDED://127.0.0.1:{port}"));
        }
    }
    if let Some((port, proxy)) = more.behind {
        listeners.push_str(&format!(",BEHIND://127.0.0.1:{port}"));
        advertised.push_str(&format!(",BEHIND://127.0.0.1:{proxy}"));
    }
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={advertised}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_SSL,BEHIND:PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=300
",
        data.display()
    )
}

fn guarded_properties(store: &Path) -> String {
    let (user, password) = (Guarded::USER, Guarded::PASSWORD);
    let modules = "org.apache.kafka.common.security";
    format!(
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.guarded.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required user_{user}=\"{password}\";
listener.name.guarded.scram-sha-512.sasl.jaas.config={modules}.scram.ScramLoginModule required;
listener.name.guarded.ssl.keystore.location={}
listener.name.guarded.ssl.keystore.password=changeit
listener.name.guarded.ssl.keystore.type=PKCS12
",
        store.display()
    )
}
