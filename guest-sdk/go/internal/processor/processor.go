// Package processor is the interface of this name in the contract, as functions: the generated exports call what the SDK has put here.
package processor

import (
	"github.com/tidegate/tidegate/guest-sdk/go/internal/contract"
	"github.com/tidegate/tidegate/guest-sdk/go/internal/wit/types"
)

// The four functions of the contract.
var (
	Describe    func() string
	Configure   func(settings string) types.Result[types.Unit, string]
	ExtractKeys func(batch []contract.Message) []contract.KeyResult
	Compute     func(batch []contract.Accepted) contract.Computed
)
