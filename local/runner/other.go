//go:build !linux

package runner

import (
	"errors"
	"fmt"
	"os"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/rundir"
)

// errNotHere is the error where runs cannot be launched.
var errNotHere = errors.New("jobs run on Linux only")

// Main fails.
func Main(string) int {
	fmt.Fprintln(os.Stderr, "norn:", errNotHere)
	return 1
}

// Launch fails.
func Launch(exe, dir string) (int, error) { return 0, errNotHere }

// Spare is nothing here.
type Spare struct{}

// NewSpare is one whose launches fail.
func NewSpare(exe string) *Spare { return &Spare{} }

// Ready does nothing.
func (*Spare) Ready() {}

// Launch fails.
func (*Spare) Launch(dir string) (int, error) { return 0, errNotHere }

// Close does nothing.
func (*Spare) Close() {}

// Poke fails.
func Poke(dir string) error { return errNotHere }

// Clean fails.
func Clean(dir string, marks ...string) error { return errNotHere }

// Alive is false.
func Alive(rundir.Proc) bool { return false }

// Measure fails.
func Measure([]rundir.Proc) ([]Usage, error) { return nil, errNotHere }

// Proportional is 0.
func Proportional([]int) api.Bytes { return 0 }

// StartTime fails.
func StartTime(int) (uint64, error) { return 0, errNotHere }

// BootID is empty.
func BootID() string { return "" }
