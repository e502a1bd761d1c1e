//! The configuration file, read again while the consumers run: all that changed in it is taken, or nothing.

use std::{path::PathBuf, sync::Arc};

use super::{
    Inner, Made, StartError,
    control::Stage,
    launch::Launch,
    reload::{Candidate, Found},
    watch,
};
use crate::{config, file_stamp::Files, health::ReloadReport, identity::ConsumerName, metrics::Reloaded};

/// What is to be done to come from one configuration to another.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    /// These are not in the file any more.
    removed: Vec<ConsumerName>,
    /// These rule otherwise.
    changed: Vec<config::Consumer>,
    /// These are new.
    added: Vec<config::Consumer>,
}

/// Compares. Pure.
///
/// # Errors
/// What takes a restart of the process: each with the key and the reason.
fn plan(base: &config::Config, running: &[Arc<config::Consumer>], new: &config::Config) -> Result<Plan, Vec<String>> {
    let mut restarts = Vec::new();
    let mut whole = |differs: bool, key: &str, why: &str| {
        if differs {
            restarts.push(format!("{key}: {why}"));
        }
    };
    whole(base.databases != new.databases, "[database]", "connections are made from it");
    whole(base.kafka != new.kafka, "[kafka]", "members of groups run with it");
    whole(base.http != new.http, "[http]", "it listens already");
    whole(base.health != new.health, "[health]", "consumers are watched by it");
    whole(base.log != new.log, "[log]", "the log is open");
    for (file, config::Linked { key, .. }) in changed_links(base, new) {
        whole(true, key, &format!("{} is read at a start, and has changed", file.display()));
    }
    whole(base.plugins != new.plugins, "[plugins]", "the plugin engine runs with it");

    let mut plan = Plan::default();
    for consumer in &new.consumers {
        match running.iter().find(|settings| settings.name == consumer.name) {
            None => plan.added.push(consumer.clone()),
            Some(before) if **before == *consumer => {}
            Some(before) => {
                restarts.extend(
                    fixed(before, consumer).map(|key| {
                        format!("consumer {}: `{key}` is read at a start of the process only", consumer.name)
                    }),
                );
                plan.changed.push(consumer.clone());
            }
        }
    }
    let gone = |settings: &&Arc<config::Consumer>| !new.consumers.iter().any(|c| c.name == settings.name);
    plan.removed = running.iter().filter(gone).map(|settings| settings.name.clone()).collect();
    if restarts.is_empty() { Ok(plan) } else { Err(restarts) }
}

/// Files that both name, and whose content is another.
fn changed_links<'a>(
    base: &'a config::Config,
    new: &'a config::Config,
) -> impl Iterator<Item = (&'a PathBuf, &'a config::Linked)> {
    let another = |(file, now): &(&PathBuf, &config::Linked)| {
        base.linked.get(*file).is_some_and(|before| before.sha256 != now.sha256)
    };
    new.linked.iter().filter(another)
}

/// The keys of a consumer that differ and cannot change while it runs.
fn fixed(before: &config::Consumer, after: &config::Consumer) -> impl Iterator<Item = &'static str> {
    let (kept, wanted) = (before.ledger, after.ledger);
    [
        ("group", before.group != after.group),
        ("database", before.database != after.database),
        ("kafka", before.kafka != after.kafka),
        ("topics", before.topics != after.topics),
        ("start", before.start != after.start),
        ("lanes", before.lanes != after.lanes),
        ("batch", before.batch != after.batch),
        ("ledger", (kept.retention, kept.replay_window) != (wanted.retention, wanted.replay_window)),
        ("queue", before.queue_bytes != after.queue_bytes),
        ("revoke_deadline", before.revoke_deadline != after.revoke_deadline),
        ("key_samples", before.key_samples != after.key_samples),
    ]
    .into_iter()
    .filter_map(|(key, differs)| differs.then_some(key))
}

impl Inner {
    /// Reads the file that the configuration came from, and takes it, all or nothing. `None` where it came from none.
    pub(super) async fn read_again(&self) -> Option<Reloaded> {
        let file = self.config.file.clone()?;
        let read = move || {
            let (files, read) = config::load_with_files(&file);
            Ok((files, read.map(|loaded| loaded.config).map_err(|error| error.to_string())))
        };
        let new = match crate::panics::blocking(read, |died| died).await {
            Ok((files, new)) => {
                // What is refused is looked at as well: it is where the mistake will be put right.
                self.files.replace(files);
                new
            }
            Err(died) => Err(died),
        };
        Some(self.reconfigure(new).await)
    }

