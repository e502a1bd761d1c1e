// Package handler is what the generated exports call; the SDK puts the plugin there.
package handler

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
