package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/shared"
)

// TestTablesAreUpToDate: the tables in package gen are what the logs give.
func TestTablesAreUpToDate(t *testing.T) {
	longtest.Skip(t)
	data := shared.Path(t, "data")
	files, err := tables(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		have, err := os.ReadFile(filepath.Join("../..", f.name))
		if err != nil || !bytes.Equal(have, f.text) {
			t.Errorf("%s is out of date (%v); run go run ./trace/gen/internal/calibrate", f.name, err)
		}
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 123456: "123500", .00123456: "0.001235", 1.23456e-7: "1.235e-07", -2.5: "-2.5"} {
		if got := figure(v); got != want {
			t.Errorf("%v is written %s instead of %s", v, got, want)
		}
	}
}
