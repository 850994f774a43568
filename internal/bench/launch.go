package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/rundir"
)

// launches are the stages of submissions at an empty queue.
type launches struct {
	answer, decided, up, began, first spread // since the call
}

// launch measures from the client's call to the first thing that the process of
// the job does, which is to say what time it is.
func (b *box) launch(times int, pause time.Duration) (*launches, error) {
	var l launches
	for range times {
		if err := b.launchOnce(&l); err != nil {
			return nil, err
		}
		time.Sleep(pause)
	}
	return &l, nil
}

func (b *box) launchOnce(l *launches) error {
	ctx := context.Background()
	call := time.Now()
	ids, err := b.Submit(ctx, spec("date", "+%s%N"))
	if err != nil {
		return err
	}
	l.answer.add(time.Since(call))
	if err := b.drained(time.Minute); err != nil {
		return err
	}
	jobs, err := b.Jobs(ctx, api.Query{IDs: ids})
	if err != nil || len(jobs) != 1 || jobs[0].State != api.Done {
		return fmt.Errorf("job %s did not end well: %+v, %w", ids[0], jobs, err)
	}
	l.decided.add(jobs[0].Started.Sub(call))
	dir := filepath.Join(b.dir, "runs", ids[0], "1")
	var st rundir.Status
	if ok, err := rundir.Read(dir, rundir.StatusFile, &st); !ok {
		return fmt.Errorf("job %s: no status: %w", ids[0], err)
	}
	l.up.add(time.Unix(0, st.Up).Sub(call))
	l.began.add(time.Unix(0, st.Began).Sub(call))
	said, err := b.output(ctx, ids[0])
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(strings.TrimSpace(said), 10, 64)
	if err != nil {
		return fmt.Errorf("job %s: %w", ids[0], err)
	}
	l.first.add(time.Unix(0, at).Sub(call))
	return nil
}

// output is what the last run of a job wrote.
func (b *box) output(ctx context.Context, id string) (string, error) {
	text, err := os.ReadFile(filepath.Join(b.dir, "runs", id, "1", rundir.OutputFile))
	return string(text), err
}

// write prints the stages, each since the call.
func (l *launches) write(w io.Writer, bound time.Duration) {
	fmt.Fprintf(w, "| from the call of the client until | least | median | p95 | bound | |\n|---|--:|--:|--:|---|---|\n")
	for _, r := range []struct {
		what string
		s    spread
	}{
		{"it is answered: the job is on disk, and so is the decision to start it", l.answer},
		{"the moment of that decision: the request is read, the job written", l.decided},
		{"the runner is up: the log is on disk, and the folder of the run", l.up},
		{"the process of the job is started: cgroup, port, output", l.began},
	} {
		fmt.Fprintf(w, "| %s | %s | | |\n", r.what, r.s.cells())
	}
	fmt.Fprintf(w, "| **the process says what time it is** | %s | %s | %s |\n\n", l.first.cells(), bound, verdict(l.first.median() < bound))
}
