package tidegate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// ReadJSON reads JSON into a struct: each field has to be there and of its type, unless it is a pointer, and others are
// ignored. A field with `only:"a,b"` holds one of these words; an event with another one is skipped. Declare that one first.
// What does not fit is rejected with the code "bad-json".
func ReadJSON[E any](payload string) (*E, error) {
	event := new(E)
	if err := readObject([]byte(payload), reflect.ValueOf(event).Elem(), ""); err != nil {
		return nil, err
	}
	return event, nil
}

type field struct {
	index    int
	name     string
	optional bool
	only     []string
}

// What a struct's fields are called does not change.
var known sync.Map

func fieldsOf(kind reflect.Type) []field {
	if found, ok := known.Load(kind); ok {
		return found.([]field)
	}
	var fields []field
	for index := range kind.NumField() {
		of := kind.Field(index)
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		if !of.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = of.Name
		}
		one := field{index: index, name: name, optional: of.Type.Kind() == reflect.Pointer}
		if words, ok := of.Tag.Lookup("only"); ok {
			one.only = strings.Split(words, ",")
		}
		fields = append(fields, one)
	}
	known.Store(kind, fields)
	return fields
}

func badJSON(path, format string, arguments ...any) error {
	if path == "" {
		path = "the event"
	}
	return Reject("bad-json", "%s: %s", path, fmt.Sprintf(format, arguments...))
}

func readObject(raw []byte, into reflect.Value, path string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return badJSON(path, "%v", err)
	}
	if object == nil {
		return badJSON(path, "expected an object, found null")
	}
	for _, of := range fieldsOf(into.Type()) {
		name := of.name
		if path != "" {
			name = path + "." + name
		}
		value, found := object[of.name]
		if of.optional && (!found || string(value) == "null") {
			continue
		}
		if !found {
			return badJSON(name, "missing")
		}
		if err := readValue(value, into.Field(of.index), name); err != nil {
			return err
		}
		if of.only != nil && !slices.Contains(of.only, into.Field(of.index).String()) {
			return Skip("%s %q", name, into.Field(of.index).String())
		}
	}
	return nil
}

func readValue(raw []byte, into reflect.Value, path string) error {
	switch to := into.Addr().Interface().(type) {
	case *string:
		read, err := text(raw)
		if err != nil {
			return badJSON(path, "%v", err)
		}
		*to = read
		return nil
	case *int64:
		read, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return badJSON(path, "expected a whole number of 64 bits, found %s", raw)
		}
		*to = read
		return nil
	case json.Unmarshaler:
		if err := to.UnmarshalJSON(raw); err != nil {
			return badJSON(path, "%v", err)
		}
		return nil
	}
	switch {
	case into.Kind() == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return readValue(raw, into.Elem(), path)
	case into.Kind() == reflect.Struct:
		return readObject(raw, into, path)
	case string(raw) == "null":
		return badJSON(path, "null")
	}
	if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
		return badJSON(path, "%v", err)
	}
	return nil
}

// text reads a JSON string. Half of a surrogate pair is refused, where encoding/json would put a replacement.
func text(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", fmt.Errorf("expected a text, found %s", raw)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var read string
	if err := json.Unmarshal(raw, &read); err != nil {
		return "", err
	}
	if strings.ContainsRune(read, utf8.RuneError) && strings.Count(read, string(utf8.RuneError)) !=
		bytes.Count(raw, []byte(string(utf8.RuneError)))+bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`)) {
		return "", fmt.Errorf("half of a surrogate pair in %s", raw)
	}
	return read, nil
}
