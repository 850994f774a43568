package live

import (
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
)

// maxLife bounds what is remembered of a job.
const maxLife = 60

// Life is what has happened to a job, a line each, as far as it is remembered.
type Life []string

// stamp is how times stand before what has happened.
const stamp = "2006-01-02 15:04:05 "

// Remember notes what has happened to a job. Of a row of changes of what it holds of its
// devices, as when it is let go in steps, the first and the last are kept. Of a row of saves
// and of reports of what it trains with, the last of each kind is.
func (l *Life) Remember(at time.Time, text string) {
	if kind := routine(text); kind != "" {
		for i := len(*l) - 1; i >= 0; i-- {
			was := routine((*l)[i][min(len(stamp), len((*l)[i])):])
			if was == kind {
				*l = slices.Delete(*l, i, i+1)
			}
			if was == "" || was == kind {
				break
			}
		}
	}
	again := func(back int) bool { return strings.Contains((*l)[len(*l)-back], " "+goesOn) }
	if strings.HasPrefix(text, goesOn) && len(*l) > 1 && again(1) && again(2) {
		*l = (*l)[:len(*l)-1]
	}
	if len(*l) >= maxLife { // the beginning and what came last tell most
		*l = slices.Delete(*l, maxLife/4, maxLife/4+1)
	}
	*l = append(*l, at.Format(stamp)+text)
}

// routine is the kind of a thing that happens again and again while a job runs; empty: it does not.
// That a job trains with another batch is of another kind.
func routine(text string) string {
	for _, begins := range []string{eventlog.HasSaved, eventlog.TrainsWith} {
		if strings.HasPrefix(text, begins) {
			kind, _, _ := strings.Cut(text, ",")
			kind, _, _ = strings.Cut(kind, " a gradient noise")
			return kind
		}
	}
	return ""
}
