package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/jobfile"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/grid"
)

// accounting is what norn history was asked.
type accounting struct {
	*shell
	format
	selection
	since, until string
	by           string
	limit        int
}

// groupings are what totals can be told by.
var groupings = []string{"user", "tenant", "name", "state"}

func (s *shell) historyCommand() *cobra.Command {
	f := &accounting{shell: s}
	cmd := &cobra.Command{
		Use:   "history [JOB...]",
		Short: "List the jobs that have ended, and the GPU-hours that they used",
		Long: `History lists the jobs that ended since a moment, by default within the last day. It
shows how they ended, their waits and run times, the GPU-hours they used, and totals.
With --by it shows the totals of each user, tenant, name or state instead.`,
		Example: `  norn history
  norn history --since 7d --me
  norn history --since 2026-03-01 --until 2026-04-01 --by user
  norn history --state failed --limit 10
  norn history --since 30d -o csv`,
		ValidArgsFunction: s.completeJobsAs(api.State.Over),
		RunE:              s.asked(f.run),
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.since, "since", "S", "1d", "ended since then: 2h, 7d, today, 2026-03-01, \"2026-03-01 18:00\"")
	fl.StringVarP(&f.until, "until", "E", "", "ended before then (default: now)")
	fl.StringVar(&f.by, "by", "", "show only totals, by user, tenant, name or state")
	fl.IntVar(&f.limit, "limit", 0, "show only the last so many (0: all)")
	f.selection.flags(cmd, s)
	f.format.flags(cmd, "csv")
	whereFlags(cmd)
	complete(cmd, map[string]completer{"by": words(groupings...), "since": words("1h", "1d", "7d", "30d", "today", "yesterday")})
	return cmd
}

func (f *accounting) run(cmd *cobra.Command, d daemon, ids []string) error {
	q, from, to, err := f.window(ids, cmd.Flags().Changed("since"))
	if err != nil {
		return err
	}
	found, err := d.Jobs(cmd.Context(), q)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(j api.Job) bool {
		return !j.State.Over() || j.Ended.Before(from) || !to.IsZero() && !j.Ended.Before(to)
	})
	slices.SortStableFunc(found, func(a, b api.Job) int { return a.Ended.Compare(b.Ended) })
	if f.limit > 0 && len(found) > f.limit {
		found = found[len(found)-f.limit:]
	}
	if f.by != "" {
		return writeTotals(cmd.OutOrStdout(), f.by, totalsBy(found, f.by), f.name, widthOf(cmd))
	}
	if err := writeHistory(cmd.OutOrStdout(), found, f.name, f.now(), widthOf(cmd)); err != nil {
		return err
	}
	return unfound(ids, found)
}

// window is the query, and between which moments jobs must have ended. Jobs that
// are named may have ended at any time.
func (f *accounting) window(ids []string, sinceGiven bool) (q api.Query, from, to time.Time, err error) {
	fail := func(flag string, err error) (api.Query, time.Time, time.Time, error) {
		return api.Query{}, from, to, misused("--%s: %w", flag, err)
	}
	if f.by != "" && !slices.Contains(groupings, f.by) {
		return fail("by", fmt.Errorf("%q: write user, tenant, name or state", f.by))
	}
	if f.limit < 0 {
		return fail("limit", fmt.Errorf("%d: write 0 or more", f.limit))
	}
	if len(ids) == 0 || sinceGiven {
		if from, err = jobfile.Past(f.since, f.now()); err != nil {
			return fail("since", err)
		}
	}
	if f.until != "" {
		if to, err = jobfile.Past(f.until, f.now()); err != nil {
			return fail("until", err)
		}
		if !to.After(from) {
			return fail("until", fmt.Errorf("%s is not after --since %s", f.until, f.since))
		}
	}
	if q, err = f.query(f.shell); err != nil {
		return q, from, to, err
	}
	for _, st := range q.States {
		if !st.Over() {
			return fail("state", fmt.Errorf("%s jobs have not ended: norn ps lists them", st))
		}
	}
	q.IDs, q.All, q.Since, q.Until = ids, true, from, to
	if len(q.States) == 0 {
		q.States = endedStates
	}
	return q, from, to, nil
}

// totals are sums over jobs that have ended.
type totals struct {
	Key       string  `json:"key,omitempty"`
	Jobs      int     `json:"jobs"`
	Done      int     `json:"done"`
	Failed    int     `json:"failed"`
	Cancelled int     `json:"cancelled"`
	GPUHours  float64 `json:"gpu_hours"`
	MeanWait  float64 `json:"mean_wait_s"`
	MeanRan   float64 `json:"mean_ran_s"` // of jobs that ran
	Preempted int     `json:"preemptions"`

	waits, rans float64 // s
	ran         int
}

func (t *totals) add(j api.Job) {
	t.Jobs++
	switch j.State {
	case api.Done:
		t.Done++
	case api.Failed:
		t.Failed++
	case api.Cancelled:
		t.Cancelled++
	}
	t.GPUHours += float64(j.GPUTime) / 3600
	t.Preempted += j.Preemptions
	t.waits += float64(j.Wait)
	if t.MeanWait = t.waits / float64(t.Jobs); j.Ran > 0 {
		t.ran++
		t.rans += float64(j.Ran)
		t.MeanRan = t.rans / float64(t.ran)
	}
}

