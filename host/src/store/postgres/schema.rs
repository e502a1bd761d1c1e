//! The schema's migrations.

use std::borrow::Cow;

use sqlx::migrate::{Migrate, MigrateError, Migrator};

use super::{
    super::{MIGRATIONS_TABLE, Pending, SchemaState, Statement, StoreError, schema::CLASH_POSTGRES},
    fault::store_error,
    lane::{Lane, answer},
    rights::with_way_out,
};

static MIGRATIONS: Migrator =
    Migrator { table_name: Cow::Borrowed(MIGRATIONS_TABLE), ..sqlx::migrate!("../migrations/postgres") };

impl Lane {
    /// See [`super::super::Store::schema_state`].
    pub(super) async fn schema_state(&mut self) -> Result<SchemaState, StoreError> {
        const CONTEXT: &str = "read the schema's version";
        let query = sqlx::query("SELECT to_regclass($1) IS NOT NULL").bind(MIGRATIONS_TABLE);
        let rows = self.few_rows(Statement::Migrate, CONTEXT, query).await?;
        if !rows.first().map_or(Ok(false), |row| Self::get(row, 0, Statement::Migrate, CONTEXT))? {
            return match self.hidden_schema(MIGRATIONS_TABLE).await? {
                Some((schema, role)) => {
                    let text = format!(
                        "tidegate's tables lie in schema {schema}, which this role may not use: GRANT USAGE ON SCHEMA {schema} TO {role}"
                    );
                    Err(StoreError::no_right(Statement::Migrate, CONTEXT, text))
                }
                None => Ok(SchemaState::Missing),
            };
        }
        let patience = self.brief();
        let dirty = answer(patience, self.driver().dirty_version(MIGRATIONS_TABLE)).await;
        let dirty = dirty.map_err(|error| self.migrate_failed(error))?;
        let applied = answer(patience, self.driver().list_applied_migrations(MIGRATIONS_TABLE)).await;
        let applied = applied.map_err(|error| self.migrate_failed(error))?;
        Ok(SchemaState::of(&MIGRATIONS, &applied, dirty))
    }

    fn migrate_failed(&self, error: MigrateError) -> StoreError {
        with_way_out(failed(error), self.role())
    }

    /// See [`super::super::Store::pending`].
    pub(super) async fn pending(&mut self) -> Result<Pending, StoreError> {
        const CONTEXT: &str = "look for names that are taken";
        let (creates, indexes) = Pending::names(&MIGRATIONS, self.schema_state().await?.applied());
        // Where CREATE puts things: the first schema of the search path that exists. A table is a type as well.
        let query = sqlx::query(
            "SELECT name FROM unnest($1::text[]) AS name WHERE EXISTS (SELECT FROM pg_class \
             WHERE relname = name AND relnamespace = to_regnamespace(quote_ident(current_schema()))) \
             OR EXISTS (SELECT FROM pg_type \
             WHERE typname = name AND typnamespace = to_regnamespace(quote_ident(current_schema()))) ORDER BY 1",
        )
        .bind(Pending::taking(&creates, &indexes).cloned().collect::<Vec<String>>());
        let rows = self.rows(Statement::Migrate, CONTEXT, query).await?;
        let clashes: Result<Vec<String>, _> =
            rows.iter().map(|row| Self::get(row, 0, Statement::Migrate, CONTEXT)).collect();
        Ok(Pending { creates, clashes: clashes? })
    }

    /// See [`super::super::Store::migrate`].
    pub(super) async fn migrate(&mut self) -> Result<(), StoreError> {
        match self.schema_state().await? {
            // Under an advisory lock: several hosts at once do it once.
            SchemaState::Missing | SchemaState::Older { .. } => {
                MIGRATIONS.run_direct(None, self.driver(), false).await.map_err(|error| self.migrate_failed(error))
            }
            // Nothing to do, or nothing that may be done.
            SchemaState::Current { .. } | SchemaState::Newer { .. } | SchemaState::Damaged { .. } => Ok(()),
        }
    }
}

fn failed(error: MigrateError) -> StoreError {
    const CONTEXT: &str = "migrate the schema";
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            let mut error = store_error(Statement::Migrate, CONTEXT, error);
            // duplicate_table, duplicate_object
            if matches!(error.sqlstate.as_deref(), Some("42P07" | "42710")) {
                let text = ": the schema has something of that name that is not tidegate's; ";
                error.message.push_str(text);
                error.message.push_str(CLASH_POSTGRES);
            }
            error
        }
        error => StoreError::fatal(Statement::Migrate, CONTEXT, error.to_string()),
    }
}
