package live

import (
	"slices"
	"strings"
	"time"
)

// maxLife bounds what is remembered of a job.
const maxLife = 60

// Life is what has happened to a job, a line each, as far as it is remembered.
type Life []string

// Remember notes what has happened to a job. Of a row of changes of what it holds of its
// devices, as when it is let go in steps, the first and the last are kept.
func (l *Life) Remember(at time.Time, text string) {
	again := func(back int) bool { return strings.Contains((*l)[len(*l)-back], " "+goesOn) }
	if strings.HasPrefix(text, goesOn) && len(*l) > 1 && again(1) && again(2) {
		*l = (*l)[:len(*l)-1]
	}
	if len(*l) >= maxLife { // the beginning and what came last tell most
		*l = slices.Delete(*l, maxLife/4, maxLife/4+1)
	}
	*l = append(*l, at.Format("2006-01-02 15:04:05")+" "+text)
}
