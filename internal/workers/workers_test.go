package workers_test

import (
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/internal/workers"
	"github.com/norn-scheduler/norn/solve"
)

// TestEach: each number is given to exactly one call, however many run at a time.
func TestEach(t *testing.T) {
	for _, each := range []solve.Each{solve.Serial{}, workers.Pool(0), workers.Pool(1), workers.Pool(3), workers.Pool(100)} {
		for _, n := range []int{0, 1, 2, 50} {
			calls := make([]int, n)
			each.Each(n, func(i int) { calls[i]++ })
			if slices.ContainsFunc(calls, func(k int) bool { return k != 1 }) {
				t.Errorf("%T(%v): calls for %d numbers: %v", each, each, n, calls)
			}
		}
	}
}

// TestPanics: a panic comes out in the goroutine of the caller, that of the lowest number.
func TestPanics(t *testing.T) {
	for _, pool := range []workers.Pool{2, 8} {
		done := make([]bool, 10)
		func() {
			defer func() {
				if value := recover(); value != 3 {
					t.Errorf("%d at a time: it panics with %v, want 3", pool, value)
				}
			}()
			pool.Each(10, func(i int) {
				if done[i] = true; i == 3 || i == 7 {
					panic(i)
				}
			})
		}()
		if slices.Contains(done, false) {
			t.Errorf("%d at a time: done %v", pool, done)
		}
	}
}
