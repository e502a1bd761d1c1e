// Asks for what a plugin does not have, where the event says so: `{"id":"e-1","does":"time"}`. At start it may.
package main

import (
	"crypto/rand"
	"errors"
	"os"
	"runtime"
	"time"

	tidegate "github.com/tidegate/tidegate/guest-sdk/go"
)

type Event struct {
	ID   string `json:"id"`
	Does string `json:"does"`
}

type Row struct {
	ID string `column:"id"`
}

type Asker struct{}

func (Asker) Describe() tidegate.Description {
	return tidegate.Description{Name: "asker", Version: "0.1.0", Writes: tidegate.Writes{"rows": Row{}}}
}

func (Asker) Configure(tidegate.Settings) error {
	bytes := make([]byte, 16)
	if _, err := rand.Read(bytes); err != nil {
		return err
	}
	if now := time.Now(); now.Year() != 1970 {
		return errors.New("the time is " + now.String())
	}
	return nil
}

func (Asker) Key(event *Event) (tidegate.Identity, error) {
	id := event.ID
	if event.Does == "key" {
		id = time.Now().String()
	}
	return tidegate.Identity{MessageID: id, AggregateID: event.ID}, nil
}

func (Asker) Compute(event *Event, rows *tidegate.Rows, _ tidegate.Context) error {
	id := event.ID
	// The collector reads a clock too, and a goroutine that waits reads another.
	runtime.GC()
	runtime.Gosched()
	switch event.Does {
	case "time":
		id = time.Now().String()
	case "random":
		bytes := make([]byte, 16)
		rand.Read(bytes)
		id = string(bytes)
	case "exit":
		os.Exit(0)
	}
	rows.Upsert("rows", Row{id})
	return nil
}

func init() { tidegate.Export[Event](Asker{}) }

func main() {}
