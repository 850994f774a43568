package cgroup

import (
	"fmt"
	"time"
)

// KillAll kills until no process is left, or fails when some have not ended in
// time: they are inside the kernel.
func (g *Group) KillAll(patience time.Duration) error {
	until := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		pids, err := g.Procs()
		if len(pids) == 0 {
			return err
		}
		if err := g.m.tree.kill(g.path, pids); err != nil {
			return fmt.Errorf("cgroup %s: %w", g.path, err)
		}
		if time.Now().After(until) {
			return fmt.Errorf("cgroup %s: processes %v do not end", g.path, pids)
		}
		time.Sleep(wait)
	}
}
