// Panics where its author did not foresee it and the event says so: `{"id":"e-1","does":"compute"}`.
package main

import tidegate "github.com/tidegate/tidegate/guest-sdk/go"

type Event struct {
	ID   string `json:"id"`
	Does string `json:"does"`
}

type Row struct {
	ID string `column:"id"`
}

type Other struct {
	ID struct{ An string } `column:"id"`
}

type Thrower struct{}

//go:noinline
func stumble(none *Event) string { return none.ID }

func (Thrower) Describe() tidegate.Description {
	return tidegate.Description{Name: "thrower", Version: "0.1.0", Writes: tidegate.Writes{"rows": Row{}}}
}

func (Thrower) Key(event *Event) (tidegate.Identity, error) {
	if event.Does == "key" {
		stumble(nil)
	}
	return tidegate.Identity{MessageID: event.ID, AggregateID: event.ID}, nil
}

func (Thrower) Compute(event *Event, rows *tidegate.Rows, _ tidegate.Context) error {
	tidegate.Debug("computing " + event.ID)
	rows.Upsert("rows", Row{event.ID})
	switch event.Does {
	case "compute":
		stumble(nil)
	case "column":
		var none []string
		return tidegate.Skip("%s", none[len(event.ID)])
	case "value":
		rows.Upsert("rows", Other{})
	}
	return nil
}

func init() { tidegate.Export[Event](Thrower{}) }

func main() {}
