//! What a plugin has to pass before it rules, at a start and at a reload alike, in the order of what is cheapest to know:
//! schema, targets and rights in the database; what the plugin writes; its golden cases; its keys.

use std::sync::Arc;

use super::{
    StartError,
    accept::Accepting,
    admission::{Admitted, Gate},
    launch::Launch,
    locked, watch,
};
use crate::{
    config,
    merge::{self, Target, TargetSpec},
    panics,
    pipeline::{Consumer, Rules},
    plugin::{Description, EvaluateContext, Plugin, PluginError, cases},
    store::{Applier, Policy, Registration, Store},
};

/// What rules are wanted for.
#[derive(Clone, Copy)]
pub(super) enum Asks<'a> {
    /// A start.
    Start,
    /// To know beforehand whether a start would succeed.
    Beforehand,
    /// To rule this consumer from its next batch on. Its recent inputs are looked at as well, and no change of keys is
    /// accepted, since its lanes are not drained.
    Reload(&'a Consumer),
    /// To know beforehand whether it could rule in place of this consumer's plugin, once that has ended, with this word.
    OtherKeys(&'a Consumer, &'a Accepting),
}

impl Launch {
    /// The plugin, compiled at the first call under these settings. Waits for nobody else's compiler.
    pub(super) async fn compiled(&self, settings: &Arc<config::Consumer>) -> Result<Arc<dyn Plugin>, PluginError> {
        let mut compiled = self.compiled.lock().await;
        if let Some((of, plugin)) = compiled.as_ref()
            && of.rules_alike(settings)
        {
            return Ok(Arc::clone(plugin));
        }
        self.ruling.reads(watch::files(&settings.plugin));
        let plugin = self.load(settings).await?;
        *compiled = Some((Arc::clone(settings), Arc::clone(&plugin)));
        Ok(plugin)
    }

    /// Reads, pins, compiles, describes and configures. Compiling takes seconds of CPU time: not on an async worker.
    pub(super) async fn load(&self, settings: &Arc<config::Consumer>) -> Result<Arc<dyn Plugin>, PluginError> {
        let (plugins, settings) = (Arc::clone(&self.plugins), Arc::clone(settings));
        blocking(move || plugins(&settings)).await
    }

    /// The targets that the plugin may write, as far as the database and its own description go. Cheap.
    pub(super) async fn targets(
        &self,
        settings: &config::Consumer,
        store: &dyn Store,
        plugin: &dyn Plugin,
    ) -> Result<Vec<Target>, StartError> {
        let refused = |refusal| StartError::Refused { place: store.place(), refusal };
        if let Some(refusal) = store.schema_state().await?.refusal() {
            return Err(refused(refusal));
        }
        let targets = resolve(store, settings).await?;
        let grants = store.missing_grants(&targets).await?;
        if !grants.is_empty() {
            return Err(StartError::Rights { place: store.place(), grants });
        }
        ungranted(plugin.description(), &targets)?;
        Ok(targets)
    }

