package tidegate

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Decimal is a number by its digits, never a float: 10.10 stays 10.10, however long. Its zero value is 0. Reads JSON numbers
// and JSON strings.
type Decimal struct{ digits string }

// NewDecimal checks a text such as -12.50.
func NewDecimal(text string) (Decimal, error) {
	if !isDecimal(text) {
		return Decimal{}, fmt.Errorf("%q is not a decimal number such as -12.50", text)
	}
	return Decimal{text}, nil
}

// String gives the digits as they came.
func (d Decimal) String() string {
	if d.digits == "" {
		return "0"
	}
	return d.digits
}

// IsZero is true of zero, however written.
func (d Decimal) IsZero() bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(d.digits), "e")
	return strings.Trim(mantissa, "-.0") == ""
}

// IsNegative is true below zero (-0.00 is not).
func (d Decimal) IsNegative() bool { return strings.HasPrefix(d.digits, "-") && !d.IsZero() }

// Scaled gives the number in units of its n-th decimal place: 10.10 with two places is 1010. Exact or refused, never
// rounded.
func (d Decimal) Scaled(places int) (int64, error) {
	exact, ok := new(big.Rat).SetString(d.String())
	if !ok {
		return 0, fmt.Errorf("%s is beyond 64 bits", d)
	}
	exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)))
	if !exact.IsInt() {
		return 0, fmt.Errorf("%s has more than %d decimal places", d, places)
	}
	if !exact.Num().IsInt64() {
		return 0, fmt.Errorf("%s is beyond 64 bits", d)
	}
	return exact.Num().Int64(), nil
}

// UnmarshalJSON reads a number, or a string of one.
func (d *Decimal) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if len(text) > 1 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	read, err := NewDecimal(text)
	*d = read
	return err
}

// isDecimal wants -, digits, optionally a point and digits, optionally an exponent.
func isDecimal(text string) bool {
	mantissa, exponent, scientific := strings.Cut(strings.Replace(text, "E", "e", 1), "e")
	whole, fraction, point := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	if !digits(whole) || (point && !digits(fraction)) {
		return false
	}
	unsigned := exponent
	if exponent != "" && (exponent[0] == '-' || exponent[0] == '+') {
		unsigned = exponent[1:]
	}
	return !scientific || (len(exponent) <= 6 && digits(unsigned))
}

func digits(text string) bool {
	for at := range len(text) {
		if text[at] < '0' || text[at] > '9' {
			return false
		}
	}
	return text != ""
}

// Timestamp is a point in time as the event has it: an RFC 3339 text, or milliseconds since 1970. The host parses it. Its zero
// value is none.
type Timestamp struct {
	text string
	ms   int64
	kind uint8
}

const (
	noTime uint8 = iota
	textTime
	msTime
)

// At is a time as an RFC 3339 text.
func At(text string) Timestamp { return Timestamp{text: text, kind: textTime} }

// AtUnixMs is a time in milliseconds since 1970.
func AtUnixMs(ms int64) Timestamp { return Timestamp{ms: ms, kind: msTime} }

// UnmarshalJSON reads a string or a whole number.
func (t *Timestamp) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		text, err := text(raw)
		*t = At(text)
		return err
	}
	ms, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return fmt.Errorf("expected an RFC 3339 text or milliseconds, found %s", raw)
	}
	*t = AtUnixMs(ms)
	return nil
}
