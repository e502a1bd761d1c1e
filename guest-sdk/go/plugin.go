package tidegate

// Plugin is the business rules of a consumer over one event E, a struct that is read from the payload's JSON (see
// [ReadJSON]). Each batch has a fresh instance. An error rejects the event, or skips it ([Skip]); a panic rejects it with the
// code "exception". Neither touches its neighbours.
type Plugin[E any] interface {
	// Describe says who the plugin is and what it writes. Must not depend on anything.
	Describe() Description
	// Key says who the event is. Depends on the event alone.
	Key(event *E) (Identity, error)
	// Compute gives the rows that the event changes.
	Compute(event *E, rows *Rows, context Context) error
}

// Configurer is a plugin that has settings. Without it, any setting is refused.
type Configurer interface {
	// Configure takes the consumer's settings; its error is for the operator to read.
	Configure(settings Settings) error
}

// Parser is a plugin that reads its messages itself.
type Parser[E any] interface {
	// Parse reads a message.
	Parse(message *Message) (*E, error)
}

// Description is what a plugin says of itself.
type Description struct {
	Name, Version string
	// Raise it when Key gives other keys than before, on purpose.
	KeyVersion int
	Writes     Writes
}

// Writes has, by target, a row of each type that is written there: `Writes{"payments": PaymentRow{}}`.
type Writes map[string]any

// Identity is who an event is.
type Identity struct {
	// The producer's event id, the key of the deduplication: never made up here, never an offset. At most 120 characters.
	MessageID string
	// The business object: for ordering and search. At most 120 characters.
	AggregateID string
	// When it happened, where the event says so: tells a replay that is older than the ledger's memory.
	OccurredAt Timestamp
	// What has to be equal in two copies; the whole payload where not given.
	Fingerprint []byte
}

// Context is all that Compute may know besides the event.
type Context struct {
	// Kafka's timestamp, nil where there is none. A re-publication has another one: prefer the event's own time.
	RecordTimeMs *int64
	// The same for every copy of an event. There is no other randomness.
	Seed uint32
}
