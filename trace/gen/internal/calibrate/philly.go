package main

import (
	"fmt"
	"sort"

	"github.com/norn-scheduler/norn/trace/gen/internal/logs"
)

// bins is the number of equal parts of the run times by which the ends of jobs
// are counted.
const bins = 8

// phillyTables counts Philly. The cluster had about 2,490 GPUs (Jeon et al.,
// ATC 19). Ends are told for the first 11,197 jobs only: how many of those that
// did not pass were killed is taken from them. So are users and sessions.
func phillyTables(w *source, data string) error {
	jobs, err := logs.Philly(data)
	if err != nil {
		return err
	}
	groups := []span{{1, 1}, {2, 2}, {3, 4}, {5, 8}, {9, 16}, {17, 1 << 20}}
	named := filter(jobs, func(j *logs.Job) bool { return j.User != "" })
	from, to := day(2017, 10, 1), day(2017, 12, 1)
	busy := filter(jobs, func(j *logs.Job) bool { return j.Submit >= from && j.Submit < to })

	w.head(quantPath)
	w.line("var philly = profile{\nname: \"philly\", gpus: 2490, perDay: %s,", figure(float64(len(busy))/(to-from)*86400))
	w.clock(busy, 24, 7)
	w.sizes(jobs, groups)
	w.line("groups: []group{")
	for _, s := range groups {
		w.phillyGroup(jobs, named, s)
	}
	w.line("},")
	w.sessions(logs.RowsOf(named, 600, owner, func(j *logs.Job) string {
		return fmt.Sprint(j.Outcome == logs.Passed, len(j.Attempts) > 1)
	}))
	w.users(activity(named))
	w.tenants(jobs)
	w.line("recurs: 0.8, // assumed: no names are published\n}")
	return nil
}

// phillyGroup writes four cells: passed or not, at once or after retries.
func (w *source) phillyGroup(jobs, named []logs.Job, s span) {
	group := filter(jobs, func(j *logs.Job) bool { return s.has(j.GPUs) })
	w.line("{cells: []cell{ // %d to %d GPUs", s.least, min(s.most, 128))
	for _, passed := range []bool{true, false} {
		for _, retried := range []bool{false, true} {
			same := func(j *logs.Job) bool {
				return (j.Outcome == logs.Passed) == passed && (len(j.Attempts) > 1) == retried
			}
			var ends [][3]float64
			if !passed {
				ends = killed(filter(named, same))
			}
			var retries []logs.Job
			if retried {
				retries = filter(jobs, same)
			}
			w.cell(filter(group, same), len(group), ends, retries)
		}
	}
	w.line("}},")
}

// killed is what share of the jobs that did not pass failed and were killed,
// in equal parts of their run times.
func killed(jobs []logs.Job) [][3]float64 {
	told := filter(jobs, func(j *logs.Job) bool { return j.Outcome == logs.Failed || j.Outcome == logs.Killed })
	sort.SliceStable(told, func(i, k int) bool { return told[i].Run < told[k].Run })
	ends := make([][3]float64, bins)
	for i := range ends {
		part := told[i*len(told)/bins : (i+1)*len(told)/bins]
		for _, j := range part {
			if j.Outcome == logs.Killed {
				ends[i][2] += 1 / float64(len(part))
			} else {
				ends[i][1] += 1 / float64(len(part))
			}
		}
	}
	return ends
}

// tenants writes the virtual clusters with at least one job in two thousand,
// most active first.
func (w *source) tenants(jobs []logs.Job) {
	count := map[string]int{}
	for i := range jobs {
		count[jobs[i].Tenant]++
	}
	delete(count, "")
	var names []string
	sum := 0
	for name, n := range count {
		if n*2000 >= len(jobs) {
			names = append(names, name)
			sum += n
		}
	}
	sort.Slice(names, func(i, k int) bool {
		a, b := names[i], names[k]
		return count[a] > count[b] || count[a] == count[b] && a < b
	})
	w.line("tenants: []share{")
	for _, name := range names {
		w.line("{%q, %s},", name, figure(float64(count[name])/float64(sum)))
	}
	w.line("},")
}

func owner(j *logs.Job) string { return j.User }

// oneClass is for logs whose groups have one cell.
func oneClass(*logs.Job) string { return "" }
