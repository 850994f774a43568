package simtest

import (
	"flag"
	"os"
	"testing"
)

// FewDraws has a property that is tried on every policy be tried on 25 random worlds each, unless the command line
// or RAPID_CHECKS says how many, until the test ends. A policy has up to 20 shapes for each of its settings: 25 draws
// of all take it some two seconds. The draws are others at each run; make properties tries 300.
func FewDraws(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() != "100" || os.Getenv("RAPID_CHECKS") != "" {
		return
	}
	t.Cleanup(func() { _ = flag.Set("rapid.checks", "100") })
	if err := flag.Set("rapid.checks", "25"); err != nil {
		t.Fatal(err)
	}
}
