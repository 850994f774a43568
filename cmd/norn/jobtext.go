package main

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/policy/param"
)

// The states of a job, as users select them.
var (
	activeStates = []api.State{api.Held, api.Waiting, api.Assigned, api.Running, api.Stopping}
	endedStates  = []api.State{api.Done, api.Failed, api.Cancelled}
)

// stateWords are the words for states: Norn's own, and those that users of Slurm
// have in their fingers.
func stateWords() map[string][]api.State {
	w := map[string][]api.State{
		"active": activeStates, "ended": endedStates,
		"pending": {api.Held, api.Waiting}, "pd": {api.Held, api.Waiting}, "r": {api.Running}, "completing": {api.Stopping}, "cg": {api.Stopping},
		"completed": {api.Done}, "cd": {api.Done}, "f": {api.Failed}, "canceled": {api.Cancelled}, "ca": {api.Cancelled},
	}
	for _, s := range append(activeStates[:len(activeStates):len(activeStates)], endedStates...) {
		w[string(s)] = []api.State{s}
	}
	return w
}

// stateNames are Norn's own words for states.
func stateNames() []string {
	names := []string{"active", "ended"}
	for _, s := range append(activeStates[:len(activeStates):len(activeStates)], endedStates...) {
		names = append(names, string(s))
	}
	return names
}

// parseStates reads states with commas between them.
func parseStates(lists []string) ([]api.State, error) {
	known := stateWords()
	var out []api.State
	for _, word := range listed(lists) {
		states, ok := known[strings.ToLower(word)]
		if !ok {
			return nil, misused("--state %s: write one of %s%s", word, strings.Join(stateNames(), ", "), param.Near(word, stateNames()))
		}
		out = append(out, states...)
	}
	return out, nil
}

// jobName is how a job is called: by its name, or by what it runs.
func jobName(j api.Job) string {
	if j.Name != "" || len(j.Command) == 0 {
		return j.Name
	}
	name := path.Base(j.Command[0])
	if len(j.Command) > 1 && !strings.HasPrefix(j.Command[1], "-") {
		name += " " + path.Base(j.Command[1])
	}
	return name
}

// gpuCount is how many GPUs a job holds, or else asks for.
func gpuCount(j api.Job) string {
	if j.Allocated > 0 && j.GPUs.Elastic() {
		return trimmed(j.Allocated) + "/" + api.Range{Least: j.GPUs.Least, Most: j.GPUs.Most, Ask: j.GPUs.Most}.String()
	}
	return j.GPUs.String()
}

// trimmed is a number without needless zeros.
func trimmed(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// span is a length of time to the second.
func span(d time.Duration) string { return unit.Human(d.Round(time.Second)) }

// left is how long a job will still take if its estimate holds, and whether
// anything is known of it.
func left(j api.Job, now time.Time) (time.Duration, bool) {
	switch {
	case j.State.Over():
		return 0, false
	case !j.ExpectEnd.IsZero():
		return j.ExpectEnd.Sub(now), true
	case j.Estimate > 0 && j.State != api.Running:
		return max(0, (j.Estimate - j.Ran).Duration()), true
	}
	return 0, false
}

// leftText says how long a job will still take; what is over has a minus.
func leftText(j api.Job, now time.Time) string {
	if d, known := left(j, now); known {
		return span(d)
	}
	return ""
}

// done is the part of its work that a job has done, and whether that is known.
func done(j api.Job) (float64, bool) {
	p := j.Progress
	if p == nil || p.Steps <= 0 {
		return 0, false
	}
	return min(1, max(0, float64(p.Step)/float64(p.Steps))), true
}

// progressText says how far a job has come, in its own words.
func progressText(j api.Job) string {
	p := j.Progress
	if part, known := done(j); known {
		return percent(part)
	}
	switch {
	case p == nil:
		return ""
	case p.Step > 0:
		return fmt.Sprintf("step %d", p.Step)
	case p.Epoch > 0:
		return fmt.Sprintf("epoch %.3g", p.Epoch)
	case p.Samples > 0:
		return fmt.Sprintf("%d samples", p.Samples)
	}
	return ""
}

// percent is a share in whole percent; only what is complete is 100 %.
func percent(v float64) string {
	p := int(v*100 + 0.5)
	if p == 100 && v < 1 {
		p = 99
	}
	return strconv.Itoa(p) + "%"
}

// reasonOr says why a job does not run, or where it does.
func reasonOr(j api.Job) string {
	switch {
	case j.State == api.Failed:
		switch how := exitText(j.Exit); {
		case how == "" || strings.Contains(j.Reason, how):
		case j.Reason == "":
			return how
		default:
			return how + "; " + j.Reason
		}
	case j.State == api.Running && len(j.Nodes) > 0 && j.Reason == "":
		return onNodes(j.Nodes)
	case j.State == api.Running && len(j.Nodes) > 0:
		return onNodes(j.Nodes) + ": " + j.Reason
	case j.State == api.Running && len(j.Devices) > 0:
		return devices(j.Devices)
	case j.State == api.Running && j.Reason == "":
		return "on this machine"
	}
	return j.Reason
}

// onNodes are names of nodes, those in a row as one, with their number if it is not seen.
func onNodes(names []string) string {
	text := api.Packed(names)
	if len(names) > 2 {
		text += fmt.Sprintf(" (%d nodes)", len(names))
	}
	return text
}

// devices are names of devices, those in a row as one: gpu0-3, gpu6.
func devices(names []string) string {
	var parts []string
	for i := 0; i < len(names); {
		stem, first, ok := numbered(names[i])
		n := 1
		for ok && i+n < len(names) {
			s, v, ok := numbered(names[i+n])
			if !ok || s != stem || v != first+n {
				break
			}
			n++
		}
		switch last := names[i+n-1]; {
		case n > 1 && strings.HasSuffix(stem, "-"):
			parts = append(parts, names[i]+" to "+last)
		case n > 1:
			parts = append(parts, names[i]+"-"+last[len(stem):])
		default:
			parts = append(parts, names[i])
		}
		i += n
	}
	return strings.Join(parts, ",")
}

// numbered divides gpu12 into gpu and 12.
func numbered(name string) (stem string, n int, ok bool) {
	stem = strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(stem):])
	return stem, n, err == nil
}

// soon is a moment to come for a reader, with how far away it is.
func soon(t, now time.Time) string {
	d := t.Sub(now)
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("in %s, at %s", span(d), t.In(now.Location()).Format("15:04:05"))
	}
	return fmt.Sprintf("in %s, at %s", minutes(d), grid.Clock(t, now))
}

// minutes is a length of time to the minute: 42 min, 3 h 20 min, 2 d 4 h.
func minutes(d time.Duration) string {
	m := int64(d.Round(time.Minute) / time.Minute)
	switch {
	case m < 60:
		return fmt.Sprintf("%d min", m)
	case m < 24*60 && m%60 == 0:
		return fmt.Sprintf("%d h", m/60)
	case m < 24*60:
		return fmt.Sprintf("%d h %d min", m/60, m%60)
	}
	h := (m + 30) / 60
	if h%24 == 0 {
		return fmt.Sprintf("%d d", h/24)
	}
	return fmt.Sprintf("%d d %d h", h/24, h%24)
}
