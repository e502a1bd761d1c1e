// Payment events into settlements: what plugins/settlement is in Rust, in Go.
package main

import (
	"fmt"
	"regexp"

	tidegate "github.com/tidegate/tidegate/guest-sdk/go"
)

// Payment is a payment event.
type Payment struct {
	Type       string             `json:"type" only:"payment.authorized,payment.captured,payment.refunded,payment.failed"`
	EventID    string             `json:"event_id"`
	PaymentID  string             `json:"payment_id"`
	OrderID    string             `json:"order_id"`
	Version    int64              `json:"version"`
	OccurredAt tidegate.Timestamp `json:"occurred_at"`
	Amount     tidegate.Decimal   `json:"amount"` // keeps the digits: 10.10 stays 10.10
	Currency   string             `json:"currency"`
}

// SettlementRow is a row of the target that the configuration calls "settlements".
type SettlementRow struct {
	PaymentID    string             `column:"payment_id"`
	OrderID      string             `column:"order_id"`
	Amount       tidegate.Decimal   `column:"amount"`
	Status       string             `column:"status"`
	EventVersion int64              `column:"event_version"`
	CreatedAt    tidegate.Timestamp `column:"created_at"`
}

var status = map[string]string{
	"payment.authorized": "authorized",
	"payment.captured":   "captured",
	"payment.refunded":   "refunded",
	"payment.failed":     "failed",
}

// Settlement is the plugin.
type Settlement struct {
	Currency *string `json:"currency"`
}

func (*Settlement) Describe() tidegate.Description {
	return tidegate.Description{
		Name: "settlement", Version: "0.1.0", Writes: tidegate.Writes{"settlements": SettlementRow{}},
	}
}

func (s *Settlement) Configure(settings tidegate.Settings) error {
	if err := settings.Into(s); err != nil {
		return err
	}
	if s.Currency != nil && !regexp.MustCompile("^[A-Z]{3}$").MatchString(*s.Currency) {
		return fmt.Errorf("currency = %q is no ISO 4217 code such as \"EUR\"", *s.Currency)
	}
	return nil
}

func (s *Settlement) Key(p *Payment) (tidegate.Identity, error) {
	if s.Currency != nil && p.Currency != *s.Currency {
		return tidegate.Identity{}, tidegate.Skip("currency %q", p.Currency)
	}
	return tidegate.Identity{MessageID: p.EventID, AggregateID: p.OrderID, OccurredAt: p.OccurredAt}, nil
}

func (*Settlement) Compute(p *Payment, rows *tidegate.Rows, _ tidegate.Context) error {
	if p.Amount.IsNegative() {
		return tidegate.Reject("bad-amount", "amount is negative")
	}
	rows.Upsert("settlements", SettlementRow{
		PaymentID:    p.PaymentID,
		OrderID:      p.OrderID,
		Amount:       p.Amount,
		Status:       status[p.Type],
		EventVersion: p.Version,
		CreatedAt:    p.OccurredAt,
	})
	return nil
}

func init() { tidegate.Export[Payment](&Settlement{}) }

func main() {}