    /// Takes another configuration, all or nothing, and says what became of it.
    pub(super) async fn reconfigure(&self, new: Result<config::Config, String>) -> Reloaded {
        let _one = self.reconfiguring.lock().await;
        self.refused.reads([]);
        let done = match new {
            Ok(new) => {
                let mut made = Vec::new();
                let done = self.take_all(&new, &mut made).await;
                // What was made for a configuration that is refused leaves nothing behind.
                made.iter().for_each(|one: &Made| self.metrics.forget(&one.steering.name));
                done
            }
            Err(why) => Err((Reloaded::Refused, why)),
        };
        let (result, why) = match done {
            Ok(result) => (result, None),
            Err((result, why)) => (result, Some(why)),
        };
        match &why {
            Some(why) => tracing::error!("the configuration stays as it was, nothing of the file is taken: {why}"),
            None => tracing::info!("the configuration was read again: {}", result.label()),
        }
        self.metrics.configured(result);
        self.health.configured(ReloadReport::now(result, None, why));
        result
    }

    /// `made`: the consumers that are new and do not run.
    async fn take_all(&self, new: &config::Config, made: &mut Vec<Made>) -> Result<Reloaded, (Reloaded, String)> {
        let launches = self.launches();
        // No reload of a plugin's comes in between: neither what runs nor what is wanted changes under the comparison, but
        // that an operator may drop a shadow.
        let mut held = Vec::new();
        for launch in &launches {
            held.push(launch.reloading.lock().await);
        }
        let before: Vec<_> = launches.iter().map(|launch| launch.settings()).collect();
        let plan = plan(&self.config, &before, new).map_err(|restarts| {
            (
                Reloaded::Refused,
                format!("{}; restart the process to have it so, or put the old value back", restarts.join("; ")),
            )
        })?;
        if plan == Plan::default() {
            return Ok(Reloaded::Unchanged);
        }
        // Before any of them is read. Until all is taken, another of them may be what is missing.
        let files = Files::of(watch::files_of_all(new));
        self.refused.replace(files.clone());
        let of = |name: &ConsumerName| launches.iter().find(|launch| launch.settings().name == *name);
        let (mut candidates, mut idle, mut shaded) = (Vec::new(), Vec::new(), Vec::new());
        for settings in &plan.changed {
            let Some(launch) = of(&settings.name) else { continue };
            let wanted = Arc::new(settings.clone());
            let runs = *launch.stage.borrow() == Stage::Running;
            let found = if runs { launch.candidate(&wanted).await } else { Ok(Found::NotRunning) };
            match found.map_err(|error| failed(&settings.name, &error))? {
                Found::Other(candidate) => candidates.push((launch, *candidate)),
                Found::Same => shaded.push(launch),
                // What has stopped, or cannot start yet, may do so under other settings.
                Found::NotRunning => {
                    launch.examine(&wanted).await.map_err(|error| failed(&settings.name, &error))?;
                    idle.push(launch);
                }
            }
        }
        for settings in &plan.added {
            let one = self.make(settings).map_err(|error| failed(&settings.name, &error))?;
            let launch = Arc::clone(&one.launch);
            made.push(one);
            launch.examine(&launch.settings()).await.map_err(|error| failed(&settings.name, &error))?;
        }
        announce(&candidates).await?;
        // From here on nothing fails.
        self.refused.reads([]);
        for name in &plan.removed {
            if let Some(launch) = of(name) {
                tracing::info!(consumer = %name, "is not in the configuration any more: draining it");
                self.remove(launch).await;
            }
        }
        for settings in &plan.changed {
            let before = before.iter().find(|before| before.name == settings.name);
            if let (Some(launch), Some(before)) = (of(&settings.name), before) {
                launch.is_to_be(before, settings.clone());
                launch.ruling.replace(files.only(watch::files(&settings.plugin)));
            }
        }
        for (launch, candidate) in candidates {
            launch.enforce(candidate);
            shaded.push(launch);
        }
        for launch in shaded {
            launch.shade().await;
        }
        for launch in idle {
            launch.start_anew();
        }
        for one in made.drain(..) {
            tracing::info!(consumer = %one.launch.settings().name, "is new in the configuration: starting it");
            self.spawn(one);
        }
        Ok(Reloaded::Taken)
    }

    async fn remove(&self, launch: &Arc<Launch>) {
        launch.drain.send_replace(true);
        let mut stage = launch.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage == Stage::Done).await;
        let name = launch.settings().name.clone();
        super::locked(&self.slots).retain(|slot| !Arc::ptr_eq(&slot.launch, launch));
        self.health.remove(&name);
        self.control.remove(&name);
        self.metrics.forget(&name);
    }
}

fn failed(name: &ConsumerName, error: &StartError) -> (Reloaded, String) {
    (super::reload::failed(error), format!("consumer {name}: {error}"))
}

