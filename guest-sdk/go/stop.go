package tidegate

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/tidegate/tidegate/guest-sdk/go/internal/contract"
)

type skipped struct{ why string }

func (s skipped) Error() string { return s.why }

// Skip says that an event is not for this consumer: counted, not kept.
func Skip(format string, arguments ...any) error { return skipped{fmt.Sprintf(format, arguments...)} }

type rejected struct{ code, message string }

func (r rejected) Error() string { return r.message }

// Reject says that an event is broken: to the dead letters. The code is a short word to filter them by.
func Reject(code, format string, arguments ...any) error {
	return rejected{code, fmt.Sprintf(format, arguments...)}
}

// stopped takes an error apart.
func stopped(err error) (skip string, isSkip bool, reject contract.Rejection) {
	var s skipped
	var r rejected
	switch {
	case errors.As(err, &s):
		return s.why, true, contract.Rejection{}
	case errors.As(err, &r):
		return "", false, contract.Rejection{Code: r.code, Message: r.message}
	default:
		return "", false, contract.Rejection{Code: "bad-event", Message: err.Error()}
	}
}

// panicked makes a rejection of what an event's function has panicked with.
func panicked(why any) error {
	return Reject("exception", "panic: %v%s", why, place())
}

// place is where the author has to look: the innermost frame outside of the runtime and the SDK.
func place() string {
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") && !strings.HasPrefix(frame.Function, "github.com/tidegate/tidegate/guest-sdk/go.") {
			file := frame.File[strings.LastIndexByte(frame.File, '/')+1:]
			return fmt.Sprintf(" (%s:%d)", file, frame.Line)
		}
		if !more {
			return ""
		}
	}
}
