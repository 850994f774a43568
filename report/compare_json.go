package report

import (
	"encoding/json"
	"io"
	"time"
)

// comparisonJSON is a comparison for programs; docs/reports.md names every field. Times are
// in seconds, changes parts: -0.1 is a tenth less.
type comparisonJSON struct {
	Verdict  string       `json:"verdict"`
	Baseline string       `json:"baseline"`
	Jobs     int          `json:"jobs"`
	Checks   []string     `json:"checks"`
	Runs     []versusJSON `json:"runs"`
	Sizes    []ClassJSON  `json:"sizes"`
	Lengths  []ClassJSON  `json:"lengths"`
	Tenants  []ClassJSON  `json:"tenants"`
	Users    []ClassJSON  `json:"users"`
	Growths  []GrowthJSON `json:"growths"`
}

// versusJSON is a run beside the baseline.
type versusJSON struct {
	Name     string  `json:"name"`
	Real     bool    `json:"real"`
	Jobs     int     `json:"jobs_compared"`
	Left     int     `json:"jobs_left"`
	JCT      Stats   `json:"jct_s"`
	Wait     Stats   `json:"wait_s"`
	BaseJCT  Stats   `json:"baseline_jct_s"`
	BaseWait Stats   `json:"baseline_wait_s"`
	Change   float64 `json:"jct_mean_change"`
	Hours    float64 `json:"job_hours_change"`
}

// ClassJSON is the jobs of one size, length, tenant or user, for programs.
type ClassJSON struct {
	Name string         `json:"name"`
	Jobs int            `json:"jobs"`
	Runs []ClassRunJSON `json:"runs"` // in the order of the runs
}

// ClassRunJSON is how a class fared in a run. Means are of the jobs that ended in the
// baseline, too; null where there is none.
type ClassRunJSON struct {
	Ended    int      `json:"jobs_compared"`
	JCT      *float64 `json:"jct_mean_s"`
	Wait     *float64 `json:"wait_mean_s"`
	BaseJCT  *float64 `json:"baseline_jct_mean_s"`
	BaseWait *float64 `json:"baseline_wait_mean_s"`
}

// WriteJSON writes the comparison for programs.
func (c *Comparison) WriteJSON(w io.Writer) error {
	out := comparisonJSON{
		Verdict: c.Verdict(), Baseline: c.Runs[c.Base].Name, Jobs: len(c.Jobs), Checks: some(c.Checks()),
		Sizes: c.ClassesJSON(BySize), Lengths: c.ClassesJSON(ByLength), Tenants: c.ClassesJSON(ByTenant), Users: c.ClassesJSON(ByUser), Growths: c.GrowthsJSON(),
	}
	for i, r := range c.Runs {
		v := c.Versus(i)
		out.Runs = append(out.Runs, versusJSON{r.Name, r.Real, v.Jobs, v.Left, v.Here.JCT, v.Here.Wait, v.Base.JCT, v.Base.Wait, v.Change(), v.Hours})
	}
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// ClassesJSON are the classes of a grouping for programs.
func (c *Comparison) ClassesJSON(by Grouping) []ClassJSON {
	out := []ClassJSON{}
	for _, x := range c.Classes(by) {
		one := ClassJSON{Name: x.Name, Jobs: x.Jobs}
		for i := range x.Runs {
			r := &x.Runs[i]
			mean := func(d time.Duration) *float64 {
				if s := d.Seconds(); r.Ended > 0 {
					return &s
				}
				return nil
			}
			one.Runs = append(one.Runs, ClassRunJSON{r.Ended, mean(r.JCT), mean(r.Wait), mean(r.BaseJCT), mean(r.BaseWait)})
		}
		out = append(out, one)
	}
	return out
}
