// Package workers does independent work side by side, for policies, which start no
// goroutines of their own.
package workers

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Pool is the number of pieces of work that are done at a time; 0: as many as there are
// cores. It implements solve.Each.
type Pool int

// Each calls do with every number from 0 to n-1. When calls panic, all others are made
// nevertheless, and Each panics with the value of the lowest number.
func (p Pool) Each(n int, do func(i int)) {
	if p <= 0 {
		p = Pool(runtime.GOMAXPROCS(0))
	}
	if p = min(p, Pool(n)); p <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	panics := make([]any, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range p {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				func() {
					defer func() { panics[i] = recover() }()
					do(i)
				}()
			}
		})
	}
	all.Wait()
	for _, value := range panics {
		if value != nil {
			panic(value)
		}
	}
}
