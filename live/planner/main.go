package planner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment/whatif"
	"github.com/norn-scheduler/norn/report"
)

// Main is the process of one question: the word behind Verb. It reads the log from the
// standard input, writes the answer to the standard output, and returns the exit code. It
// ends when file 3 does, which the daemon holds open.
func Main(word string) int {
	go func() {
		io.Copy(io.Discard, os.NewFile(3, "daemon")) // until the daemon closes it, or has died
		os.Exit(1)
	}()
	var t task
	if err := json.Unmarshal([]byte(word), &t); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	yieldToOthers()
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	if free := freeMemory("/proc/self/cgroup", "/sys/fs/cgroup"); free >= 0 { // half of it is left to the daemon, which is in the same group
		t.Limits.Memory = min(t.Limits.Memory, api.Bytes(free/2))
	}
	debug.SetMemoryLimit(int64(t.Limits.Memory) / 4 * 3)
	answered := make(chan result, 1)
	go func() { answered <- simulate(&t, os.Stdin) }()
	var out result
	select {
	case out = <-answered:
	case <-outgrows(t.Limits.Memory):
		out.No = refusal(api.Unavailable, "the simulation needs more than %dMiB of memory: ask for a shorter time, or use norn plan, which has no such limit", t.Limits.Memory>>20)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// freeMemory is how much more memory the cgroup of this process may take, in bytes, by the
// files of version 2; -1: it has no limit, or none is known. A group that outgrows its limit
// may be ended as a whole.
func freeMemory(self, mount string) int64 {
	text, _ := os.ReadFile(self) // where there is none, there is no limit
	_, group, found := strings.Cut("\n"+string(text), "\n0::")
	group, _, _ = strings.Cut(group, "\n")
	read := func(name string) int64 {
		text, err := os.ReadFile(filepath.Join(mount, group, name))
		n, perr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || perr != nil {
			return -1
		}
		return n
	}
	most, used := read("memory.max"), read("memory.current")
	if !found || most < 0 || used < 0 {
		return -1
	}
	return max(0, most-used)
}

// outgrows is closed when this process has more memory than it may.
func outgrows(most api.Bytes) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		all := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		for range time.Tick(100 * time.Millisecond) {
			metrics.Read(all)
			if all[0].Value.Uint64()-all[1].Value.Uint64() > uint64(most) {
				close(over)
				return
			}
		}
	}()
	return over
}

