package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/job"
)

// Cause is why jobs wait, in a reader's words: what many reasons have in common.
type Cause uint8

// The causes.
const (
	NoGPU      Cause = iota // fewer GPUs are free than the job asks for
	BehindHead              // a job that goes first blocks the queue
	Order                   // the policy gives others the GPUs for now
	Fragmented              // enough GPUs are free, but not where they are wanted
	ByQuota                 // a limit or a share
	Nodes                   // it may only use some nodes, and these are taken
	Handover                // its GPUs are promised, and others are still leaving them
	ByPeople                // somebody holds it, or it comes after other jobs
	ForEver                 // it can never run
	Elsewise                // after a failure, a lost node and the like
	causes
)

var causeNames = [causes]struct{ field, words string }{
	{"no_gpu_free", "no GPU free"}, {"behind_the_head", "behind the head of the line"}, {"policy_order", "policy's order"},
	{"fragmentation", "fragmentation"}, {"quota", "quota"}, {"node_constraints", "node constraints"}, {"handover", "hand-over"},
	{"held", "on hold"}, {"never", "can never run"}, {"other", "other"},
}

// causeColours are the names of colours of causes in package palette, on the page and in figures.
var causeColours = [causes]string{"c0", "c3", "c5", "c1", "c4", "c2", "c7", "c9", "s7", "k2"}

// Colour is the name of the colour of the cause in package palette.
func (c Cause) Colour() string { return causeColours[c] }

// String is the cause in words.
func (c Cause) String() string { return causeNames[c].words }

// causeOf is the cause of a wait for a reason.
func causeOf(code job.ReasonCode) Cause {
	r := job.Reason{Code: code}
	switch {
	case r.Never():
		return ForEver
	case r.Fragmentation():
		return Fragmented
	}
	switch code {
	case job.NeedGPUs:
		return NoGPU
	case job.Behind, job.Reserved:
		return BehindHead
	case job.NoReason, job.Outranked, job.NotYet, job.Because, job.MakesRoom, job.UsedShare:
		return Order
	case job.Quota, job.OverShare, job.Reclaimed:
		return ByQuota
	case job.NeedWhere, job.Occupied:
		return Nodes
	case job.OnHold, job.AfterJob, job.InTurn, job.UserRequest, job.Cancelling:
		return ByPeople
	}
	return Elsewise
}

// causeOfMode is the cause of each mode in which a job has no devices.
var causeOfMode = func() (of [modes]Cause) {
	for m := waiting; m < assigned; m++ {
		of[m] = causeOf(job.ReasonCode(m - waiting))
	}
	of[assigned] = Handover
	return of
}()

// Causes is time without devices by cause, in job-hours.
type Causes [causes]float64

// MarshalJSON writes an object with a field for each cause.
func (c Causes) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, hours := range c {
		b, err := json.Marshal(hours)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(fmt.Appendf(out, "%q:", causeNames[i].field), b...)
	}
	return append(out, '}'), nil
}

// Total is the time of all causes.
func (c *Causes) Total() float64 {
	sum := 0.0
	for _, hours := range c {
		sum += hours
	}
	return sum
}

// longest are the causes with any time, that with most first.
func (c *Causes) longest() []Cause {
	var out []Cause
	for i := range causes {
		if c[i] > 0 {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b Cause) int { return cmp.Compare(c[b], c[a]) })
	return out
}

// Waits says in one line why the jobs of a run waited, the longest part first; it is empty
// where none did.
func (r *Result) Waits(name string) string {
	total := r.Causes.Total()
	if total <= 0 {
		return ""
	}
	var parts []string
	for _, c := range r.Causes.longest() {
		if part := r.Causes[c] / total; part >= 0.005 {
			parts = append(parts, c.String()+" "+wholePercent(part))
		}
	}
	return fmt.Sprintf("Why jobs waited under %s, %s job-hours: %s.", clean(name), hours(total), strings.Join(parts, ", "))
}

// wholePercent writes a share in whole per cent.
func wholePercent(v float64) string {
	if v > 0 && v < 0.01 {
		return "<1%"
	}
	return strconv.FormatFloat(v*100, 'f', 0, 64) + "%"
}

// reasonMeanings says what reasons mean, for readers of the page, by their names.
var reasonMeanings = map[string]string{
	"none":             "No reason was given.",
	"need-gpus":        "Fewer GPUs are free than it asks for.",
	"need-one-node":    "Enough GPUs are free, but not on one node, as it needs them.",
	"need-whole-nodes": "It needs wholly free nodes, and too few are.",
	"need-rack":        "Enough GPUs are free, but not in one rack, as it needs them.",
	"need-cpu":         "GPUs are free, but the cores or the memory beside them are taken.",
	"need-slots":       "GPUs are free, but a counted resource of their nodes is taken.",
	"need-tasks":       "Each of its tasks needs several GPUs of one node, and too few nodes have as many free.",
	"need-part":        "It needs a part of a GPU, and no GPU has that much left.",
	"need-where":       "The nodes that it may use have too few free GPUs.",
	"need-within":      "Enough GPUs are free, but not in one place of the topology, as it needs them.",
	"too-large":        "It asks for more GPUs than there are: it can never run here.",
	"no-such-node":     "No node is one that it may use: it can never run here.",
	"no-such-type":     "No node has a GPU of a type that it accepts: it can never run here.",
	"impossible":       "It would not fit even if nothing else ran.",
	"over-limit":       "It asks for more than its tenant may ever hold.",
	"refused":          "The policy did not admit it, since its deadline cannot be met.",
	"behind":           "A job that goes first does not fit, and blocks those behind it, whatever they need themselves.",
	"outranked":        "Jobs of higher priority take the GPUs.",
	"quota":            "Its tenant has as many GPUs as it may have.",
	"over-share":       "Its tenant has its share, and no other GPUs are free.",
	"reserved":         "It would delay a job that has a reservation.",
	"not-yet":          "The policy decides again later, as at the end of a round.",
	"on-hold":          "A user or an operator holds it.",
	"occupied":         "It was frozen, and others hold the GPUs on which its memory stays.",
	"because":          "A reason of the policy's own, in its words.",
	"makes-room":       "It was stopped for a job that goes first.",
	"used-share":       "It has used its share for now.",
	"reclaimed":        "Another tenant takes back what it is guaranteed.",
	"moved":            "It moves to other GPUs.",
	"resized":          "It comes to another size.",
	"node-lost":        "A node that it ran on was lost.",
	"failed":           "Its attempt failed.",
	"ended":            "It has ended.",
	"user-request":     "Its user asked for it.",
	"out-of-memory":    "The memory of a GPU ran out.",
	"profiled":         "It has been measured.",
	"cancelling":       "Somebody has cancelled it, and it has still to end.",
	"after-job":        "It comes after jobs that have still to end.",
	"in-turn":          "Others of its user, tenant or array have to end first.",
	"taken-back":       "The owner of a node takes it back.",
	"sleeps":           "The node was idle and sleeps, or it wakes up because it is needed.",
	"handover":         "Its GPUs are promised, and another job is still leaving them.",
}
