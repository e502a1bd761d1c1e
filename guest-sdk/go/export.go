package tidegate

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/tidegate/tidegate/guest-sdk/go/internal/contract"
	_ "github.com/tidegate/tidegate/guest-sdk/go/internal/exports" // what the host calls
	"github.com/tidegate/tidegate/guest-sdk/go/internal/processor"
	"github.com/tidegate/tidegate/guest-sdk/go/internal/wit/types"
)

// Export makes the plugin what this program exports: `func init() { tidegate.Export[Payment](&Payments{}) }`.
func Export[E any](plugin Plugin[E]) {
	s := &session[E]{plugin: plugin}
	processor.Describe, processor.Configure = s.describe, s.configure
	processor.ExtractKeys, processor.Compute = s.extractKeys, s.compute
}

// session is the life of one instance: configure, extract-keys, compute, once each. What was read is kept in between.
type session[E any] struct {
	plugin Plugin[E]
	events []*E
	rows   Rows
}

func (s *session[E]) describe() string {
	of := s.plugin.Describe()
	targets := map[string][]string{}
	for target, row := range of.Writes {
		targets[target] = columns(reflect.Indirect(reflect.ValueOf(row)).Type())
	}
	text, err := json.Marshal(map[string]any{
		"name": of.Name, "version": of.Version, "key-version": of.KeyVersion, "targets": targets,
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (s *session[E]) configure(settings string) types.Result[types.Unit, string] {
	var err error
	if configurer, ok := s.plugin.(Configurer); ok {
		err = configurer.Configure(Settings(settings))
	} else if err = Settings(settings).Into(&struct{}{}); err != nil {
		err = fmt.Errorf("this plugin has no settings: %w", err)
	}
	if err != nil {
		return types.Err[types.Unit](err.Error())
	}
	return types.Ok[types.Unit, string](types.Unit{})
}

func (s *session[E]) extractKeys(batch []contract.Message) []contract.KeyResult {
	s.events = make([]*E, len(batch))
	results := make([]contract.KeyResult, len(batch))
	for at, raw := range batch {
		event, who, err := s.key(&Message{raw})
		if err == nil {
			s.events[at] = event
			results[at] = contract.MakeKeyResultIdentity(who.contract())
		} else if why, skip, rejection := stopped(err); skip {
			results[at] = contract.MakeKeyResultSkip(why)
		} else {
			results[at] = contract.MakeKeyResultReject(rejection)
		}
	}
	return results
}

func (s *session[E]) key(message *Message) (event *E, who Identity, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = panicked(why)
		}
	}()
	if parser, ok := s.plugin.(Parser[E]); ok {
		event, err = parser.Parse(message)
	} else {
		var text string
		if text, err = message.Text(); err == nil {
			event, err = ReadJSON[E](text)
		}
	}
	if err == nil {
		who, err = s.plugin.Key(event)
	}
	return event, who, err
}

func (s *session[E]) compute(batch []contract.Accepted) contract.Computed {
	results := make([]contract.ComputeResult, len(batch))
	for at, accepted := range batch {
		err := s.one(accepted)
		changes := s.rows.take()
		if err == nil {
			results[at] = contract.MakeComputeResultChanges(changes)
		} else if why, skip, rejection := stopped(err); skip {
			results[at] = contract.MakeComputeResultSkip(why)
		} else {
			results[at] = contract.MakeComputeResultReject(rejection)
		}
	}
	return contract.Computed{Shapes: s.rows.shapes, Results: results}
}

func (s *session[E]) one(accepted contract.Accepted) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = panicked(why)
		}
	}()
	context := Context{Seed: accepted.Seed}
	if accepted.RecordTimeMs.IsSome() {
		time := accepted.RecordTimeMs.Some()
		context.RecordTimeMs = &time
	}
	return s.plugin.Compute(s.events[accepted.Index], &s.rows, context)
}

func (i Identity) contract() contract.Identity {
	who := contract.Identity{MessageId: i.MessageID, AggregateId: i.AggregateID}
	if i.OccurredAt.kind != noTime {
		who.OccurredAt = types.Some(i.OccurredAt.instant())
	}
	if i.Fingerprint != nil {
		who.Fingerprint = types.Some(i.Fingerprint)
	}
	return who
}