func refusal(kind api.ErrorKind, format string, args ...any) *api.Error {
	return &api.Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// simulate answers a question from a log.
func simulate(t *task, in io.Reader) result {
	log, err := eventlog.NewReader(in, "the event log")
	if err != nil {
		return result{No: refusal(api.Unavailable, "%v", err)}
	}
	defer log.Close()
	stretch, no := stretchOf(&t.Question, log.Header.Origin)
	if no != nil {
		return result{No: no}
	}
	h, err := whatif.Read(log, stretch, report.Options{})
	if err != nil {
		return result{No: refusal(api.Unavailable, "%v", err)}
	}
	if n := len(h.Jobs); n > t.Limits.Jobs {
		return result{No: refusal(api.Conflict, "%s there were %d jobs, and a what-if plays %d at most: ask for a shorter time, or use norn plan, which has no such limit", h.When(time.Local), n, t.Limits.Jobs)}
	}
	if err := h.Check(time.Local); err != nil {
		return result{No: refusal(api.Conflict, "%v", err)}
	}
	q := &whatif.Question{History: h, Clock: time.Local}
	if q.Estimates, err = whatif.ParseEstimates(whatif.Believed); err == nil {
		q.Policies, err = choices(&t.Question)
	}
	if err == nil && t.Question.Grow != "" {
		if q.Machines, err = h.Grown(t.Question.Grow); err != nil {
			err = fmt.Errorf("grow: %w", err)
		}
	}
	if err != nil {
		return result{No: refusal(api.Invalid, "%v", err)}
	}
	p, err := q.Answer(context.Background()) // the process ends with the request
	if err != nil {
		return result{No: refusal(api.Conflict, "%v", err)}
	}
	return result{Plan: answerOf(p)}
}

// stretchOf is the part of a log that a question is about.
func stretchOf(q *api.WhatIf, origin time.Time) (in replay.Stretch, no *api.Error) {
	if q.Since.IsZero() && q.Until.IsZero() {
		return in, nil
	}
	if origin.IsZero() {
		return in, refusal(api.Conflict, "the log does not have the time of day, so that no part of it can be asked for")
	}
	if !q.Since.IsZero() {
		in.From = max(0, q.Since.Sub(origin))
	}
	if !q.Until.IsZero() {
		if in.To = q.Until.Sub(origin); in.To <= 0 {
			return in, refusal(api.Invalid, "until is before the log begins, %s", origin.Format(time.RFC3339))
		}
	}
	return in, nil
}

// mostUsers bounds the users of whom a plan tells.
const mostUsers = 20

// answerOf is a plan as the API has it.
func answerOf(p *whatif.Plan) *api.Plan {
	j := p.JSON()
	out := &api.Plan{
		Submitted: j.Jobs.Submitted, Compared: j.Jobs.Compared, InForce: j.InForce, Verdict: j.Verdict, Trust: p.Trust(),
		Runs: []api.PlanRun{}, Growths: planGrowths(j.Growths), Instead: p.Instead(), Users: []api.PlanGroup{}, Assumptions: j.Assumptions,
	}
	if j.From != nil {
		out.From, out.To = *j.From, *j.To
	}
	if p.Unchecked != nil {
		out.Trust = fmt.Sprintf("The policy that was in force cannot be simulated here, so the simulation is not checked: %v.", p.Unchecked)
	}
	for i, r := range p.Rows {
		run := api.PlanRun{
			Name: r.Name, Kind: string(r.Kind), Ended: r.JCT.N, JCT: api.Of(r.JCT.Mean), JCTMedian: api.Of(r.JCT.Median), JCT90: api.Of(r.JCT.P90),
			Wait: api.Of(r.Wait.Mean), WaitMedian: api.Of(r.Wait.Median), Wait90: api.Of(r.Wait.P90), Makespan: api.Of(r.Makespan),
			Preemptions: r.Preemptions, Utilisation: r.Result.Utilisation, Change: r.Change, Left: r.Left, Remarks: r.Remarks,
			Gain: planJobs(j.Runs[i].Gain), Lose: planJobs(j.Runs[i].Lose),
		}
		if text := report.LacksText(r.Result.Lacks); text != "" {
			run.Remarks = append(run.Remarks, text)
		}
		out.Runs = append(out.Runs, run)
	}
	slices.SortStableFunc(j.Users, func(a, b whatif.GroupJSON) int { return cmp.Compare(b.Jobs, a.Jobs) })
	for _, g := range j.Users[:min(len(j.Users), mostUsers)] {
		u := api.PlanGroup{Name: g.Name, Jobs: g.Jobs, JCT: []*api.Seconds{}}
		for _, mean := range g.JCT {
			u.JCT = append(u.JCT, (*api.Seconds)(mean))
		}
		out.Users = append(out.Users, u)
	}
	return out
}

func planGrowths(of []report.GrowthJSON) (out []api.PlanGrowth) {
	for _, g := range of {
		sizes := api.PlanGrowth{Policy: g.Policy, Sentence: g.Sentence, Points: []api.PlanSize{}}
		for _, p := range g.Points {
			sizes.Points = append(sizes.Points, api.PlanSize{
				Growth: p.Growth, GPUs: p.GPUs, Jobs: p.Jobs, Left: p.Left, Wait: api.Of(p.Wait.Mean), JCT: api.Of(p.JCT.Mean), Saved: p.Saved,
			})
		}
		out = append(out, sizes)
	}
	return out
}

func planJobs(of []whatif.JobJSON) (out []api.PlanJob) {
	for _, j := range of {
		out = append(out, api.PlanJob{Job: j.Job, Name: j.Name, User: j.User, Was: api.Seconds(j.Was), Would: api.Seconds(j.Would)})
	}
	return out
}

// broken tells whether writing failed because the other end was closed.
func broken(err error) bool { return errors.Is(err, errPipe) || errors.Is(err, io.ErrClosedPipe) }
