//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// settled is how long a job may go on after its cancellation was answered.
const settled = 15 * time.Second

// check holds what jobs have written down against what clients were told.
func (s *stage) check() {
	rows, err := s.list()
	if err != nil {
		s.breach("%v", err)
		return
	}
	for id, j := range s.jobs {
		r := rows[id]
		if r.Name != j.name {
			s.breach("job %s (%s) is lost: there is %+v", id, j.name, r)
			continue
		}
		s.counts["jobs "+r.State]++
		life := s.life(j.name)
		if r.State == "done" && life.steps != j.steps {
			s.breach("job %s (%s) is done, and has done %d of %d steps", id, j.name, life.steps, j.steps)
		}
		if r.State == "failed" {
			s.breach("job %s (%s) has failed, and would have been started again", id, j.name)
		}
		if r.State == "cancelled" && j.cancelled.IsZero() {
			s.counts["jobs cancelled without an answer"]++
		}
		for _, at := range life.starts {
			if !j.cancelled.IsZero() && at.After(j.cancelled.Add(settled)) {
				s.breach("job %s (%s) was cancelled at %v, and started at %v", id, j.name, j.cancelled, at)
			}
			if j.held && (j.released.IsZero() || at.Before(j.released)) {
				s.breach("job %s (%s) was submitted with a hold, and started at %v before it was released at %v", id, j.name, at, j.released)
			}
		}
		s.counts["runs of jobs"] += len(life.starts)
	}
	if text, err := os.ReadFile(filepath.Join(s.truth, "breaches")); err == nil {
		for line := range strings.Lines(string(text)) {
			s.breach("%s", strings.TrimSpace(line))
		}
	}
}

// life is what a job has written down: when it started, and how many steps it had done
// when it last came to its end.
type life struct {
	starts []time.Time
	steps  int
}

func (s *stage) life(name string) (l life) {
	text, err := os.ReadFile(filepath.Join(s.truth, name+".life"))
	if err != nil {
		return life{}
	}
	for line := range strings.Lines(string(text)) {
		var at int64
		if n, _ := fmt.Sscanf(line, "start %d", &at); n == 1 {
			l.starts = append(l.starts, time.Unix(0, at))
		}
		fmt.Sscanf(line, "end %d", &l.steps)
	}
	return l
}
