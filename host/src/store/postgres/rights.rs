//! What the role that we connect as may do, and what to grant where that is not enough. Nothing here decides what an
//! error means; it only says the way out.

use sqlx::Row as _;

use super::{
    super::{MIGRATIONS_TABLE, Statement, StoreError, error::NO_RIGHT},
    lane::Lane,
    sql::{inserts, quoted, table},
};
use crate::merge::{Operation, Target};

/// What running a consumer takes, of tidegate's own tables. docs/database-roles.md gives more, for what else there is.
const OWN: [(&str, &[&str]); 9] = [
    (MIGRATIONS_TABLE, &["SELECT"]),
    ("consumers", &["SELECT", "INSERT", "UPDATE"]),
    ("processed_messages", &["SELECT", "INSERT", "DELETE"]),
    ("checkpoints", &["SELECT", "INSERT"]),
    ("duplicate_attempts", &["SELECT", "INSERT", "UPDATE"]),
    ("payload_conflicts", &["SELECT", "INSERT", "UPDATE"]),
    ("dead_letters", &["SELECT", "INSERT", "UPDATE"]),
    ("key_samples", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("key_changes", &["SELECT"]),
];

/// What writing a target takes.
fn needed(target: &Target) -> Vec<&'static str> {
    let granted = |operation| target.spec.operations.contains(&operation);
    let operations = [Operation::Upsert, Operation::Update, Operation::Delete];
    let mut needed = vec!["SELECT"];
    if operations.iter().any(|&operation| granted(operation) && inserts(target, operation)) {
        needed.push("INSERT");
    }
    let only_key = target.columns.len() == target.spec.key.len() && target.soft.is_none();
    // Locking a row takes the right to update it.
    if granted(Operation::Update) || granted(Operation::Delete) || !only_key {
        needed.push("UPDATE");
    }
    if granted(Operation::Delete) && target.soft.is_none() {
        needed.push("DELETE");
    }
    needed
}

impl Lane {
    /// See [`super::super::Store::missing_grants`].
    pub(super) async fn missing_grants(&mut self, targets: &[Target]) -> Result<Vec<String>, StoreError> {
        const CONTEXT: &str = "read the role's rights";
        let own = OWN.iter().map(|(name, needed)| (quoted(name), needed.to_vec()));
        let targets = targets.iter().map(|target| (table(&target.table), needed(target)));
        let (mut tables, mut rights) = (Vec::new(), Vec::new());
        for (table, needed) in own.chain(targets) {
            for right in needed {
                tables.push(table.clone());
                rights.push(right);
            }
        }
        // A right on single columns counts: which ones are needed, the database says when it comes to that.
        let query = sqlx::query(
            "SELECT string_agg(DISTINCT u.need, ', '), to_regclass(u.name)::text, quote_ident(current_user) \
             FROM unnest($1::text[], $2::text[]) u(name, need) \
             WHERE NOT has_table_privilege(to_regclass(u.name)::oid, u.need) \
             AND NOT CASE WHEN u.need = 'DELETE' THEN false \
                     ELSE has_any_column_privilege(to_regclass(u.name)::oid, u.need) END \
             GROUP BY u.name ORDER BY min(u.name)",
        )
        .bind(tables)
        .bind(rights);
        let rows = self.rows(Statement::Catalog, CONTEXT, query).await?;
        let grant = |row: &sqlx::postgres::PgRow| -> Result<String, sqlx::Error> {
            let (rights, table, role): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            Ok(format!("GRANT {rights} ON {table} TO {role}"))
        };
        rows.iter()
            .map(grant)
            .collect::<Result<_, _>>()
            .map_err(|error| StoreError::fatal(Statement::Catalog, CONTEXT, error.to_string()))
    }

    /// The schema of the search path that has a table of this name where this role may not look, quoted, with the role.
    /// A schema that is not on it may be anybody's.
    pub(super) async fn hidden_schema(&mut self, name: &str) -> Result<Option<(String, String)>, StoreError> {
        let query = sqlx::query(
            "SELECT quote_ident(n.nspname), quote_ident(current_user) FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relname = $1 AND c.relkind IN ('r', 'p') AND NOT has_schema_privilege(n.oid, 'USAGE') \
             AND n.nspname::text IN (SELECT replace(trim(BOTH '\" ' FROM s), '$user', current_user::text) \
               FROM unnest(string_to_array(current_setting('search_path'), ',')) s) LIMIT 1",
        )
        .bind(name);
        const CONTEXT: &str = "look for the table in other schemas";
        let rows = self.rows(Statement::Catalog, CONTEXT, query).await?;
        let pair = |row| {
            Ok((Self::get(row, 0, Statement::Catalog, CONTEXT)?, Self::get(row, 1, Statement::Catalog, CONTEXT)?))
        };
        rows.first().map(pair).transpose()
    }
}

/// Adds the way out to the server's words on a right that the role lacks.
pub(super) fn with_way_out(mut error: StoreError, role: &str) -> StoreError {
    if error.sqlstate.as_deref() != Some(NO_RIGHT) {
        return error;
    }
    let role = quoted(role);
    let own = || OWN[1..].iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let way_out = match error.statement {
        // The right to connect has its own words.
        Statement::Connect => return error,
        // A row policy may have refused one row: what to do is said once it is known that it was not that.
        statement if statement.carries_target_rows() => return error,
        Statement::Migrate => format!(
            "run `tidegate migrate` as the role that owns the schema; every other role needs GRANT USAGE ON SCHEMA … and \
             GRANT SELECT ON {MIGRATIONS_TABLE} TO {role}"
        ),
        Statement::Report => format!("GRANT SELECT ON {}, processed_input_attempts TO {role}", own()),
        Statement::Catalog => format!("GRANT USAGE ON SCHEMA … and SELECT on the table TO {role}"),
        _ => format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {role}", own()),
    };
    error.message.push_str(&format!("; {way_out} (docs/database-roles.md)"));
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;

    #[test]
    fn a_missing_right_is_told_with_what_to_grant() {
        let refused = |statement| StoreError {
            sqlstate: Some(NO_RIGHT.to_owned()),
            ..StoreError::fatal(statement, "c", "permission denied for table consumers")
        };
        let told = |statement| with_way_out(refused(statement), "ro\"le").message;
        assert!(
            told(Statement::Report).contains("GRANT SELECT ON consumers, ")
                && told(Statement::Report).contains("TO \"ro\"\"le\"")
        );
        assert!(told(Statement::Ledger).contains("GRANT SELECT, INSERT, UPDATE, DELETE ON consumers"));
        assert!(told(Statement::Migrate).contains("the role that owns the schema"));
        assert_eq!(told(Statement::Write), "permission denied for table consumers", "it may be a row's own fault");
        let other = StoreError { class: Class::Fatal, ..StoreError::fatal(Statement::Report, "c", "m") };
        assert_eq!(with_way_out(other, "r").message, "m");
    }
}
