//! A compiled plugin, and the instance that lives for one batch of it.

use std::sync::Arc;

use serde_json::Value as Json;
use wasmtime::{Engine, Store, Trap};

use super::{bindings, budget::State, convert};
use crate::{
    config::PluginLimits,
    plugin::{Accepted, Computed, Description, Entry, Instance, KeyResult, Limit, Message, Plugin, PluginError},
};

/// A compiled plugin with its settings.
#[derive(Clone)]
pub(super) struct WasmPlugin {
    pub(super) engine: Engine,
    pub(super) compiled: bindings::PluginPre<State>,
    pub(super) digest: [u8; 32],
    pub(super) description: Description,
    pub(super) limits: PluginLimits,
    /// JSON.
    pub(super) settings: String,
}

impl Plugin for WasmPlugin {
    fn digest(&self) -> [u8; 32] {
        self.digest
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn with_settings(&self, settings: &Json) -> Result<Arc<dyn Plugin>, PluginError> {
        let configured = Self { settings: self::settings(settings), ..self.clone() };
        // Those that are refused are found now, not at the first batch.
        configured.instance(0)?;
        Ok(Arc::new(configured))
    }

    fn instance(&self, events: usize) -> Result<Box<dyn Instance>, PluginError> {
        self.impatient(events, events)
    }

    fn impatient(&self, events: usize, patience: usize) -> Result<Box<dyn Instance>, PluginError> {
        let state = State::new(Arc::from(self.description.name.as_str()), self.limits, events, patience);
        let mut instance = WasmInstance::new(&self.engine, &self.compiled, state)?;
        instance.configure(&self.settings)?;
        Ok(Box::new(instance))
    }
}

/// Settings as `configure` gets them.
pub(super) fn settings(settings: &Json) -> String {
    match settings {
        Json::Null => "{}".to_owned(),
        settings => settings.to_string(),
    }
}

/// A fresh instance. It ends with its batch, with the first error of any kind, and with whatever it left in its memory.
pub(super) struct WasmInstance {
    store: Store<State>,
    guest: bindings::Plugin,
}

impl WasmInstance {
    /// Instantiates, within the budgets.
    pub(super) fn new(
        engine: &Engine,
        compiled: &bindings::PluginPre<State>,
        state: State,
    ) -> Result<Self, PluginError> {
        let mut store = Store::new(engine, state);
        store.limiter(|state| state);
        store.epoch_deadline_callback(State::tick);
        let output = store.data().output();
        store.set_hostcall_fuel(output);
        enter(&mut store, Entry::Instantiate);
        match compiled.instantiate(&mut store) {
            Ok(guest) => Ok(Self { store, guest }),
            Err(error) => Err(explain(&store, &error)),
        }
    }

    /// What the plugin says of itself.
    pub(super) fn describe(&mut self) -> Result<String, PluginError> {
        enter(&mut self.store, Entry::Describe);
        let said = self.guest.tidegate_plugin_processor().call_describe(&mut self.store);
        said.map_err(|error| explain(&self.store, &error))
    }

    /// Gives the settings.
    pub(super) fn configure(&mut self, settings: &str) -> Result<(), PluginError> {
        enter(&mut self.store, Entry::Configure);
        let said = self.guest.tidegate_plugin_processor().call_configure(&mut self.store, settings);
        let said = said.map_err(|error| explain(&self.store, &error))?;
        said.map_err(|message| PluginError::Settings { plugin: self.store.data().plugin().to_owned(), message })
    }
}

impl Instance for WasmInstance {
    fn extract_keys(&mut self, batch: &[Message]) -> Result<Vec<KeyResult>, PluginError> {
        let headers = convert::headers(batch);
        let batch = convert::messages(batch, &headers);
        enter(&mut self.store, Entry::ExtractKeys);
        let said = self.guest.tidegate_plugin_processor().call_extract_keys(&mut self.store, &batch);
        said.map(convert::keys).map_err(|error| explain(&self.store, &error))
    }

    fn compute(&mut self, accepted: &[Accepted]) -> Result<Computed, PluginError> {
        let accepted = convert::accepted(accepted);
        enter(&mut self.store, Entry::Compute);
        let said = self.guest.tidegate_plugin_processor().call_compute(&mut self.store, &accepted);
        said.map(convert::computed).map_err(|error| explain(&self.store, &error))
    }
}

/// Invariant 7: every entry is budgeted.
fn enter(store: &mut Store<State>, entry: Entry) {
    store.data_mut().enter(entry);
    store.set_epoch_deadline(1);
}

/// What an entry failed of. Told by what the host itself ended, then by the kind of the error, never by its text.
fn explain(store: &Store<State>, error: &wasmtime::Error) -> PluginError {
    let state = store.data();
    if let Some(error) = state.ended_by_host() {
        return error;
    }
    let (plugin, entry, batch) = (state.plugin().to_owned(), state.entry(), state.events());
    if let Some(trap) = error.downcast_ref::<Trap>() {
        let mut message = trap.to_string();
        if let Some(reason) = state.reason() {
            message = format!("{message} ({reason})");
        }
        if let Some(words) = state.last_words() {
            message = format!("{message}; on stderr: {words}");
        }
        return PluginError::Trap { plugin, entry, batch, message };
    }
    // The engine keeps this type to itself; its name is all there is to tell it by.
    if format!("{:?}", error.root_cause()) == "HostcallFuelExhausted" {
        return state.over(Limit::Output);
    }
    let message = error.root_cause().to_string();
    match entry {
        Entry::Instantiate => PluginError::Instance { plugin, message },
        _ => PluginError::Contract { plugin, entry, batch, message },
    }
}
