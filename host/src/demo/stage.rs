//! What must stand before the first record flows: a folder, a broker with topics, a database with tables, and the
//! host's configuration.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    broker::{Broker, PARTITIONS},
    configuration,
    database::Database,
    error::DemoError,
    folder::Folder,
    logs,
    options::Options,
    report::{Places, Report},
    service::Service,
    story::{Feed, Story},
    summary::grouped,
};
use crate::{atomic_file, config::Secret};

/// Everything that one run stands on. Dropped last: the embedded broker is in it.
pub(super) struct Stage {
    pub(super) broker: Arc<Broker>,
    pub(super) database: Arc<Database>,
    /// The host's configuration file.
    pub(super) config: PathBuf,
    folder: Folder,
    group_prefix: String,
    schema: Option<String>,
}

impl Stage {
    /// Makes it all new; touches nothing that is there.
    pub(super) async fn set(options: &Options) -> Result<Self, DemoError> {
        postgres_only(options)?;
        let plugins = configuration::plugins(options.plugins.as_deref())?;
        let run = run_name();
        let folder = Folder::take(options.dir.as_deref(), &run)?;
        let broker = match &options.bootstrap_servers {
            None => Broker::embedded()?,
            Some(servers) => Broker::real(servers, &run).await?,
        };
        let schema = options.database_url.as_ref().map(|_| format!("tidegate_demo_{}", run.replace('-', "_")));
        let database = match (&options.database_url, &schema) {
            (Some(url), Some(schema)) => Database::postgres(url, schema).await?,
            _ => Database::sqlite(&folder.file("demo.db")).await?,
        };
        // Not before: a folder in which nothing was begun is still empty, and can be named again.
        logs::to_file(&folder.file("tidegate.log"))?;
        // A group of the demo's name may be somebody's on a real broker.
        let group_prefix = if broker.is_embedded() { String::new() } else { format!("tidegate.demo.{run}.") };
        let config = folder.file("tidegate.toml");
        let topic_prefix = broker.topic(Feed::Orders).strip_suffix(Feed::Orders.topic()).unwrap_or_default();
        let places = [
            ("DATABASE_URL", database.url().expose().to_owned()),
            ("BOOTSTRAP_SERVERS", broker.servers().to_owned()),
            ("LISTEN", options.listen.to_string()),
            ("GROUP_PREFIX", group_prefix.clone()),
            ("TOPIC_PREFIX", topic_prefix.to_owned()),
            ("PLUGINS", plugins.display().to_string()),
        ];
        configuration::write(&config, &places.into_iter().collect())?;
        Ok(Self { broker: Arc::new(broker), database: Arc::new(database), config, folder, group_prefix, schema })
    }

    /// What is about to be seen.
    pub(super) fn introduction(&self, options: &Options) -> String {
        let broker = if self.broker.is_embedded() { "an embedded Kafka" } else { "your Kafka" };
        let database = if self.schema.is_some() { "your PostgreSQL" } else { "SQLite" };
        let events = grouped(i64::try_from(options.events).unwrap_or(i64::MAX));
        format!(
            "{events} events of orders and payments travel from {broker} through two WASM plugins into {database};\n\
             about a tenth of them is published twice, and a few are broken."
        )
    }

    /// Where everything of this run is kept.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves the report in the folder, as the object of `--json`.
    pub(super) fn keep(&self, report: &Report) -> Result<(), DemoError> {
        let file = self.folder.file("summary.json");
        let failed = |source| DemoError::File { what: "write", path: file.display().to_string(), source };
        // Whole or not at all: somebody may be waiting for it.
        atomic_file::write(&file, format!("{:#}\n", report.json()).as_bytes()).map_err(failed)
    }

    /// The offsets that each consumer's group has committed, summed over the partitions that it reads.
    pub(super) async fn committed(&self) -> Result<BTreeMap<Service, i64>, DemoError> {
        let (broker, prefix) = (Arc::clone(&self.broker), self.group_prefix.clone());
        let ask = move || {
            let of = |service: Service| {
                let group = format!("{prefix}{}", service.name());
                service.feeds().iter().map(|feed| broker.committed(&group, *feed)).sum::<Result<i64, _>>()
            };
            Service::ALL.into_iter().map(|service| Ok((service, of(service)?))).collect()
        };
        tokio::task::spawn_blocking(ask)
            .await
            .unwrap_or_else(|e| Err(DemoError::Host(format!("asking for committed offsets broke off: {e}"))))
    }

    /// For the summary. `metrics`: the host's address, while it runs on.
    pub(super) fn places(&self, metrics: Option<String>) -> Places {
        let mut clean_up = Vec::new();
        if let Some(schema) = &self.schema {
            clean_up.push(format!("DROP SCHEMA {schema} CASCADE;"));
        }
        if !self.broker.is_embedded() {
            clean_up.extend(Feed::ALL.map(|f| format!("delete the topic {}", self.broker.topic(f))));
        }
        clean_up.push(format!("rm -r {}", self.folder.path().display()));
        let broker = if self.broker.is_embedded() {
            let until = if metrics.is_some() { "until this run ends" } else { "gone with this run" };
            format!("embedded, at {}; {until}", self.broker.servers())
        } else {
            self.broker.servers().to_owned()
        };
        let program = std::env::args().next().unwrap_or_else(|| "tidegate".into());
        let tables = match (&self.schema, self.database.shown()) {
            (Some(schema), _) => format!("psql …, then SET search_path = {schema};"),
            (None, file) => format!("sqlite3 {file}"),
        };
        let next = vec![
            ("every partition", format!("{program} status --config {}", self.config.display())),
            ("every table", tables),
            ("another rule", "edit plugins/settlement/src/lib.rs, then make demo again".into()),
            ("a real Kafka", format!("{program} demo --bootstrap-servers HOST:9092 --database-url postgres://…")),
        ];
        Places {
            database: self.database.shown().to_owned(),
            log: self.folder.file("tidegate.log").display().to_string(),
            config: self.config.display().to_string(),
            broker,
            metrics,
            next,
            clean_up,
        }
    }
}

/// Without the URL in the error: it may hold a password.
fn postgres_only(options: &Options) -> Result<(), DemoError> {
    let fits = |url: &Secret| ["postgres://", "postgresql://"].iter().any(|scheme| url.expose().starts_with(scheme));
    if options.database_url.as_ref().is_none_or(fits) {
        return Ok(());
    }
    Err(DemoError::Usage(
        "--database-url is to be a PostgreSQL, postgres://USER:PASSWORD@HOST:PORT/DATABASE; without it the demo uses \
         SQLite, whose place --dir says"
            .into(),
    ))
}

/// A story that ends at about the present.
pub(super) fn story(options: &Options) -> Story {
    let length_ms = i64::try_from(options.events).unwrap_or(0) * 20;
    Story::new(options.seed, PARTITIONS, Timestamp::now().as_millisecond() - length_ms)
}

/// `20261130-175301-3f9c2a`: sorts by time, and two at once differ.
fn run_name() -> String {
    let now = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let tail = uuid::Uuid::new_v4().simple().to_string();
    format!("{now}-{}", &tail[..6])
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn another_database_is_refused_without_its_password() {
        let line = ["demo", "--database-url", "mysql://me:hunter2@host/db"];
        let options = super::super::options::tests::parsed(&line);
        let error = Stage::set(&options).await.err().unwrap();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("postgres://") && !error.to_string().contains("hunter2"));
    }
}