func totalsOf(list []api.Job) totals {
	var t totals
	for _, j := range list {
		t.add(j)
	}
	return t
}

// totalsBy are totals by a property of jobs, those with most GPU-hours first.
func totalsBy(list []api.Job, by string) []totals {
	groups := map[string]*totals{}
	for _, j := range list {
		key := map[string]string{"user": j.User, "tenant": j.Tenant, "name": jobName(j), "state": string(j.State)}[by]
		if groups[key] == nil {
			groups[key] = &totals{Key: key}
		}
		groups[key].add(j)
	}
	var out []totals
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, *groups[key])
	}
	slices.SortStableFunc(out, func(a, b totals) int { return cmp.Compare(b.GPUHours, a.GPUHours) })
	return out
}

// text is a sentence on the totals.
func (t totals) text() string {
	if t.Jobs == 0 {
		return "no job ended in that time"
	}
	return fmt.Sprintf("%s: %d done, %d failed, %d cancelled; %s GPU-hours; mean wait %s, mean run %s; %s",
		unit.CountOrNo(t.Jobs, "job"), t.Done, t.Failed, t.Cancelled, hours(api.Seconds(t.GPUHours*3600)), secondsText(t.MeanWait), secondsText(t.MeanRan), unit.CountOrNo(t.Preempted, "preemption"))
}

func secondsText(s float64) string { return span(api.Seconds(s).Duration()) }

func writeHistory(out io.Writer, list []api.Job, format string, now time.Time, width int) error {
	switch format {
	case "json":
		if list == nil {
			list = []api.Job{}
		}
		return writeJSON(out, struct {
			Jobs   []api.Job `json:"jobs"`
			Totals totals    `json:"totals"`
		}{list, totalsOf(list)})
	case "csv":
		return writeJobsCSV(out, list)
	}
	g := &grid.Table{Cols: []grid.Column{
		{Title: "JOB"}, {Title: "NAME", Least: 8}, {Title: "USER", Least: 4, Rank: 5}, {Title: "TENANT", Least: 4, Rank: 4, Bare: true}, {Title: "STATE"},
		{Title: "EXIT", Least: 6, Bare: true}, {Title: "GPUS", Right: true}, {Title: "SUBMITTED", Rank: 1}, {Title: "ENDED", Rank: 6},
		{Title: "WAITED", Right: true, Rank: 3}, {Title: "RAN", Right: true}, {Title: "GPU-HOURS", Right: true, Rank: 2},
	}}
	for _, j := range list {
		exit := exitText(j.Exit)
		if j.State == api.Done {
			exit = ""
		}
		g.Add(j.ID, jobName(j), j.User, j.Tenant, string(j.State), exit, j.GPUs.String(), grid.Clock(j.Submitted, now), grid.Clock(j.Ended, now),
			span(j.Wait.Duration()), spanOrNone(j.Ran), hours(j.GPUTime))
	}
	if len(list) > 0 {
		if err := g.Write(out, width); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, totalsOf(list).text())
	return err
}

// hours are GPU-hours with two decimals, or four of what is too little for them.
func hours(s api.Seconds) string {
	h, digits := float64(s)/3600, 2
	if h > 0 && h < 0.1 {
		digits = 4
	}
	return strconv.FormatFloat(h, 'f', digits, 64)
}

// writeTotals writes totals by a property of jobs.
func writeTotals(out io.Writer, by string, list []totals, format string, width int) error {
	if format == "json" {
		return asJSON(out, list)
	}
	if format == "csv" {
		w := csv.NewWriter(out)
		w.Write([]string{by, "jobs", "done", "failed", "cancelled", "gpu_hours", "mean_wait_s", "mean_ran_s", "preemptions"})
		for _, t := range list {
			w.Write(append(t.counts(), fmt.Sprintf("%.4f", t.GPUHours), fmt.Sprintf("%.3f", t.MeanWait), fmt.Sprintf("%.3f", t.MeanRan), strconv.Itoa(t.Preempted)))
		}
		w.Flush()
		return w.Error() // of any of the writes
	}
	g := &grid.Table{Cols: []grid.Column{
		{Title: strings.ToUpper(by), Least: 8}, {Title: "JOBS", Right: true}, {Title: "DONE", Right: true}, {Title: "FAILED", Right: true}, {Title: "CANCELLED", Right: true, Rank: 3},
		{Title: "GPU-HOURS", Right: true}, {Title: "MEAN WAIT", Right: true, Rank: 2}, {Title: "MEAN RUN", Right: true, Rank: 1}, {Title: "PREEMPTIONS", Right: true, Rank: 1},
	}}
	for _, t := range list {
		g.Add(append(t.counts(), hours(api.Seconds(t.GPUHours*3600)), secondsText(t.MeanWait), secondsText(t.MeanRan), strconv.Itoa(t.Preempted))...)
	}
	return g.Write(out, width)
}

func (t totals) counts() []string {
	return []string{t.Key, strconv.Itoa(t.Jobs), strconv.Itoa(t.Done), strconv.Itoa(t.Failed), strconv.Itoa(t.Cancelled)}
}
