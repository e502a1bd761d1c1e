//! The settlement plugin as a file that changes while a host runs it.

use std::{fs, path::PathBuf, time::Duration};

use tokio::{task::JoinHandle, time};

use crate::{builds, host, services::Folder};

/// A copy of the plugin in a folder of its own.
pub(super) struct Replaced {
    folder: Folder,
    component: Vec<u8>,
}

/// Replaces the file until it is dropped.
pub(super) struct Replacing(JoinHandle<()>);

impl Drop for Replacing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Replaced {
    pub(super) fn new() -> Self {
        let replaced =
            Self { folder: Folder::new().unwrap(), component: fs::read(host::plugin("settlement")).unwrap() };
        replaced.put();
        replaced
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("settlement.wasm")
    }

    /// A build that no host has met before, in this run or an earlier one: it is compiled anew.
    fn put(&self) {
        let number = usize::try_from(uuid::Uuid::new_v4().as_u128() % 100_000_000).unwrap_or(0);
        builds::replace(&self.file(), &builds::another_build(&self.component, number));
    }

    /// As often as a host looks at its files.
    pub(super) fn once_a_second(self) -> Replacing {
        Replacing(tokio::spawn(async move {
            let mut second = time::interval(Duration::from_secs(1));
            loop {
                second.tick().await;
                self.put();
            }
        }))
    }
}
