package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/grid"
)

const (
	lookAgain  = 10 * time.Second // how often is looked without having been told
	reconnects = time.Second      // between two attempts to reach Norn again
)

// follower waits for jobs, over the death of the daemon too.
type follower struct {
	daemon
	remarks io.Writer
	news    <-chan struct{}
	away    bool // Norn does not answer now
}

// newFollower is told of events until the context ends.
func newFollower(ctx context.Context, d daemon, remarks io.Writer) *follower {
	news := make(chan struct{}, 1)
	go events(ctx, d, news)
	return &follower{daemon: d, remarks: remarks, news: news}
}

// events gives a channel of room for one something to receive whenever something
// may have happened, until the context ends.
func events(ctx context.Context, d daemon, news chan<- struct{}) {
	tell := func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		since := int64(0)
		if st, err := d.Status(ctx); err == nil {
			since = st.Events + 1
		}
		tell() // what happened before the watch began
		_ = d.Watch(ctx, since, func(api.Event) error { tell(); return nil })
		select {
		case <-ctx.Done():
		case <-time.After(reconnects):
		}
	}
}

// until asks again whenever something has happened, until the answer is yes or
// an error that does not pass.
func (f *follower) until(ctx context.Context, asked func() (bool, error)) error {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		ok, err := asked()
		if err := f.excuse(err); err != nil || ok {
			return err
		}
		retry := (<-chan time.Time)(nil)
		if f.away {
			retry = time.After(reconnects)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.news:
		case <-again.C:
		case <-retry:
		}
	}
}

// excuse lets an error pass that is over soon, and says so once.
func (f *follower) excuse(err error) error {
	if err == nil || !lost(err) {
		if f.away && err == nil {
			fmt.Fprintln(f.remarks, "norn: it answers again")
			f.away = false
		}
		return err
	}
	if !f.away {
		fmt.Fprintf(f.remarks, "norn: %v; waiting for it\n", err)
		f.away = true
	}
	return nil
}

// waitForAll waits until jobs have ended, says how each did, and ends with the
// largest of their exit codes.
func waitForAll(ctx context.Context, d daemon, ids []string, remarks io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := newFollower(ctx, d, remarks)
	var ended []api.Job
	err := f.until(ctx, func() (bool, error) {
		found, err := d.Jobs(ctx, api.Query{IDs: ids, All: true})
		if err != nil {
			return false, err
		}
		if len(found) < len(ids) {
			return false, fmt.Errorf("%s known any more", missing(ids, found))
		}
		ended = found
		for _, j := range found {
			if !j.State.Over() {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return outcomes(ended, remarks)
}

// missing says which jobs are not among those that were found.
func missing(ids []string, found []api.Job) string {
	there := map[string]bool{}
	for _, j := range found {
		there[j.ID] = true
	}
	var gone []string
	for _, id := range ids {
		if !there[id] {
			gone = append(gone, id)
		}
	}
	if len(gone) == 1 {
		return "job " + gone[0] + " is not"
	}
	return "jobs " + few(gone) + " are not"
}

// outcomes says how jobs ended, those that are not done one by one, and returns
// the largest exit code.
func outcomes(ended []api.Job, remarks io.Writer) error {
	code := 0
	for _, j := range ended {
		code = max(code, codeOf(j))
		if len(ended) == 1 || j.State != api.Done {
			fmt.Fprintf(remarks, "norn: %s\n", fateOf(j))
		}
	}
	if code == 0 {
		return nil
	}
	return exitCode(code)
}

// codeOf is the exit code of a job that has ended; one that did not end by itself
// has none, and counts as failed.
func codeOf(j api.Job) int {
	switch {
	case j.State == api.Done:
		return 0
	case j.State == api.Failed && j.Exit != nil && j.Exit.Code > 0 && j.Exit.Code < 256:
		return j.Exit.Code
	}
	return exitFailed
}

// fateOf is a sentence on how a job ended.
func fateOf(j api.Job) string {
	switch j.State {
	case api.Done:
		return fmt.Sprintf("job %s is done after %s", j.ID, unit.Human(j.Ran.Duration()))
	case api.Cancelled:
		return fmt.Sprintf("job %s was cancelled", j.ID)
	}
	text, how := fmt.Sprintf("job %s failed", j.ID), exitText(j.Exit)
	if how != "" {
		text += " with " + how
	}
	if j.Reason != "" && j.Reason != how {
		text += ": " + grid.Clean(j.Reason)
	}
	return text
}

// exitText says how a run ended: exit code 3, SIGKILL (out of memory).
func exitText(e *api.Exit) string {
	if e == nil {
		return ""
	}
	text := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != "" {
		text = e.Signal
	}
	if e.Note != "" {
		text += " (" + grid.Clean(e.Note) + ")"
	}
	return text
}

// followToEnd shows what all runs of a job write, and ends with its exit code.
func followToEnd(ctx context.Context, d daemon, id string, out, remarks io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := newFollower(ctx, d, remarks)
	if err := f.show(ctx, id, -1, out); err != nil {
		return err
	}
	return waitForAll(ctx, d, []string{id}, remarks)
}

// show copies what all runs of a job from the present one on write, until the
// job has ended. Of the first run it shows so many last lines, -1: all.
func (f *follower) show(ctx context.Context, id string, tail int, out io.Writer) error {
	for shown := 0; ; tail = -1 {
		var j api.Job
		err := f.until(ctx, func() (_ bool, err error) {
			j, err = f.Job(ctx, id)
			return err == nil && (j.Run > shown && j.State != api.Assigned || j.State.Over()), err
		})
		switch {
		case err != nil:
			return err
		case j.Run == shown && shown == 0:
			return fmt.Errorf("job %s has never run: %s", id, strings.TrimPrefix(fateOf(j), "job "+id+" "))
		case j.Run == shown:
			return nil
		case shown > 0:
			fmt.Fprintf(f.remarks, "norn: run %d of job %s starts\n", j.Run, id)
		}
		if err := f.showRun(ctx, id, j.Run, tail, out); err != nil {
			return err
		}
		shown = j.Run
	}
}

// showRun copies what one run writes until it is over. When the connection breaks
// it goes on behind what was shown; where that cannot be told, with what is new.
func (f *follower) showRun(ctx context.Context, id string, run, tail int, out io.Writer) error {
	done := &counting{w: out}
	return f.until(ctx, func() (bool, error) {
		o, skip := client.LogOptions{Run: run, Tail: tail, Follow: true}, int64(0)
		if done.n > 0 {
			if skip = done.n; tail >= 0 {
				o.Tail, skip = 0, 0
			}
		}
		in, err := f.Logs(ctx, id, o)
		if err != nil {
			return false, err
		}
		defer in.Close()
		if _, err := io.CopyN(io.Discard, in, skip); err != nil && err != io.EOF {
			return false, err
		}
		_, err = io.Copy(done, in)
		switch {
		case done.err != nil: // nobody reads it any more
			return false, done.err
		case err != nil && ctx.Err() == nil:
			return false, &brokenOff{err}
		}
		return err == nil, err
	})
}

// brokenOff is the end of a stream that was not over.
type brokenOff struct{ error }

func (e *brokenOff) Unwrap() error { return e.error }

// counting counts what it writes.
type counting struct {
	w   io.Writer
	n   int64
	err error // of the writer
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.err = err
	return n, err
}