    /// Rules that have passed every gate: over [`Self::targets`], what takes the plugin to run.
    pub(super) async fn rules(
        &self,
        settings: &Arc<config::Consumer>,
        store: &dyn Store,
        plugin: Arc<dyn Plugin>,
        targets: Vec<Target>,
        asks: Asks<'_>,
    ) -> Result<(Rules, Admitted), StartError> {
        let running = match asks {
            Asks::Reload(consumer) | Asks::OtherKeys(consumer, _) => Some(consumer),
            Asks::Start | Asks::Beforehand => None,
        };
        let accepting = locked(&self.accepting).clone();
        let accepting = match asks {
            Asks::Start => accepting.as_deref(),
            Asks::OtherKeys(_, accepting) => Some(accepting),
            Asks::Beforehand | Asks::Reload(_) => None,
        };
        self.golden_cases(settings, &plugin).await?;
        let context = EvaluateContext::of(settings);
        let gate = Gate {
            store,
            consumer: &settings.name,
            config_file: self.config.file.as_deref(),
            acceptances: match asks {
                Asks::Reload(_) => None,
                Asks::Start | Asks::Beforehand | Asks::OtherKeys(..) => {
                    Some(accepting.map_or(&*self.acceptances, |accepting| &accepting.words))
                }
            },
            only_looks: matches!(asks, Asks::Beforehand | Asks::OtherKeys(..)),
            recent: match (running, accepting) {
                (Some(consumer), _) => consumer.recent_samples(),
                (None, accepting) => accepting.map(|accepting| accepting.recent.clone()).unwrap_or_default(),
            },
            left_out: running.map_or(0, Consumer::samples_left_out),
            keeps: settings.key_samples,
            other_rules: running.is_some_and(|consumer| {
                let rules = consumer.rules();
                rules.plugin.digest() != plugin.digest() || !rules.settings.rules_alike(settings)
            }),
        };
        let admitted = gate.admit(&plugin, &context).await?;
        let policy = Policy { older_than_retention: settings.ledger.older_than_retention, ..Policy::default() };
        let applier = match running {
            Some(consumer) => consumer.rules().applier.succeeded_by(targets.into(), policy),
            None => Applier::new(settings.name.clone(), targets.into(), policy),
        };
        let registration = Registration {
            name: settings.name.clone(),
            group: settings.group.clone(),
            key_version: admitted.key_version,
            declared: plugin.description().key_version,
            plugin_digest: plugin.digest(),
            started_from: serde_json::json!({ "start": start_text(settings.start) }),
        };
        let (settings, key_version) = (Arc::clone(settings), admitted.key_version);
        Ok((Rules { applier, plugin, context, key_version, settings, registration }, admitted))
    }
}

impl Launch {
    /// Runs the golden cases that the configuration names, each twice in fresh instances.
    async fn golden_cases(&self, settings: &config::Consumer, plugin: &Arc<dyn Plugin>) -> Result<(), StartError> {
        let Some(folder) = settings.plugin.cases.clone() else { return Ok(()) };
        let plugin = Arc::clone(plugin);
        let granted: Arc<[TargetSpec]> = settings.targets.as_slice().into();
        let run = move || {
            let report =
                cases::run_folder(&folder, plugin.as_ref(), Some(&granted)).map_err(|error| error.to_string())?;
            let failed: Vec<String> = report.failed().map(|(name, why)| format!("{name}: {why}")).collect();
            let Some(first) = failed.first() else { return Ok(()) };
            let (failed, all) = (failed.len(), report.cases.len());
            Err(format!("{failed} of {all} golden cases in {} fail; the first: {first}", folder.display()))
        };
        panics::blocking(run, |died| died).await.map_err(StartError::Cases)
    }
}

/// CPU work that may take long.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PluginError> + Send + 'static,
) -> Result<T, PluginError> {
    panics::blocking(work, |message| PluginError::Host { message }).await
}

fn start_text(start: config::Start) -> String {
    match start {
        config::Start::Earliest => "earliest".to_owned(),
        config::Start::Latest => "latest".to_owned(),
        config::Start::Time(time_ms) => format!("{time_ms} ms since 1970"),
    }
}

/// Holds every target against the catalog (R2.5), then against the consumer's others; all faults at once.
async fn resolve(store: &dyn Store, settings: &config::Consumer) -> Result<Vec<Target>, StartError> {
    let (mut targets, mut faults) = (Vec::new(), Vec::new());
    for spec in &settings.targets {
        match merge::resolve(spec, &store.table_info(&spec.table).await?) {
            Ok(target) => targets.push(target),
            Err(found) => faults.extend(found.iter().map(ToString::to_string)),
        }
    }
    if faults.is_empty() {
        faults.extend(merge::check_together(&targets).iter().map(ToString::to_string));
    }
    if faults.is_empty() { Ok(targets) } else { Err(StartError::Targets(faults)) }
}

/// Invariant 7, as far as the plugin says beforehand what it writes.
fn ungranted(description: &Description, targets: &[Target]) -> Result<(), PluginError> {
    let refuse = |message| Err(PluginError::NotGranted { plugin: description.name.clone(), message });
    for (name, columns) in &description.targets {
        let Some(target) = targets.iter().find(|target| target.spec.name == *name) else {
            return refuse(format!("it writes a target {name}, which no [[consumer.target]] grants"));
        };
        let granted = |column: &&String| target.spec.columns.iter().any(|granted| granted.name == **column);
        if let Some(column) = columns.iter().find(|column| !granted(column)) {
            return refuse(format!("it writes column {column} of target {name}, which `columns` does not grant"));
        }
    }
    Ok(())
}
