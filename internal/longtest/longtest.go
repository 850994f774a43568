// Package longtest marks the tests that take more than a second or two.
package longtest

import (
	"os"
	"testing"
)

// Skip skips a test under go test -short. Where NORN_LONG is set, as the race detector's
// step of make has it, the test runs nevertheless, in the short form that it may have.
func Skip(t testing.TB) {
	t.Helper()
	if testing.Short() && os.Getenv("NORN_LONG") == "" {
		t.Skip("takes seconds: not under -short")
	}
}