/// Says in the databases which plugins rule from now on; where one of them cannot be told, none has been.
async fn announce(candidates: &[(&Arc<Launch>, Candidate)]) -> Result<(), (Reloaded, String)> {
    for (number, (launch, candidate)) in candidates.iter().enumerate() {
        if let Err(error) = launch.announce(candidate).await {
            for (launch, candidate) in &candidates[..=number] {
                launch.take_back(candidate).await;
            }
            return Err(failed(&launch.settings().name, &error));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use std::path::Path;

    use super::*;

    const CONSUMER: &str = "[[consumer]]\nname = \"a\"\ntopics = [\"t\"]\nplugin = { path = \"p.wasm\" }\n\
         [[consumer.target]]\nname = \"o\"\ntable = \"o\"\ncolumns = [\"id\", \"n\"]\nkey = [\"id\"]\n";

    fn config(consumers: &str) -> config::Config {
        let text = format!(
            "[database.main]\nurl = \"postgres://u:secret@h/d\"\n[kafka.main]\nbootstrap.servers = \"h:1\"\n[http]\n\
             listen = \"127.0.0.1:1\"\ntoken = \"0123456789abcdef\"\n{consumers}"
        );
        config::parse(&text, Path::new("/x/t.toml"), &|_| None).unwrap().config
    }

    fn planned(from: &str, to: &config::Config) -> Result<Plan, Vec<String>> {
        let base = config(from);
        let running: Vec<_> = base.consumers.iter().cloned().map(Arc::new).collect();
        plan(&base, &running, to)
    }

    #[test]
    fn what_a_running_consumer_can_change_is_told_from_what_it_cannot() {
        assert_eq!(planned(CONSUMER, &config(CONSUMER)), Ok(Plan::default()));
        for (from, to) in [
            ("p.wasm\" }", "q.wasm\" }"),
            ("p.wasm\" }", "p.wasm\", settings = { x = 1 } }"),
            ("p.wasm\" }", "p.wasm\", limits = { memory = \"8MiB\" } }"),
            ("\"n\"]", "\"n\", \"m\"]"),
            ("topics = ", "payload = \"binary\"\ntopics = "),
        ] {
            let plan = planned(CONSUMER, &config(&CONSUMER.replace(from, to))).unwrap();
            assert_eq!((plan.changed.len(), plan.added.len(), plan.removed.len()), (1, 0, 0), "{to}");
        }
        for (key, line) in [
            ("lanes", "lanes = 2"),
            ("group", "group = \"g\""),
            ("start", "start = \"latest\""),
            ("batch", "batch = { max_records = 7 }"),
            ("ledger", "ledger = { retention = \"60d\" }"),
            ("queue", "queue = \"8MiB\""),
            // Longer: a shorter one would shorten its database's time-outs, too.
            ("revoke_deadline", "revoke_deadline = \"21s\""),
            ("key_samples", "key_samples = false"),
        ] {
            let why = planned(CONSUMER, &config(&CONSUMER.replace("topics = ", &format!("{line}\ntopics = "))));
            let why = why.unwrap_err();
            assert!(
                why.len() == 1 && why[0].starts_with(&format!("consumer a: `{key}` is read at a start")),
                "{why:?}"
            );
        }
    }

    #[test]
    fn consumers_come_and_go() {
        let other = CONSUMER.replace("\"a\"", "\"b\"");
        let plan = planned(CONSUMER, &config(&other)).unwrap();
        assert_eq!((plan.removed.len(), plan.added.len(), plan.changed.len()), (1, 1, 0));
        assert_eq!(plan.added[0].name.as_str(), "b");
    }

    /// Who reads it has read it; that it is another is no other configuration, but must not go unseen.
    #[test]
    fn a_certificate_that_is_renewed_takes_a_restart() {
        let with = |sha256: Option<[u8; 32]>| {
            let mut config = config(CONSUMER);
            let linked = config::Linked { key: "[kafka.main] ssl.ca.location".to_owned(), sha256 };
            config.linked.insert("/x/ca.pem".into(), linked);
            config
        };
        let planned = |from: &config::Config, to: &config::Config| {
            let running: Vec<_> = from.consumers.iter().cloned().map(Arc::new).collect();
            plan(from, &running, to)
        };
        assert_eq!(planned(&with(Some([1; 32])), &with(Some([1; 32]))), Ok(Plan::default()));
        for to in [Some([2; 32]), None] {
            let why = planned(&with(Some([1; 32])), &with(to)).unwrap_err();
            assert_eq!(why, ["[kafka.main] ssl.ca.location: /x/ca.pem is read at a start, and has changed"]);
        }
    }

    #[test]
    fn what_is_the_process_s_own_takes_a_restart_and_no_secret_is_told() {
        let mut new = config(CONSUMER);
        new.databases.get_mut("main").unwrap().url = config::Secret::new("postgres://u:other-secret@h/d");
        new.kafka.get_mut("main").unwrap().properties.insert("client.id".into(), "x".into());
        new.http.token = Some(config::Secret::new("other-secret-other-secret"));
        new.log.json = true;
        new.plugins.watch = false;
        let why = planned(CONSUMER, &new).unwrap_err();
        let keys: Vec<&str> = why.iter().map(|why| why.split(':').next().unwrap()).collect();
        assert_eq!(keys, ["[database]", "[kafka]", "[http]", "[log]", "[plugins]"]);
        assert!(!why.concat().contains("secret"), "{why:?}");
    }
}
