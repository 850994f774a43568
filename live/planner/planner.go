// Package planner answers what other policies would have made of the past of a live world,
// beside the daemon that decides for it.
//
// A simulation may take minutes, gigabytes and all processors, and a policy that is tried
// may fail. So it runs in a process of its own (Main), at the lowest priority and within
// Limits, and nothing of it can hold or end the daemon. That process gets the event log on
// its standard input, opens no file, and ends with the request, or with the daemon.
//
// Nouns: a Planner starts such processes; a question is an api.WhatIf; a plan is an api.Plan.
package planner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
)

// Verb is the hidden verb of a program that calls Main: PROGRAM plan-here QUESTION.
const Verb = "plan-here"

// Limits keep a simulation in bounds. Zero values are the usual ones.
type Limits struct {
	Jobs   int           // of the past that is played again; 100,000
	Time   time.Duration // for one answer; 5 minutes
	Memory api.Bytes     // of the process; 2 GiB, and no more than half of what its cgroup may still take
	AtOnce int           // answers that are worked on, of all users together; 2
}

func (l Limits) orUsual() Limits {
	if l.Jobs == 0 {
		l.Jobs = 100_000
	}
	if l.Time == 0 {
		l.Time = 5 * time.Minute
	}
	if l.Memory == 0 {
		l.Memory = 2 << 30
	}
	if l.AtOnce == 0 {
		l.AtOnce = 2
	}
	return l
}

// Planner answers questions, one of each user at a time. It may be used by any goroutine.
type Planner struct {
	exe  string
	lim  Limits
	log  *slog.Logger
	mu   sync.Mutex
	busy map[string]bool // users whose questions are worked on
}

// New makes a Planner that starts a program, whose Verb calls Main.
func New(exe string, lim Limits, log *slog.Logger) *Planner {
	return &Planner{exe: exe, lim: lim.orUsual(), log: log, busy: map[string]bool{}}
}

// task is what the process is told: the word behind Verb, in JSON.
type task struct {
	Question api.WhatIf
	Limits   Limits
}

// result is what the process answers.
type result struct {
	Plan *api.Plan  `json:"plan,omitempty"`
	No   *api.Error `json:"no,omitempty"`
}

// Check says what is wrong with a question, as a refusal, or nil.
func Check(q *api.WhatIf) error {
	_, err := choices(q)
	if err == nil && strings.Count(q.Grow, ",") >= mostSizes {
		err = fmt.Errorf("grow: %d sizes at most", mostSizes)
	}
	if err == nil && !q.Until.IsZero() && !q.Until.After(q.Since) {
		err = fmt.Errorf("until (%s) is not after since (%s)", q.Until.Format(time.RFC3339), q.Since.Format(time.RFC3339))
	}
	if err != nil {
		return api.Refuse(api.Invalid, "%v", err)
	}
	return nil
}

// mostSizes bounds the machines on which a question has policies tried.
const mostSizes = 4

// choices are the policies that a question tries; there may be none where it is about
// machines of other sizes.
func choices(q *api.WhatIf) ([]experiment.Choice, error) {
	if len(q.Policies) == 0 {
		if q.Grow == "" {
			return nil, errors.New("name a policy to try, or other sizes of the machine")
		}
		return nil, nil
	}
	var out []experiment.Choice
	for _, text := range q.Policies {
		c, err := experiment.ParseChoice(text)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, experiment.CheckChoices(out)
}

// Answer plays the past again for a user. write writes the event log: whole logs, one
// behind the other. Refusals are *api.Error. The simulation ends with the context.
func (p *Planner) Answer(ctx context.Context, user string, q api.WhatIf, write func(io.Writer) error) (api.Plan, error) {
	if err := Check(&q); err != nil {
		return api.Plan{}, err
	}
	if err := p.begin(user); err != nil {
		return api.Plan{}, err
	}
	defer p.end(user)
	within, cancel := context.WithTimeout(ctx, p.lim.Time)
	defer cancel()
	out, err := p.run(within, q, write)
	switch {
	case ctx.Err() != nil:
		return api.Plan{}, ctx.Err()
	case within.Err() != nil:
		return api.Plan{}, api.Refuse(api.Unavailable, "the simulation was ended after %s: ask for a shorter time, or use norn plan, which has no such limit", unit.Human(p.lim.Time))
	case err != nil:
		return api.Plan{}, err
	case out.No != nil:
		return api.Plan{}, out.No
	}
	return *out.Plan, nil
}

// begin makes room for a question, or refuses it.
func (p *Planner) begin(user string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.busy[user]:
		return api.Refuse(api.Conflict, "another what-if of %s is being simulated: one at a time", user)
	case len(p.busy) >= p.lim.AtOnce:
		return api.Refuse(api.Unavailable, "%d what-ifs are being simulated for others: try again in a while", len(p.busy))
	}
	p.busy[user] = true
	return nil
}

func (p *Planner) end(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, user)
}

// run has a process answer a question.
func (p *Planner) run(ctx context.Context, q api.WhatIf, write func(io.Writer) error) (result, error) {
	arg, err := json.Marshal(task{q, p.lim})
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive, ours, err := os.Pipe() // the process ends when ours is closed, also by the death of this one
	if err != nil {
		return result{}, err
	}
	defer ours.Close()
	c := exec.CommandContext(ctx, p.exe, Verb, string(arg))
	c.Dir, c.Env, c.WaitDelay = os.TempDir(), []string{}, time.Second
	if zone, set := os.LookupEnv("TZ"); set {
		c.Env = append(c.Env, "TZ="+zone)
	}
	var answer, said tail
	answer.most, said.most = mostAnswer, mostSaid
	c.Stdout, c.Stderr, c.ExtraFiles = &answer, &said, []*os.File{alive}
	apart(c)
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	alive.Close()
	if err != nil {
		return result{}, err
	}
	wrote := make(chan error, 1)
	go func() {
		err := write(in)
		if err != nil && !errors.Is(err, os.ErrClosed) && !broken(err) {
			cancel() // it must not answer from a part
		} else {
			err = nil // the process had read enough
		}
		in.Close()
		wrote <- err
	}()
	ended := c.Wait()
	if err := <-wrote; err != nil {
		return result{}, err
	}
	var out result
	if err := json.Unmarshal(answer.Bytes(), &out); err != nil || (out.Plan == nil) == (out.No == nil) {
		p.log.Error("a what-if ended without an answer", "error", ended, "said", said.String())
		return result{}, api.Refuse(api.Unavailable, "the simulation ended without an answer (%v); norn's log says more", ended)
	}
	return out, nil
}

// Bounds on what is kept of what a process writes, in bytes.
const (
	mostAnswer = 8 << 20
	mostSaid   = 8 << 10
)

// tail keeps the beginning of what is written to it.
type tail struct {
	bytes.Buffer
	most int
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.Buffer.Write(b[:min(len(b), max(0, t.most-t.Len()))])
	return len(b), nil
}
