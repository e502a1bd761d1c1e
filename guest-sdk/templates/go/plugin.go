// Which rows an event changes. Everything else (Kafka, transactions, duplicates) is tidegate's.
package main

import (
	tidegate "github.com/tidegate/tidegate/guest-sdk/go"
)

// Payment is an event, as its producer writes it; others of its fields are ignored. What is broken becomes a dead letter by
// itself.
type Payment struct {
	Type       string             `json:"type" only:"payment.captured"` // others are skipped
	EventID    string             `json:"event_id"`
	PaymentID  string             `json:"payment_id"`
	OrderID    string             `json:"order_id"`
	Version    int64              `json:"version"`
	OccurredAt tidegate.Timestamp `json:"occurred_at"`
	Amount     tidegate.Decimal   `json:"amount"` // keeps the digits: 10.10 stays 10.10
}

// PaymentRow is a row of the target that the configuration calls "payments". How it merges with the row that is there is
// configuration.
type PaymentRow struct {
	PaymentID    string             `column:"payment_id"`
	OrderID      string             `column:"order_id"`
	Amount       tidegate.Decimal   `column:"amount"`
	EventVersion int64              `column:"event_version"`
	PaidAt       tidegate.Timestamp `column:"paid_at"`
}

// __Name__ is the plugin.
type __Name__ struct{}

// Describe says what the plugin is called, and what it writes.
func (__Name__) Describe() tidegate.Description {
	return tidegate.Description{Name: "__name__", Version: "0.1.0", Writes: tidegate.Writes{"payments": PaymentRow{}}}
}

// Key is the producer's own id of the event: the same on every re-publication. Never an offset, a time or a hash.
func (__Name__) Key(p *Payment) (tidegate.Identity, error) {
	return tidegate.Identity{MessageID: p.EventID, AggregateID: p.OrderID, OccurredAt: p.OccurredAt}, nil
}

// Compute says what the row shall be, not what to add to it.
func (__Name__) Compute(p *Payment, rows *tidegate.Rows, _ tidegate.Context) error {
	if p.Amount.IsNegative() {
		return tidegate.Reject("bad-amount", "amount is negative")
	}
	rows.Upsert("payments", PaymentRow{
		PaymentID:    p.PaymentID,
		OrderID:      p.OrderID,
		Amount:       p.Amount,
		EventVersion: p.Version,
		PaidAt:       p.OccurredAt,
	})
	return nil
}

func init() { tidegate.Export[Payment](__Name__{}) }

func main() {}
