//! The demo's two consumers, and what can be asked of the tables that they write.

use super::story::Feed;

/// A consumer of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Service {
    /// What each payment came to.
    Settlement,
    /// What each order came to.
    OrderSummary,
}

/// A figure over a target table that the producer knows as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Total {
    /// For people.
    pub(super) label: &'static str,
    /// An amount in cents, else a count.
    pub(super) cents: bool,
    /// SQL, over the service's table.
    pub(super) expression: &'static str,
}

impl Service {
    pub(super) const ALL: [Self; 2] = [Self::Settlement, Self::OrderSummary];

    /// Half of the ledger's key.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Settlement => "settlement-service",
            Self::OrderSummary => "order-summary-service",
        }
    }

    /// The topics that it reads.
    pub(super) fn feeds(self) -> &'static [Feed] {
        match self {
            Self::Settlement => &[Feed::Payments],
            Self::OrderSummary => &[Feed::Orders, Feed::Payments],
        }
    }

    /// The table that it writes.
    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Settlement => "settlements",
            Self::OrderSummary => "order_summary",
        }
    }

    /// The business key of that table.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Settlement => "payment_id",
            Self::OrderSummary => "order_id",
        }
    }

    /// The query over the target that must give no row.
    pub(super) fn duplicates_query(self) -> String {
        let (key, table) = (self.key(), self.table());
        format!("SELECT {key}, count(*) FROM {table} GROUP BY {key} HAVING count(*) > 1")
    }

    /// What is compared with the producer's own figures, in the order of [`super::oracle::Expected::totals`].
    pub(super) fn totals(self) -> &'static [Total] {
        match self {
            Self::Settlement => &[
                Total { label: "payments", cents: false, expression: "count(*)" },
                Total { label: "captured", cents: true, expression: CAPTURED },
                Total { label: "refunded", cents: true, expression: REFUNDED },
            ],
            Self::OrderSummary => &[
                Total { label: "orders", cents: false, expression: "count(*)" },
                Total { label: "ordered", cents: true, expression: "sum(ordered_minor)" },
                Total { label: "captured", cents: true, expression: "sum(captured_minor)" },
                Total { label: "refunded", cents: true, expression: "sum(refunded_minor)" },
            ],
        }
    }
}

// In cents. SQLite keeps the decimal as text.
const CAPTURED: &str =
    "sum(CASE WHEN status = 'captured' THEN CAST(round(CAST(amount AS numeric) * 100) AS bigint) ELSE 0 END)";
const REFUNDED: &str =
    "sum(CASE WHEN status = 'refunded' THEN CAST(round(CAST(amount AS numeric) * 100) AS bigint) ELSE 0 END)";
