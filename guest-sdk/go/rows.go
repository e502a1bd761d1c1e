package tidegate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/tidegate/tidegate/guest-sdk/go/internal/contract"
)

// Rows gathers the rows of an event; they apply in this order. A row is a struct whose fields, or those with a tag
// `column:"name"`, are the columns.
type Rows struct {
	heads   map[headKey]uint32
	shapes  []contract.Shape
	changes []contract.Change
}

type headKey struct {
	operation contract.Operation
	target    string
	row       reflect.Type
}

// JSON is a JSON text, for a column of type json or jsonb.
type JSON string

// Upsert inserts the row, or merges into the one that is there, as the target's configuration says.
func (r *Rows) Upsert(target string, row any) { r.push(contract.OperationUpsert, target, row) }

// Update merges into the row that is there; does nothing where there is none.
func (r *Rows) Update(target string, row any) { r.push(contract.OperationUpdate, target, row) }

// Delete takes the row away. Its columns are the target's key, and the column of its guard where it has one.
func (r *Rows) Delete(target string, row any) { r.push(contract.OperationDelete, target, row) }

func (r *Rows) push(operation contract.Operation, target string, row any) {
	of := reflect.Indirect(reflect.ValueOf(row))
	head := headKey{operation, target, of.Type()}
	shape, known := r.heads[head]
	if !known {
		shape = uint32(len(r.shapes))
		if r.heads == nil {
			r.heads = map[headKey]uint32{}
		}
		r.heads[head] = shape
		r.shapes = append(r.shapes, contract.Shape{Operation: operation, Target: target, Columns: columns(of.Type())})
	}
	values := make([]contract.Value, of.NumField())
	for index := range values {
		values[index] = value(of.Field(index))
	}
	r.changes = append(r.changes, contract.Change{Shape: shape, Values: values})
}

func (r *Rows) take() []contract.Change {
	changes := r.changes
	r.changes = nil
	return changes
}

func columns(row reflect.Type) []string {
	names := make([]string, row.NumField())
	for index := range names {
		field := row.Field(index)
		names[index] = field.Tag.Get("column")
		if names[index] == "" {
			names[index] = field.Name
		}
	}
	return names
}

// value crosses to the host; never through a float where digits matter.
func value(of reflect.Value) contract.Value {
	switch of := of.Interface().(type) {
	case string:
		return contract.MakeValueText(of)
	case int64:
		return contract.MakeValueInteger(of)
	case Decimal:
		return contract.MakeValueDecimal(of.String())
	case Timestamp:
		return timestamp(of)
	case JSON:
		return contract.MakeValueJson(string(of))
	case json.RawMessage:
		return contract.MakeValueJson(string(of))
	case []byte:
		return contract.MakeValueBytes(of)
	}
	switch of.Kind() {
	case reflect.Pointer, reflect.Interface:
		if of.IsNil() {
			return contract.MakeValueNull()
		}
		return value(of.Elem())
	case reflect.String:
		return contract.MakeValueText(of.String())
	case reflect.Bool:
		return contract.MakeValueBoolean(of.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return contract.MakeValueInteger(of.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return contract.MakeValueDecimal(strconv.FormatUint(of.Uint(), 10))
	case reflect.Float32, reflect.Float64:
		return contract.MakeValueReal(of.Float())
	}
	panic(fmt.Sprintf("a %s cannot stand in a column", of.Type()))
}

func timestamp(at Timestamp) contract.Value {
	if at.kind == noTime {
		return contract.MakeValueNull()
	}
	return contract.MakeValueTimestamp(at.instant())
}

func (t Timestamp) instant() contract.Instant {
	if t.kind == textTime {
		return contract.MakeInstantRfc3339(t.text)
	}
	return contract.MakeInstantUnixMs(t.ms)
}
