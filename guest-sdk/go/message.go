package tidegate

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/tidegate/tidegate/guest-sdk/go/internal/contract"
)

// Message is what a plugin sees of a record.
type Message struct{ raw contract.Message }

// Source is the topic's alias in the configuration.
func (m *Message) Source() string { return m.raw.Source }

// Key is the record's key, nil where there is none.
func (m *Message) Key() []byte { return m.raw.Key.SomeOr(nil) }

// IsTombstone is true where there is no value at all.
func (m *Message) IsTombstone() bool { return m.raw.Body.Tag() == contract.BodyAbsent }

// Text is the payload. Skips a tombstone.
func (m *Message) Text() (string, error) {
	switch m.raw.Body.Tag() {
	case contract.BodyText:
		return m.raw.Body.Text(), nil
	case contract.BodyBinary:
		if payload := m.raw.Body.Binary(); utf8.Valid(payload) {
			return string(payload), nil
		}
		return "", Reject("payload-not-utf8", "the payload is not UTF-8")
	default:
		return "", Skip("tombstone")
	}
}

// Bytes is the payload. Skips a tombstone.
func (m *Message) Bytes() ([]byte, error) {
	if m.raw.Body.Tag() == contract.BodyBinary {
		return m.raw.Body.Binary(), nil
	}
	text, err := m.Text()
	return []byte(text), err
}

// Header is the value of the first header of this name that has one; nil where there is none.
func (m *Message) Header(name string) []byte {
	for _, header := range m.raw.Headers {
		if header.Name == name && header.Value.IsSome() {
			return header.Value.Some()
		}
	}
	return nil
}

// Settings are a consumer's, as JSON.
type Settings []byte

// Into reads the settings into a struct. An unknown one is an error: a misspelt setting is then found at start.
func (s Settings) Into(settings any) error {
	decoder := json.NewDecoder(bytes.NewReader(s))
	decoder.DisallowUnknownFields()
	return decoder.Decode(settings)
}

// Log levels.
func write(level contract.Level, text string) { contract.Write(level, text) }

// Debug writes a line to the operator's log.
func Debug(text string) { write(contract.LevelDebug, text) }

// Info writes a line to the operator's log.
func Info(text string) { write(contract.LevelInfo, text) }

// Warn writes a line to the operator's log: look at this some day.
func Warn(text string) { write(contract.LevelWarn, text) }

// Error writes a line to the operator's log: look at this.
func Error(text string) { write(contract.LevelError, text) }
