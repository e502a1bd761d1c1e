// Package tidegate is for writing tidegate plugins in Go: one event in, a key and rows out.
//
//	type Payment struct {
//		EventID   string           `json:"event_id"`
//		PaymentID string           `json:"payment_id"`
//		OrderID   string           `json:"order_id"`
//		Amount    tidegate.Decimal `json:"amount"` // keeps the digits: 10.10 stays 10.10
//		Version   int64            `json:"version"`
//	}
//
//	type PaymentRow struct {
//		PaymentID    string           `column:"payment_id"`
//		OrderID      string           `column:"order_id"`
//		Amount       tidegate.Decimal `column:"amount"`
//		EventVersion int64            `column:"event_version"`
//	}
//
//	type Payments struct{}
//
//	func (*Payments) Describe() tidegate.Description {
//		return tidegate.Description{Name: "payments", Version: "1.0.0", Writes: tidegate.Writes{"payments": PaymentRow{}}}
//	}
//
//	func (*Payments) Key(p *Payment) (tidegate.Identity, error) {
//		return tidegate.Identity{MessageID: p.EventID, AggregateID: p.OrderID}, nil
//	}
//
//	func (*Payments) Compute(p *Payment, rows *tidegate.Rows, _ tidegate.Context) error {
//		rows.Upsert("payments", PaymentRow{p.PaymentID, p.OrderID, p.Amount, p.Version})
//		return nil
//	}
//
//	func init() { tidegate.Export[Payment](&Payments{}) }
//	func main() {}
package tidegate
