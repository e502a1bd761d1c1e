//! `tidegate migrate`: the databases' own tables. Targets are yours: their migrations are your business.

use super::{
    Arguments, Exit,
    arguments::MigrateOptions,
    console::{answer, block_on, complain, configuration, database_failed},
};
use crate::{
    config::Database,
    store::{self, SchemaState, StoreError},
};

pub(super) fn run(arguments: &Arguments, options: &MigrateOptions) -> Exit {
    let config = match configuration(arguments) {
        Ok((config, _)) => config,
        Err(exit) => return exit,
    };
    block_on(async {
        let mut exit = Exit::Fine;
        for (name, database) in &config.databases {
            match one(database, options).await {
                Ok((text, this)) => {
                    answer(&format!("database {name}: {text}"));
                    exit = worse(exit, this);
                }
                Err(error) => {
                    let (this, why) = database_failed(name, &error);
                    complain(&why);
                    exit = worse(exit, this);
                }
            }
        }
        exit
    })
}

async fn one(database: &Database, options: &MigrateOptions) -> Result<(String, Exit), StoreError> {
    let store = store::open(database)?;
    let before = store.schema_state().await?;
    let place = store.place();
    match &before {
        SchemaState::Current { version } => Ok((format!("{place} is at version {version}, as needed"), Exit::Fine)),
        SchemaState::Newer { .. } | SchemaState::Damaged { .. } => {
            Ok((format!("{place}: {}", before.refusal().unwrap_or_default()), Exit::Invalid))
        }
        SchemaState::Missing | SchemaState::Older { .. } => {
            let pending = store.pending().await?;
            if let Some(refusal) = pending.refusal(store.dialect()) {
                return Ok((format!("{place}: {refusal}"), Exit::Invalid));
            }
            if !options.dry_run && !options.check {
                return Ok(match store.migrate().await? {
                    SchemaState::Current { version } => (format!("{place} is now at version {version}"), Exit::Fine),
                    after => (format!("{place}: {}", after.refusal().unwrap_or_default()), Exit::Failed),
                });
            }
            let creates = pending.creates.join(", ");
            let found = match before {
                SchemaState::Older { found, needed } => {
                    format!("would go from version {found} to {needed}; would be created: {creates}")
                }
                _ => format!("has no tidegate tables yet; would be created: {creates}"),
            };
            Ok((format!("{place} {found}"), if options.check { Exit::Invalid } else { Exit::Fine }))
        }
    }
}

/// The environment's failure outweighs a refusal, which outweighs nothing.
fn worse(a: Exit, b: Exit) -> Exit {
    if a.code() >= b.code() { a } else { b }
}
