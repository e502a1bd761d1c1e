//! A plugin made of closures: the tests' double. Same trait, no sandbox.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::{
    Accepted, ComputeResult, Computed, Description, Entry, Instance, KeyResult, Message, Plugin, PluginError, Shape,
};

type Keys = dyn Fn(&Message) -> KeyResult + Send + Sync;
type Compute = dyn Fn(&Message, &Accepted) -> ComputeResult + Send + Sync;
type Configure = dyn Fn(&Native, &Json) -> Result<Native, String> + Send + Sync;
type Breaks = dyn Fn(Entry, &Message) -> bool + Send + Sync;

/// A plugin whose business rules are closures over one message.
///
/// ```
/// use tidegate::plugin::{ComputeResult, KeyResult, Plugin, native::Native};
///
/// let plugin = Native::new("nothing-here")
///     .keys(|_| KeyResult::Skip("not mine".into()))
///     .compute(|_, _| ComputeResult::Changes(Vec::new()));
/// assert_eq!(plugin.description().name, "nothing-here");
/// ```
#[derive(Clone)]
pub struct Native {
    description: Description,
    shapes: Vec<Shape>,
    keys: Arc<Keys>,
    compute: Arc<Compute>,
    breaks: Arc<Breaks>,
    configure: Arc<Configure>,
}

impl Native {
    /// A plugin that skips everything, until it is told otherwise.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            description: Description {
                name: name.to_owned(),
                version: "0".to_owned(),
                key_version: 0,
                targets: BTreeMap::new(),
            },
            shapes: Vec::new(),
            keys: Arc::new(|_| KeyResult::Skip("no keys closure".to_owned())),
            compute: Arc::new(|_, _| ComputeResult::Skip("no compute closure".to_owned())),
            breaks: Arc::new(|_, _| false),
            configure: Arc::new(|plugin, _| Ok(plugin.clone())),
        }
    }

    /// The heads of the rows that `compute` gives.
    #[must_use]
    pub fn shapes(mut self, shapes: Vec<Shape>) -> Self {
        self.shapes = shapes;
        self
    }

    /// What the description says of the keys' version.
    #[must_use]
    pub fn key_version(mut self, version: i32) -> Self {
        self.description.key_version = version;
        self
    }

    /// One more target that it says it writes.
    #[must_use]
    pub fn writes(mut self, target: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        self.description.targets.insert(target.to_owned(), columns);
        self
    }

    /// Who a message is.
    #[must_use]
    pub fn keys(mut self, keys: impl Fn(&Message) -> KeyResult + Send + Sync + 'static) -> Self {
        self.keys = Arc::new(keys);
        self
    }

    /// What a message changes.
    #[must_use]
    pub fn compute(mut self, compute: impl Fn(&Message, &Accepted) -> ComputeResult + Send + Sync + 'static) -> Self {
        self.compute = Arc::new(compute);
        self
    }

    /// What other settings make of it; the same, unless it is told otherwise.
    #[must_use]
    pub fn configure(
        mut self,
        configure: impl Fn(&Native, &Json) -> Result<Native, String> + Send + Sync + 'static,
    ) -> Self {
        self.configure = Arc::new(configure);
        self
    }

    /// On which messages an entry traps, as a guest's panic would: the whole batch fails.
    #[must_use]
    pub fn traps(mut self, breaks: impl Fn(Entry, &Message) -> bool + Send + Sync + 'static) -> Self {
        self.breaks = Arc::new(breaks);
        self
    }
}

impl Plugin for Native {
    fn with_settings(&self, settings: &Json) -> Result<Arc<dyn Plugin>, PluginError> {
        match (self.configure)(self, settings) {
            Ok(configured) => Ok(Arc::new(configured)),
            Err(message) => Err(PluginError::Settings { plugin: self.description.name.clone(), message }),
        }
    }

    fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.description.name.as_bytes()).into()
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn instance(&self, _events: usize) -> Result<Box<dyn Instance>, PluginError> {
        Ok(Box::new(NativeInstance { plugin: self.clone(), batch: Vec::new() }))
    }
}

/// Keeps the batch between the two calls, as a guest does.
struct NativeInstance {
    plugin: Native,
    batch: Vec<Message>,
}

impl NativeInstance {
    fn trap(&self, entry: Entry) -> PluginError {
        PluginError::Trap {
            plugin: self.plugin.description.name.clone(),
            entry,
            batch: self.batch.len(),
            message: "the closure said so".to_owned(),
        }
    }
}

impl Instance for NativeInstance {
    fn extract_keys(&mut self, batch: &[Message]) -> Result<Vec<KeyResult>, PluginError> {
        self.batch = batch.to_vec();
        if self.batch.iter().any(|message| (self.plugin.breaks)(Entry::ExtractKeys, message)) {
            return Err(self.trap(Entry::ExtractKeys));
        }
        Ok(self.batch.iter().map(|message| (self.plugin.keys)(message)).collect())
    }

    fn compute(&mut self, accepted: &[Accepted]) -> Result<Computed, PluginError> {
        let mut results = Vec::with_capacity(accepted.len());
        for one in accepted {
            let message = usize::try_from(one.index).ok().and_then(|index| self.batch.get(index));
            let Some(message) = message.filter(|message| !(self.plugin.breaks)(Entry::Compute, message)) else {
                return Err(self.trap(Entry::Compute));
            };
            results.push((self.plugin.compute)(message, one));
        }
        Ok(Computed { shapes: self.plugin.shapes.clone(), results })
    }
}
