//go:build !unix

package fidelity

import "time"

var began = time.Now()

// cpuTime is the time that this process has run: it is not told how much of the
// processor it had.
func cpuTime() time.Duration { return time.Since(began) }
